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

import msgspec
import platformdirs

from oncall import __version__
from oncall.bundle.evidence import Evidence, NodeAnswer, Outcome
from oncall.bundle.probe_folder import ProbeFolder, append_line, read_answers, read_kept, turns, write_whole
from oncall.errors import BundleError, UsageError

SCHEMA = "oncall.bundle/1"

AUTOMATIC = "automatic"
"""The playbook of an incident for which none was named, as long as the evidence has not decided."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle is about. `started` is when the triage began, in UTC; ages are counted from it."""

    run: str
    started: datetime
    schema: str = SCHEMA
    oncall_version: str = __version__
    playbook: str = "hang"


def default_root() -> Path:
    """Where bundles go unless told otherwise: the user's state folder."""
    return platformdirs.user_state_path("oncall") / "incidents"


class Bundle:
    """One incident's folder, being written or read."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    def create(cls, manifest: Manifest, run_text: str, path: Path | None = None) -> "Bundle":
        """Make the folder of a new incident.

        Raises:
            UsageError: `path` cannot be made or written to, or already holds something.
            BundleError: the same of the folder where bundles go unless told otherwise.
        """
        stamp = manifest.started.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        folder = path if path is not None else _unused(default_root() / manifest.run / stamp)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise UsageError(f"{folder} is not empty", "give another folder with --bundle")
            write_whole(folder / "run.toml", run_text.encode())
            write_whole(folder / "manifest.json", msgspec.json.format(msgspec.json.encode(manifest)))
        except OSError as error:
            failure = BundleError if path is None else UsageError
            why = f"cannot write the bundle {folder}: {error.strerror}"
            raise failure(why, "give another folder with --bundle") from error
        return cls(folder, manifest)

    @classmethod
    def open(cls, path: Path) -> "Bundle":
        """Open a bundle to replay it.

        Raises:
            UsageError: the folder is no bundle, or one of a schema that this version does not know.
        """
        try:
            manifest = msgspec.json.decode(read_kept(path / "manifest.json"), type=Manifest)
        except OSError as error:
            why = f"{path} is no bundle: manifest.json: {error.strerror}"
            raise UsageError(why, "give the folder that a triage names as BUNDLE") from error
        except msgspec.DecodeError as error:
            raise UsageError(f"{path / 'manifest.json'}: {error}") from error
        if manifest.schema != SCHEMA:
            raise UsageError(f"{path}: {manifest.schema} is not a bundle that oncall {__version__} reads ({SCHEMA})")
        return cls(path, manifest)

    def probe_folder(self, probe: str, asked: Iterable[str]) -> ProbeFolder:
        """A new folder for a turn of a probe."""
        return ProbeFolder(self.path, probe, tuple(asked))

    def evidence(self, probe: str) -> Evidence | None:
        """The newest turn of a probe, or None where it never ran. One that does not tell who was asked is none."""
        for _, folder in sorted(turns(self.path / "evidence" / probe).items(), reverse=True):
            with suppress(OSError, msgspec.DecodeError):
                asked = msgspec.json.decode(read_kept(folder / "asked.json"), type=tuple[str, ...])
                answers = map(self._with_its_file, read_answers(folder / "index.jsonl"))
                return Evidence(probe, self.path, asked, {answer.host: answer for answer in answers})
        return None

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
        append_line(self.path / "events.jsonl", msgspec.json.encode(event))

    def choose(self, playbook: str) -> None:
        """Remember which playbook was chosen, so that a replay walks the same. A full disk leaves it to be chosen."""
        self.manifest = msgspec.structs.replace(self.manifest, playbook=playbook)
        with suppress(OSError):
            self.write("manifest.json", msgspec.json.format(msgspec.json.encode(self.manifest)))

    def write(self, name: str, data: bytes) -> None:
        """Keep one more file of the incident, whole or not at all."""
        write_whole(self.path / name, data)

    def read_text(self, name: str) -> str | None:
        """A file of the bundle, or None where it has none. What is not UTF-8, as where a crash cut it, is replaced.

        Raises UsageError where the file cannot be read.
        """
        try:
            return read_kept(self.path / name).decode("utf-8", "replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageError(f"{self.path / name}: {error.strerror}") from error


def _unused(folder: Path) -> Path:
    candidate, number = folder, 2
    while candidate.exists():
        candidate, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return candidate
