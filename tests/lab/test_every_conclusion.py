"""Each conclusion of each shipped playbook is reached on real nodes from a state that was put there."""

import asyncio
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from oncall.bundle.store import Bundle, Manifest
from oncall.playbook.engine import Walker
from oncall.playbook.loader import load, shipped
from oncall.readings.finding import Finding, Role
from oncall.report.triage import case_of, live_source

from .cluster import Cluster, start_cluster
from .slowdowns import SLOWDOWNS
from .stage import Stage
from .states import CASES

pytestmark = pytest.mark.lab

STAGES = 10


@dataclass(frozen=True)
class Ended:
    """Where a walk ended, by which steps, and whom its last finding about an origin names.

    `second` is whether that is the second node of the stage and no other.
    """

    conclusion: str
    steps: tuple[str, ...]
    ranks: tuple[int, ...]
    second: bool


Walks = dict[str, dict[str, Ended] | Exception]


@pytest.fixture(scope="module")
def walks(lab: None, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Walks:
    """Case → playbook → how its walk ended; all cases that are asked for at once, on a few pairs of nodes."""
    own = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    wanted = [str(item.callspec.params["case"]) for item in own if hasattr(item, "callspec")]
    with start_cluster(2 * STAGES) as cluster:
        bin_of_all = cluster.nodes[0].own.parent / "bin"
        (bin_of_all / "nvidia-smi").symlink_to(cluster.shared / "run42/nvidia-smi")
        shutil.copy(Path(__file__).with_name("lookalike.py"), bin_of_all.parent)
        return asyncio.run(_walk_all(cluster, wanted, tmp_path_factory.mktemp("bundles")))


async def _walk_all(cluster: Cluster, wanted: list[str], folder: Path) -> Walks:
    left, ended = list(reversed(wanted)), Walks()

    async def work(stage: Stage) -> None:
        while left:
            case = left.pop()
            await asyncio.to_thread(stage.reset)
            try:
                await asyncio.to_thread(CASES[case].build, stage)
                ended[case] = await _walk(stage, CASES[case].conclusions, folder / case.replace(" ", "-"))
            except Exception as error:
                ended[case] = error
        await asyncio.to_thread(stage.reset)

    stages = [Stage(cluster, (a, b)) for a, b in zip(cluster.nodes[::2], cluster.nodes[1::2], strict=True)]
    await asyncio.gather(*(work(stage) for stage in stages))
    return ended


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


@pytest.mark.parametrize("case", CASES)
def test_the_conclusion_of_a_state(case: str, walks: Walks) -> None:
    ended = walks[case]
    if isinstance(ended, Exception):
        raise ended
    assert {playbook: walk.conclusion for playbook, walk in ended.items()} == dict(CASES[case].conclusions), ended
    first = next(iter(ended.values()))
    assert CASES[case].ranks in {None, first.ranks}, ended
    assert first.second or not CASES[case].second, ended


def test_no_conclusion_is_left_out() -> None:
    """The tree of a slowdown is walked on series that a Prometheus serves: its own tests hold the same table."""
    reached = {("slowdown", slowed.conclusion) for slowed in SLOWDOWNS.values()}
    reached |= {pair for case in CASES.values() for pair in case.conclusions.items()}
    assert reached == {(name, conclusion) for name in shipped() for conclusion in load(name).conclusions}
