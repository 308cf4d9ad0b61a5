# What every script on a node begins with: nothing here or in what follows changes anything outside a temporary folder.
LC_ALL=C; export LC_ALL
PATH=$PATH:/usr/local/bin:/usr/local/sbin:/usr/sbin:/sbin
umask 077
# Without this a shell such as dash leaves its temporary folder behind when its connection is lost.
trap 'exit 1' HUP INT TERM PIPE

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

# told: lines "PID RANK" of processes that a launcher told their rank.
told() {
    $SUDO grep -saHzE '^(RANK|SLURM_PROCID|OMPI_COMM_WORLD_RANK)=[0-9]+$' /proc/[0-9]*/environ | tr '\0' '\n' |
        awk -F '[/:=]' '
            BEGIN { order["RANK"] = 3; order["SLURM_PROCID"] = 2; order["OMPI_COMM_WORLD_RANK"] = 1 }
            $2 != "proc" || $3 !~ /^[0-9]+$/ || $4 != "environ" || $6 !~ /^[0-9]+$/ { next }
            order[$5] > best[$3] { best[$3] = order[$5]; rank[$3] = $6 }
            END { for (pid in rank) print pid, rank[pid] }' | sort -n
}

# candidates: those of them that are Python or, if MATCH is set, whose command line matches it.
candidates() {
    told | while read -r pid rank; do
        if [ -n "$MATCH" ]; then
            tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qE -e "$MATCH" || continue
        else
            case $(readlink "/proc/$pid/exe" 2>/dev/null || $SUDO readlink "/proc/$pid/exe" 2>/dev/null) in
                *python*) ;;
                *) case $(cat "/proc/$pid/comm" 2>/dev/null) in *python*|pt_*) ;; *) continue ;; esac ;;
            esac
        fi
        echo "$pid $rank"
    done
}

# training_processes: lines "PID RANK" of those that are not a child (a data loader's worker) of one with the same rank.
training_processes() {
    all=$(candidates)
    echo "$all" | while read -r pid rank; do
        [ -r "/proc/$pid/status" ] || continue
        parent=
        while read -r key value; do
            [ "$key" = PPid: ] && parent=$value && break
        done <"/proc/$pid/status"
        case "
$all
" in
            *"
$parent $rank
"*) ;;
            *) echo "$pid $rank" ;;
        esac
    done
}

part clock
date -u +%s.%N
date +%z
cat /proc/uptime
