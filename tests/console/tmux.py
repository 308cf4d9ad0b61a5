"""A real terminal to run programs in: tmux, on a server of its own."""

import os
import shlex
import subprocess
import time
from pathlib import Path

_PATIENCE_S = 60.0

REPLAY = """
import sys
from pathlib import Path
from oncall.bundle.store import Bundle
from oncall.console.app import run_console
sys.exit(run_console(Bundle.open(Path(sys.argv[1])), live=False))
"""
"""A program that opens the console on the bundle that it is given."""


class Tmux:
    """One tmux server of its own, with one window of 100 by 30."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "tmux"
        self._environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        self._environment.pop("TMUX", None)
        self._run("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", "sh")

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *arguments], env=self._environment, check=True, capture_output=True, text=True
        )
        return done.stdout

    def start(self, *command: object) -> None:
        """Run a program; when it ends the shell says so."""
        line = shlex.join(map(str, command))
        self._run("send-keys", f"{line}; echo ended:$?", "Enter")

    def keys(self, *keys: str) -> None:
        """Press keys."""
        self._run("send-keys", *keys)

    @property
    def screen(self) -> str:
        """What stands in the window."""
        return self._run("capture-pane", "-p")

    @property
    def buffer(self) -> str:
        """What was copied."""
        return self._run("show-buffer")

    @property
    def alternate(self) -> bool:
        """Whether a full-screen program holds the terminal."""
        return self._told("alternate_on") == "1"

    @property
    def title(self) -> str:
        """The title of the window, which a program may set."""
        return self._told("pane_title")

    @property
    def buffers(self) -> str:
        """What programs have copied, by name."""
        return self._run("list-buffers")

    @property
    def as_it_was(self) -> bool:
        """Whether the terminal is as a shell expects it: no full screen, no mouse, a cursor, lines and echo."""
        flags = self._told("alternate_on"), self._told("mouse_any_flag"), self._told("cursor_flag")
        device = self._told("pane_tty")
        modes = subprocess.run(["stty", "-F", device, "-a"], check=True, capture_output=True, text=True).stdout.split()
        return flags == ("0", "0", "1") and {"echo", "icanon", "isig", "icrnl"} <= {mode.rstrip(";") for mode in modes}

    def _told(self, what: str) -> str:
        return self._run("display-message", "-p", f"#{{{what}}}").strip()

    def until(self, *texts: str) -> str:
        """Wait until all of these texts stand there; returns the screen."""
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            screen = self.screen
            if all(text in screen for text in texts):
                return screen
            time.sleep(0.05)
        raise AssertionError(f"{texts!r} did not appear:\n{self.screen}")

    def child(self) -> int:
        """The process id of the program in the window."""
        shell = self._told("pane_pid")
        done = subprocess.run(["pgrep", "-P", shell], check=True, capture_output=True, text=True)
        return int(done.stdout.split()[0])

    def close(self) -> None:
        """End the server and all in it."""
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], check=False, capture_output=True)


def script(folder: Path, text: str) -> Path:
    """A Python program in a file."""
    path = folder / "program.py"
    path.write_text(text)
    return path
