"""Makes Prometheus' answers as the metrics probe keeps them: constant series over the stretch now and that before."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from oncall.bundle.evidence import NodeAnswer, Outcome, Part, join_part
from oncall.bundle.store import Bundle, Manifest
from oncall.readings.case import Case
from oncall.run.file import parse
from oncall.run.ranks import Place, rank_map

from .evidence import NOW

BEFORE_S = 3600.0
GRID_S = 30.0
BOUNDARY = "oncall-series"

Rows = list[tuple[dict[str, str], float]]
"""(labels, value) of each series."""

Table = Mapping[str, Rows]
"""Signal → its series."""


def by_rank(values: Mapping[int, float] | Iterable[float], **labels: str) -> Rows:
    """Series with a rank label, from rank → value or from the values of rank 0, 1, …"""
    pairs = values.items() if isinstance(values, Mapping) else enumerate(values)
    return [({"rank": str(rank), **labels}, value) for rank, value in pairs]


def by_gpu(values: Iterable[float]) -> Rows:
    """Series as of dcgm-exporter, for ranks 0, 1, … of nodes with four GPUs."""
    return [({"Hostname": f"node{rank // 4 + 1:03}", "gpu": str(rank % 4)}, value) for rank, value in enumerate(values)]


class SeriesCase:
    """A case of eight ranks on two nodes whose Prometheus answers as told; what is not told has no series."""

    def __init__(self, folder: Path, more: str = "") -> None:
        text = f'nodes = "node[001-002]"\n[prometheus]\nurl = "http://127.0.0.1:9"\n{more}'
        self.bundle = Bundle.create(Manifest(run="run42", started=NOW), text, folder / "bundle")
        places = [Place(rank=r, host=f"node{r // 4 + 1:03}", local_rank=r % 4, gpu_index=r % 4) for r in range(8)]
        given = rank_map(places, world_size=8, source="the test")
        self.case = Case(parse(text, "run42.toml", default_name="run42"), NOW, given)

    def tell(
        self, now: Table, before: Table | None = None, *, age_s: float = 10.0, living: range | None = None
    ) -> Case:
        """Add the answers. `age_s` is how old every newest sample is; only the `living` of the series have one."""
        end = NOW.timestamp()
        answers = {}
        for name in {*now, *(before or {})}:
            rows = list(now.get(name, ()))
            newest = [row for index, row in enumerate(rows) if living is None or index in living]
            answers[name] = [("now", end, rows), ("newest", end - age_s, newest)]
        self._put("metrics", answers)
        if before is not None:
            self._put("baseline", {name: [("then", end - BEFORE_S, list(before.get(name, ())))] for name in answers})
        return self.case

    def _put(self, probe: str, answers: Mapping[str, list[tuple[str, float, Rows]]]) -> None:
        folder = self.bundle.probe_folder(probe, answers)
        for name, parts in answers.items():
            output = folder.open_answer(name)
            for part, at, series in parts:
                output.write(join_part(_part(part, at, series), BOUNDARY))
            file = folder.relative(output.close())
            folder.record(
                NodeAnswer(host=name, outcome=Outcome.OK, started=NOW, took_s=0.1, boundary=BOUNDARY, file=file)
            )
        self.case.add(folder.evidence())


def _part(name: str, at: float, series: Rows) -> Part:
    """The newest sample's time is the value of an answer about ages."""
    told = {"query": "q", "end": str(NOW.timestamp() if name == "newest" else at)}
    if name == "newest":
        result = [{"metric": labels, "value": [at, str(at)]} for labels, _ in series]
        return Part(name, told, _body("vector", result))
    told |= {"start": str(at - 4 * GRID_S), "step": str(GRID_S)}
    points = [at - index * GRID_S for index in range(4, -1, -1)]
    result = [{"metric": labels, "values": [[when, str(value)] for when in points]} for labels, value in series]
    return Part(name, told, _body("matrix", result))


def _body(kind: str, result: object) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()
