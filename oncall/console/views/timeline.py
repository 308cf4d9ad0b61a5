"""What happened to the run and what this triage and its operator did, in the order of time."""

from collections.abc import Sequence
from datetime import datetime

from oncall.console.lines import NOTHING, Column, Row, Span, Tone, head_row, plain_row, say, table_spans
from oncall.console.snapshot import Snapshot
from oncall.console.views.headline import alert_words

_COLUMNS = (Column("UTC", 10), Column("from", 16), Column("what", 0))


def timeline_rows(snapshot: Snapshot) -> Sequence[Row]:
    """Moments of the run, its alerts, and what was done; the operator's own stand out."""
    known = snapshot.known
    told: list[tuple[datetime, str, str, Tone]] = [
        (each.at, each.source, each.text, Tone.STRONG) for each in (known.seen.timeline if known else ())
    ]
    told += [(each.since, "alert", alert_words(each), Tone.WARN) for each in (known.alerts if known else None) or ()]
    for line in snapshot.journal:
        tone = Tone.HERE if line.who == "operator" else Tone.PLAIN
        told.append((line.at, line.who, line.text, tone))
    told.sort(key=lambda each: each[0])
    rows = [head_row(_COLUMNS)]
    for index, (at, who, text, tone) in enumerate(told):
        cells = (Span(f"{at:%H:%M:%S}.{at.microsecond // 100_000}", Tone.DIM), say(who, Tone.DIM), say(text, tone))
        rows.append(Row(f"moment {index}", table_spans(_COLUMNS, cells), copies=f"{at:%Y-%m-%d %H:%M:%S} UTC {text}"))
    return rows if told else [plain_row(NOTHING, "nothing has happened yet", Tone.DIM)]
