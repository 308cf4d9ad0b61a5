"""What still comes while the console closes: its screens are gone by then, its timer and the walk go on."""

from collections.abc import Callable

import pytest

from oncall.bundle.store import Bundle
from oncall.console.app import BundleConsole
from oncall.console.host import Heard
from oncall.console.told import RawText

from .conftest import ConsoleOf
from .waiting import until


@pytest.mark.parametrize(
    "late",
    [
        lambda console: console._tick(),
        lambda console: console.tell("late"),
        lambda console: console.on_heard(Heard(console._session, console.snapshot)),
        lambda console: console.on_heard(Heard(console._session, RawText("late", ("late",)))),
        lambda console: console.check_action("copy", ()),
    ],
    ids=["a tick", "a word to the operator", "a snapshot", "a raw text", "a key"],
)
async def test_what_comes_too_late_is_let_be(
    late: Callable[[BundleConsole], object], incident: Callable[[str], Bundle], console_of: ConsoleOf
) -> None:
    console = console_of(incident("hang-by-code"))
    leave, screens_then = console.leave_bundle, []

    def late_then_leave() -> None:
        screens_then.append(list(console.screen_stack))
        late(console)
        leave()

    async with console.run_test() as pilot:
        await until(pilot, lambda: console.snapshot.report)
        console.leave_bundle = late_then_leave  # type: ignore[method-assign]
    assert screens_then == [[]]
    assert console.screen_stack == []
