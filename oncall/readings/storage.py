"""Can the job write where it has to: room, inodes, a mount that answers?"""

from collections.abc import Sequence

from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.storage_set import Space, StorageSet, storage_set
from oncall.run.nodes import fold_hosts

_FULL = 0.01
"""Of a file system, the share below which it counts as full: what ext4 and Lustre keep back is of that order."""


def storage(case: Case) -> Judgement:
    """Can the job write where its checkpoints go?

    `silent`: the folder does not answer within 5 s. `full`: less than a hundredth of its room or inodes is left, or
    less than the newest checkpoint takes. `unwritable`: it does not exist or is mounted read-only. `fine`: none of
    these. `unknown`: not every node saw it.
    """
    seen = case.view("storage", storage_set)
    spaces = [space for space in seen.spaces if space.name == "checkpoints"] if seen else []
    if seen is None or not spaces:
        return unknown(_why_none(case))
    for verdict, found in (
        ("silent", [space for space in spaces if not space.answers]),
        ("full", [space for space in spaces if _is_full(seen, space)]),
        ("unwritable", [space for space in spaces if space.exists is False or space.read_only]),
    ):
        if found:
            finding = _finding(verdict, found, spaces)
            return Judgement(verdict=verdict, reason=finding.text, findings=(finding, *_others(seen)))
    coverage = case.coverage("storage")
    told = _room(spaces[0])
    if not coverage.complete:
        return unknown(f"{spaces[0].path} {told} where it was seen, but {coverage.describe()}", _others(seen))
    if all(space.free_kb is None for space in spaces):
        return unknown(f"{spaces[0].path} answers, but no node tells its room", _others(seen))
    return Judgement(verdict="fine", reason=f"{spaces[0].path} {told}", findings=_others(seen))


def _why_none(case: Case) -> str:
    if case.run.paths.checkpoints is None:
        return "the run file names no `paths.checkpoints`"
    return f"no node told about {case.run.paths.checkpoints}: {case.coverage('storage').describe()}"


def _is_full(seen: StorageSet, space: Space) -> bool:
    if space.free_inodes is not None and space.inodes and space.free_inodes < _FULL * space.inodes:
        return True
    if space.free_kb is None or not space.total_kb:
        return False
    sizes = [size for pair in seen.sizes_kb.values() for size in pair if size is not None]
    return space.free_kb < max(_FULL * space.total_kb, max(sizes, default=0))


def _room(space: Space) -> str:
    if space.free_kb is None or not space.total_kb:
        return "does not tell its room"
    free = space.free_kb / space.total_kb
    inodes = f", {space.free_inodes / space.inodes:.0%} of the inodes" if space.inodes and space.free_inodes else ""
    return f"has {space.free_kb / 1024**2:,.0f} GiB ({free:.1%}) free{inodes}"


def _finding(verdict: str, found: Sequence[Space], spaces: Sequence[Space]) -> Finding:
    """Seen from some nodes only, it is those nodes' mount rather than the storage."""
    hosts = tuple(dict.fromkeys(space.host for space in found))
    first = found[0]
    words = {
        "silent": "does not answer within 5 s",
        "full": f"is full: it {_room(first)}",
        "unwritable": "does not exist" if first.exists is False else "is mounted read-only",
    }[verdict]
    some = len(hosts) < len({space.host for space in spaces})
    where = f" on {fold_hosts(hosts)} only" if some else ""
    return Finding(
        kind="checkpoint_failing",
        text=f"{first.path} {words}{where}",
        role=Role.ORIGIN,
        grade=Grade.SURE,
        hosts=hosts if some else (),
        cites=tuple(_citation(space) for space in found[:4]),
    )


def _others(seen: StorageSet) -> tuple[Finding, ...]:
    """The folders of logs and dumps where something is wrong with them."""
    wrong = [space for space in seen.spaces if space.name != "checkpoints" and (not space.answers or _low(space))]
    return tuple(
        Finding(
            kind="observation",
            text=f"{space.host}: {space.path} ({space.name}) {_room(space) if space.answers else 'does not answer'}",
            hosts=(space.host,),
            cites=(_citation(space),),
        )
        for space in wrong[:4]
    )


def _low(space: Space) -> bool:
    return space.free_kb is not None and bool(space.total_kb) and space.free_kb < _FULL * (space.total_kb or 0)


def _citation(space: Space) -> Citation:
    kind = f" ({space.kind})" if space.kind else ""
    words = _room(space) if space.answers else "no answer within 5 s"
    return Citation(probe="storage", host=space.host, file=space.path, text=f"{space.name}{kind}: {words}")
