"""A probe's raw answer: what each node said, when, and why some said nothing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from os import SEEK_END
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from oncall.run.nodes import fold_hosts
from oncall.run.numbers import whole

_END = "end"
"""The name of the last part that every script prints."""
_TAIL_BYTES = 256

QUERIES = frozenset({"metrics", "baseline", "alerts"})
"""Probes that are put to a server instead of the nodes: who is asked by name is not a host but a query."""


def answerers(probe: str) -> str:
    """What answers a probe: `nodes`, or `queries` where it is put to a server."""
    return "queries" if probe in QUERIES else "nodes"


class Outcome(StrEnum):
    """How asking one node ended. Only `OK` is an answer; `PARTIAL` holds what came before the deadline."""

    OK = "ok"
    PARTIAL = "partial"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    DENIED = "denied"
    UNTRUSTED = "host key not trusted"
    TIMED_OUT = "timed out"
    FAILED = "failed"
    CANCELLED = "cancelled"


class NodeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How one node answered one probe.

    `file` is the raw standard output, relative to the bundle, None where there is none. `boundary` is the random word
    that separates its parts. `started` is UTC; `took_s` in seconds; `reason` explains every outcome but `OK`.
    """

    host: str
    outcome: Outcome
    started: datetime
    took_s: float
    reason: str | None = None
    exit_code: int | None = None
    stderr: str = ""
    boundary: str = ""
    file: str | None = None

    @property
    def whole(self) -> bool:
        """Whether the node answered in full."""
        return self.outcome is Outcome.OK


@dataclass(frozen=True, slots=True)
class Part:
    """One named piece of a node's answer, with its attributes, byte for byte as it came."""

    name: str
    attributes: Mapping[str, str]
    data: bytes

    def number(self, name: str) -> int | None:
        """An attribute as a whole number; None where it is absent or is none."""
        return whole(self.attributes.get(name))

    @property
    def text(self) -> str:
        """The bytes as text; what is not UTF-8 is replaced."""
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of those asked answered, and for each that did not, why. `of` is what they are: nodes or queries."""

    asked: tuple[str, ...]
    missing: Mapping[str, str]
    of: str = "nodes"

    @property
    def answered(self) -> tuple[str, ...]:
        """The hosts that answered in full, in the order asked."""
        return tuple(host for host in self.asked if host not in self.missing)

    @property
    def complete(self) -> bool:
        """Whether every host that was asked answered."""
        return bool(self.asked) and not self.missing

    def describe(self) -> str:
        """`127 of 128 nodes answered; node091: timed out`, with equal reasons folded."""
        text = f"{len(self.answered)} of {len(self.asked)} {self.of} answered"
        return "; ".join([text, *by_reason(self.missing)])


def by_reason(missing: Mapping[str, str]) -> list[str]:
    """`node[001-036]: timed out`: those that did not answer, with equal reasons folded, in the order of the first."""
    reasons: dict[str, list[str]] = {}
    for host, reason in missing.items():
        reasons.setdefault(reason, []).append(host)
    return [f"{fold_hosts(hosts)}: {reason}" for reason, hosts in reasons.items()]


@dataclass(frozen=True)
class Evidence:
    """All nodes' answers to one probe. Raw bytes stay in the bundle and are read when a reading asks for them."""

    probe: str
    folder: Path
    asked: tuple[str, ...]
    answers: Mapping[str, NodeAnswer]

    @cached_property
    def coverage(self) -> Coverage:
        """Who answered in full. A node that was asked and has no answer yet counts as missing.

        An answer without its end was cut short, whatever its outcome says.
        """
        missing = {}
        for host in self.asked:
            answer = self.answers.get(host)
            if answer is None:
                missing[host] = "no answer yet"
            elif not answer.whole:
                missing[host] = answer.reason or str(answer.outcome)
            elif not self._ends(answer):
                missing[host] = "its answer was cut short"
        return Coverage(self.asked, missing, answerers(self.probe))

    def why_cut(self, host: str) -> str | None:
        """Why what came from a node is not all of its answer; None where it is, or where nothing came."""
        answer = self.answers.get(host)
        return self.coverage.missing.get(host) if answer is not None and answer.file is not None else None

    def parts(self, host: str) -> tuple[Part, ...]:
        """The pieces of one node's answer, whatever arrived of it; empty for a node that sent nothing."""
        answer = self.answers.get(host)
        if answer is None or answer.file is None:
            return ()
        return tuple(split_parts((self.folder / answer.file).read_bytes(), answer.boundary))

    def whole_parts(self, host: str) -> tuple[Part, ...]:
        """The pieces of one node's answer that came to their end: of a number that broke off half would mislead."""
        return self.parts(host)[:-1] if self.why_cut(host) else self.parts(host)

    def all_parts(self, name: str, *, cut: bool = False) -> Iterator[tuple[str, Part]]:
        """Each host's pieces of one name, hosts in the order asked; with `cut` those too that broke off."""
        for host in self.asked:
            for part in self.parts(host) if cut else self.whole_parts(host):
                if part.name == name:
                    yield host, part

    def _ends(self, answer: NodeAnswer) -> bool:
        """Whether an answer has its end: of a script the part that says so, of a server the end of its JSON."""
        if answer.file is None:
            return False
        with (self.folder / answer.file).open("rb") as stream:
            stream.seek(-min(_TAIL_BYTES, stream.seek(0, SEEK_END)), SEEK_END)
            tail = stream.read().rstrip()
        return tail.endswith((b"}", b"]") if self.probe in QUERIES else f"{answer.boundary}\t{_END}".encode())


def split_parts(raw: bytes, boundary: str) -> Iterator[Part]:
    """Take a node's output apart at the boundary lines `\\n<boundary>\\t<name>[\\t<key>=<value>]*\\n`.

    What stands before the first of them (banners, the noise of shell start-up files) belongs to no part. Values are
    percent-encoded. The last part is named `end`; an answer without it was cut short.
    """
    if not boundary:
        return
    marker = b"\n" + boundary.encode() + b"\t"
    for chunk in (b"\n" + raw).split(marker)[1:]:
        header, _, data = chunk.partition(b"\n")
        name, *pairs = header.decode("utf-8", "replace").split("\t")
        attributes = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        yield Part(name, {key: unquote(value) for key, value in attributes.items()}, data)


def join_part(part: Part, boundary: str) -> bytes:
    """One piece as `split_parts` takes it apart."""
    pairs = "".join(f"\t{key}={quote(value, safe='')}" for key, value in part.attributes.items())
    return f"\n{boundary}\t{part.name}{pairs}\n".encode() + part.data
