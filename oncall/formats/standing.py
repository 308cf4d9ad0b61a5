"""What the training thread of a stack dump is doing, and the frame that shows it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from oncall.formats.stacks import Frame, StackDump, Thread
from oncall.formats.standing_rules import C10D, COLLECTIVES, RULES, Rule

WAITS_FOR_PEERS = frozenset({"collective_wait", "barrier"})
"""The rank has joined and waits for others: where the innocent stand in a hang."""

WAITS_AT_START = frozenset({"nccl_init", "store_wait", "rendezvous"})
"""The rank waits for others to come up: initialisation, of the world or of a group made later."""

_BACKWARD = re.compile(r"(?:^|/)torch/(?:autograd/(?:graph|__init__)|_tensor)\.py$")
_LOGGING = re.compile(r"(?:^|/)logging/(?:__init__|handlers)\.py$")
_WORKER = re.compile(r"(?:^|/)torch/utils/data/_utils/worker\.py$")
_TAKES_LOCK = frozenset({"acquire", "_acquireLock"})


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one process stands.

    `where` is from the table in `oncall.formats.kinds`, None when nothing tells. `certain` is False for what follows
    only from the thread's state: an idle or busy C call under `blocking_frame`, which --native or the source line
    would name. `lock_holder` is the thread inside the logging call that others queue for.
    """

    training_thread: Thread | None
    where: str | None = None
    blocking_frame: Frame | None = None
    certain: bool = True
    collective: str | None = None
    lock_holder: Thread | None = None

    @property
    def user_frame(self) -> Frame | None:
        """The innermost frame of the job's own code on the training thread."""
        return self.training_thread.user_frame if self.training_thread else None


def _match(rule: Rule, frames: Sequence[Frame]) -> Frame | None:
    top = next((index for index, frame in enumerate(frames) if not frame.native), len(frames))
    for index, frame in enumerate(frames):
        if not rule.fits(frame) or (rule.top and index != top):
            continue
        return frames[index - 1] if rule.callee and index else frame
    return None


def _by_rules(thread: Thread) -> tuple[str, Frame] | None:
    for rule in RULES:
        if frame := _match(rule, thread.frames):
            return rule.where, frame
    return None


def _in_backward(thread: Thread) -> bool:
    top = next((frame for frame in thread.frames if not frame.native), None)
    return top is not None and _BACKWARD.search(top.file) is not None


def _by_state(thread: Thread) -> tuple[str | None, Frame] | None:
    """The answer where no frame is known: by whether the thread held the GIL, was on a CPU, or waited in a C call.

    None for the answer where the tool tells no state.
    """
    top = next((frame for frame in thread.frames if not frame.native), None)
    if top is None:
        return None
    if not thread.status:
        return None, top
    if thread.gil:
        return "python_compute", top
    if thread.idle:
        return ("collective_wait" if _in_backward(thread) else "blocked_call"), top
    seen_native = thread.frames[0].native
    return ("device_sync_item" if top.is_user and not seen_native else "native_compute"), top


def training_thread(dump: StackDump) -> Thread | None:
    """The thread that runs the training loop: the main one, or autograd's when the main one waits in `backward()`.

    Autograd's device threads run gradient hooks (FSDP's collectives) and are not started by Python's `threading`.
    """
    main = dump.main_thread
    if main is None or not _in_backward(main):
        return main
    for thread in dump.threads:
        started_by_python = any(frame.leaf == "_bootstrap" for frame in thread.frames)
        if thread is not main and not started_by_python and _by_rules(thread):
            return thread
    return main


def _collective(thread: Thread) -> str | None:
    for frame in thread.frames:
        if C10D.search(frame.file) and COLLECTIVES.fullmatch(frame.leaf):
            return frame.leaf
    return None


def _lock_holder(dump: StackDump, waiting: Thread) -> Thread | None:
    for thread in dump.threads:
        inside = [frame for frame in thread.frames if _LOGGING.search(frame.file)]
        if thread is not waiting and inside and inside[0].leaf not in _TAKES_LOCK:
            return thread
    return None


def standing(dump: StackDump) -> Standing:
    """Name what the process's training thread is doing."""
    thread = training_thread(dump)
    if thread is None:
        return Standing(None)
    known = _by_rules(thread)
    found = known or _by_state(thread)
    if found is None:
        return Standing(thread)
    where: str | None
    where, frame = found
    return Standing(
        training_thread=thread,
        where=where,
        blocking_frame=frame,
        certain=known is not None or thread.gil,
        collective=_collective(thread),
        lock_holder=_lock_holder(dump, thread) if where == "logging_lock" else None,
    )


def is_loader_worker(dump: StackDump) -> bool:
    """Whether the process is a worker of PyTorch's DataLoader rather than a rank."""
    return any(_WORKER.search(frame.file) for thread in dump.threads for frame in thread.frames)


def worker_waits_for_work(dump: StackDump) -> bool:
    """Whether a DataLoader worker waits for its next indices, so that it is not the one that holds the batch."""
    main = dump.main_thread
    frames = main.frames if main else ()
    inner = next((index for index, frame in enumerate(frames) if _WORKER.search(frame.file)), None)
    return inner is not None and any(frame.file.endswith("multiprocessing/queues.py") for frame in frames[:inner])
