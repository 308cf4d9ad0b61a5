# PyTorch's debug server, where the job runs one: each rank answers over HTTP (torch.distributed.debug, PyTorch 2.13).
# DEBUG_SERVER says where: empty asks nobody; a port, to which the local rank is added; `find`: the socket that
# TORCH_WORKER_SERVER_SOCKET names, else what the process itself listens to on all addresses.
# DEBUG_WAIT_S is how long one of them may take.

# debug_ask PID HANDLER MOST_BYTES: the address in a line, then the answer; why there is none on standard error.
# No handler asks for their names. The Python of an old node (3.6) reads the program.
debug_ask() {
    client=$(command -v python3 || { [ -O "/proc/$1" ] && readlink "/proc/$1/exe"; })
    place=
    inodes=
    case $DEBUG_SERVER in
    find)
        place=$(variable "$1" TORCH_WORKER_SERVER_SOCKET | grep '^/')
        [ -n "$place" ] || inodes=$($SUDO ls -l "/proc/$1/fd" 2>/dev/null | sed -n 's/.*socket:\[\([0-9]*\)\]$/\1/p')
        ;;
    *) place=$((DEBUG_SERVER + $(variable "$1" LOCAL_RANK | grep -E '^(0|[1-9][0-9]{0,3})$' || echo 0))) ;;
    esac
    [ -n "$client" ] || { echo "no Python to ask with" >&2; return 1; }
    limit 15 "$client" -I -c '
import glob, http.client, json, os, socket, sys, time
pid, handler, most, wait_s, place, inodes, store = sys.argv[1:]
until = time.monotonic() + float(wait_s)

class Local(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(place)

def listened():
    for table in glob.glob(f"/proc/{pid}/net/tcp*"):
        with open(table) as rows:
            for cells in map(str.split, rows):
                address, _, port = cells[1].partition(":")
                if cells[3] == "0A" and not address.strip("0") and cells[9] in inodes.split() and int(port, 16) != int(store or 0):
                    yield str(int(port, 16))

def ask(where, name):
    if not where.startswith("/") and int(where) > 65535:
        raise OSError("no port has this number")
    left_s = max(0.1, min(until - time.monotonic(), 12.0 if name else 3.0))
    link = Local("localhost", timeout=left_s) if where.startswith("/") else http.client.HTTPConnection("localhost", int(where), timeout=left_s)
    try:
        link.request("POST" if name else "GET", "/handler/" + name, body=b"" if name else None)
        answer = link.getresponse()
        if answer.status != 200:
            raise OSError(f"HTTP status {answer.status}")
        body = b""
        for chunk in iter(lambda: answer.read1(65536), b""):
            body += chunk
            if len(body) > int(most):
                raise OSError(f"more than {most} bytes")
            if time.monotonic() > until:
                raise OSError("does not come to an end")
        return body
    finally:
        link.close()

def is_one(where):
    try:
        return (handler or "ping") in json.loads(ask(where, "")[:65536])
    except (OSError, ValueError, http.client.HTTPException, RecursionError, TypeError):
        return False

try:
    found = [place] if place else [each for each in listened() if is_one(each)]
    if not found:
        sys.exit("no debug server among what the process listens to")
    body = ask(found[0], handler)
    sys.stdout.buffer.write(os.fsencode(found[0]) + b"\n" + body)
except (OSError, http.client.HTTPException) as error:
    sys.exit(f"debug server {found[0] if place else pid}: {type(error).__name__}: {str(error)[:200]}")
' "$1" "$2" "$3" "$DEBUG_WAIT_S" "$place" "$inodes" "$(variable "$1" MASTER_PORT | grep -E '^[1-9][0-9]{0,4}$')"
}
