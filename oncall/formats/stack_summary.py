"""What the processes of one stack dump mean together: where the rank stands and what its loader workers do."""

from collections.abc import Sequence

from oncall.formats.event import Json
from oncall.formats.stacks import StackDump, Thread
from oncall.formats.standing import Standing, is_loader_worker, standing, worker_waits_for_work

_READS = frozenset({"read", "readinto", "readline", "readlines", "pread", "open", "_read", "read_bytes"})


def _named(thread: Thread | None) -> dict[str, Json] | None:
    return {"tid": thread.tid, "name": thread.name} if thread else None


def standing_json(found: Standing) -> dict[str, Json]:
    """A standing as JSON: frames as `func (file:line)`, null for what is not known."""
    holder = found.lock_holder
    user = found.user_frame
    return {
        "training_thread": _named(found.training_thread),
        "where": found.where,
        "certain": found.certain if found.where else None,
        "blocking_frame": str(found.blocking_frame) if found.blocking_frame else None,
        "user_frame": str(user) if user else None,
        "collective": found.collective,
        "lock_holder": {"tid": holder.tid, "name": holder.name, "frame": str(holder.frames[0])} if holder else None,
    }


def _worker(dump: StackDump) -> str:
    if worker_waits_for_work(dump):
        return f"worker {dump.pid} only waits for work"
    main = dump.main_thread
    top = main.frames[0] if main and main.frames else None
    if top is None:
        return f"worker {dump.pid} shows no frames"
    return f"worker {dump.pid} in a file read" if top.leaf in _READS else f"worker {dump.pid} in {top}"


def summarise_stacks(dumps: Sequence[StackDump]) -> dict[str, Json] | None:
    """Sum up the processes of one dump; None without any.

    The rank is the first process that is no DataLoader worker; `cause` says what the workers do when it waits for them.
    """
    ranks = [dump for dump in dumps if not is_loader_worker(dump)]
    if not ranks:
        return None
    found = standing(ranks[0])
    said: dict[str, Json] = {"pid": ranks[0].pid, **standing_json(found)}
    workers = [dump for dump in dumps if is_loader_worker(dump)]
    if found.where == "dataloader_wait" and workers:
        said["cause"] = "; ".join(_worker(dump) for dump in workers)
    return said
