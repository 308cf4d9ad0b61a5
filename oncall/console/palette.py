"""The command palette: every command of the table by its name."""

from collections.abc import Awaitable, Callable, Iterable

from textual.command import DiscoveryHit, Hit, Hits, Provider

from oncall.console.actions import ANYWHERE, COMMANDS, Command
from oncall.console.screens.triage import TriageScreen


class Commands(Provider):
    """All that a key does on the screen below, now."""

    def _offered(self) -> Iterable[Command]:
        if isinstance(self.screen, TriageScreen):
            return self.screen.commands()
        return (each for each in COMMANDS if each.action in ANYWHERE)

    async def discover(self) -> Hits:
        """Everything, before anything is typed."""
        for command in self._offered():
            yield DiscoveryHit(f"{command.label}  ({command.key})", self._run(command.action), help=command.help)

    async def search(self, query: str) -> Hits:
        """What matches the text."""
        matcher = self.matcher(query)
        for command in self._offered():
            score = matcher.match(f"{command.label} {command.help}")
            if score > 0:
                shown = f"{command.label}  ({command.key})"
                yield Hit(score, shown, self._run(command.action), help=command.help)

    def _run(self, action: str) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            await self.app.run_action(action)

        return run
