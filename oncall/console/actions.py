"""Everything the operator can do: one table for keys, footer, palette and help."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from textual.binding import Binding


@dataclass(frozen=True, slots=True)
class Command:
    """One thing to do.

    `action` is Textual's name of it; `keys` are all its keys, the first being shown. `label` stands in the footer of
    the screens named in `footer` ("*" is every screen), `help` in the help and the palette. `acts` marks what
    `--read-only` removes, `asks` what needs nodes that answer.
    """

    action: str
    keys: str
    label: str
    help: str
    footer: frozenset[str] = frozenset()
    shown: str | None = None
    acts: bool = False
    asks: bool = False
    guided: bool = False
    guided_label: str | None = None

    @property
    def key(self) -> str:
        """The key as a person reads it."""
        return self.shown or self.keys.split(",")[0]


def _on(*screens: str) -> frozenset[str]:
    return frozenset(screens)


ANYWHERE = frozenset({"out", "theme", "quit"})
"""Actions that work where no triage is shown, too."""
EVERYWHERE = "*"
GUIDED = "incident, guided"
DETAILS = ("stacks", "flight", "metrics", "hardware", "nodes", "timeline", "compare", "raw")

COMMANDS: tuple[Command, ...] = (
    Command("show('incident')", "1", "incident", "the incident: what it is, what to do, why"),
    Command("show('stacks')", "2", "stacks", "where every rank stands, as one call tree", _on("incident")),
    Command("show('flight')", "3,f", "flight rec.", "the collectives that hang, rank by rank", _on("incident")),
    Command("show('metrics')", "4,m", "metrics", "the queries side by side, each with its verdict", _on("incident")),
    Command("show('hardware')", "5", "hardware", "what the kernels reported, and what each Xid means"),
    Command("show('nodes')", "6", "nodes", "who answered, who did not, and why"),
    Command("show('timeline')", "7,t", "timeline", "everything that happened, in order; your notes"),
    Command("screen.copy", "y", "copy", "copy the command or text under the cursor", _on(EVERYWHERE)),
    Command(
        "screen.act",
        "x",
        "run",
        "run the action under the cursor, after you typed the host's name",
        _on("incident"),
        acts=True,
    ),
    Command(
        "screen.open",
        "enter",
        "open",
        "open what is under the cursor; in guided mode, confirm the verdict",
        _on("stacks", "flight", GUIDED),
        shown="↵",
        guided_label="confirm",
    ),
    Command(
        "screen.filter",
        "slash",
        "filter",
        "show only the rows that hold a text",
        _on("stacks", "flight", "hardware", "nodes", "timeline"),
        shown="/",
    ),
    Command(
        "guide",
        "g",
        "guide",
        "walk step by step: confirm or overrule each verdict",
        _on("incident", GUIDED),
        guided_label="by itself",
    ),
    Command("screen.overrule", "o", "overrule", "give your own verdict, and why", _on(GUIDED), guided=True),
    Command("step_back", "b", "back", "take the last step back, and go on step by step", _on(GUIDED)),
    Command("again", "r", "again", "ask the nodes again: this step, one probe, or all anew", _on(GUIDED), asks=True),
    Command("screen.retry", "R", "retry", "ask this node again", _on("nodes"), asks=True),
    Command("playbook", "p", "playbook", "walk another playbook on the same evidence"),
    Command("compare", "c", "compare", "what changed since the triage before this one"),
    Command("screen.side_by_side", "d", "beside", "lay two stacks side by side: mark one, then another", _on("stacks")),
    Command("screen.note", "n", "note", "write a note into the timeline", _on("timeline")),
    Command("screen.summary", "s", "summary", "save the incident as Markdown for a chat, and copy it", _on("incident")),
    Command("screen.export", "e", "export", "save this screen as text"),
    Command("theme", "T", "light/dark", "change between light and dark"),
    Command(
        "screen.help",
        "question_mark,f1",
        "help",
        "what the focused pane shows, and all keys",
        _on(EVERYWHERE),
        shown="?",
    ),
    Command("out", "escape", "out", "one level out", _on(*DETAILS), shown="esc"),
    Command("quit", "q,ctrl+c", "quit", "leave; what was gathered is kept"),
)


def bindings() -> list[Binding]:
    """The key bindings of the application; ctrl+c works in dialogs and while a text is typed, too."""
    return [
        Binding(key, each.action, each.label, show=bool(each.footer), key_display=each.key, priority=key == "ctrl+c")
        for each in COMMANDS
        for key in each.keys.split(",")
    ]


def footer(screen: str, *, read_only: bool, live: bool, guided: bool) -> Iterator[Command]:
    """What the footer of a screen shows, in order; the incident has another one in guided mode."""
    place = GUIDED if guided and screen == "incident" else screen
    for command in COMMANDS:
        if command.footer & {place, EVERYWHERE} and allowed(command, read_only=read_only, live=live, guided=guided):
            yield replace(command, label=command.guided_label or command.label) if place == GUIDED else command


def allowed(command: Command, *, read_only: bool, live: bool, guided: bool) -> bool:
    """Whether a command can be given now."""
    return not (command.acts and read_only) and not (command.asks and not live) and not (command.guided and not guided)


def by_action(action: str, commands: Iterable[Command] = COMMANDS) -> Command | None:
    """The command of an action's name, without its parameters."""
    name = action.rpartition(".")[2]
    return next((each for each in commands if each.action.partition("(")[0].rpartition(".")[2] == name), None)
