"""Show each signal that a run's metrics can give: its query, whether it has data now, of how many, how old.

Exit code: 0 Prometheus answered, 12 it answered no query, 2 the run file is wrong or names no Prometheus.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from oncall.bundle.evidence import Evidence
from oncall.bundle.store import Bundle, Manifest
from oncall.errors import UsageError
from oncall.neutral import neutral
from oncall.probes.metric_questions import now_questions
from oncall.probes.metrics import PrometheusServer
from oncall.readings.case import Case
from oncall.readings.signal_table import SignalRow, signal_table
from oncall.run.file import find, load, load_ranks
from oncall.run.model import Run
from oncall.signals.run_queries import checked_queries

NOT_ENOUGH = 12
SCHEMA = "oncall.signals/1"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `oncall signals`."""
    parser.add_argument("run", metavar="RUN", help="name or path of a run file")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Ask Prometheus for every signal once; exit code 12 where it answered none of them."""
    path = find(args.run)
    described = load(path)
    queries = checked_queries(described, str(path))
    if described.prometheus.url is None:
        raise UsageError(f"{path} names no Prometheus", "give its address as `url` in `[prometheus]`")
    now = datetime.now(UTC)
    with tempfile.TemporaryDirectory() as folder:
        bundle = Bundle.create(Manifest(run=described.name, started=now), "", Path(folder) / "bundle")
        evidence = asyncio.run(_ask(described, tuple(queries), now, bundle))
        case = Case(described, now, load_ranks(path, described))
        case.add(evidence)
        rows = signal_table(case, queries)
    if args.json:
        told = {"schema": SCHEMA, "run": described.name, "at": now, "signals": rows}
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(told)).decode() + "\n")
    else:
        lines = _lines(rows) if evidence.coverage.answered else (_silence(described, evidence),)
        sys.stdout.writelines(f"{neutral(line)}\n" for line in lines)
    return 0 if evidence.coverage.answered else NOT_ENOUGH


async def _ask(described: Run, names: tuple[str, ...], now: datetime, bundle: Bundle) -> Evidence:
    questions = now_questions(described, now, names)
    server = PrometheusServer(described.prometheus)
    try:
        folder = bundle.probe_folder("metrics", questions)
        return await server.put(folder, questions, boundary="oncall-signals", on_answer=lambda _: None)
    finally:
        server.close()


def _silence(run: Run, evidence: Evidence) -> str:
    """What there is to say where no query was answered: the same of each signal."""
    why = "; ".join(dict.fromkeys(evidence.coverage.missing.values()))
    return f"no signal is known: {run.prometheus.url} answered none of {len(evidence.asked)} queries: {why}"


def _lines(rows: tuple[SignalRow, ...]) -> Iterator[str]:
    """Two lines a signal: what there is, then the query."""
    width = max(len(row.signal) for row in rows)
    for row in rows:
        yield f"{row.signal:{width}}  {_has(row)}"
        yield f"{'':{width}}    {'own: ' if row.own_query else ''}{row.query or '-'}"


def _has(row: SignalRow) -> str:
    if row.covered == 0:
        return f"no data: {row.problem}"
    expected = "" if row.expected is None else f" of {row.expected}"
    age = "" if row.newest_age_s is None else f", newest sample {row.newest_age_s:.0f} s old"
    stale = f", {row.stale} stale" if row.stale else ""
    partial = f"; {row.problem}" if row.problem else ""
    return f"{row.covered}{expected} {row.of}{stale}{age}{partial}"
