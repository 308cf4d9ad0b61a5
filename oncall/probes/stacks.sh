# The Python stack of every training process at once. A process that is stopped is read without touching it.
temporary=$(mktemp -d) || exit 1
trap 'rm -rf "$temporary"' EXIT

UPLOADED=
if [ -n "$PY_SPY_BASE64" ]; then
    UPLOADED=$temporary/py-spy
    printf '%s' "$PY_SPY_BASE64" | base64 -d >"$UPLOADED" && chmod 700 "$UPLOADED"
fi

find_py_spy() {
    for candidate in "$PY_SPY" "$(command -v py-spy)" "$UPLOADED"; do
        [ -n "$candidate" ] && [ -x "$candidate" ] && echo "$candidate" && return
    done
    # Beside the interpreter as it was called: the job's own environment, where /proc/PID/exe shows what it links to.
    # Of a process of this login alone: it is run here, with sudo perhaps, and a command line says what its owner likes.
    training_processes | while read -r pid rank; do
        [ -O "/proc/$pid" ] || continue
        candidate=$(dirname "$(tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | head -n 1)")/py-spy
        [ -x "$candidate" ] && echo "$candidate" && break
    done
}

state_of() {
    sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 1
}

# dump PID OUTPUT: one process; with sudo where the system refuses without.
dump() {
    before=$(state_of "$1")
    # Attaching to a stopped process fails, and to one that is blocked in the kernel it hangs (py-spy 0.4).
    way=--nonblocking
    case $before in R|S) way= ;; esac
    limit 12 "$spy" dump --json $NATIVE $way --pid "$1" >"$2" 2>"$2.error"
    code=$?
    if [ $code != 0 ] && [ -z "$way" ]; then
        # Where somebody else traces a thread of it, attaching is refused and reading is not.
        limit 12 "$spy" dump --json --nonblocking --pid "$1" >"$2.read" 2>/dev/null && mv "$2.read" "$2" && code=0
    fi
    if [ $code != 0 ] && [ -n "$SUDO" ]; then
        limit 12 $SUDO "$spy" dump --json $NATIVE $way --pid "$1" >"$2" 2>"$2.error"
        code=$?
    fi
    echo $code >"$2.code"
    # If py-spy itself was ended half-way, the process may be left stopped: set it going again.
    if [ -z "$way" ] && [ "$(state_of "$1")" = T ]; then
        sleep 0.2
        [ "$(state_of "$1")" = T ] && $SUDO kill -CONT "$1" && echo resumed >"$2.resumed"
    fi
}

# tracebacks: what PyTorch's debug server tells of those that py-spy did not read.
tracebacks() {
    [ -n "$DEBUG_SERVER" ] || return 0
    while read -r pid rank; do
        output=$temporary/$rank.$pid
        [ "$(cat "$output.code" 2>/dev/null)" = 0 ] && continue
        debug_ask "$pid" dump_traceback 4194304 >"$output.traceback" 2>"$output.refused" &
    done <"$temporary/training"
    wait
    while read -r pid rank; do
        output=$temporary/$rank.$pid
        [ -e "$output.traceback" ] || continue
        part traceback "pid=$pid" "rank=$rank" "address=$(head -n 1 "$output.traceback" | head -c 200)"
        tail -n +2 "$output.traceback" | mask
        part traceback-error "pid=$pid" "rank=$rank"
        head -c 2000 "$output.refused"
    done <"$temporary/training"
}

training_processes | while read -r pid rank; do
    case " $ONLY " in "  " | *" $rank "*) echo "$pid $rank" ;; esac
done >"$temporary/training"
spy=$(find_py_spy | head -n 1)
if [ -z "$spy" ]; then
    part no-py-spy "machine=$(uname -m)"
    cat "$temporary/training"
    tracebacks
    part end
    exit 0
fi
sample=1
while [ "$sample" -le "$SAMPLES" ]; do
    [ "$sample" = 1 ] || sleep 0.3
    while read -r pid rank; do
        dump "$pid" "$temporary/$rank.$pid" &
    done <"$temporary/training"
    wait
    while read -r pid rank; do
        output=$temporary/$rank.$pid
        part stack "pid=$pid" "rank=$rank" "exit=$(cat "$output.code")" "resumed=$(cat "$output.resumed" 2>/dev/null)"
        mask <"$output"
        part stack-error "pid=$pid" "rank=$rank"
        head -c 2000 "$output.error"
    done <"$temporary/training"
    sample=$((sample + 1))
done
tracebacks
part end
