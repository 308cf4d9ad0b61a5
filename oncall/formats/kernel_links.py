"""What ties the events of one kernel log together: one loss told twice, details of a verdict, the UUID of a GPU."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from oncall.formats.event import Event, Json
from oncall.formats.kernel_sxid import DETAIL, orphan

GPU_LOST_XID = 79
GSP_RPC_XID = 119

_SAME_LOSS_S = 1.0
"""The driver prints an Xid 79 and the sentence without a number within a millisecond."""
_SAME_LOSS_LINES = 10
"""The same, where lines carry no time."""


@dataclass(slots=True)
class Draft:
    """An event while its log is still being read."""

    kind: str
    first_line: int
    last_line: int
    fields: dict[str, Json] = field(default_factory=dict)

    def close(self, file: str) -> Event:
        """The event, for good."""
        return Event(self.kind, file, self.first_line, self.last_line, self.fields)


def link(drafts: list[Draft]) -> list[Draft]:
    """The events of one log in line order, with what each tells about the others; detail lines are joined to theirs."""
    joined = _join_sxid_details(drafts)
    _name_gpus(joined)
    _pair_losses(joined)
    _count_rate_limited(joined)
    return joined


def _join_sxid_details(drafts: list[Draft]) -> list[Draft]:
    open_verdicts: dict[tuple[Json, Json], Draft] = {}
    joined: list[Draft] = []
    for draft in drafts:
        key = (draft.fields.get("pci"), draft.fields.get("sxid"))
        if draft.kind == DETAIL:
            verdict = open_verdicts.get(key)
            if verdict is None:
                draft.kind, draft.fields = "sxid", orphan(draft.fields)
                open_verdicts[key] = draft
                joined.append(draft)
            else:
                _add_detail(verdict, draft)
            continue
        if draft.kind == "sxid":
            open_verdicts[key] = draft
        joined.append(draft)
    return joined


def _add_detail(verdict: Draft, detail: Draft) -> None:
    for name in ("severity_code", "engine", "sub_engine"):
        if name in detail.fields:
            verdict.fields[name] = detail.fields[name]
    data = detail.fields.get("data")
    if isinstance(data, list):
        before = verdict.fields.setdefault("data", [])
        if isinstance(before, list):
            before.extend(data)


def _name_gpus(drafts: list[Draft]) -> None:
    """A GPU's UUID stands in the log once since boot, its serial on the line after it; both hold for the whole log."""
    uuids = {draft.fields["pci"]: draft.fields["uuid"] for draft in drafts if draft.kind == "gpu_uuid_map"}
    previous: Draft | None = None
    for draft in drafts:
        if draft.kind == "gpu_serial" and previous is not None and previous.kind == "gpu_uuid_map":
            draft.fields["pci"] = previous.fields["pci"]
        elif draft.kind in {"xid", "gpu_lost", "rm_init_failed"}:
            draft.fields["uuid"] = uuids.get(draft.fields["pci"])
        previous = draft


def _pair_losses(drafts: list[Draft]) -> None:
    losses: dict[Json, list[Draft]] = {}
    for draft in drafts:
        if draft.kind == "gpu_lost" or draft.fields.get("xid") == GPU_LOST_XID:
            losses.setdefault(draft.fields["pci"], []).append(draft)
    for same_gpu in losses.values():
        _pair_losses_of(same_gpu)


def _pair_losses_of(same_gpu: Sequence[Draft]) -> None:
    """A loss with a number beside it echoes that; alone it counts as 79 itself.

    What is near a loss begins no earlier than what was near the one before: one pass, whatever a storm prints.
    """
    numbered = _next_numbered(same_gpu)
    oldest = 0
    for at, lost in enumerate(same_gpu):
        while not _near(same_gpu[oldest], lost):
            oldest += 1
        if lost.kind != "gpu_lost":
            continue
        nearest = (same_gpu[n] for n in (numbered[oldest], numbered[at]) if n is not None)
        echoed = next((other for other in nearest if _near(lost, other)), None)
        lost.fields["implied_xid"] = GPU_LOST_XID if echoed is None else None
        first = echoed or (same_gpu[oldest] if oldest < at else None)
        lost.fields["same_incident_as_line"] = None if first is None else first.first_line


def _next_numbered(drafts: Sequence[Draft]) -> list[int | None]:
    """For each position that of the first draft from there on which is an Xid."""
    found: list[int | None] = []
    following: int | None = None
    for at in range(len(drafts) - 1, -1, -1):
        following = at if drafts[at].kind == "xid" else following
        found.append(following)
    return found[::-1]


def _near(one: Draft, other: Draft) -> bool:
    clocks = (one.fields.get("uptime_s"), other.fields.get("uptime_s"))
    if isinstance(clocks[0], float) and isinstance(clocks[1], float):
        return abs(clocks[0] - clocks[1]) <= _SAME_LOSS_S
    if one.fields.get("ts") is not None and other.fields.get("ts") is not None:
        return str(one.fields["ts"])[:19] == str(other.fields["ts"])[:19]
    return abs(one.first_line - other.first_line) <= _SAME_LOSS_LINES


def _count_rate_limited(drafts: list[Draft]) -> None:
    """Once the driver prints one of n GSP time-outs of a GPU, a line may stand for as many."""
    one_of: dict[Json, Json] = {}
    for draft in drafts:
        if draft.kind == "gsp_rate_limit":
            one_of[draft.fields["pci"]] = draft.fields["one_of_every"]
        elif draft.fields.get("xid") == GSP_RPC_XID and draft.fields["pci"] in one_of:
            draft.fields["stands_for_at_most"] = one_of[draft.fields["pci"]]
