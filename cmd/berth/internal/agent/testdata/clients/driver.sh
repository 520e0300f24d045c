# Holds a permit for as long as standard input says. Both sides speak JSON.
set -eu
. "$CLIENT"
terms=${3#\{} terms=${terms%\}} code=0
refused=$(mktemp)
trap 'rm "$refused"' EXIT
what="\"name\":\"$1\",\"limit\":$2" granted='granted 0'
case ${4-} in
cool) berth_cooldown "$1" 600 && echo '"paused"' && exit ;;
settle) settle='. "$CLIENT"; read -r word; berth_settle "{\"tokens\":0}" && echo "\"settled\"";' ;;
all) what="\"all\":[{\"name\":\"narrow\",\"limit\":1},{$what}]" granted="granted 0 narrow $1" ;;
esac
export granted
berth_hold "{$what${terms:+,}$terms}" bash -c 'echo "\"$granted\"";'"${settle-}"' read -r word' 2>"$refused" || code=$?
case $code in
0) echo '"released"' && cat >/dev/null ;; # this shell lives on
75) echo "\"refused $(sed -n 's/.*"error":"\([a-z_]*\)".*/\1/p' "$refused")$(sed -n 's/.*"status":\([0-9]*\),.*"name":"\([^"]*\)","in_use":\([0-9]*\),"limit":\([0-9]*\),"waiting":\([0-9]*\),.*/ \2 \3\/\4 \5 \1/p' "$refused")\"" ;;
*) echo '"stop"' '"lost"' ;;
esac
