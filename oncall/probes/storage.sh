# The folders that the job writes to: room, whether they answer at all, and who writes to the checkpoints right now.
space() {
    [ -n "$2" ] || return 0
    part space "name=$1" "path=$2"
    limit 5 stat -L -c 'kind %F' "$2" 2>&1
    code=$?
    echo "exit $code"
    [ $code = 0 ] || return 0
    limit 5 df -Pk "$2" 2>/dev/null | sed -n '2s/^/blocks /p'
    limit 5 df -Pi "$2" 2>/dev/null | sed -n '2s/^/inodes /p'
    mounted=$(limit 5 df -P "$2" 2>/dev/null | sed -n '2s/.*% *//p')
    awk -v mounted="$mounted" '$2 == mounted { found = $3 " " $4 } END { if (found) print "mount", found }' /proc/mounts
}
folder_of() {
    case $1 in '') ;; */) echo "$1" ;; *) dirname "$1" ;; esac
}
code=1
space checkpoints "$CHECKPOINTS"
code_of_checkpoints=$code
space logs "$LOGS"
space dumps "$(folder_of "$DUMPS")"
if [ "$code_of_checkpoints" != 0 ]; then
    part end
    exit 0
fi
CHECKPOINTS=$(limit 5 readlink -f "$CHECKPOINTS")

# family: PIDs of the training processes and of all that they started, each with its rank.
family() {
    own=$(training_processes)
    ps -eo pid=,ppid= | awk -v own="$own" '
        BEGIN { count = split(own, words, /[ \n]+/); for (i = 1; i < count; i += 2) rank[words[i]] = words[i + 1] }
        { parent[$1] = $2 }
        END { for (pid in parent) { up = pid; for (hops = 0; hops < 8 && up in parent; hops++) {
            if (up in rank) { print pid, rank[up]; break }
            up = parent[up] } } }'
}
family_file=$(mktemp) || exit 1
trap 'rm -f "$family_file"' EXIT
family >"$family_file"
newest=$(limit 5 ls -1td "$CHECKPOINTS"/*/ 2>/dev/null | head -n 1)
# look SAMPLE: how much the newest checkpoint holds, and which processes have a file of the folder open, and how far.
look() {
    part size "sample=$1" "path=$newest"
    [ -n "$newest" ] && limit 8 du -sk "$newest" 2>/dev/null
    part writers "sample=$1"
    while read -r pid rank; do
        for descriptor in $($SUDO ls "/proc/$pid/fd" 2>/dev/null); do
            file=$($SUDO readlink "/proc/$pid/fd/$descriptor" 2>/dev/null)
            case $file in "$CHECKPOINTS"/*) ;; *) continue ;; esac
            state=$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | cut -d ' ' -f 1)
            at=$($SUDO sed -n 's/^pos:[[:space:]]*//p' "/proc/$pid/fdinfo/$descriptor" 2>/dev/null)
            printf '%s %s %s %s %s\n' "$pid" "$rank" "${state:-?}" "${at:-?}" "$file"
        done
    done <"$family_file"
}
look 1
sleep "$PAUSE_S"
look 2
part end
