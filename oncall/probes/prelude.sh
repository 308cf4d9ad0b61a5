# What every script on a node begins with: nothing here or in what follows changes anything outside a temporary folder.
LC_ALL=C; export LC_ALL
PATH=$PATH:/usr/local/bin:/usr/local/sbin:/usr/sbin:/sbin
umask 077

SUDO=
if [ "$MAY_SUDO" = 1 ] && [ "$(id -u)" != 0 ] && command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    SUDO='sudo -n'
fi

# part NAME [KEY=VALUE...]: what is printed after it belongs to NAME.
part() {
    printf '\n%s\t%s' "$BOUNDARY" "$1"
    shift
    for pair; do
        printf '\t%s' "$(printf '%s' "$pair" | sed 's/%/%25/g; s/	/%09/g')"
    done
    printf '\n'
}

# limit SECONDS COMMAND...: end a command that does not end by itself.
limit() {
    seconds=$1
    shift
    timeout -k 2 "$seconds" "$@"
}

# mask: hide what a command line passes as a key, token or password.
mask() {
    sed -E 's/((^|[[:space:]"-])[A-Za-z0-9_.-]*(key|token|secret|passw)[A-Za-z0-9_.-]*[=[:space:]]+)[^[:space:]"]+/\1***/Ig'
}

# variable PID NAME: one environment variable of a process.
variable() {
    $SUDO cat "/proc/$1/environ" 2>/dev/null | tr '\0' '\n' | sed -n "s/^$2=//p" | head -n 1
}

# field PID NAME: one line of /proc/PID/status.
field() {
    sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status" 2>/dev/null | head -n 1
}

# candidates: PIDs of processes that know their rank and, if MATCH is set, whose command line matches it.
candidates() {
    for found in $($SUDO grep -lszE '^(RANK|SLURM_PROCID|OMPI_COMM_WORLD_RANK)=' /proc/[0-9]*/environ); do
        pid=${found#/proc/}
        pid=${pid%/environ}
        if [ -n "$MATCH" ]; then
            tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qE -e "$MATCH" || continue
        else
            case $(readlink "/proc/$pid/exe" 2>/dev/null || $SUDO readlink "/proc/$pid/exe" 2>/dev/null) in
                *python*) ;;
                *) case $(cat "/proc/$pid/comm" 2>/dev/null) in *python*|pt_*) ;; *) continue ;; esac ;;
            esac
        fi
        echo "$pid"
    done
}

# rank_of PID: its rank as the launcher told it.
rank_of() {
    for name in RANK SLURM_PROCID OMPI_COMM_WORLD_RANK; do
        value=$(variable "$1" "$name")
        if [ -n "$value" ]; then
            echo "$value"
            return
        fi
    done
}

# training_processes: lines "PID RANK" of those that are not a child (a data loader's worker) of one with the same rank.
training_processes() {
    all=$(candidates)
    for pid in $all; do
        parent=$(field "$pid" PPid)
        rank=$(rank_of "$pid")
        case "
$all
" in
            *"
$parent
"*) [ "$(rank_of "$parent")" = "$rank" ] && continue ;;
        esac
        [ -n "$rank" ] && echo "$pid $rank"
    done
}

part clock
date -u +%s.%N
date +%z
cat /proc/uptime
