"""Makes evidence as the probes' scripts would print it, one part at a time."""

from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from oncall.bundle.evidence import NodeAnswer, Outcome
from oncall.bundle.store import Bundle, Manifest
from oncall.readings.case import Case
from oncall.readings.placement import settle_ranks
from oncall.run.file import parse

NOW = datetime(2026, 3, 3, 3, 0, 0, tzinfo=UTC)
UPTIME_S = 100_000.0
BOUNDARY = "oncall-00112233"

Part = tuple[str, dict[str, str], str | bytes]


class Scene:
    """An incident under construction: what each node said to each probe."""

    def __init__(self, folder: Path, nodes: str = "node[001-002]", more: str = "") -> None:
        self.run_text = f'nodes = "{nodes}"\n{more}'
        self.run = parse(self.run_text, "run42.toml", default_name="run42")
        self.bundle = Bundle.create(Manifest(run="run42", started=NOW), self.run_text, folder / "bundle")
        self.case = Case(self.run, NOW)

    def say(self, probe: str, answers: dict[str, list[Part] | str]) -> "Scene":
        """Add a probe's answers: parts of a node that answered, or the reason why one did not."""
        folder = self.bundle.probe_folder(probe, answers)
        for host, parts in answers.items():
            output = folder.open_answer(host)
            if isinstance(parts, str):
                outcome, reason = Outcome.TIMED_OUT, parts
            else:
                outcome, reason = Outcome.OK, None
                output.write(encode([clock(), *parts, ("end", {}, "")]))
            folder.record(
                NodeAnswer(
                    host=host,
                    outcome=outcome,
                    reason=reason,
                    started=NOW,
                    took_s=0.1,
                    boundary=BOUNDARY,
                    file=folder.relative(output.close()),
                )
            )
        self.case.add(folder.evidence())
        self.case.ranks = settle_ranks(self.case)
        return self


def clock() -> Part:
    """The node's clock, agreeing with the console's: UTC."""
    return "clock", {}, f"{NOW.timestamp():.9f}\n+0000\n{UPTIME_S:.2f} 1.0\n"


def encode(parts: list[Part]) -> bytes:
    """Parts as the scripts print them, with a banner before the first."""
    out = b"Welcome to this machine\n"
    for name, attributes, data in parts:
        pairs = "".join(f"\t{key}={quote(value)}" for key, value in attributes.items())
        out += f"\n{BOUNDARY}\t{name}{pairs}\n".encode() + (data.encode() if isinstance(data, str) else data)
    return out


def process(rank: int, *, state: str = "S", again: str | None = "S", world: int = 8, width: int = 4) -> list[Part]:
    """A training process at two looks; `again` None means it was gone at the second."""
    pid = 1000 + rank
    stat = f"stat {pid} (python) {{}} 1 " + " ".join(["0"] * 17) + " 9000000 0\n"
    environ = f"env RANK={rank}\nenv LOCAL_RANK={rank % width}\nenv WORLD_SIZE={world}\nenv LOCAL_WORLD_SIZE={width}\n"
    look = ("process", {"pid": str(pid), "rank": str(rank), "sample": "1"}, environ + stat.format(state) + "rss 1 kB\n")
    later = stat.format(again) if again else ""
    return [look, ("again", {"pid": str(pid), "rank": str(rank)}, later)]


def processes(ranks: range, **states: str) -> list[Part]:
    """Running processes of some ranks."""
    return [part for rank in ranks for part in process(rank)]


def log(path: str, text: str, *, rank: int | None = None, age_s: int = 300) -> Part:
    """The tail of a log last written `age_s` ago."""
    mtime = str(int(NOW.timestamp()) - age_s)
    told = "" if rank is None else str(rank)
    return "file", {"path": path, "size": str(len(text)), "mtime": mtime, "rank": told}, text
