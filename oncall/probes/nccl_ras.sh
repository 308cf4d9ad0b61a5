# NCCL's own account of the whole job, asked of its RAS service on this node twice. ASK names whether this node is asked:
# any one knows them all.
if [ "$ASK" != 1 ]; then
    part not-asked
    part end
    exit 0
fi
address=
first=$(training_processes | head -n 1 | cut -d ' ' -f 1)
if [ -n "$first" ]; then
    address=$(variable "$first" NCCL_RAS_ADDR)
    [ "$(variable "$first" NCCL_RAS_ENABLE)" = 0 ] && part disabled && part end && exit 0
fi
# NCCL 2.24's default (src/ras/client_support.cc).
address=${address:-localhost:28028}
host=${address%:*}
port=${address##*:}
host=${host#[}
host=${host%]}
client=
if command -v python3 >/dev/null 2>&1; then
    client=python3
elif [ -n "$first" ] && [ -O "/proc/$first" ]; then
    client=$(readlink "/proc/$first/exe" 2>/dev/null)
fi
if [ -z "$client" ]; then
    part no-client
    part end
    exit 0
fi
# ask FORMAT: the handshake, then the format (2.28.7 and later know it; others answer with an error), then the status.
ask() {
    "$client" -I -c '
import socket, sys, time
host, port, form, wait_s = sys.argv[1:]
until = time.monotonic() + float(wait_s)
def left(): return max(0.1, until - time.monotonic())
def line(reader):
    found = reader.readline(4096)
    return found.strip()
try:
    with socket.create_connection((host, int(port)), 3) as link:
        link.settimeout(left())
        reader = link.makefile("rb")
        say = lambda words: link.sendall(words.encode() + b"\n")
        say("CLIENT PROTOCOL 2")
        greeting = line(reader)
        if not greeting.upper().startswith(b"SERVER PROTOCOL"):
            sys.exit("no RAS service: " + repr(greeting[:80]))
        say("TIMEOUT 5")
        line(reader)
        if form == "json":
            say("SET FORMAT json")
            if line(reader).upper() != b"OK":
                sys.exit(3)
        say("VERBOSE STATUS")
        size = 0
        while size < 64 << 20:
            link.settimeout(left())
            chunk = reader.read1(65536)
            if not chunk: break
            size += len(chunk)
            sys.stdout.buffer.write(chunk)
except OSError as error:
    sys.exit(f"{host}:{port}: {error}")
' "$host" "$port" "$1" "$WAIT_S" 2>"$complaint"
}
complaint=$(mktemp) || exit 1
trap 'rm -f "$complaint" "$complaint.out"' EXIT
for sample in 1 2; do
    [ $sample = 2 ] && sleep "$PAUSE_S"
    form=json
    ask json >"$complaint.out"
    code=$?
    if [ $code = 3 ]; then
        form=text
        ask text >"$complaint.out"
        code=$?
    fi
    if [ $code != 0 ]; then
        part refused "sample=$sample" "address=$address"
        head -c 400 "$complaint"
        break
    fi
    part status "sample=$sample" "form=$form" "address=$address"
    cat "$complaint.out"
done
part end
