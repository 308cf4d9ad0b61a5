"""A recorded incident of any size, made of the parts of a small real one."""

import gzip
import pickle
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from oncall.bundle.evidence import NodeAnswer, Outcome, Part
from oncall.bundle.store import Bundle, Manifest
from oncall.rehearse.incidents import incidents

BOUNDARY = "oncall-bench"
WIDTH = 8
STUCK = 4321
"""The rank that stands elsewhere and has not issued what the others wait for."""

_PER_RANK = {"process", "again", "stack", "listed", "dump", "file", "earlier"}


def make_incident(folder: Path, nodes: int) -> Bundle:
    """Write a bundle of `nodes` nodes with eight ranks each: stacks, processes, logs, kernel logs and dumps."""
    waiting, stuck = incidents()["hang-by-code"].bundle, incidents()["hang-by-data"].bundle
    text = re.sub(r"^nodes = .*$", f'nodes = "node[0001-{nodes:04}]"', waiting.read_text("run.toml") or "", flags=re.M)
    text = re.sub(r"^\[ranks\]\n(?:.+\n)*", "", text, flags=re.M)
    started = datetime(2026, 11, 29, 15, 23, tzinfo=UTC)
    bundle = Bundle.create(Manifest(run="run42", started=started), text, folder)
    hosts = [f"node{number:04}" for number in range(1, nodes + 1)]
    for probe in ("processes", "logs", "stacks", "kernel", "gpus", "dumps", "flight_recorder"):
        template = _parts(waiting, probe)
        other = _parts(stuck, probe)
        put = bundle.path / "evidence" / probe / "1"
        put.mkdir(parents=True)
        (put / "asked.json").write_bytes(msgspec.json.encode(hosts))
        with (put / "index.jsonl").open("wb") as index:
            for number, host in enumerate(hosts):
                parts = list(_of_node(template, other, probe, number * WIDTH, nodes * WIDTH))
                (put / f"{host}.out").write_bytes(b"".join(_written(part) for part in parts))
                file = f"evidence/{probe}/1/{host}.out"
                answer = NodeAnswer(
                    host=host,
                    outcome=Outcome.OK,
                    started=started,
                    took_s=1.5,
                    exit_code=0,
                    boundary=BOUNDARY,
                    file=file,
                )
                index.write(msgspec.json.encode(answer) + b"\n")
    return bundle


def _parts(bundle: Bundle, probe: str) -> list[Part]:
    evidence = bundle.evidence(probe)
    assert evidence is not None
    return [part for host in evidence.asked for part in evidence.parts(host)]


def _written(part: Part) -> bytes:
    head = "\t".join([BOUNDARY, part.name, *(f"{key}={value}" for key, value in part.attributes.items())])
    return b"\n" + head.encode() + b"\n" + part.data


def _of_node(template: list[Part], other: list[Part], probe: str, first: int, world: int) -> Iterator[Part]:
    ends = [part for part in template if part.name == "end"][:1]
    seen: set[str] = set()
    for part in template:
        if part.name not in _PER_RANK and part.name != "end" and part.name not in seen:
            seen.add(part.name)
            yield part
    for rank in range(first, first + WIDTH):
        source = other if rank == STUCK and probe == "stacks" else template
        like = 5 if source is other else 0
        for part in source:
            if part.name in _PER_RANK and _rank_of(part) == like and not (part.name == "dump" and rank == STUCK):
                yield _for_rank(part, like, rank, world)
            elif part.name == "dump" and _rank_of(part) == like:
                yield _for_rank(part, like, rank, world, behind=True)
    yield from ends


def _rank_of(part: Part) -> int | None:
    told = part.attributes.get("rank") or part.attributes.get("path", "").rpartition("rank_")[2]
    return int(told) if told.isdigit() else None


def _for_rank(part: Part, like: int, rank: int, world: int, *, behind: bool = False) -> Part:
    attributes = {
        key: str(rank) if key == "rank" else re.sub(rf"rank_{like}$", f"rank_{rank}", value)
        for key, value in part.attributes.items()
    }
    if "path" in attributes:
        attributes["path"] = re.sub(r"/\d+/(std\w+\.log)$", rf"/{rank % WIDTH}/\1", attributes["path"])
    data = part.data
    if part.name == "process":
        swaps = {"RANK": rank, "LOCAL_RANK": rank % WIDTH, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": WIDTH}
        for name, value in swaps.items():
            data = re.sub(rf"(?m)^env {name}=\d+$".encode(), f"env {name}={value}".encode(), data)
    elif part.name == "dump":
        data = _dump(data, world, behind=behind)
    return Part(part.name, attributes, data)


_DUMPS: dict[bool, bytes] = {}


def _dump(data: bytes, world: int, *, behind: bool) -> bytes:
    """The last entries of a real dump in a world of this size; the rank that is behind lacks the newest."""
    if behind not in _DUMPS:
        dump: dict[str, Any] = pickle.loads(gzip.decompress(data))
        dump["entries"] = dump["entries"][-12 : -1 if behind else None]
        members = str(list(range(world))).replace(" ", "")
        dump["pg_config"] = {key: {**value, "ranks": members} for key, value in dump.get("pg_config", {}).items()}
        _DUMPS[behind] = gzip.compress(pickle.dumps(dump))
    return _DUMPS[behind]
