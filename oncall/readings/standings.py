"""Most ranks wait for others: who does not, and what are they doing instead?"""

from collections.abc import Collection, Iterable

from oncall.flight_recorder.model import Grade
from oncall.formats.standing import WAITS_AT_START, WAITS_FOR_PEERS
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.stack_set import RankStack, StackSet, own_stacks
from oncall.run.nodes import fold_ranks

WORDS = {
    "collective_wait": "waits in a collective",
    "barrier": "waits in a barrier",
    "nccl_init": "sets up a communicator",
    "store_wait": "waits for the store in initialisation",
    "rendezvous": "waits in the rendezvous",
    "device_sync_item": "waits for the GPU in .item() or a copy",
    "device_sync_stream": "waits for the GPU in synchronize()",
    "dataloader_wait": "waits for its data loader",
    "logging_lock": "waits for the logging lock",
    "logging_write": "writes a log line",
    "lock_wait": "waits for a lock",
    "sleep": "sleeps",
    "checkpoint_save": "saves a checkpoint",
    "compile": "compiles",
    "child_wait": "waits for a child process",
    "python_compute": "runs Python",
    "native_compute": "runs native code",
    "blocked_call": "waits inside a call",
}
"""What a training thread is doing, in words that follow the name of a rank."""

_DATA = frozenset({"dataloader_wait"})
_DEVICE = frozenset({"device_sync_item", "device_sync_stream"})


def standings(case: Case) -> Judgement:
    """Where the ranks stand.

    `few-elsewhere`: most wait for their peers, the findings name those who do not. `initialisation`: the others wait
    for them at start. `all-in-data`: everyone waits for data. `all-wait`: every rank waits for the others, and stacks
    cannot tell why. `all-at-start`: the same in initialisation. `spread`: no common picture, as in a job that runs.
    `unknown`: no stack was taken, or the cause may stand where none was.
    """
    stacks = own_stacks(case)
    if stacks is None or not stacks.stacks:
        return unknown(_why_none(case, stacks))
    seen = stacks.stacks
    waiting = _waiting(stacks)
    starting = [rank for rank, stack in seen.items() if stack.standing.where in WAITS_AT_START]
    elsewhere = [rank for rank in seen if rank not in waiting and rank not in starting]
    unseen = sorted(case.ranks.ranks - seen.keys())
    if elsewhere and all(seen[rank].standing.where in _DATA for rank in elsewhere) and not waiting and not starting:
        return _all_in_data(case, stacks, unseen)
    if elsewhere and len(elsewhere) < len(waiting) + len(starting):
        return _few_elsewhere(case, stacks, elsewhere, waiting=waiting, starting=starting, unseen=unseen)
    if elsewhere:
        return Judgement(verdict="spread", reason=_spread(stacks))
    return _everyone_waits(case, stacks, waiting, starting, unseen)


def _waiting(stacks: StackSet) -> list[int]:
    """The ranks that wait for their peers.

    On GPUs the host runs ahead: a rank whose GPU waits in a collective stands in `.item()` or synchronize() as often
    as in the call itself. Where most stand there they wait too; where few do, they are the ones to look at.
    """
    peers = [rank for rank, stack in stacks.stacks.items() if stack.standing.where in WAITS_FOR_PEERS]
    device = [rank for rank, stack in stacks.stacks.items() if stack.standing.where in _DEVICE]
    return sorted(peers + device) if len(device) > len(peers) else peers


def _why_none(case: Case, stacks: StackSet | None) -> str:
    if stacks is not None and stacks.without_py_spy:
        return f"no py-spy on {', '.join(stacks.without_py_spy)}"
    if stacks is not None and stacks.failures:
        rank, reason = min(stacks.failures.items())
        return f"no stack could be taken; rank {rank}: {reason}"
    return f"no stack was taken: {case.coverage('stacks').describe()}"


def _unseen_note(unseen: Collection[int]) -> str:
    return f"; not seen: ranks {fold_ranks(unseen)}" if unseen else ""


def describe(stack: RankStack) -> str:
    """`waits for its data loader in fetch_batch (train.py:88)`."""
    where = stack.standing.where
    words = WORDS.get(where or "", "stands") if where else "stands"
    frame = stack.standing.user_frame or stack.standing.blocking_frame
    return f"{words} in {frame}" if frame else words


def stack_citation(stack: RankStack) -> Citation:
    """The frames that show where a rank stands."""
    shown = " < ".join(str(frame) for frame in stack.frames[:4])
    return Citation(probe="stacks", host=stack.host, text=shown or "no Python frame")


def _origin(case: Case, stack: RankStack, kind: str, grade: Grade) -> Finding:
    frame = stack.standing.user_frame or stack.standing.blocking_frame
    return Finding(
        kind=kind,
        text=f"{case.name_ranks([stack.rank])} {describe(stack)}",
        role=Role.ORIGIN,
        grade=grade,
        ranks=(stack.rank,),
        hosts=(stack.host,),
        doing=stack.standing.where,
        frame=str(frame) if frame else None,
        cites=(stack_citation(stack),),
    )


def _few_elsewhere(
    case: Case, stacks: StackSet, elsewhere: list[int], *, waiting: list[int], starting: list[int], unseen: list[int]
) -> Judgement:
    at_start = len(starting) > len(waiting)
    unsure = [
        r for r in elsewhere if not stacks.stacks[r].standing.certain or stacks.stacks[r].standing.where in _DEVICE
    ]
    grade = Grade.LIKELY if unseen or unsure or case.ranks.world_size is None else Grade.SURE
    findings = []
    for rank in sorted(elsewhere):
        where = stacks.stacks[rank].standing.where
        kind = "init_stuck" if at_start else "data_stall" if where in _DATA else "stuck_before_collective"
        findings.append(_origin(case, stacks.stacks[rank], kind, grade))
    findings.append(_victims(case, stacks, waiting + starting))
    reason = "; ".join(each.text for each in findings) + _unseen_note(unseen)
    verdict = "initialisation" if at_start else "few-elsewhere"
    return Judgement(verdict=verdict, reason=reason, findings=tuple(findings))


def _victims(case: Case, stacks: StackSet, ranks: Iterable[int]) -> Finding:
    chosen = sorted(ranks)
    example = stacks.stacks[chosen[0]]
    verb = "wait" if len(chosen) > 1 else "waits"
    return Finding(
        kind="observation",
        text=f"ranks {fold_ranks(chosen)} {verb} for others, such as in {example.standing.blocking_frame}",
        role=Role.VICTIM,
        ranks=tuple(chosen),
        hosts=case.ranks.hosts_of(chosen),
        doing=example.standing.where,
        cites=(stack_citation(example),),
    )


def _all_in_data(case: Case, stacks: StackSet, unseen: list[int]) -> Judgement:
    ranks = tuple(sorted(stacks.stacks))
    finding = Finding(
        kind="data_stall",
        text=f"all {len(ranks)} ranks seen wait for their data loaders",
        role=Role.ORIGIN,
        grade=Grade.LIKELY if unseen else Grade.SURE,
        ranks=ranks,
        hosts=case.ranks.hosts_of(ranks),
        doing="dataloader_wait",
        cites=tuple(stack_citation(stack) for stack in list(stacks.stacks.values())[:3]),
    )
    return Judgement(verdict="all-in-data", reason=finding.text + _unseen_note(unseen), findings=(finding,))


def _everyone_waits(
    case: Case, stacks: StackSet, waiting: list[int], starting: list[int], unseen: list[int]
) -> Judgement:
    findings = [_victims(case, stacks, waiting + starting)]
    odd = _odd_ones_out(case, stacks, unseen)
    findings += odd
    reason = "; ".join(each.text for each in findings) + _unseen_note(unseen)
    if unseen:
        told = f"every rank seen waits for others{_unseen_note(unseen)}: the cause may stand there"
        return unknown(told, tuple(findings))
    verdict = "all-at-start" if len(starting) > len(waiting) else "all-wait"
    return Judgement(verdict=verdict, reason=reason, findings=tuple(findings))


def _odd_ones_out(case: Case, stacks: StackSet, unseen: list[int]) -> list[Finding]:
    """Ranks that wait at another call site than most: a hint, since a pipeline's stages do so by design."""
    groups = stacks.groups()
    if len(groups) != 2 or unseen or case.ranks.world_size is None or len(groups[0].ranks) >= len(groups[1].ranks):
        return []
    few, many = groups
    return [
        Finding(
            kind="different_collectives",
            text=f"{case.name_ranks(few.ranks)} waits at {few.call_site}, the others at {many.call_site}",
            role=Role.ORIGIN,
            grade=Grade.UNDECIDED,
            ranks=few.ranks,
            hosts=case.ranks.hosts_of(few.ranks),
            doing=few.where,
            frame=str(few.call_site) if few.call_site else None,
            cites=(stack_citation(stacks.stacks[few.ranks[0]]), stack_citation(stacks.stacks[many.ranks[0]])),
        )
    ]


def _spread(stacks: StackSet) -> str:
    shown = [f"ranks {fold_ranks(g.ranks)} {WORDS.get(g.where or '', 'stand')}" for g in stacks.groups()[:4]]
    return "no common picture: " + "; ".join(shown)
