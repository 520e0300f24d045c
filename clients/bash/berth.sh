# Permits of `berth agent`, for bash 4.4 with curl on Linux:
#
#   berth_hold '{"name":"api","limit":5}' COMMAND [ARGUMENT...]
#
# runs the command with a permit, and ends it by TERM if the permit is lost. The exit code is the
# command's, or 75 without a permit. Several limits are '{"all":[{"name":"customer/7","limit":2},...]}'.
#
#   berth_settle '{"tokens":917}'
#
# in the command, or what it runs, says what the permit has really cost of the "rates" of its request.
#
#   berth_cooldown NAME SECONDS
#
# pauses a semaphore for all programs, as when an API answers 429: nobody is granted for so long.
#
# The agent is at $BERTH_AGENT_SOCKET, a path or ADDRESS:PORT, where it needs $BERTH_AGENT_TOKEN, or
# beside this user's local store.
berth_hold() {
  local request=$1 in life curl url BERTH_HOLD
  local -a to
  shift
  [[ $request == *'"pid"'* || $request != *:* ]] || request=${request/\{/\{\"pid\":$$,}
  berth_agent "no permit" || return 75
  exec {in}< <(exec curl -q -sSN "${to[@]}" -d "$request" \
    -H @<(printf %s "${BERTH_AGENT_TOKEN:+Authorization: Bearer $BERTH_AGENT_TOKEN}") "$url/v1/hold")
  curl=$!
  # This shell alone can write to it: when the shell is gone, so is curl, and the agent takes the permit
  # back.
  exec {life}> >(exec {in}<&-; read -r || kill "$curl" 2>/dev/null)
  if ! berth_granted "$request" <&"$in"; then
    exec {in}<&- {life}>&-
    return 75
  fi
  # The command is ended when the permit is lost, or curl is; curl, when the command is, as by a key.
  (exec {life}>&-
   trap 'kill "$curl"' EXIT
   export BERTH_HOLD
   (me=$BASHPID
    { while read -r line && [[ $line == *'"renewed"'* ]]; do :; done; kill "$me"; } <&"$in" 2>/dev/null &
    exec {in}<&-
    exec "$@"))
  set -- $?
  exec {in}<&- {life}>&-
  return "$1"
}

# Reads the answer to a request, and says why there is no permit. An agent that works answers within ten
# seconds of wait_ms.
berth_granted() {
  local line='' end=
  [[ $1 =~ \"wait_ms\"[[:space:]]*:[[:space:]]*([0-9]+) ]] && end=$((SECONDS + BASH_REMATCH[1] / 1000 + 11))
  while read -r ${end:+-t $((end > SECONDS ? end - SECONDS : 1))} line; do
    case $line in
    *'"event":"granted"'*)
      [[ ! $line =~ \"id\":\"([^\"]*)\" ]] || BERTH_HOLD=${BASH_REMATCH[1]}
      return 0
      ;;
    *'"event":"queued"'*) ;;
    *) break ;;
    esac
  done
  echo "no permit: ${line:-the agent at ${to[1]:-$url} does not answer: is berth agent running?}" >&2
  return 1
}

berth_cooldown() {
  local name=${1//\\/\\\\}
  berth_tell "not paused" cooldown "{\"name\":\"${name//\"/\\\"}\",\"for_ms\":$((1000 * $2)),\"pid\":$$}" paused
}

berth_settle() {
  berth_tell "not settled" settle "{\"id\":\"${BERTH_HOLD-}\",\"settle\":$1}" settled
}

# Sends a request, and says so if the answer is not the event that is wanted.
berth_tell() {
  local url answer
  local -a to
  berth_agent "$1" || return 1
  answer=$(curl -q -sS -m 10 "${to[@]}" -d "$3" \
    -H @<(printf %s "${BERTH_AGENT_TOKEN:+Authorization: Bearer $BERTH_AGENT_TOKEN}") "$url/v1/$2")
  [[ $answer == *"\"event\":\"$4\""* ]] && return
  echo "$1: ${answer:-no agent answers}" >&2
  return 1
}

# Finds the agent, and sets url and curl's options to of its caller; or says why there is none.
berth_agent() {
  local own=/tmp/berth-$EUID where=${BERTH_AGENT_SOCKET-}
  ((EUID)) || own=/run/berth
  own=${BERTH_STORE_DIR:-$own}
  url=http://agent to=(--unix-socket "${where:-$own/agent.sock}")
  if [[ $where == *:* && $where != */* ]]; then
    url=http://$where to=()
  elif [[ -z $where && $(stat -c %u "$own" 2>/dev/null) != "$EUID" ]]; then
    echo "$1: no agent of yours in $own" >&2
    return 1
  fi
}
