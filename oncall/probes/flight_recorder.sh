# Flight Recorder dumps of this node: which files there are, and, where FETCH says so, the files themselves.
# RANKS: the ranks of this node, " 4 5 6 7 "; empty where they are not known.
# REDUCER: a Python program that cuts a dump down to what the analysis reads; empty to send dumps whole.
temporary=$(mktemp -d) || exit 1
trap 'rm -rf "$temporary"' EXIT
owner=
encoding=none
command -v gzip >/dev/null 2>&1 && encoding=gzip
pack() {
    case $encoding in gzip) gzip -1 -c ;; *) cat ;; esac
}
if [ -n "$DEBUG_SERVER" ]; then
    [ "$FETCH" = 1 ] && handler=fr_trace_json || handler=
    training_processes >"$temporary/training"
    while read -r pid rank; do
        debug_ask "$pid" "$handler" 67108864 >"$temporary/$rank.$pid" 2>"$temporary/$rank.$pid.refused" &
    done <"$temporary/training"
    wait
    while read -r pid rank; do
        output=$temporary/$rank.$pid
        [ -s "$output" ] || continue
        address=$(head -n 1 "$output" | head -c 200)
        if [ "$FETCH" = 1 ]; then
            part live-dump "pid=$pid" "rank=$rank" "address=$address" "encoding=$encoding"
            tail -n +2 "$output" | pack
        else
            part live "pid=$pid" "rank=$rank" "address=$address"
            tail -n +2 "$output" | head -c 4096
        fi
    done <"$temporary/training"
    while read -r pid rank; do
        output=$temporary/$rank.$pid
        [ -s "$output.refused" ] || continue
        part live-error "pid=$pid" "rank=$rank"
        head -c 2000 "$output.refused"
    done <"$temporary/training"
fi
if [ -z "$PREFIX" ]; then
    first=$(training_processes | head -n 1 | cut -d ' ' -f 1)
    # Where everything may be read, what a process names is read only if it is its owner's: it could be any file.
    { [ -n "$SUDO" ] || [ "$(id -u)" = 0 ]; } && owner=$(field "$first" Uid | cut -f 1)
    for name in TORCH_FR_DUMP_TEMP_FILE TORCH_NCCL_DEBUG_INFO_TEMP_FILE; do
        [ -n "$first" ] && [ -z "$PREFIX" ] && PREFIX=$(variable "$first" "$name")
    done
    [ -n "$PREFIX" ] || owner=
    # PyTorch's own default (torch/csrc/distributed/c10d/FlightRecorder.cpp, 2.13).
    PREFIX=${PREFIX:-${XDG_CACHE_HOME:-$HOME/.cache}/torch/comm_lib_trace_rank_}
fi
folder=$(dirname "$PREFIX")
name=$(basename "$PREFIX")
case $PREFIX in */) folder=$PREFIX; name= ;; esac
if [ ! -d "$folder" ]; then
    part no-folder "path=$folder"
    part end
    exit 0
fi
mine() {
    [ -z "$RANKS" ] && return 0
    number=$(basename "$1" | sed -n 's/.*[^0-9]\([0-9][0-9]*\)[^0-9]*$/\1/p; s/^\([0-9][0-9]*\)$/\1/p' | head -n 1)
    [ -z "$number" ] && return 0
    case "$RANKS" in *" $number "*) return 0 ;; *) return 1 ;; esac
}
python=
if [ -n "$REDUCER" ]; then
    # The job's own interpreter runs here for certain; what is called python3 may not be there.
    python=$(training_processes | while read -r pid rank; do [ -O "/proc/$pid" ] && readlink "/proc/$pid/exe" && break; done)
    [ -x "$python" ] || python=$(command -v python3)
    # One that is too old for the reducer, as of some systems, would send nothing: then dumps go whole.
    "$python" -I -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || python=
    if [ -n "$python" ]; then
        printf '%s' "$REDUCER" >"$temporary/reduce.py"
        encoding=gzip
    fi
fi
brought() {
    if [ -n "$python" ]; then
        $SUDO "$python" -I "$temporary/reduce.py" "$1"
    else
        $SUDO cat "$1" | pack
    fi
}
limit 10 find "$folder" -maxdepth 2 -type f -name "$name*" ! -name '*.pipe' ${owner:+-user "$owner"} | sort | while read -r file; do
    mine "$file" || continue
    set -- $(stat -c '%s %Y' "$file")
    if [ "$FETCH" = 1 ]; then
        part dump "path=$file" "size=$1" "mtime=$2" "encoding=$encoding"
        brought "$file"
    else
        part listed "path=$file" "size=$1" "mtime=$2"
    fi
done
part pipes
limit 5 find "$folder" -maxdepth 2 -type p
part end
