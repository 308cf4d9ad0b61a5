# What the driver says of each GPU: clocks and why they are held down, ECC, remapped rows, NVLink; twice. It hangs with
# a GPU that is gone, so it has little time.
if ! command -v nvidia-smi >/dev/null 2>&1; then
    part no-driver
    part end
    exit 0
fi
temporary=$(mktemp -d) || exit 1
trap 'rm -rf "$temporary"' EXIT
look() {
    part query "sample=$1"
    limit 8 nvidia-smi -q -x 2>"$temporary/said"
    code=$?
    part exit "sample=$1" "code=$code"
    head -c 2000 "$temporary/said"
    [ $code = 0 ] || return 1
    part nvlink "sample=$1"
    limit 4 nvidia-smi nvlink -e 2>/dev/null
}
if look 1; then
    sleep "$PAUSE_S"
    look 2
fi
part end
