"""Holds single threads of a process still until it is killed: `stop_threads.py TID...`, as root.

A signal stops all threads of a process; a tracer can stop one (ptrace(2), PTRACE_SEIZE and PTRACE_INTERRUPT). Gloo's
transport threads held like this are a network card that moves no byte: the rank issues its operations and none ends.
"""

import ctypes
import signal
import sys

SEIZE, INTERRUPT = 0x4206, 0x4207


def main(threads: list[int]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    for thread in threads:
        for request in (SEIZE, INTERRUPT):
            if libc.ptrace(request, thread, 0, 0):
                raise OSError(ctypes.get_errno(), f"ptrace of thread {thread}")
    sys.stdout.write("held\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
