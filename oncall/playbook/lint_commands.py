"""What must hold of a command or a query that a person is to paste."""

import difflib
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

from oncall.playbook.by_hand import FIELDS, Where, split
from oncall.run.strict import near
from oncall.signals.vocabulary import SIGNALS

_FIELD = re.compile(r"(?<![$\w\]])\{([a-z_]+)\}")
_PLACEHOLDER = re.compile(r"\b(?:PID|HOST|NODE|RANK)\b(?![=:)])")
"""Words in capitals that stand for what a person would have to know first; RANK= is an environment variable."""
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.")
_ANGLED = re.compile(r"(?<![<\w])<[A-Za-z](?:[\w -]*\w)?>")
_DOTS = re.compile(r"(?:^|\s)(?:\.{3}|…)(?=\s|$)")
_CURLED = re.compile("[\u2018\u2019\u201c\u201d]")
"""Quotes as a word processor sets them: a shell takes them for letters."""
_SAID = re.compile(r"\becho\b[^;|&)]*")
"""What a command says itself may be a sentence."""
_UNENDED = re.compile(r"(?:\||&&)\s*$")
_PROSE = frozenset(("the", "whether", "your", "its", "their", "this", "that", "which", "is", "are", "should", "please"))
"""Words of sentences that stand alone in no command."""
_NO_PROGRAM = frozenset(
    ("look", "check", "see", "inspect", "verify", "ensure", "compare", "ask", "call", "restart", "run", "go", "try")
)
"""Words with which a sentence begins and no shell command does. look(1) searches a dictionary."""
_ENDS = {"do": "done", "if": "fi", "case": "esac"}
_BRACKETS = {"(": ")", "[": "]", "{": "}"}

_PROMQL_QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`")
_SELECTED = re.compile(r"\{[^{}]*\}|\[[^\[\]]*\]")
_NAME = re.compile(r"(?<![\w:.])[A-Za-z_:][\w:]*")
_OPERATOR_ENDS = re.compile(r"(?:[-+*/%^,<>=]|==|!=|\b(?:and|or|unless|by|without|on|ignoring))\s*$", re.IGNORECASE)
_METRICS = frozenset(signal.metric for signal in SIGNALS.values())
_FAMILIES = ("train_", "DCGM_FI_", "node_")
_ALIKE = 0.92
"""A name of ten letters or more with one of them wrong; a site's own that differs in a word is less alike."""


def lint_by_hand(text: str) -> Iterator[str]:
    """What keeps a person without this program from pasting it, with the mend."""
    yield from _lint_fields(text)
    for command in split(_FIELD.sub(_filled, text)):
        if not command.text.strip():
            yield f"nothing stands after `{command.where}:`; give the command or query"
        elif command.where is Where.PROMETHEUS:
            yield from _lint_query(command.text)
        else:
            yield from _lint_shell(command.text.strip())


def unlisted_metrics(text: str) -> Iterator[str]:
    """The metrics of the trainer that a query names and that are in no table: a field that only this site writes."""
    for command in split(text):
        if command.where is Where.PROMETHEUS:
            yield from (name for name in _names(command.text) if name.startswith(_FAMILIES[0]) and name not in _METRICS)


def _lint_fields(text: str) -> Iterator[str]:
    for found in _FIELD.findall(text):
        if found not in FIELDS:
            there = ", ".join(f"`{{{field}}}`" for field in FIELDS)
            yield f"nothing fills `{{{found}}}` in a command{near(found, FIELDS) or f'; there are {there}'}"
    for word in _PLACEHOLDER.findall(text):
        yield f"`{word}` cannot be pasted; let the command find it, as in `$(pgrep -f python)`"


def _filled(found: re.Match[str]) -> str:
    """A field as what it may be filled with."""
    return f"/{found[1]}"


def _lint_shell(text: str) -> Iterator[str]:
    if curled := _CURLED.search(text):
        yield f"`{curled[0]}` is no quote to a shell; write ' or \""
    try:
        shlex.split(text)
    except ValueError as error:
        yield f"is no shell command: {str(error).lower()}; close what is opened"
        return
    bare = _QUOTED.sub("_", text)
    if angled := _ANGLED.search(bare):
        yield f"`{angled[0]}` cannot be pasted; let the command find it, as in `$(pgrep -f python)`"
    if _DOTS.search(bare):
        yield "`...` cannot be pasted; write the whole command"
    words = re.findall(r"[^\s;|&()]+", _SAID.sub("echo", bare))
    prose = not words or words[0] in _NO_PROGRAM or words[0].istitle()
    if prose or _PROSE & set(words):
        yield "is a sentence, no command; what a person reads goes to `ask` or `say`"
    elif _UNENDED.search(bare):
        yield "ends in the middle of a command; write the whole of it"
    yield from _unbalanced(bare, words)


def _unbalanced(bare: str, words: list[str]) -> Iterator[str]:
    if "case" not in words and bare.count("(") != bare.count(")"):
        yield "is no shell command: its round brackets do not pair; close what is opened"
    for begin, end in _ENDS.items():
        if words.count(begin) != words.count(end) and (begin != "if" or "elif" not in words):
            yield f"is no shell command: `{begin}` and `{end}` do not pair; close what is opened"


def _lint_query(query: str) -> Iterator[str]:
    bare = _PROMQL_QUOTED.sub('""', query)
    if '"' in bare.replace('""', "") or "'" in bare or "`" in bare:
        yield "is no PromQL: a quote is not closed"
        return
    if wrong := _wrong_bracket(bare):
        yield f"is no PromQL: {wrong}"
        return
    if _OPERATOR_ENDS.search(bare):
        yield "is no PromQL: it ends in the middle of an expression"
    for one, other in pairwise(_between(bare)):
        yield f"is no PromQL: nothing joins `{one}` and `{other}`"
    for name in _names(query):
        if name.startswith(_FAMILIES) and name not in _METRICS:
            for alike in difflib.get_close_matches(name, _METRICS, n=1, cutoff=_ALIKE):
                yield f"no exporter gives `{name}`; did you mean `{alike}`?"


def _wrong_bracket(bare: str) -> str | None:
    opened: list[str] = []
    for sign in bare:
        if sign in _BRACKETS:
            opened.append(sign)
        elif sign in _BRACKETS.values() and (not opened or _BRACKETS[opened.pop()] != sign):
            return f"`{sign}` closes nothing"
    return f"`{opened[-1]}` is not closed" if opened else None


_WORDS = frozenset(
    ("and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset")
)


def _between(bare: str) -> list[str]:
    """Of an expression that is words alone all of them: two metrics with nothing between them are no query."""
    outside = _SELECTED.sub("", bare)
    words = outside.split()
    plain = [word for word in words if _NAME.fullmatch(word) and word.lower() not in _WORDS]
    return plain if len(plain) == len(words) else []


def _names(query: str) -> Iterator[str]:
    """The names of metrics: words outside of matchers and ranges that call no function and are no keyword."""
    outside = _SELECTED.sub("", _PROMQL_QUOTED.sub('""', query))
    for found in _NAME.finditer(outside):
        calls = outside[found.end() :].lstrip().startswith("(")
        if not calls and found[0].lower() not in _WORDS:
            yield found[0]
