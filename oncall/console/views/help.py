"""Help: what the screen shows, the pane with the focus, and every key."""

from collections.abc import Iterable

from oncall.console.actions import Command
from oncall.console.lines import Row, Span, Tone, heading, plain_row

_KEY = 12
_PANES = {
    "actions": "What to do, in order; below a text its command.",
    "playbook": "The steps as they were walked. A tick is decided, ? unknown, ! contradicted, a pen overruled by you.",
    "step": "The step under the tree's cursor: verdict, evidence, and the command that asks the same by hand.",
    "against": "What contradicts the answer, when to escalate, the job in one message, the alerts that fire.",
    "suspects": "Who began it, with one line a source. `not seen` is no good news.",
}


def help_rows(about: str, pane: str | None, commands: Iterable[Command]) -> list[Row]:
    """All of it; `commands` are those that can be given here and now."""
    rows = [plain_row("about", about)]
    if pane in _PANES:
        rows.append(plain_row("pane", _PANES[pane], Tone.HERE))
    rows.append(heading("keys"))
    rows += [_key(command) for command in commands]
    rows.append(
        _plain_key(
            "tab", "the next pane; arrows, page up and down, home and end move in it, left and right a wide table"
        )
    )
    rows.append(_plain_key("ctrl+p", "search all of these by name"))
    return rows


def _key(command: Command) -> Row:
    keys = command.keys.replace("question_mark", "?").replace("slash", "/").replace(",", " ")
    return _plain_key(keys, command.help)


def _plain_key(keys: str, text: str) -> Row:
    return Row(f"key {keys}", (Span(f"{keys:<{_KEY}}", Tone.HERE), Span(text)), hang=_KEY)
