"""A real terminal to run programs in: tmux, on a server of its own."""

import os
import shlex
import subprocess
import time
from pathlib import Path

_PATIENCE_S = 60.0


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
        return self._run("display-message", "-p", "#{alternate_on}").strip() == "1"

    def until(self, text: str) -> str:
        """Wait for a text; returns the screen."""
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            screen = self.screen
            if text in screen:
                return screen
            time.sleep(0.05)
        raise AssertionError(f"{text!r} did not appear:\n{self.screen}")

    def child(self) -> int:
        """The process id of the program in the window."""
        shell = self._run("display-message", "-p", "#{pane_pid}").strip()
        done = subprocess.run(["pgrep", "-P", shell], check=True, capture_output=True, text=True)
        return int(done.stdout.split()[0])

    def close(self) -> None:
        """End the server and all in it."""
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], check=False, capture_output=True)
