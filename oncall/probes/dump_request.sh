# Ask the ranks of this node for a Flight Recorder dump: one byte into each rank's pipe. The job runs on.
# This is an action: it is run only after the operator has confirmed it.
# RANKS: only these, " 4 5 "; empty for all ranks of this node.
training_processes | while read -r pid rank; do
    case "$RANKS" in ''|*" $rank "*) ;; *) continue ;; esac
    prefix=${PIPES:-$(variable "$pid" TORCH_NCCL_DEBUG_INFO_PIPE_FILE)}
    pipe=$prefix$rank.pipe
    if [ -z "$prefix" ]; then
        part request "rank=$rank" "outcome=no pipe: TORCH_NCCL_DEBUG_INFO_PIPE_FILE is not set"
    elif [ ! -p "$pipe" ]; then
        part request "rank=$rank" "outcome=no pipe at $pipe"
    elif limit 3 $SUDO sh -c 'echo 1 >"$1"' sh "$pipe" 2>/dev/null; then
        part request "rank=$rank" "outcome=asked"
    else
        part request "rank=$rank" "outcome=nobody reads $pipe"
    fi
done
part end
