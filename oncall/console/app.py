"""Opens the console on a bundle, or on a choice of recorded incidents."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import ClassVar

from textual.screen import Screen

from oncall.bundle.store import Bundle
from oncall.console.console import Console
from oncall.console.host import Looks
from oncall.console.screens.incident import IncidentScreen
from oncall.console.screens.picker import PickerScreen
from oncall.console.snapshot import Snapshot, Start
from oncall.errors import OncallError


class BundleConsole(Console):
    """The console on one bundle."""

    def __init__(
        self, bundle: Bundle, first: Snapshot, looks: Looks | None = None, *, deadline_s: float | None = None
    ) -> None:
        super().__init__(looks, deadline_s=deadline_s)
        self.bundle, self.snapshot = bundle, first

    def get_default_screen(self) -> Screen[None]:
        """The incident."""
        return IncidentScreen()

    def on_mount(self) -> None:
        """Begin the triage once the first picture stands."""
        super().on_mount()
        self.open_bundle(self.bundle, self.snapshot)


class DemoConsole(Console):
    """The console on a choice of recorded incidents. What is opened is a copy, so that nothing recorded changes."""

    CSS_PATH: ClassVar[list[str | PurePath]] = [*Console.CSS_PATH, Path(__file__).parent / "screens/picker.tcss"]

    def __init__(self, incidents: Mapping[str, tuple[str, Bundle]], folder: Path, looks: Looks | None = None) -> None:
        super().__init__(looks)
        self._incidents = incidents
        self._folder = folder

    def get_default_screen(self) -> Screen[None]:
        """The choice."""
        return PickerScreen({name: title for name, (title, _) in self._incidents.items()})

    def on_picker_screen_chosen(self, event: PickerScreen.Chosen) -> None:
        """Show a copy of one incident."""
        name = event.name
        bundle = _copied(self._incidents[name][1], self._folder / name)
        self.open_bundle(bundle, first_snapshot(bundle, live=False, read_only=True))
        self.push_screen(IncidentScreen())


def first_snapshot(
    bundle: Bundle, *, live: bool, read_only: bool, guide: bool = False, hosts: int | None = None
) -> Snapshot:
    """What is known before anything is read; `hosts` is how many nodes the run has."""
    start = Start(
        run=bundle.manifest.run,
        started=bundle.manifest.started,
        bundle=str(bundle.path),
        live=live,
        read_only=read_only,
    )
    return Snapshot(start, guided=guide, hosts=hosts)


def _copied(bundle: Bundle, folder: Path) -> Bundle:
    if not folder.exists():
        shutil.copytree(bundle.path, folder)
    return Bundle.open(folder)


def run_console(
    bundle: Bundle,
    *,
    live: bool,
    hosts: int | None = None,
    read_only: bool = False,
    guide: bool = False,
    ascii_signs: bool = False,
    deadline_s: float | None = None,
) -> int:
    """Show a triage until the operator leaves; returns the exit code of the program.

    `live` asks the nodes of the bundle's run, `hosts` of them; without it the bundle's own evidence is walked.
    `read_only` takes away running actions, `guide` begins step by step.
    """
    first = first_snapshot(bundle, live=live, read_only=read_only, guide=guide, hosts=hosts)
    console = BundleConsole(bundle, first, Looks(ascii_signs=ascii_signs), deadline_s=deadline_s)
    return _run(console)


def run_demo(incidents: Mapping[str, tuple[str, Bundle]], *, ascii_signs: bool = False) -> int:
    """Show a recorded incident, or of several a choice, name → (title, bundle); returns the program's exit code.

    Notes and overruled steps live in copies that are gone when it ends; no action can be run.
    """
    with tempfile.TemporaryDirectory(prefix="oncall-demo-") as folder:
        if len(incidents) == 1:
            ((_, bundle),) = incidents.values()
            copy = _copied(bundle, Path(folder) / "incident")
            return run_console(copy, live=False, read_only=True, ascii_signs=ascii_signs)
        return _run(DemoConsole(incidents, Path(folder), Looks(ascii_signs=ascii_signs)))


def _run(console: Console) -> int:
    left_with = console.run()
    if console.failure is not None:
        cause = f"the console failed: {type(console.failure).__name__}: {console.failure}"
        raise OncallError(cause, f"what was gathered is kept; `oncall replay {console.bundle.path} --triage` reads it")
    return left_with if left_with is not None else console.return_code or 0
