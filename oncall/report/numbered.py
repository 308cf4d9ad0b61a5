"""Counts what there is to do, as every form of the answer shows it."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncall.report.model import ReadyAction


def numbered(actions: Iterable["ReadyAction"]) -> Iterator[tuple[int, str, list["ReadyAction"]]]:
    """Number from 1, what to do, and the actions that do it: one for each command."""
    for number, (say, together) in enumerate(groupby(actions, key=lambda action: action.say), 1):
        yield number, say, list(together)
