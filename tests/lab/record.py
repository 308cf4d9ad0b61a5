"""Records the incidents of `oncall demo`: real jobs of the lab that hang, triaged, with this machine's paths replaced.

    PYTHONPATH=tests .venv/bin/python -m lab.record        # all of them, into oncall/rehearse/incidents

Dumps, stacks, logs and process tables are as the nodes gave them but for the paths. `run.toml` and `ranks.json` are
written for the reader: a run without this lab's addresses and keys, and GPUs, which the lab does not have.
"""

import gzip
import json
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oncall.bundle.evidence import NodeAnswer, split_parts
from oncall.bundle.store import Bundle
from oncall.flight_recorder.reduce import load_dump

from .cluster import Cluster, start_cluster
from .driving import triage, write_run_file
from .job import FaultKind, Job

INCIDENTS = Path(__file__).parents[2] / "oncall/rehearse/incidents"

RUN_FILE = """# A recorded incident: eight ranks on two nodes.
nodes = "node[001-002]"
gpu_hour_usd = 2.5

[paths]
logs = "/work/run42/logs"
dumps = "/work/run42/dumps/rank_"

[ranks]
file = "ranks.json"

[thresholds]
stalled_s = 3

[actions]
exclude = "scontrol update nodename={host} state=drain reason={reason}"
restart = "sbatch --export=ALL,RESUME_STEP={step} /work/{run}/train.sbatch"

[contacts]
second_line = "train-second-line@example.com"
hardware = "dc-ops@example.com"
"""


@dataclass(frozen=True)
class Incident:
    """A fault and how it comes about; `title` is what the picker of the demo shows."""

    title: str
    fault: FaultKind
    bring_about: Callable[[Job], None]
    exit_code: int = 10


def _hang(job: Job) -> None:
    job.wait_hung()


def _lose_gpu(job: Job) -> None:
    job.wait_steps(30)
    job.node_of(5).append_kernel_log("NVRM: GPU at PCI:0000:4f:00: GPU-5b0e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", level=6)
    job.node_of(5).append_kernel_log(
        "NVRM: Xid (PCI:0000:4f:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    )
    job.kill_rank(5)
    job.wait_hung()


def _stall_network(job: Job) -> None:
    job.wait_steps(30)
    job.stall_transport(5)
    job.wait_hung()


RECORDED = {
    "hang-by-code": Incident("a rank takes a branch with one more all_reduce", "extra-all-reduce", _hang),
    "hang-by-hardware": Incident("a GPU falls off the bus and takes its rank along", "none", _lose_gpu),
    "hang-of-the-network": Incident("everyone joined a collective and nobody finishes", "none", _stall_network, 11),
    "hang-by-data": Incident("a data loader never returns on one rank", "dataloader", _hang),
}


def ranks_json() -> str:
    """Eight GPUs of which rank 5's has the address that the Xid names, in two data-parallel rows."""
    buses = ("1a", "4f", "5d", "9b")
    rows = [
        {
            "rank": rank,
            "host": f"node{rank // 4 + 1:03}",
            "local_rank": rank % 4,
            "gpu_index": rank % 4,
            "gpu_uuid": f"GPU-{rank}b0e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
            "pci_address": f"0000:{buses[rank % 4]}:00",
            "coordinate": {"dp": rank},
        }
        for rank in range(8)
    ]
    return json.dumps({"world_size": 8, "ranks": rows}, indent=1) + "\n"


def replacements(cluster: Cluster) -> list[tuple[str, str]]:
    """This machine's paths and what stands for them, longest first."""
    pairs = {
        str(cluster.shared): "/work",
        str(cluster.shared.parent / "training"): "/work/run42/src",
        str(cluster.shared.parent): "/work/lab",
        sys.prefix: "/opt/venv",
        sys.base_prefix: "/usr",
        cluster.user: "train",
    }
    return sorted(pairs.items(), key=lambda pair: -len(pair[0]))


def _replace(value: Any, pairs: list[tuple[str, str]]) -> Any:
    if isinstance(value, str):
        for old, new in pairs:
            value = value.replace(old, new)
        return value
    if isinstance(value, dict):
        return {_replace(key, pairs): _replace(item, pairs) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace(item, pairs) for item in value]
    return tuple(_replace(item, pairs) for item in value) if isinstance(value, tuple) else value


def _clean_answer(raw: bytes, answer: NodeAnswer, pairs: list[tuple[str, str]]) -> bytes:
    out = b""
    for part in split_parts(raw, answer.boundary):
        data = part.data
        if part.name == "dump" and part.attributes["encoding"] == "gzip":
            dump = _replace(load_dump(gzip.decompress(data)), pairs)
            data = gzip.compress(pickle.dumps(dump, protocol=2), mtime=0)
        else:
            data = _replace(data.decode("utf-8", "surrogateescape"), pairs).encode("utf-8", "surrogateescape")
        fields = "".join(f"\t{key}={_replace(value, pairs)}" for key, value in part.attributes.items())
        out += f"\n{answer.boundary}\t{part.name}{fields}\n".encode() + data
    return out


def clean(bundle: Path, pairs: list[tuple[str, str]]) -> None:
    """Replace this machine's paths in a bundle's evidence, and its run file and rank map by the reader's."""
    opened = Bundle.open(bundle)
    for folder in sorted((bundle / "evidence").iterdir()):
        evidence = opened.evidence(folder.name)
        assert evidence is not None
        for answer in evidence.answers.values():
            if answer.file is not None:
                path = bundle / answer.file
                path.write_bytes(_clean_answer(path.read_bytes(), answer, pairs))
    for text in [*bundle.rglob("*.json"), *bundle.rglob("*.jsonl")]:
        text.write_text(_replace(text.read_text(), pairs))
    (bundle / "run.toml").write_text(RUN_FILE)
    (bundle / "ranks.json").write_text(ranks_json())


def record(name: str) -> None:
    """Bring an incident about, triage it, and keep its bundle."""
    incident = RECORDED[name]
    with start_cluster(2) as cluster, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        job = cluster.train(incident.fault, step=40, step_seconds=0.08, watchdog=True, warm=False)
        incident.bring_about(job)
        write_run_file(cluster, job, folder)
        code, answer = triage(folder)
        if code != incident.exit_code:
            raise SystemExit(f"{name}: {answer['headline']}")
        clean(folder / "bundle", replacements(cluster))
        (folder / "bundle/title").write_text(incident.title + "\n")
        shutil.rmtree(INCIDENTS / name, ignore_errors=True)
        shutil.copytree(folder / "bundle", INCIDENTS / name)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or RECORDED:
        record(chosen)
