"""Where every rank's training thread stands, as the `stacks` probe saw it, and the groups of ranks that stand alike."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oncall.bundle.evidence import Evidence, Part
from oncall.formats.faulthandler import parse_faulthandler
from oncall.formats.pyspy import parse_pyspy
from oncall.formats.stacks import Frame, StackDump
from oncall.formats.standing import Standing, standing
from oncall.readings.case import Case
from oncall.readings.process_table import other_jobs

_ERRORS = frozenset({"stack-error", "traceback-error"})


@dataclass(frozen=True, slots=True)
class RankStack:
    """One rank's stack; `host` and `pid` say whose process it is."""

    rank: int
    host: str
    pid: int
    dump: StackDump
    standing: Standing

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The Python frames of the training thread, innermost first."""
        thread = self.standing.training_thread
        return tuple(frame for frame in thread.frames if not frame.native) if thread else ()


@dataclass(frozen=True, slots=True)
class StackGroup:
    """Ranks whose training threads show the same frames. `where` is what they are doing, None where unknown."""

    ranks: tuple[int, ...]
    where: str | None
    frame: Frame | None
    call_site: Frame | None
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class StackSet:
    """All stacks that were taken, and for each rank without one, why."""

    stacks: Mapping[int, RankStack]
    failures: Mapping[int, str]
    without_py_spy: tuple[str, ...]
    resumed: tuple[int, ...]

    def groups(self) -> tuple[StackGroup, ...]:
        """Ranks that stand alike, smallest groups first."""
        return group_stacks(self.stacks.values())


def group_stacks(stacks: Iterable[RankStack]) -> tuple[StackGroup, ...]:
    """Ranks with the same functions on the training thread, smallest groups first, then by lowest rank."""
    alike: dict[tuple[tuple[str, str], ...], list[RankStack]] = {}
    for stack in stacks:
        key = tuple((frame.func, frame.file) for frame in stack.frames)
        alike.setdefault(key, []).append(stack)
    groups = [_group(members) for members in alike.values()]
    return tuple(sorted(groups, key=lambda group: (len(group.ranks), group.ranks)))


def _group(members: list[RankStack]) -> StackGroup:
    first = members[0]
    return StackGroup(
        ranks=tuple(sorted(member.rank for member in members)),
        where=first.standing.where,
        frame=first.standing.blocking_frame,
        call_site=first.standing.user_frame,
        frames=first.frames,
    )


def own_stacks(case: Case) -> StackSet | None:
    """The stacks of the job's own processes; None where none were asked for."""
    return case.once(own_stacks, ("stacks", "processes"), lambda: _own_stacks(case))


def _own_stacks(case: Case) -> StackSet | None:
    evidence, others = case.evidence("stacks"), other_jobs(case)
    return None if evidence is None else stack_set(evidence, others)


def stack_set(evidence: Evidence, others: frozenset[tuple[str, int]] = frozenset()) -> StackSet:
    """Read the answers of the `stacks` probe: what py-spy read, and for others what PyTorch's debug server told.

    `others` are the processes of other jobs by host and pid; what they tell is passed over.
    """
    stacks: dict[int, RankStack] = {}
    failures: dict[int, str] = {}
    without = []
    resumed = []
    for host in evidence.asked:
        for part in evidence.whole_parts(host):
            if part.name == "no-py-spy":
                without.append(host)
            rank, pid = part.number("rank"), part.number("pid")
            if rank is None or pid is None or (host, pid) in others:
                continue
            if part.name in _ERRORS and rank not in stacks:
                failures[rank] = "; ".join(each for each in (failures.get(rank), _complaint(part)) if each)
            if part.attributes.get("resumed"):
                resumed.append(rank)
            dump = _dump(part, pid)
            if dump is not None:
                stacks[rank] = RankStack(rank, host, pid, dump, standing(dump))
                failures.pop(rank, None)
    return StackSet(stacks, failures, tuple(without), tuple(resumed))


def _dump(part: Part, pid: int) -> StackDump | None:
    if part.name == "traceback":
        return parse_faulthandler(part.data, pid)
    return next(iter(parse_pyspy(part.data).dumps), None) if part.name == "stack" else None


def _complaint(part: Part) -> str | None:
    """The first line of what the tool said."""
    first = part.text.strip().split("\n")[0]
    return first or ("py-spy gave nothing" if part.name == "stack-error" else None)


def raw_stack(evidence: Evidence, rank: int, host: str | None) -> tuple[str, bytes] | None:
    """(process id, stack as text or JSON) of one rank as the `stacks` probe brought it; None where it brought none.

    `host` is where the rank runs; all nodes are looked through where it is None.
    """
    brought = {
        part.name: (part.attributes.get("pid", "?"), part.data)
        for each in ((host,) if host is not None else evidence.asked)
        for part in evidence.parts(each)
        if part.name in {"stack", "traceback"} and part.attributes.get("rank") == str(rank)
    }
    return brought.get("traceback") or brought.get("stack")
