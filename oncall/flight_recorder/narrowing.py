"""Keeps of an analysis what concerns some ranks or groups."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from oncall.flight_recorder.groups import Groups
from oncall.flight_recorder.model import Analysis, Group, Origin, Undecided
from oncall.run.nodes import expand_ranks


def narrow(
    analysis: Analysis, groups: Groups, ranks: Collection[int] | None, names: Collection[str] | None
) -> Analysis:
    """The same with the origins, open questions, tables and absent ranks that concern these; None keeps all.

    `names` are names or purposes of groups. How many dumps there are is told of all ranks.
    """
    members = None if names is None else {r for group in groups.known if _named(group, names) for r in group.ranks}
    asked = [set(each) for each in (ranks, members) if each is not None]
    return replace(
        analysis,
        origins=tuple(o for o in analysis.origins if _concerns(o.group, names) and _touches(_ranks_of(o), ranks)),
        undecided=tuple(u for u in analysis.undecided if _concerns(u.group, names) and _touches(_open_to(u), ranks)),
        tables=tuple(
            table
            for table in analysis.tables
            if (names is None or table.group in _all_names(groups, names))
            and _touches((rank for column in table.columns for rank in expand_ranks(column)), ranks)
        ),
        coverage=replace(
            analysis.coverage,
            absent=tuple(each for each in analysis.coverage.absent if all(each.rank in own for own in asked)),
        ),
    )


def unknown_names(groups: Groups, names: Iterable[str]) -> list[str]:
    """Those of the names that no group has, as its name or its purpose."""
    return [name for name in names if not any(_named(group, {name}) for group in groups.known)]


def _all_names(groups: Groups, names: Collection[str]) -> set[str]:
    return {group.label for group in groups.known if _named(group, names)}


def _named(group: Group, names: Collection[str]) -> bool:
    return not {group.name, group.desc}.isdisjoint(names)


def _concerns(group: Group | None, names: Collection[str] | None) -> bool:
    return names is None or (group is not None and _named(group, names))


def _touches(found: Iterable[int], ranks: Collection[int] | None) -> bool:
    return ranks is None or not set(ranks).isdisjoint(found)


def _ranks_of(origin: Origin) -> set[int]:
    return {*origin.ranks, *origin.among, *(hop.rank for hop in origin.chain)}


def _open_to(row: Undecided) -> set[int]:
    return {*row.deciding, *(row.group.ranks if row.group is not None else ())}
