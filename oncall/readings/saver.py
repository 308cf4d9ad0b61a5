"""Is a checkpoint being saved, and does it move on?"""

import msgspec

from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.log_set import own_logs
from oncall.readings.saves import Saves, complaints, failed_in_a_row, saves
from oncall.readings.storage_set import StorageSet, Writer, storage_set
from oncall.run.nodes import fold_ranks


def saver(case: Case) -> Judgement:
    """Does a save move on?

    `failed`: a log tells of a save that failed. `writing`: the newest checkpoint grows. `stuck`: a process holds a file
    of it open and does not move on. `gone`: a save began and has not ended, and nobody holds a file of it open. `idle`:
    the last save has ended. `unknown`: no log tells of a save, or not every node told who writes.
    """
    logs, seen = own_logs(case), case.view("storage", storage_set)
    told = saves(logs) if logs else Saves((), None)
    complained = complaints(logs, told) if logs else ()
    if complained:
        return _failing("failed", f"a save failed: {complained[0].text}", told, complained[:1])
    if seen is not None and seen.growing:
        return Judgement(verdict="writing", reason="the newest checkpoint grows: " + _who(seen))
    if seen is not None and seen.writers:
        return _stuck(seen, told)
    return _nobody_writes(case, seen, told)


def failures_in_a_row(case: Case) -> int:
    """How many saves in a row have failed or not ended, as far as logs and the storage tell."""
    logs, seen = own_logs(case), case.view("storage", storage_set)
    if logs is None:
        return 0
    told = saves(logs)
    nobody_writes = seen is not None and not seen.growing and _all_looked(case, seen)
    return failed_in_a_row(told, complaints(logs, told), nobody_writes=nobody_writes)


def _all_looked(case: Case, seen: StorageSet) -> bool:
    return bool(seen.looked) and case.coverage("storage").complete


def _nobody_writes(case: Case, seen: StorageSet | None, told: Saves) -> Judgement:
    if not told.saves:
        return unknown(f"no log tells of a save: {case.coverage('logs').describe()}")
    save = told.open
    if save is None:
        return Judgement(verdict="idle", reason=f"the last of {len(told.saves)} saves ended{_step(told)}")
    if seen is None or not _all_looked(case, seen):
        return unknown(f"a save{_step(told)} is open, but not every node told who writes it")
    cite = Citation(probe="logs", host=save.file.host, file=save.file.path, text=save.file.line(save.event))
    return _failing("gone", f"a save{_step(told)} began and has not ended, and no process writes it", told, (cite,))


def _stuck(seen: StorageSet, told: Saves) -> Judgement:
    blocked = [writer for writer in seen.writers if writer.blocked]
    shown = blocked or list(seen.writers)
    how = "waits in the kernel" if blocked else "does not move on"
    ranks = sorted({writer.rank for writer in shown if writer.rank is not None})
    who = f"the saver of rank {fold_ranks(ranks)}" if ranks else "the saver"
    text = f"{who} {how} with {shown[0].path}"
    judged = _failing("stuck", text, told, tuple(_citation(writer) for writer in shown[:4]))
    hosts = tuple(dict.fromkeys(writer.host for writer in shown))
    named = msgspec.structs.replace(judged.findings[0], ranks=tuple(ranks), hosts=hosts)
    return msgspec.structs.replace(judged, findings=(named,))


def _failing(verdict: str, text: str, told: Saves, cites: tuple[Citation, ...]) -> Judgement:
    open_ones = len(told.unfinished)
    again = f"; {open_ones} saves in a row have not ended" if open_ones > 1 else ""
    finding = Finding(kind="checkpoint_failing", text=text + again, role=Role.ORIGIN, grade=Grade.LIKELY, cites=cites)
    return Judgement(verdict=verdict, reason=finding.text, findings=(finding,))


def _citation(writer: Writer) -> Citation:
    first, second = writer.positions
    told = f"pid {writer.pid}, state {writer.states[1]}, at byte {first} then {second}"
    return Citation(probe="storage", host=writer.host, file=writer.path, text=told)


def _who(seen: StorageSet) -> str:
    moved = [writer for writer in seen.writers if writer.moved]
    return f"{len(moved)} processes write it" if moved else "its size went up within 3 s"


def _step(told: Saves) -> str:
    last = told.saves[-1]
    return f" of step {last.step}" if last.step is not None else ""
