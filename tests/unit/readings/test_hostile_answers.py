"""Whatever a node answers, no reading raises: it knows less, and says so."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncall.readings.finding import UNKNOWN
from oncall.readings.process_table import process_table
from oncall.readings.registry import READINGS

from .evidence import Part, Scene

PARTS = {
    "storage": ("space", "size", "writers"),
    "host": ("pressure", "memory", "blocked", "cpus"),
    "fabric": ("port", "no-ports", "statistic"),
    "gpu_health": ("query", "exit", "nvlink", "no-driver"),
    "nccl_ras": ("status", "refused", "disabled"),
    "logs": ("file", "attempts", "checkpoints", "tracker"),
    "kernel": ("kernel", "refused", "anchors"),
}
WORDS = (
    "exit 0", "exit 124", "blocks a 1 2 3 4% /c", "blocks 100 0 0 -", "inodes a 0 0 0 0% /c", "mount nfs ro,rw",
    "1004 4 D 77 /c/x", "1004 x S ? /c/y z", "9999999999999999999999 1 1 1 1", "memory full avg10=nan",
    "io full avg10=1e999", "MemTotal: 0 kB", "MemAvailable: 5 kB", "pswpin -3", "4711\tpython3", "4711\t\t\t",
    "link None/None symbol_error 5", "link mlx5_0/1 x",
    '{"__REALTIME_TIMESTAMP":"9","_SOURCE_MONOTONIC_TIMESTAMP":"9"}',
    "state 4: ACTIVE", "state", "rate inf Gb/sec", "counter symbol_error 12", "counter symbol_error x",
    "<nvidia_smi_log><gpu id='x'/></nvidia_smi_log>", "<nvidia_smi_log><gpu><ecc_errors><volatile><a_uncorrectable>1",
    "GPU 0: H (UUID: GPU-a)", "  Link 0: Replay Errors: 99999999999999999999", '{"communicators": []}',
    '{"communicators": [{"hash": "a", "size": 2, "ranks": [{"rank": -1, "collective_counts": {"x": -5}}]}]}',
    "NCCL version 2.24 Communicators... Warnings", "#0-0 (ab) MISMATCH", "  9 ranks have launched up to operation 3",
    "  Communicator ranks have different AllReduce operation counts",
    "  Rank 1 -- GPU 0 managed by process 2 on node h",
    " iteration 7/ 9 | consumed samples: 5 | lm loss: NAN | grad norm: nan | number of nan iterations: 1 |",
    " iteration 99999999999999999999/ 9 | consumed samples: x | lm loss: 1E+0 |",
    " saving checkpoint at iteration 7 to /c in torch_dist format",
    "  successfully saved checkpoint from iteration 8 to /c",
    "ValueError: x", "[rank3]: RuntimeError: loss is nan", "OSError: [Errno 28] No space left on device",
    "[ 99.000000] NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus.", "1 /l/attempt_99999999999999999999",
    "-5 /c/iter_0000007", "\x00\x1b[2J\ud7ff",
)  # fmt: skip
NAMED = st.sampled_from(
    ["1", "2", "", "x", "124", "json", "text", "checkpoints", "/l/a_1/attempt_3/2/stderr.log", "-1"]
)
KEYS = ("sample", "name", "path", "device", "port", "code", "form", "size", "mtime", "rank")


@st.composite
def answers(draw: st.DrawFn, probe: str) -> list[Part]:
    parts: list[Part] = []
    for _ in range(draw(st.integers(0, 5))):
        name = draw(st.sampled_from(PARTS[probe]))
        keys = draw(st.lists(st.sampled_from(KEYS), unique=True))
        attributes = {key: draw(NAMED) for key in keys}
        if name == "file":
            attributes.setdefault("path", "/l/x.log")
        lines = draw(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=20)), max_size=8))
        parts.append((name, attributes, "\n".join(lines).encode("utf-8", "replace")))
    return parts


@pytest.mark.parametrize("probe", PARTS)
@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_answer_makes_a_reading_raise(probe: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(Path(folder), more='[paths]\ncheckpoints = "/c"\n')
        scene.say(probe, {"node001": data.draw(answers(probe)), "node002": data.draw(answers(probe))})
        for reading in READINGS.values():
            if probe in reading.needs:
                judged = reading.judge(scene.case)
                assert judged.verdict in reading.verdicts
                assert judged.reason


def test_no_answer_at_all_is_unknown_to_every_reading_of_the_nodes(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for probe in PARTS:
        scene.say(probe, {"node001": "timed out", "node002": "timed out"})
    for reading in READINGS.values():
        if set(reading.needs) & set(PARTS):
            assert reading.judge(scene.case).verdict == UNKNOWN, reading.name


@pytest.mark.parametrize("mark", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, mark: str) -> None:
    """What other marks `str.splitlines` takes for line ends may stand in a command line that a job chose itself."""
    said = f"env RANK=1\nenv WORLD_SIZE=2\ncommand python train.py --note a{mark}env RANK=0{mark}rss 7 kB\n"
    scene = Scene(tmp_path).say("processes", {"node001": [("process", {"pid": "7", "rank": "1"}, said)]})
    table = scene.case.view("processes", process_table)
    assert table is not None
    (process,) = table.processes
    assert process.variables == {"RANK": "1", "WORLD_SIZE": "2"}
    assert process.rss_kb is None
