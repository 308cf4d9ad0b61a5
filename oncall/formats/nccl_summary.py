"""What the NCCL and torchrun events of one incident mean together: who timed out, who never came, where to look."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oncall.formats.event import Event, Json

IB_STATUS = {
    4: "local protection error: memory registration of this process",
    5: "flushed: fallout of an earlier error",
    9: "remote invalid request: far side's queue or message size",
    10: "remote access error: far side's memory registration",
    11: "remote operation error: far side's NIC",
    12: "transport retries exhausted: link, switch or far side",
    13: "receiver not ready retries exhausted: far side is alive and does not post receives",
}
"""Work completion status → what to think of first (ibv_wc_status of rdma-core, libibverbs/verbs.h)."""

_TROUBLE = frozenset(
    {
        "dump_signal",
        "dump_signal_observed",
        "heartbeat_timeout",
        "heartbeat_stuck",
        "desync_report",
        "process_terminate",
    }
    | {
        "watchdog_terminated",
        "nccl_error",
        "nccl_async_error",
        "nccl_ib_error",
        "nccl_socket_error",
        "slurm_task_exit",
        "gloo_error",
    }
    | {"elastic_worker_failed", "elastic_failure_summary", "elastic_dstate_stuck", "elastic_unkillable"}
    | {"elastic_death_signal", "elastic_signal_exception"}
)


@dataclass(frozen=True, slots=True)
class _Hit:
    """One rank's word that a collective failed or timed out; `group` is None where no line of that rank names it."""

    rank: int | None
    seq: int
    group: str | None
    desc: str | None
    event: Event


def _group(event: Event) -> str | None:
    """A key that ranks agree on: the GUID; before 2.5 the number, the same where ranks make their groups alike."""
    guid, number = event.text("pg_guid"), event.number("pg_id")
    return guid if guid is not None else None if number is None else str(number)


def _who(event: Event) -> int | None:
    told = event.number("global_rank")
    return told if told is not None else event.number("rank")


def _hits(events: Sequence[Event]) -> tuple[list[_Hit], list[_Hit]]:
    """The time-outs, and the failures that name a group; both earliest first."""
    named = {
        (each.number("rank"), each.number("seq")): each
        for each in reversed(events)
        if each.kind in {"watchdog_failure", "timeout_at_work"}
    }
    timeouts, failures = [], []
    for each in events:
        seq = each.number("seq")
        if seq is None:
            continue
        rank = _who(each)
        home = named.get((rank, seq))
        hit = _Hit(rank, seq, _group(home) if home else None, home.text("pg_desc") if home else None, each)
        if each.kind == "nccl_timeout" or (each.kind == "watchdog_terminated" and each.fields["cause"] == "timeout"):
            timeouts.append(hit)
        elif each.kind == "watchdog_failure":
            failures.append(hit)
    return _by_time(timeouts), _by_time(failures)


def _by_time(hits: list[_Hit]) -> list[_Hit]:
    """In order of time when every line has one; else in the order of files and lines."""
    if all(hit.event.text("ts") for hit in hits):
        return sorted(hits, key=lambda hit: hit.event.text("ts") or "")
    return hits


def _ranks(values: Iterable[int | None]) -> list[Json]:
    return [*sorted({value for value in values if value is not None})]


def _never_enqueued(events: Sequence[Event], first: _Hit) -> list[Json]:
    """Ranks whose dump-signal line says, of the same group, that they had not even enqueued the stuck work."""
    late = []
    for each in events:
        last = each.number("last_enqueued")
        same = first.group is not None and _group(each) == first.group
        if each.kind == "dump_signal" and same and last is not None and last < first.seq:
            late.append(each.number("rank"))
    return _ranks(late)


def _stuck_collective(events: Sequence[Event], timeouts: list[_Hit], failures: list[_Hit]) -> dict[str, Json]:
    hits = timeouts or failures
    if not hits:
        return {}
    first = hits[0]
    same = [hit for hit in hits + failures if hit.seq == first.seq and hit.group == first.group]
    op = next((hit.event.text("op") for hit in timeouts if hit.seq == first.seq and hit.event.text("op")), None)
    one = {hit.event.number(name) for hit in timeouts[:1] for name in ("numel_in", "numel_out")} == {1}
    said: dict[str, Json] = {
        "seq": first.seq,
        "stuck_seq": first.seq,
        "op": op,
        "stuck_group": {"guid": first.group, "desc": first.desc} if first.group is not None else None,
        "first_group": first.desc or first.group,
        "never_enqueued": _never_enqueued(events, first) or None,
        "looks_like": "barrier (one element)" if one and op == "ALLREDUCE" else None,
        "runahead": _runahead(failures, first),
    }
    reporters = {hit.rank for hit in same}
    if len(reporters) == 1:
        inside = next((hit.event.number("pg_rank") for hit in failures if hit in same), None)
        said |= {"global_rank": first.rank, "group_rank": inside}
    return said


def _runahead(failures: list[_Hit], first: _Hit) -> Json:
    """For each rank how many works of the stuck group it had enqueued beyond the stuck one."""
    ahead: dict[str, Json] = {}
    for hit in failures:
        last = hit.event.number("last_enqueued")
        if hit.seq == first.seq and hit.group == first.group and hit.rank is not None and last is not None:
            ahead[str(hit.rank)] = last - hit.seq
    return ahead or None


def _short(host: str) -> str:
    return host if host.replace(".", "").isdigit() or ":" in host else host.partition(".")[0]


def _nature(events: Sequence[Event], timed_out: bool, stuck: list[Json]) -> dict[str, Json]:
    if timed_out:
        return {"is_timeout": True}
    if stuck:
        return {"nature": "watchdog stuck, not a collective timeout", "ranks": stuck, "is_timeout": False}
    errors = [each for each in events if each.kind in {"nccl_async_error", "nccl_error"}]
    if not errors:
        return {}
    peer = next((each.text("peer") for each in errors if each.text("peer")), None)
    nature = f"peer died; look at {_short(peer)} first" if peer else "NCCL error, not a collective timeout"
    return {"nature": nature, "is_timeout": False}


def _agent(events: Sequence[Event]) -> dict[str, Json]:
    said: dict[str, Json] = {}
    if any(each.kind in {"elastic_dstate_stuck", "elastic_unkillable"} for each in events):
        said["action_hint"] = "drain_node"
    killed = {each.number("pid") for each in events if each.kind == "elastic_force_kill"}
    for each in events:
        root = each.fields.get("root_cause")
        if each.kind != "elastic_failure_summary" or not isinstance(root, dict):
            continue
        host = root["host"]
        if root["exitcode"] == -9 and root["pid"] not in killed and isinstance(host, str):
            where = _short(host)
            said["hint"] = f"exitcode -9 with no signal sent by the agent: look for the OOM killer on {where}"
    return said


def _suspects(events: Sequence[Event], collective: dict[str, Json]) -> list[Json]:
    """Who did not come: ranks that never enqueued the stuck work, and those that desync reports name."""
    named: list[Json] = []
    never = collective.get("never_enqueued")
    for ranks in [never, *(each.fields.get("lagging_ranks") for each in events)]:
        named += ranks if isinstance(ranks, list) else []
    return _ranks(rank for rank in named if isinstance(rank, int))


def _ib_meaning(events: Sequence[Event]) -> Json:
    codes = {each.number("status") for each in events if each.kind == "nccl_ib_error"}
    return {f"status {code}": text for code, text in IB_STATUS.items() if code in codes} or None


def summarise_nccl(events: Sequence[Event]) -> dict[str, Json]:
    """Sum up the events of all files of one incident. Only what follows from them is there; a missing key is not known.

    `incidents` counts distinct (group, sequence) that timed out or failed, not lines. Trouble that names no collective
    (a dump signal from elsewhere, a stuck watchdog, an NCCL error, a failed worker) counts 1 if there is nothing else.
    """
    timeouts, failures = _hits(events)
    collective = _stuck_collective(events, timeouts, failures)
    stuck = _ranks(each.number("rank") for each in events if each.kind in {"heartbeat_stuck", "heartbeat_timeout"})
    waited = [each.number("stuck_s") for each in events if each.kind == "heartbeat_stuck"]
    sources = _ranks(each.number("source_rank") for each in events if each.fields.get("source") == "remote")
    distinct = {(hit.group, hit.seq) for hit in timeouts + failures}
    said: dict[str, Json] = {
        "ranks_timed_out": _ranks(hit.rank for hit in timeouts) or None,
        **collective,
        "suspect_ranks": _suspects(events, collective) or None,
        "ranks_watchdog_stuck": stuck or None,
        "stuck_s": max((seconds for seconds in waited if seconds is not None), default=None),
        "source_rank": sources[0] if len(sources) == 1 else None,
        "meaning": _ib_meaning(events),
        **_nature(events, bool(timeouts), stuck),
        **_agent(events),
    }
    counted: dict[str, Json] = {"incidents": len(distinct) or int(any(each.kind in _TROUBLE for each in events))}
    return counted | {name: value for name, value in said.items() if value is not None}
