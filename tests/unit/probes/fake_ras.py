"""An NCCL RAS service as documented for 2.24 to 2.30: handshake, time-out, format, `verbose status`, then it closes."""

import json
import socketserver
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

HEAD = """NCCL version {version} compiled with CUDA 12.8
CUDA runtime version 12080, driver version 12080

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          4            1          8        8

Communicators... (0.01s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4         8         8   RUNNING  {errors}

Errors
======

{bad}Warnings
========

{warnings}"""
HASH = "27a079b828ff1a75"


@dataclass
class Look:
    """The job at one look: how many AllReduces each rank launched; dead and silent ranks are in no count."""

    counts: dict[int, int]
    dead: Sequence[int] = ()
    silent: Sequence[int] = ()
    failed: Sequence[int] = ()

    def text(self, version: str = "2.24.3") -> str:
        missing = [*self.dead, *self.silent]
        bad = self._section("INCOMPLETE", "Missing communicator data from {} job process", self.silent)
        bad += self._section("DEAD", "{} job process considered dead", self.dead)
        if missing:
            bad += f"#0-0 ({HASH}) INCOMPLETE\n  Missing communicator data from {len(missing)} ranks\n"
            bad += "".join(f"  Rank {rank} -- {place(rank)}\n" for rank in missing) + "\n"
        if self.failed:
            bad += f"#0-0 ({HASH}) ERROR\n  Asynchronous error on 1 rank\n"
            bad += (
                "".join(f"  Rank {rank} reported Remote process error -- {place(rank)}\n" for rank in self.failed)
                + "\n"
            )
        return HEAD.format(version=version, errors="OK", bad=bad, warnings=self._mismatch())

    def json(self, version: str = "2.28.7") -> str:
        missing = [
            {**process(r), "status": {"unresponsive": True, "considered_dead": r in self.dead}}
            for r in [*self.dead, *self.silent]
        ]
        ranks = [
            {
                **process(r),
                "status": status(6 if r in self.failed else 0),
                "collective_counts": {"Broadcast": 3, "AllReduce": n},
            }
            for r, n in self.counts.items()
        ]
        communicator = {
            "hash": f"0x{HASH}",
            "secondary_hash": "0x1:0x2",
            "size": 8,
            "ranks_count": len(ranks),
            "missing_ranks_count": len(missing),
            "ranks": ranks,
            "missing_ranks": missing,
        }
        answer = {
            "nccl_version": version,
            "cuda_runtime_version": 12080,
            "cuda_driver_version": 12080,
            "timestamp": "2026-03-03 03:00:00",
            "communicators_count": 1,
            "communicators": [communicator],
            "ras": {"collection_time_sec": 0.01, "timeouts_count": 0},
        }
        return json.dumps(answer, indent=2) + "\n"

    def _section(self, name: str, words: str, ranks: Sequence[int]) -> str:
        if not ranks:
            return ""
        rows = "".join(f"  Process {1000 + r} on node {address(r)} managing GPU {r % 4}\n" for r in ranks)
        return f"{name}\n  {words.format(len(ranks))}\n{rows}\n"

    def _mismatch(self) -> str:
        """As `verbose` prints it: groups of a half or more are not listed rank by rank."""
        values = sorted(set(self.counts.values()), key=lambda n: -list(self.counts.values()).count(n))
        if len(values) < 2:
            return ""
        out = f"#0-0 ({HASH}) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n"
        for value in values:
            ranks = [rank for rank, n in self.counts.items() if n == value]
            done = f"launched up to operation {value}" if value else "not launched any operations"
            if len(ranks) > 1:
                out += f"  {len(ranks)} ranks have {done}\n"
            if len(ranks) == 1:
                out += f"  Rank {ranks[0]} has {done} -- {place(ranks[0])}\n"
            elif len(ranks) < 8 * 0.5:
                out += "".join(f"  Rank {rank} -- {place(rank)}\n" for rank in ranks)
        return out + "\n"


def address(rank: int) -> str:
    return f"127.0.2.{rank // 4 + 1}"


def place(rank: int) -> str:
    return f"GPU {rank % 4} managed by process {1000 + rank} on node {address(rank)}"


def process(rank: int) -> dict[str, Any]:
    return {"rank": rank, "host": address(rank), "pid": 1000 + rank, "cuda_dev": rank % 4, "nvml_dev": rank % 4}


def status(error: int) -> dict[str, Any]:
    return {"init_state": 0, "async_error": error, "finalize_called": False, "destroy_flag": False, "abort_flag": False}


@dataclass
class FakeRas:
    """Serves one look after the other; `knows_json` as from 2.28.7 on. `asked` keeps every command it got."""

    looks: Sequence[Look]
    knows_json: bool = True
    hangs: bool = False
    greets: bool = True
    asked: list[str] = field(default_factory=list)
    port: int = 0
    _served: int = 0

    def answer(self, form: str) -> str:
        look = self.looks[min(self._served, len(self.looks) - 1)]
        self._served += 1
        return look.json() if form == "json" else look.text()

    @contextmanager
    def running(self) -> Iterator["FakeRas"]:
        ras = self
        stop = threading.Event()

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                form = "text"
                while line := self.rfile.readline().decode().strip():
                    ras.asked.append(line)
                    match line.lower().split():
                        case ["client", "protocol", _]:
                            self.wfile.write(b"SERVER PROTOCOL 2\n" if ras.greets else b"HTTP/1.1 400 Bad Request\n")
                        case ["timeout", _]:
                            self.wfile.write(b"OK\n")
                        case ["set", "format", "json"] if ras.knows_json:
                            form = "json"
                            self.wfile.write(b"OK\n")
                        case ["verbose", "status"]:
                            if ras.hangs:
                                stop.wait()
                            self.wfile.write(ras.answer(form).encode())
                            return
                        case _:
                            self.wfile.write(f"ERROR: Unknown command {line}\n".encode())

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        with Server(("127.0.0.1", 0), Handler) as server:
            self.port = server.server_address[1]
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            try:
                yield self
            finally:
                stop.set()
                server.shutdown()
                thread.join()
