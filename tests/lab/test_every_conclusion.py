"""Each conclusion of each shipped playbook is reached on real nodes from a state that was put there."""

import asyncio
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from oncall.bundle.store import Bundle, Manifest
from oncall.playbook.engine import Walker
from oncall.playbook.loader import load, shipped
from oncall.readings.finding import Finding, Role
from oncall.report.triage import case_of, live_source

from .cluster import start_cluster
from .slowdowns import SLOWDOWNS
from .stage import Stage
from .states import GROUPS, Case

pytestmark = pytest.mark.lab

MOST_STAGES = 8


@dataclass(frozen=True)
class Ended:
    """Where a walk ended, by which steps, and whom its last finding about an origin names.

    `second` is whether that is the second node of the stage and no other.
    """

    conclusion: str
    steps: tuple[str, ...]
    ranks: tuple[int, ...]
    second: bool


@contextmanager
def stages(count: int) -> Iterator[list[Stage]]:
    """So many pairs of nodes, all with a driver of NVIDIA."""
    with start_cluster(2 * count) as cluster:
        programs = cluster.nodes[0].own.parent
        (programs / "bin/nvidia-smi").symlink_to(cluster.shared / "run42/nvidia-smi")
        shutil.copy(Path(__file__).with_name("lookalike.py"), programs)
        yield [Stage(cluster, (a, b)) for a, b in zip(cluster.nodes[::2], cluster.nodes[1::2], strict=True)]


async def deviations(cases: Mapping[str, Case], stages: Iterable[Stage], folder: Path) -> dict[str, object]:
    """Bring each state about on a stage that is free, walk its playbooks, and keep what is not as it should be."""
    left, found = list(cases), dict[str, object]()

    async def work(stage: Stage) -> None:
        while left:
            name = left.pop(0)
            await asyncio.to_thread(stage.reset)
            try:
                await asyncio.to_thread(cases[name].build, stage)
                ended = await _walk(stage, cases[name].conclusions, folder / name.replace(" ", "-"))
            except Exception as error:
                found[name] = error
            else:
                if not _as_told(cases[name], ended):
                    found[name] = ended
        await asyncio.to_thread(stage.reset)

    await asyncio.gather(*(work(stage) for stage in stages))
    return found


def _as_told(case: Case, ended: Mapping[str, Ended]) -> bool:
    first = next(iter(ended.values()))
    concluded = {playbook: walk.conclusion for playbook, walk in ended.items()}
    return concluded == case.conclusions and case.ranks in {None, first.ranks} and first.second >= case.second


async def _walk(stage: Stage, playbooks: Iterable[str], folder: Path) -> dict[str, Ended]:
    """Walk playbooks on one state: what one has asked the nodes is not asked again for the next."""
    bundle = Bundle.create(Manifest(run="run42", started=datetime.now(UTC)), stage.run_file(), folder)
    ended = {}
    async with live_source(bundle, case_of(bundle), lambda _: None, None) as source:
        for name in playbooks:
            walker = Walker(load(name), source, case_of(bundle), lambda _: None)
            while walker.step is not None:
                walker.follow(await walker.judge())
            origins = [finding for finding in walker.case.findings if finding.role is Role.ORIGIN]
            steps = tuple(f"{each.step}: {each.verdict} ({each.judgement.reason})" for each in walker.steps)
            named = origins[-1] if origins else Finding(kind="observation", text="none")
            ended[name] = Ended(walker.here, steps, named.ranks, named.hosts == (stage.nodes[1].name,))
    return ended


@pytest.mark.parametrize("group", GROUPS)
def test_each_state_ends_where_it_should(group: str, lab: None, tmp_path: Path) -> None:
    """All states of a group on a few pairs of nodes at once: most of the time passes between two looks of a probe."""
    cases = GROUPS[group]
    with stages(min(len(cases), MOST_STAGES)) as free:
        assert asyncio.run(deviations(cases, free, tmp_path)) == {}


def test_no_conclusion_is_left_out() -> None:
    """The tree of a slowdown is walked on series that a Prometheus serves: its own tests hold the same table."""
    reached = {("slowdown", slowed.conclusion) for slowed in SLOWDOWNS.values()}
    reached |= {pair for cases in GROUPS.values() for case in cases.values() for pair in case.conclusions.items()}
    assert reached == {(name, conclusion) for name in shipped() for conclusion in load(name).conclusions}
