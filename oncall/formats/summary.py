"""One summary over all files of an incident."""

from collections.abc import Sequence
from dataclasses import dataclass

from oncall.formats.event import Event, Json, Parsed
from oncall.formats.kernel_summary import summarise as summarise_kernel
from oncall.formats.metrics import summarise_scrapes
from oncall.formats.nccl_summary import summarise_nccl
from oncall.formats.recognise import Format
from oncall.formats.steps_summary import summarise_steps


@dataclass(frozen=True, slots=True)
class ReadFile:
    """One file that was read: its name as given, its format, the rank it belongs to, and what it says."""

    name: str
    format: Format
    rank: int | None
    lines: int
    parsed: Parsed


def _stacks(files: Sequence[ReadFile]) -> dict[str, Json]:
    """One dump says its standing itself; of several, `stacks` holds one a file."""
    dumps = [each for each in files if each.format is Format.PYSPY and each.parsed.summary]
    if len(dumps) == 1:
        return dict(dumps[0].parsed.summary or {})
    return (
        {"stacks": [{"file": each.name, "rank": each.rank, **(each.parsed.summary or {})} for each in dumps]}
        if dumps
        else {}
    )


def summarise(files: Sequence[ReadFile]) -> dict[str, Json]:
    """What the files say together; a key that is missing, or null, is not known.

    Training logs and traces are summed up over all files, since one incident is written by many ranks.
    """
    said: dict[str, Json] = {}
    told: list[Event] = [
        event
        for each in files
        if each.format in {Format.TRAINING, Format.TEXT, Format.TRACE}
        for event in each.parsed.events
    ]
    if any(each.format is Format.TRAINING for each in files):
        said |= summarise_nccl(told)
    said |= summarise_steps(told)
    said |= _stacks(files)
    kernel = [event for each in files if each.format is Format.KERNEL for event in each.parsed.events]
    if kernel:
        said |= summarise_kernel(kernel)
    scrapes = [each.parsed for each in files if each.format is Format.METRICS]
    for scrape in scrapes:
        said |= scrape.summary or {}
    if scrapes:
        said |= summarise_scrapes(scrapes)
    return said
