"""The saves of checkpoints that the logs tell of: which ended, which failed, which are open."""

import re
from dataclasses import dataclass
from itertools import takewhile

from oncall.formats.event import Event
from oncall.readings.finding import Citation
from oncall.readings.log_set import LogFile, LogSet

_COMPLAINT = re.compile(
    r"(?:No space left on device|Disk quota exceeded|Read-only file system|Stale file handle"
    r"|CheckpointException|Error\b.*checkpoint|checkpoint.*(?:\bfail|Error\b))",
    re.IGNORECASE,
)
_TELLING = ("heckpoint", "left on device", "uota exceeded", "nly file system", "file handle")
"""A word of these stands in every line that the pattern finds: looking for them first spares most of its cost."""
_LONGEST = 1000
"""Characters of a line that are looked at: a log may hold anything."""
_STEP_NAMED = re.compile(r"(?:iter(?:ation)?|step|checkpoint|ckpt)[-_=: ]*0*(\d{1,12})", re.IGNORECASE)
"""The step in the names that trainers give to checkpoints: iter_0007000, global_step7000, checkpoint-7000."""
_BEGINS = frozenset({"checkpoint_start", "checkpoint_scheduled"})


@dataclass(frozen=True, slots=True)
class Save:
    """One save: its step where the line tells it, whether its end was logged, and the line that began it."""

    step: int | None
    done: bool
    scheduled: bool
    file: LogFile
    event: Event


@dataclass(frozen=True, slots=True)
class Saves:
    """All saves of the current attempt in order, as the file that tells most of them has it; None where none does."""

    saves: tuple[Save, ...]
    file: LogFile | None

    @property
    def open(self) -> Save | None:
        """The last save, where its end was not logged."""
        return self.saves[-1] if self.saves and not self.saves[-1].done else None

    @property
    def unfinished(self) -> tuple[Save, ...]:
        """The saves since the last that ended, in order."""
        open_ones = tuple(takewhile(lambda save: not save.done, reversed(self.saves)))
        return open_ones[::-1]


def saves(logs: LogSet) -> Saves:
    """Read from the file that tells most of saves: only some ranks log them, and those say the same."""
    told = [(file, found) for file in logs.current() if (found := _of_file(file))]
    if not told:
        return Saves((), None)
    file, found = max(told, key=lambda each: len(each[1]))
    return Saves(tuple(found), file)


def _of_file(file: LogFile) -> list[Save]:
    found: list[Save] = []
    for event in file.events:
        step = event.number("step")
        last = found[-1] if found else None
        if event.kind in _BEGINS:
            again = last is not None and not last.done and last.step == step and step is not None
            save = Save(step, done=False, scheduled=event.kind == "checkpoint_scheduled", file=file, event=event)
            found = [*found[:-1], save] if again else [*found, save]
        elif event.kind == "checkpoint_done":
            at = next((n for n, save in enumerate(found) if not save.done and save.step == step), None)
            if at is None and last is not None and not last.done and step is None:
                at = len(found) - 1
            if at is None:
                found.append(Save(step, done=True, scheduled=False, file=file, event=event))
            else:
                found[at] = Save(step, done=True, scheduled=found[at].scheduled, file=file, event=found[at].event)
    return found


def complaints(logs: LogSet, told: Saves) -> tuple[Citation, ...]:
    """The lines that complain of a save, newest first; in the file that tells of saves, after the last that ended."""
    ends = [event.last_line for event in told.file.events if event.kind == "checkpoint_done"] if told.file else []
    found: list[Citation] = []
    for file in sorted(logs.current(), key=lambda each: each.age_s if each.age_s is not None else 1e9):
        if any(word.encode() in file.tail for word in _TELLING):
            lines = file.lines[max(ends, default=0) if file is told.file else 0 :]
            found += [file.cite(line) for line in reversed(lines) if _complains(line)]
    return tuple(found)


def _complains(line: str) -> bool:
    return any(word in line for word in _TELLING) and _COMPLAINT.search(line[:_LONGEST]) is not None


def failed_in_a_row(told: Saves, complained: tuple[Citation, ...], *, nobody_writes: bool) -> int:
    """How many saves have failed since the last that ended, by what began and what complaints name.

    The last that began may be under way: it counts where a complaint names it, or where nobody writes any more.
    """
    ended = max((save.step for save in told.saves if save.done and save.step is not None), default=-1)
    named = {int(step) for cite in complained for step in _STEP_NAMED.findall(cite.text) if int(step) > ended}
    begun = told.unfinished
    failed = [save for save in begun if nobody_writes or save is not begun[-1] or save.step in named]
    return len(failed) + len(named - {save.step for save in begun})
