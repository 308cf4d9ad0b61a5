# What holds up a whole host: pressure, memory, swapping, tasks that wait in the kernel; twice, so that growth shows.
look() {
    part pressure "sample=$1"
    for kind in cpu memory io; do
        [ -r "/proc/pressure/$kind" ] && sed "s/^/$kind /" "/proc/pressure/$kind"
    done
    part memory "sample=$1"
    grep -E '^(MemTotal|MemAvailable|SwapTotal|SwapFree|Dirty|Writeback):' /proc/meminfo
    grep -E '^(pswpin|pswpout|oom_kill) ' /proc/vmstat
    part blocked "sample=$1"
    for directory in /proc/[0-9]*; do
        state=$(sed 's/.*) //' "$directory/stat" 2>/dev/null | cut -d ' ' -f 1)
        [ "$state" = D ] || continue
        # Threads of the kernel itself have no command line, and some sleep like that for good.
        [ -n "$(tr -d '\0' <"$directory/cmdline" 2>/dev/null | head -c 1)" ] || continue
        name=$(cat "$directory/comm" 2>/dev/null)
        printf '%s\t%s\t%s\n' "${directory#/proc/}" "$name" "$($SUDO cat "$directory/wchan" 2>/dev/null)"
    done
}
part cpus "count=$(getconf _NPROCESSORS_ONLN)"
cat /proc/loadavg
look 1
sleep "$PAUSE_S"
look 2
part end
