"""Writes a bundle as evidence arrives, and opens one that was written.

manifest.json            what was asked, of which run, when
run.toml, ranks.json     the run file and the rank map as they were used
evidence/<probe>/<n>/    one folder each time a probe ran: index.jsonl, and the raw output of each node
events.jsonl             what the walk did, in order
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO
from urllib.parse import quote

import msgspec
import platformdirs

from oncall import __version__
from oncall.bundle.evidence import Evidence, NodeAnswer, Outcome
from oncall.errors import OncallError, UsageError

SCHEMA = "oncall.bundle/1"

_MOST_BYTES = 1024 * 1024 * 1024
"""Of one node's answer to one probe: eight ranks' recorders and stacks are a tenth of it."""

AUTOMATIC = "automatic"
"""The playbook of an incident for which none was named, as long as the evidence has not decided."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle is about. `started` is when the triage began, in UTC; ages are counted from it."""

    run: str
    started: datetime
    schema: str = SCHEMA
    oncall_version: str = __version__
    playbook: str = "hang"


class BundleError(OncallError):
    """The bundle cannot be written or is not one."""


def default_root() -> Path:
    """Where bundles go unless told otherwise: the user's state folder."""
    return platformdirs.user_state_path("oncall") / "incidents"


class AnswerFile:
    """The raw output of one node while it arrives: written to a temporary name, renamed when it is whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.with_suffix(".part")
        self._stream: IO[bytes] | None = None
        self.size = 0

    def write(self, data: bytes) -> None:
        """Append what arrived. Raises BundleError where a node says more than any probe asks for."""
        if self.size + len(data) > _MOST_BYTES:
            raise BundleError(f"it sent more than {_MOST_BYTES >> 20:,} MiB and was not heard to its end")
        if self._stream is None:
            self._stream = self._temporary.open("wb")
        self._stream.write(data)
        self.size += len(data)

    def close(self) -> Path | None:
        """Finish the file; returns its path, or None where nothing arrived or the disk took nothing."""
        if self._stream is None:
            return None
        try:
            self._stream.close()
            self._temporary.rename(self._path)
        except OSError:
            return None
        return self._path


class ProbeFolder:
    """Where one turn of one probe is kept."""

    def __init__(self, bundle: Path, probe: str, asked: tuple[str, ...]) -> None:
        self._bundle = bundle
        self.probe = probe
        self.asked = asked
        self.path = _next_folder(bundle / "evidence" / probe)
        self.path.mkdir(parents=True)
        self._answers: dict[str, NodeAnswer] = {}
        _write(self.path / "asked.json", msgspec.json.encode(asked))

    def open_answer(self, host: str) -> AnswerFile:
        """A file for this node's raw output."""
        return AnswerFile(self.path / f"{quote(host, safe='')}.out")

    def record(self, answer: NodeAnswer) -> None:
        """Note how a node answered; on disk when this returns. A full disk leaves it known to this triage alone."""
        try:
            _append(self.path / "index.jsonl", msgspec.json.encode(answer))
        except OSError as error:
            reason = f"the bundle cannot be written: {error.strerror}"
            answer = msgspec.structs.replace(answer, outcome=Outcome.FAILED, reason=reason)
        self._answers[answer.host] = answer

    def relative(self, path: Path | None) -> str | None:
        """A path as it is kept in the index."""
        return None if path is None else str(path.relative_to(self._bundle))

    def evidence(self) -> Evidence:
        """What has arrived so far."""
        return Evidence(self.probe, self._bundle, self.asked, dict(self._answers))


class Bundle:
    """One incident's folder, being written or read."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    def create(cls, manifest: Manifest, run_text: str, path: Path | None = None) -> "Bundle":
        """Make the folder of a new incident.

        Raises:
            BundleError: the folder cannot be made, or `path` already holds something.
        """
        stamp = manifest.started.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        folder = path if path is not None else _unused(default_root() / manifest.run / stamp)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise BundleError(f"{folder} is not empty", "give another folder with --bundle")
            _write(folder / "run.toml", run_text.encode())
            _write(folder / "manifest.json", msgspec.json.format(msgspec.json.encode(manifest)))
        except OSError as error:
            raise BundleError(f"cannot write the bundle {folder}: {error}", "give another with --bundle") from error
        return cls(folder, manifest)

    @classmethod
    def open(cls, path: Path) -> "Bundle":
        """Open a bundle to replay it.

        Raises:
            UsageError: the folder is no bundle, or one of a schema that this version does not know.
        """
        try:
            manifest = msgspec.json.decode((path / "manifest.json").read_bytes(), type=Manifest)
        except OSError as error:
            raise UsageError(f"{path} is no bundle: {error}") from error
        except msgspec.DecodeError as error:
            raise UsageError(f"{path / 'manifest.json'}: {error}") from error
        if manifest.schema != SCHEMA:
            raise UsageError(f"{path}: {manifest.schema} is not a bundle that oncall {__version__} reads ({SCHEMA})")
        return cls(path, manifest)

    def probe_folder(self, probe: str, asked: Iterable[str]) -> ProbeFolder:
        """A new folder for a turn of a probe."""
        return ProbeFolder(self.path, probe, tuple(asked))

    def evidence(self, probe: str) -> Evidence | None:
        """The newest turn of a probe, or None where it never ran."""
        turns = sorted((self.path / "evidence" / probe).glob("[0-9]*"), key=lambda folder: int(folder.name))
        if not turns:
            return None
        asked = msgspec.json.decode((turns[-1] / "asked.json").read_bytes(), type=tuple[str, ...])
        answers = _read_lines(turns[-1] / "index.jsonl", NodeAnswer)
        return Evidence(probe, self.path, asked, {answer.host: self._with_its_file(answer) for answer in answers})

    def _with_its_file(self, answer: NodeAnswer) -> NodeAnswer:
        """An answer is worth what is here of it: a copy may be half, and an index from elsewhere may name any file."""
        if answer.file is None or self._holds(answer.file):
            return answer
        reason = "its raw answer is not in the bundle, or cannot be read"
        return msgspec.structs.replace(answer, file=None, outcome=Outcome.FAILED, reason=reason)

    def _holds(self, file: str) -> bool:
        try:
            path = Path(os.path.realpath(self.path / file))
            return path.is_relative_to(os.path.realpath(self.path)) and path.is_file() and os.access(path, os.R_OK)
        except (OSError, ValueError):  # no name that a file can have
            return False

    def append_event(self, event: msgspec.Struct) -> None:
        """Add one event of the walk."""
        _append(self.path / "events.jsonl", msgspec.json.encode(event))

    def choose(self, playbook: str) -> None:
        """Remember which playbook was chosen, so that a replay walks the same. A full disk leaves it to be chosen."""
        self.manifest = msgspec.structs.replace(self.manifest, playbook=playbook)
        with suppress(OSError):
            self.write("manifest.json", msgspec.json.format(msgspec.json.encode(self.manifest)))

    def write(self, name: str, data: bytes) -> None:
        """Keep one more file of the incident, whole or not at all."""
        _write(self.path / name, data)

    def read_text(self, name: str) -> str | None:
        """A file of the bundle, or None where it has none."""
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None


def _unused(folder: Path) -> Path:
    candidate, number = folder, 2
    while candidate.exists():
        candidate, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return candidate


def _next_folder(parent: Path) -> Path:
    turns = [int(folder.name) for folder in parent.glob("[0-9]*")]
    return parent / str(max(turns, default=0) + 1)


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def _append(path: Path, line: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(line + b"\n")


def _read_lines(path: Path, model: type[NodeAnswer]) -> list[NodeAnswer]:
    """Every whole line; a last line that was cut by a crash is passed over."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    answers = []
    for line in lines:
        try:
            answers.append(msgspec.json.decode(line, type=model))
        except msgspec.DecodeError:
            continue
    return answers
