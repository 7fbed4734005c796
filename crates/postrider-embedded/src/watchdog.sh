# Runs a PostgreSQL server on a leash. Standard input is a pipe whose other end our owner holds; the
# system closes that end when the owner ends, however it ends. Then this script stops the server
# and removes its temporary data. An owner which has seen the server end writes "done" instead.
#
# Arguments: the directory to remove ("" to keep it), the polite signal, the log, the command.
scrap=$1 polite=$2 log=$3
shift 3
exec 3<&0 </dev/null 2>>"$log"

"$@" >>"$log" 3<&- &
server=$!

(
    exec >/dev/null
    while read -r word; do
        [ "$word" = done ] && exit 0
    done <&3
    # While the main shell lives, it has not yet reaped the server, so the number is still its own.
    if kill -0 $$; then
        kill "-$polite" "$server"
        tenths=0
        while kill -0 "$server"; do
            [ "$tenths" -eq 100 ] && kill -QUIT "$server"
            [ "$tenths" -eq 150 ] && kill -KILL "$server"
            [ "$tenths" -eq 200 ] && break
            tenths=$((tenths + 1))
            sleep 0.1
        done
    fi
    [ -n "$scrap" ] && rm -rf -- "$scrap"
) 2>/dev/null &

echo "$server"
exec >&- 3<&-
wait "$server"
