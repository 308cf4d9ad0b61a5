"""The command palette: every command of the table by its name."""

from collections.abc import Awaitable, Callable

from textual.command import DiscoveryHit, Hit, Hits, Provider

from oncall.console.actions import COMMANDS


class Commands(Provider):
    """All that a key does."""

    async def discover(self) -> Hits:
        """Everything, before anything is typed."""
        for command in COMMANDS:
            yield DiscoveryHit(f"{command.label}  ({command.key})", self._run(command.action), help=command.help)

    async def search(self, query: str) -> Hits:
        """What matches the text."""
        matcher = self.matcher(query)
        for command in COMMANDS:
            score = matcher.match(f"{command.label} {command.help}")
            if score > 0:
                shown = f"{command.label}  ({command.key})"
                yield Hit(score, shown, self._run(command.action), help=command.help)

    def _run(self, action: str) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            await self.app.run_action(action)

        return run
