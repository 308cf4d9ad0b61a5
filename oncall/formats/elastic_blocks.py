"""torchrun messages of several lines: the rendezvous result and the ChildFailedError table."""

import re
import signal

from oncall.formats.envelope import Message, read_message
from oncall.formats.event import Json
from oncall.formats.lines import Line, Log
from oncall.formats.outcome import Near, Outcome, block
from oncall.run.numbers import whole

_SETTING = re.compile(r"(?P<key>\w+)=(?P<value>.*)$")
_ROLE = re.compile(r"\[(?P<role>[^\]]+)\] Rendezvous complete")
_DOUBLE_RULE = re.compile(r"\s*={20,}\s*$")
_ENTRY = re.compile(r"\s*\[\d+\]:\s*$")
_FIELD = re.compile(r"\s*(?P<key>time|host|rank|exitcode|error_file|traceback)\s*: (?P<value>.*)$")
_RANK = re.compile(r"(?P<rank>\d+) \(local_rank: (?P<local>\d+)\)")
_EXIT = re.compile(r"(?P<code>-?\d+) \(pid: (?P<pid>\d+)\)")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)_(\d\d:\d\d:\d\d)")


def _numbers(text: str) -> list[Json]:
    return [int(part) for part in text.strip("[]").split(",") if part.strip().isdigit()]


def rendezvous(line: Line, message: Message, log: Log, agent: dict[str, Json]) -> Outcome:
    """`Rendezvous complete for workers. Result:` and the `key=value` lines under it.

    The lines are indented; PyTorch 2.13 puts the header of the first one before each.
    """
    said: dict[str, str] = {}
    last = line
    for after in log.following(line):
        below = read_message(after.text)
        setting = _SETTING.match(below.text)
        if setting is None or not (below.source == message.source or after.text[:1].isspace()):
            break
        said[setting["key"]] = setting["value"].strip()
        last = after
    role = _ROLE.search(message.text)
    sizes = _numbers(said.get("global_world_sizes", ""))
    counts = {
        name: whole(said[name]) if said.get(name, "").isdigit() else None
        for name in ("restart_count", "master_port", "group_rank", "group_world_size")
    }
    return block(
        "elastic_rendezvous",
        line,
        last,
        log,
        **agent,
        role=role["role"] if role else None,
        master_addr=said.get("master_addr"),
        **counts,
        global_ranks=_numbers(said["global_ranks"]) if "global_ranks" in said else None,
        world_size=sizes[0] if sizes else None,
    )


def _failure(said: dict[str, str]) -> dict[str, Json]:
    rank = _RANK.match(said.get("rank", ""))
    ended = _EXIT.match(said.get("exitcode", ""))
    time = _TIME.match(said.get("time", ""))
    told = said.get("traceback", "")
    code = int(ended["code"]) if ended else None
    try:
        name = signal.Signals(-code).name if code is not None and code < 0 else None
    except ValueError:
        name = None
    return {
        "rank": whole(rank["rank"]) if rank else None,
        "local_rank": whole(rank["local"]) if rank else None,
        "exitcode": code,
        "signal": name,
        "pid": whole(ended["pid"]) if ended else None,
        "host": said.get("host"),
        "time": f"{time[1]}T{time[2]}" if time else None,
        "error": None if told.startswith("To enable traceback") else told or None,
    }


class _Table:
    """Collects the entries of the table; `into` is the part under way."""

    def __init__(self, whole_table: bool) -> None:
        self.others: list[dict[str, str]] = []
        self.roots: list[dict[str, str]] = []
        self.entrypoint: str | None = None
        self._into = self.others if whole_table else self.roots

    def feed(self, text: str) -> None:
        """Take a line between the double rules."""
        said = text.strip()
        if said.startswith("Root Cause"):
            self._into = self.roots
        elif _ENTRY.match(text):
            self._into.append({})
        elif self._into and (field := _FIELD.match(text)):
            self._into[-1][field["key"]] = field["value"].strip()
        elif self._into and "traceback" in self._into[-1]:
            self._into[-1]["traceback"] = said if said.strip("-") else self._into[-1]["traceback"]
        elif said.endswith(" FAILED"):
            self.entrypoint = said.removesuffix(" FAILED")


def failure_summary(line: Line, log: Log) -> Outcome:
    """The table under `ChildFailedError:`: other failures first, the root cause last.

    A log cut so that it starts inside the table still gives the root cause; `others` is then None.
    """
    heads = line.text.rstrip().endswith("ChildFailedError:")
    if not heads and not line.text.lstrip().startswith("Root Cause"):
        return None
    first: Line | None = None if heads else line
    last = line
    table = _Table(heads)
    for after in log.following(line):
        if not _DOUBLE_RULE.match(after.text):
            table.feed(after.text)
            continue
        last = after
        if first is not None:
            break
        first = after
    if first is None or not table.roots:
        return Near.MISS
    others: Json = [_failure(said) for said in table.others] if heads else None
    root = _failure(table.roots[0])
    return block(
        "elastic_failure_summary", first, last, log, entrypoint=table.entrypoint, root_cause=root, others=others
    )
