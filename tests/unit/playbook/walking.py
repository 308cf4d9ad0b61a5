"""Walks a shipped playbook on the answers of a scene."""

import asyncio
import json

from oncall.playbook.engine import Overruling, Walk, walk
from oncall.playbook.loader import load
from oncall.playbook.sources import RecordedSource
from oncall.readings.case import Case

from ..readings.evidence import NOW, UPTIME_S, Part, Scene, log

XID = "[{uptime:12.6f}] NVRM: Xid (PCI:{pci}): {code}, {text}\n"
STEP = (
    " [{at}] iteration {step:8}/  100000 | consumed samples: {samples:12} | elapsed time per iteration (ms): 5000.0 |"
    " learning rate: 2.987E-04 | global batch size:   512 | lm loss: {loss} | loss scale: {scale} |"
    " grad norm: {norm} | number of skipped iterations: {skipped:3} | number of nan iterations: {nan:3} |\n"
)


def concludes(scene: Scene, playbook: str, **overruled: str) -> Walk:
    """The walk of a playbook on what a scene's nodes said; `overruled` maps steps to an operator's own verdicts."""
    case = Case(scene.run, NOW)
    own = {step: Overruling(verdict, "for the test") for step, verdict in overruled.items()}
    return asyncio.run(walk(load(playbook), RecordedSource(scene.bundle), case, lambda _event: None, own))


def stack(rank: int, *frames: tuple[str, str, int]) -> Part:
    """A main thread with these frames, innermost first, as py-spy prints JSON."""
    rows = [{"name": n, "filename": f, "short_filename": f, "line": line, "module": None} for n, f, line in frames]
    pid = 1000 + rank
    thread = {"pid": pid, "thread_id": 1, "thread_name": "MainThread", "os_thread_id": pid, "active": False}
    thread |= {"owns_gil": False, "frames": rows, "process_info": None}
    return "stack", {"pid": str(pid), "rank": str(rank), "exit": "0"}, json.dumps([thread])


def xid(code: int, ago_s: float = 300.0, *, pci: str = "0000:4f:00", text: str = "some text") -> str:
    """A line of the ring buffer."""
    return XID.format(uptime=UPTIME_S - ago_s, pci=pci, code=code, text=text)


def kernel(text: str = "") -> list[Part]:
    """A kernel log that was read."""
    return [("kernel", {"form": "dmesg"}, text)]


def step_line(
    step: int,
    at: str = "2026-03-03 02:59:00",
    *,
    loss: str = "2.104E+00",
    norm: float | str = 0.812,
    scale: float = 1.0,
    skipped: int = 0,
    nan: int = 0,
    samples: int | None = None,
) -> str:
    """A line of Megatron's log; samples follow from the step unless told."""
    told = 512 * step if samples is None else samples
    return STEP.format(at=at, step=step, samples=told, loss=loss, scale=scale, norm=norm, skipped=skipped, nan=nan)


def rank_log(text: str, *, attempt: int = 0, local: int = 0, stream: str = "stdout", age_s: int = 60) -> Part:
    """A log where torchrun puts it."""
    return log(f"/l/run42_x/attempt_{attempt}/{local}/{stream}.log", text, age_s=age_s)
