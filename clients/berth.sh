# berth_hold '{"name":"api","limit":5}' COMMAND [ARGUMENT...] runs a command with a permit of
# `berth agent`, for bash 4.4 with curl on Linux. Its exit code is the command's, or 75 without one.
berth_hold() {
  local line='' fd curl request=$1 own=/tmp/berth-$EUID; shift; ((EUID)) || own=/run/berth
  local socket=${BERTH_AGENT_SOCKET:-${BERTH_STORE_DIR:-$own}/agent.sock}
  [[ ${BERTH_AGENT_SOCKET-} || $(stat -c %u "${socket%/*}" 2>/dev/null) == "$EUID" ]] || { echo "no permit: no agent of yours at $socket" >&2; return 75; }
  exec {fd}< <(exec setpriv --pdeathsig TERM curl -sSN --unix-socket "$socket" -d "$request" http://agent/v1/hold); curl=$!
  until [[ $line == *'"granted"'* ]]; do
    read -r line <&"$fd" && [[ $line != *'"error"'* ]] || { echo "no permit: $line" >&2; exec {fd}<&-; return 75; }
  done # the command is ended when the permit is lost, or this shell is; curl, when the command is, as by a key
  (trap 'kill "$curl"' EXIT
   (me=$BASHPID; { while read -r line && [[ $line == *'"renewed"'* ]]; do :; done; kill "$me"; } <&"$fd" 2>/dev/null &
    exec {fd}<&-; exec "$@"))
  set -- $?; exec {fd}<&-; return "$1"
}
