"""Python's own stack dumps: of a living interpreter, in the forms of its versions, and made up to mislead."""

import subprocess
import sys

import pytest

from oncall.formats.faulthandler import parse_faulthandler
from oncall.formats.standing import standing

THREADS = """
import faulthandler, queue, sys, threading
waiting = queue.Queue()
def loads_data(): waiting.get()
def trains(): faulthandler.dump_traceback(all_threads=True); sys.stdout.flush()
thread = threading.Thread(target=loads_data, daemon=True)
thread.start()
while not waiting.not_empty._waiters: pass
trains()
"""


def test_a_living_interpreter() -> None:
    ended = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, timeout=30, check=True)
    dump = parse_faulthandler(ended.stderr, 4711)
    assert dump is not None
    assert dump.pid == 4711
    assert dump.main_thread is dump.threads[-1]
    assert [frame.func for frame in dump.main_thread.frames] == ["trains", "<module>"]
    others = [frame.leaf for thread in dump.threads[:-1] for frame in thread.frames]
    assert others[:3] == ["wait", "get", "loads_data"]


def test_files_are_named_from_the_package_on() -> None:
    text = (
        "Thread 0x00007f2166a05b80 (most recent call first):\n"
        '  File "/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce\n'
        '  File "/usr/lib/python3.11/threading.py", line 10 in run\n'
        '  File "/home/me/job/train.py", line ??? in <module>\n'
    )
    dump = parse_faulthandler(text.encode(), 1)
    assert dump is not None
    (thread,) = dump.threads
    assert [str(frame) for frame in thread.frames] == [
        "all_reduce (torch/distributed/distributed_c10d.py:3252)",
        "run (threading.py:10)",
        "<module> (train.py)",
    ]
    assert [frame.is_user for frame in thread.frames] == [False, False, True]
    assert standing(dump).where == "collective_wait"


def test_what_is_in_no_rule_is_not_called_busy_or_idle() -> None:
    """py-spy tells whether a thread is on a CPU; Python itself does not."""
    dump = parse_faulthandler(b'Thread 0x01 (most recent call first):\n  File "train.py", line 3 in fetch\n', 1)
    assert dump is not None
    stands = standing(dump)
    assert (stands.where, str(stands.blocking_frame), stands.certain) == (None, "fetch (train.py:3)", False)


def test_names_of_3_14() -> None:
    text = b"Thread 0x0a [pt_autograd_0] (most recent call first):\n  <no Python frame>\n\n"
    text += b"Thread 0x0b (most recent call first):\n"
    dump = parse_faulthandler(text, 1)
    assert dump is not None
    assert [(thread.thread_id, thread.name, thread.frames) for thread in dump.threads] == [
        (10, None, ()),
        (11, "MainThread", ()),
    ]


def test_of_more_threads_than_it_lists_none_is_the_main_one() -> None:
    text = "".join(f"Thread 0x{n:x} (most recent call first):\n  <no Python frame>\n\n" for n in range(100)) + "...\n"
    dump = parse_faulthandler(text.encode(), 1)
    assert dump is not None
    assert (len(dump.threads), dump.main_thread) == (100, None)


@pytest.mark.parametrize(
    "data",
    [b"", b"<html><body>Thread 0x01</body></html>", b'["ping"]', b"\xff\xfe\x00", b"a" * 5_000_000],
)
def test_what_is_no_dump(data: bytes) -> None:
    assert parse_faulthandler(data, 1) is None


def test_no_control_character_comes_through() -> None:
    text = b'Thread 0x01 (most recent call first):\n  File "\x1b[31mtrain.py\x1b[0m", line 3 in \x1b[2Jfetch\n'
    dump = parse_faulthandler(text, 1)
    assert dump is not None
    assert "\x1b" not in str(dump.threads[0].frames)
