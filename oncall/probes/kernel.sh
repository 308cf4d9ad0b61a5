# The newest part of the kernel log: the ring buffer, else the journal.
temporary=$(mktemp -d) || exit 1
trap 'rm -rf "$temporary"' EXIT
# anchors: the ring's own clock drifts against the system's by minutes in months. The journal knows both for each message.
anchors() {
    command -v journalctl >/dev/null 2>&1 || return 0
    # A journal on a disk that hangs cannot be ended, and may hold up nothing.
    {
        limit 4 $SUDO journalctl -k --no-pager -n 200 -o json --output-fields=_SOURCE_MONOTONIC_TIMESTAMP >"$temporary/read"
        mv "$temporary/read" "$temporary/anchors"
    } >/dev/null 2>&1 &
    tries=0
    until [ -e "$temporary/anchors" ] || [ "$tries" = 50 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    [ -e "$temporary/anchors" ] || return 0
    part anchors
    cat "$temporary/anchors"
}
if limit 5 dmesg >"$temporary/ring" 2>"$temporary/error" ||
    { [ -n "$SUDO" ] && limit 5 $SUDO dmesg >"$temporary/ring" 2>"$temporary/error"; }; then
    part kernel form=dmesg
    tail -c "$TAIL_BYTES" "$temporary/ring"
    anchors
elif command -v journalctl >/dev/null 2>&1 &&
    limit 8 $SUDO journalctl -k --no-pager -o short-iso-precise --utc --since -1day >"$temporary/ring" 2>>"$temporary/error" &&
    grep -q kernel: "$temporary/ring"; then
    part kernel form=journal
    tail -c "$TAIL_BYTES" "$temporary/ring"
else
    part refused
    cat "$temporary/error"
fi
part end
