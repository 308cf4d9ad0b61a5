"""Explanations of Xid and SXid codes as text for a terminal."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping

from oncall.formats.xid_catalogue import FIRST_SXID, XidMeaning, lookup, lookup_sxid, source_names, sxid_unit
from oncall.neutral import neutral

_WIDTH = 100

_EFFECTS = {
    "info": "none on the job",
    "warn": "none yet; watch whether it returns",
    "job_fatal": "the job on that GPU dies or hangs; the node may be usable again",
    "node_fatal": "no job can use the GPU until somebody acts",
}
_ACTIONS = {
    "ignore": "nothing",
    "restart_app": "restart the job",
    "reset_gpu": "drain the node and reset the GPU",
    "drain_node": "drain the node and have it rebooted or looked at",
    "rma_check": "drain the node and have the GPU checked for replacement",
}
_LEVELS = {
    "soft": "leave the GPU alone or restart the job",
    "hard": "reset, reboot or inspect",
    "ask": "ask the vendor",
    "decode": "it depends on the fields of the line",
}


def code_text(code: int) -> str:
    """What one code means, its effect, what to do, whether to wake somebody, and what each source says."""
    return text_of(switch_lines(code) if code >= FIRST_SXID else xid_lines(code))


def text_of(lines: Iterable[str]) -> str:
    """Lines as one text, with what could move a terminal neutralised."""
    return "".join(f"{neutral(part)}\n" for line in lines for part in line.split("\n"))


def row(label: str, text: str) -> str:
    """A labelled line of an explanation, folded to the width."""
    return textwrap.fill(text, _WIDTH, initial_indent=f"  {label:<9} ", subsequent_indent=" " * 12)


def xid_lines(code: int) -> Iterator[str]:
    """The explanation of an Xid."""
    meaning = lookup(code)
    if meaning is None:
        yield f"Xid {code}: in no table"
        yield row("note", "Drivers newer than every table are in use. Take it seriously until its text says otherwise.")
        return
    yield f"Xid {code}: {meaning.meaning or 'reserved, no meaning published'} ({meaning.mnemonic})"
    yield from _judgement(meaning)
    yield from _source_lines(meaning.sources)
    if meaning.sources_disagree:
        yield row("disagree", "the sources do not agree on what to do:")
        for source, level in meaning.levels.items():
            yield row("", f"{source}: {_LEVELS[level]}")


def _judgement(meaning: XidMeaning) -> Iterator[str]:
    if meaning.cause_class is not None:
        yield row("class", meaning.cause_class)
    if meaning.severity is not None:
        yield row("effect", _EFFECTS[meaning.severity])
    if meaning.action is not None:
        yield row("do", _ACTIONS[meaning.action])
    yield row("page", page_words(meaning.page))
    if meaning.note is not None:
        yield row("note", meaning.note)
    if meaning.unused:
        yield row("note", "Listed as unused since Ampere, so that it appears at all is odd: show it to somebody.")


def page_words(page: bool | None) -> str:
    """Whether to wake somebody, in a word."""
    return "unknown" if page is None else "yes" if page else "no"


def _source_lines(sources: Mapping[str, str]) -> Iterator[str]:
    names = source_names()
    for source, advice in sources.items():
        yield row("source", f"{source}: {advice} ({names[source]})")


def switch_lines(code: int) -> Iterator[str]:
    """The explanation of an SXid."""
    meaning, unit = lookup_sxid(code), sxid_unit(code)
    if meaning is None:
        yield f"SXid {code}: in no table"
    else:
        yield f"SXid {code}: {meaning.meaning or 'only its name is published'} ({meaning.mnemonic})"
    yield row("unit", unit or "unknown")
    if meaning is None:
        return
    yield row("page", f"{page_words(meaning.page)}, unless the line itself says Fatal, Non-fatal or Correctable")
    if meaning.note is not None:
        yield row("note", meaning.note)
    yield from _source_lines(meaning.sources)
    if meaning.disagree:
        yield row("disagree", "the sources do not agree on what to do")
