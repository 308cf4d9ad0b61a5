"""The states in which the screens are shown: before anything, under way, with a node that is silent, and whole."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
from textual.screen import Screen

from oncall.bundle.evidence import Outcome
from oncall.bundle.store import Bundle
from oncall.console.app import first_snapshot
from oncall.console.console import Console
from oncall.console.host import Looks
from oncall.console.progress import take_in_all
from oncall.console.screens.incident import IncidentScreen
from oncall.console.snapshot import Snapshot
from oncall.playbook.engine import Walker
from oncall.playbook.events import NodeAnswered, Noted, ProbeStarted
from oncall.playbook.loader import load
from oncall.playbook.model import Playbook
from oncall.playbook.sources import RecordedSource
from oncall.rehearse.incidents import incidents
from oncall.report.build import build_draft
from oncall.report.model import Report
from oncall.report.triage import case_of, replay

from .altered import alert, fire, silence
from .conftest import NOW

STATES = ("empty", "loading", "partial", "full")
INCIDENTS = ("hang-by-code", "hang-by-hardware", "slowdown-by-throttling")
PLACE = "/incidents/run42"
_SILENT = {"slowdown-by-throttling": ("node001", "sm_clock", "data_wait_s", "nvlink_replay")}
_CONFIRMED = 4


class StillConsole(Console):
    """The console on one snapshot, with no triage behind it."""

    def __init__(self, snapshot: Snapshot, looks: Looks) -> None:
        super().__init__(looks)
        self.snapshot = snapshot

    def get_default_screen(self) -> Screen[None]:
        return IncidentScreen()


async def all_states(folder: Path) -> Mapping[str, Mapping[str, Snapshot]]:
    """Incident or "guided" → state → snapshot; of incidents but the first only those states that are their own."""
    bundles = {name: _copy(name, folder / name) for name in INCIDENTS}
    empty = _empty(bundles["hang-by-code"])
    states = {name: {"empty": empty, "loading": _loading(empty)} for name in ("hang-by-code", "guided")}
    states |= {name: {} for name in INCIDENTS[1:]}
    states["guided"] = {state: replace(each, guided=True) for state, each in states["guided"].items()}
    for name, bundle in bundles.items():
        states[name]["full"] = await _walked(bundle)
    states["guided"]["full"] = await _proposed(bundles["hang-by-code"])
    for name, bundle in bundles.items():
        for host in _SILENT.get(name, ("node001",)):
            silence(bundle, host)
        quiet = (alert(bundle, f"Quiet{minutes}", minutes, silenced_by="5f3a") for minutes in (7, 8))
        fire(bundle, alert(bundle, "TrainingStepStalled", 3), *quiet)
        states[name]["partial"] = await _walked(bundle)
    states["guided"]["partial"] = await _proposed(bundles["hang-by-code"])
    hang = states["hang-by-code"]
    hang["full"] = replace(hang["full"], before=_earlier(hang["partial"].report))
    return states


def _copy(name: str, folder: Path) -> Bundle:
    shutil.copytree(incidents()[name].bundle.path, folder)
    return Bundle.open(folder)


def _empty(bundle: Bundle) -> Snapshot:
    first = first_snapshot(bundle, live=True, read_only=False)
    return replace(first, start=replace(first.start, bundle=PLACE, started=NOW))


def _loading(empty: Snapshot) -> Snapshot:
    probes = ("processes", "logs", "stacks", "kernel")
    return take_in_all(
        replace(empty, playbook=_filled(load("hang")), here="progress"),
        [
            *(ProbeStarted(at=NOW, probe=probe, asked=("node001", "node002")) for probe in probes),
            NodeAnswered(at=NOW, probe="processes", host="node001", outcome=Outcome.OK, reason=None, took_s=0.4),
            NodeAnswered(at=NOW, probe="stacks", host="node002", outcome=Outcome.DENIED, reason="denied", took_s=0.2),
        ],
    )


def _filled(playbook: Playbook, run: str = "run42") -> Playbook:
    steps = {
        name: msgspec.structs.replace(step, by_hand=step.by_hand.replace("{run}", run))
        for name, step in playbook.steps.items()
    }
    return msgspec.structs.replace(playbook, steps=steps)


async def _walked(bundle: Bundle) -> Snapshot:
    report = msgspec.structs.replace(await replay(bundle, lambda _: None), bundle=PLACE, took_s=1.0)
    shown = Snapshot(_start(bundle).start, playbook=_filled(load(report.playbook)), playbooks=("hang",), report=report)
    noted = Noted(at=report.started, text="paged the people of the cluster")
    return take_in_all(replace(shown, journal=report.journal), [noted])


async def _proposed(bundle: Bundle) -> Snapshot:
    """A guided walk with the verdict of its fifth step waiting for a word."""
    walker = Walker(load("hang"), RecordedSource(bundle), case_of(bundle), lambda _: None)
    for _ in range(_CONFIRMED):
        walker.follow(await walker.judge())
    return replace(
        _start(bundle),
        playbook=_filled(walker.playbook),
        playbooks=("hang",),
        guided=True,
        here=walker.here,
        proposal=await walker.judge(),
        account=build_draft(walker, bundle=PLACE),
    )


def _start(bundle: Bundle) -> Snapshot:
    first = first_snapshot(bundle, live=False, read_only=False)
    return replace(first, start=replace(first.start, bundle=PLACE))


def _earlier(report: Report | None) -> Report:
    assert report is not None
    return msgspec.structs.replace(report, started=report.started.replace(minute=report.started.minute - 9))
