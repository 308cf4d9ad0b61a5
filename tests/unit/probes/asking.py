"""Runs a probe's script on this machine, with a process beside it that looks like a training process."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from oncall.bundle.evidence import Part, split_parts
from oncall.probes.catalogue import PROBES
from oncall.run.model import Run
from oncall.run.ranks import RankMap

BOUNDARY = "oncall-0123456789abcdef"
HOST = "node001"


def ask(
    probe: str,
    run: Run,
    *,
    path: Path | None = None,
    host: str = HOST,
    inside: Sequence[str] = (),
    **more: str,
) -> dict[str, list[Part]]:
    """Name → parts of a probe's answer.

    `path` goes before PATH on the node, `inside` is a command that runs the shell elsewhere, `more` are variables of
    the script. The two looks are a tenth of a second apart unless told.
    """
    script = PROBES[probe].build(run, RankMap(), host, BOUNDARY, {"PAUSE_S": "0.1", **more})
    env = {"PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"], "HOME": "/nonexistent"}
    argv = [*inside, "/bin/sh", "-s"]
    ended = subprocess.run(argv, input=script, capture_output=True, env=env, timeout=60, check=False)
    parts: dict[str, list[Part]] = {}
    for part in split_parts(ended.stdout, BOUNDARY):
        parts.setdefault(part.name, []).append(part)
    assert ended.returncode == 0, ended.stderr
    assert "end" in parts, ended.stderr
    return parts


def spoken(parts: Mapping[str, list[Part]]) -> list[tuple[str, dict[str, str], str | bytes]]:
    """A probe's answer as a scene takes it."""
    told = [part for each in parts.values() for part in each if part.name not in {"clock", "end"}]
    return [(part.name, dict(part.attributes), part.data) for part in told]


@contextmanager
def training(rank: int, more: Mapping[str, str] | None = None, code: str = "") -> Iterator[tuple[int, str]]:
    """A Python process with a rank, until the context ends; its pid and a word of its command line to match by."""
    word = f"trains-{uuid.uuid4().hex}"
    body = f"{code}\nimport sys; sys.stdout.write('ready\\n'); sys.stdout.flush(); sys.stdin.read()"
    env = {"PATH": os.environ["PATH"], "RANK": str(rank), **(more or {})}
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", body, word], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process.pid, word
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()
