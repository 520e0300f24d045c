# Holds a permit for as long as standard input says. Both sides speak JSON.
set -eu
. "$CLIENT"
terms=${3#\{} terms=${terms%\}} code=0
refused=$(mktemp)
trap 'rm "$refused"' EXIT
berth_hold "{\"name\":\"$1\",\"limit\":$2${terms:+,}$terms}" bash -c 'echo "\"granted 0\""; read -r word' 2>"$refused" || code=$?
case $code in
0) echo '"released"' && cat >/dev/null ;; # this shell lives on
75) echo "\"refused $(sed -n 's/.*"error":"\([a-z_]*\)".*/\1/p' "$refused")\"" ;;
*) echo '"stop"' '"lost"' ;;
esac
