"""How long the answer takes once the evidence is there: a replay of a hang of 1,024 ranks on 128 nodes.

    .venv/bin/python tests/bench/triage.py [NODES]

Every node has eight processes, eight stacks, sixteen logs of 64 KiB and a kernel log; rank 293 waits for a lock and the
others for it. Flight Recorder dumps have a bench of their own (flight_recorder.py).
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from oncall.bundle.evidence import NodeAnswer, Outcome
from oncall.bundle.store import Bundle, Manifest
from oncall.report.json_report import as_json
from oncall.report.triage import replay
from oncall.run.nodes import fold_hosts

NOW = datetime(2026, 3, 3, 3, 0, 0, tzinfo=UTC)
BOUNDARY = "oncall-bench"
PER_NODE = 8
CULPRIT = 293

Part = tuple[str, dict[str, object], str]


def process(rank: int, world: int) -> Iterator[Part]:
    pid = 1000 + rank % PER_NODE
    stat = f"stat {pid} (python) S 1 " + " ".join(["0"] * 17) + " 9000000 0\n"
    names = {"RANK": rank, "LOCAL_RANK": rank % PER_NODE, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": PER_NODE}
    environ = "".join(f"env {name}={value}\n" for name, value in names.items())
    yield "process", {"pid": pid, "rank": rank, "sample": 1}, environ + stat
    yield "again", {"pid": pid, "rank": rank}, stat


def stack(rank: int) -> Part:
    waits = [("all_gather_into_tensor", "torch/distributed/distributed_c10d.py"), ("unshard", "pretrain.py")]
    locked = [("wait", "threading.py"), ("get_shard", "data.py")]
    deep = [(f"layer_{number}", "model.py") for number in range(30)]
    frames = [
        {"name": name, "filename": file, "short_filename": file, "line": 10, "module": None}
        for name, file in (locked if rank == CULPRIT else waits) + deep
    ]
    thread = {"pid": 1, "thread_id": 1, "thread_name": "MainThread", "os_thread_id": 1, "active": False}
    threads = [thread | {"owns_gil": False, "frames": frames, "process_info": None}]
    return "stack", {"pid": 1000 + rank % PER_NODE, "rank": rank, "exit": 0}, json.dumps(threads)


def logs(rank: int) -> Iterator[Part]:
    noise = "2026-03-03 02:50:00 INFO loader: shard 000123 took 0.42 s, queue 17 of 32, cache 91 % of 512 GiB\n"
    step = " [2026-03-03 02:55:00] iteration 1370/ 100000 | elapsed time per iteration (ms): 4812.3 | lm loss: 2.1 |\n"
    for stream in ("stdout", "stderr"):
        path = f"/work/run42/logs/run42_x/attempt_0/{rank % PER_NODE}/{stream}.log"
        text = (noise * 700)[:65_000] + (step if stream == "stdout" else "")
        yield "file", {"path": path, "size": len(text), "mtime": int(NOW.timestamp()) - 300, "rank": rank}, text


def kernel() -> Part:
    line = "[{:12.6f}] systemd-journald[812]: time jumped backwards, rotating\n"
    return "kernel", {"form": "dmesg"}, "".join(line.format(90_000 + number) for number in range(3000))


ASK: dict[str, Callable[[int, int], Iterable[Part]]] = {
    "processes": process,
    "logs": lambda rank, _world: logs(rank),
    "stacks": lambda rank, _world: [stack(rank)],
    "kernel": lambda _rank, _world: [],
}


def fill(bundle: Bundle, hosts: list[str]) -> None:
    world = len(hosts) * PER_NODE
    for probe in ("processes", "logs", "stacks", "kernel"):
        folder = bundle.probe_folder(probe, hosts)
        for number, host in enumerate(hosts):
            ranks = range(number * PER_NODE, (number + 1) * PER_NODE)
            parts: list[Part] = [("clock", {}, f"{NOW.timestamp()}\n+0000\n100000 1\n")]
            for rank in ranks:
                parts += ASK[probe](rank, world)
            parts += [kernel()] if probe == "kernel" else []
            output = folder.open_answer(host)
            for name, attributes, text in [*parts, ("end", {}, "")]:
                fields = "".join(f"\t{key}={value}" for key, value in attributes.items())
                output.write(f"\n{BOUNDARY}\t{name}{fields}\n{text}".encode())
            file = folder.relative(output.close())
            answer = NodeAnswer(host=host, outcome=Outcome.OK, started=NOW, took_s=1.0, boundary=BOUNDARY, file=file)
            folder.record(answer)


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 128
    hosts = [f"node{number:04}" for number in range(nodes)]
    with tempfile.TemporaryDirectory() as scratch:
        manifest = Manifest(run="run42", started=NOW)
        bundle = Bundle.create(manifest, f'nodes = "{fold_hosts(hosts)}"\n', Path(scratch) / "bundle")
        fill(bundle, hosts)
        began, cpu = time.monotonic(), time.process_time()
        report = asyncio.run(replay(bundle, lambda _: None))
        answer = as_json(report)
        took_s, cpu_s = time.monotonic() - began, time.process_time() - cpu
    print(f"{nodes * PER_NODE} ranks on {nodes} nodes: {took_s:.2f} s ({cpu_s:.2f} s CPU), {len(answer)} bytes of JSON")
    print(f"verdict: {report.verdict.kind} ranks {report.verdict.ranks} hosts {report.verdict.hosts}")


if __name__ == "__main__":
    main()
