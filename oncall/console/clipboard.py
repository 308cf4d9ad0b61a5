"""Copies text out of the console: through tmux, by the terminal's own clipboard, or into a file, and says which."""

import os
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path

import platformdirs

_MOST_BYTES = 74_994
"""What xterm takes of one OSC 52 sequence (ctlseqs, OSC 52); longer ones are dropped without a word."""

_TMUX_DEADLINE_S = 2.0

_WITHOUT_CLIPBOARD = frozenset({"linux", "dumb", "vt100", "vt220", "ansi"})
"""Terminals, by TERM, that have no clipboard; Terminal.app has one and does not let programs write it."""


def copy(text: str, write: Callable[[str], None], environment: Mapping[str, str] = os.environ) -> str:
    """Copy `text`; returns what happened in one line. `write` sends a control sequence to the terminal.

    A terminal does not say whether it took what OSC 52 gave it, so the text also goes into a file.
    """
    kept = _keep(text)
    where = f"it is also in {kept}" if kept else "no file could be written"
    if environment.get("TMUX") and (said := _by_tmux(text)):
        return said
    reason = _why_not(text, environment)
    if reason is not None:
        return f"not copied: {reason}; {where}"
    write(f"\x1b]52;c;{b64encode(text.encode()).decode()}\a")
    return f"copied, if the terminal takes it (it does not say); {where}"


def _why_not(text: str, environment: Mapping[str, str]) -> str | None:
    if len(b64encode(text.encode())) > _MOST_BYTES:
        return "too long for a terminal's clipboard"
    term = environment.get("TERM", "")
    if term in _WITHOUT_CLIPBOARD or not term:
        return f"the terminal ({term or 'TERM not set'}) has no clipboard"
    if environment.get("TERM_PROGRAM") == "Apple_Terminal":
        return "Terminal.app lets no program write its clipboard"
    return None


def _by_tmux(text: str) -> str | None:
    """Load tmux's own buffer, which can be asked whether it took it, and let tmux pass it on (`-w`, tmux 3.2)."""
    tmux = shutil.which("tmux")
    if tmux is None:
        return None
    try:
        subprocess.run(
            [tmux, "load-buffer", "-w", "-"],
            input=text.encode(),
            check=True,
            capture_output=True,
            timeout=_TMUX_DEADLINE_S,
        )
        held = subprocess.run([tmux, "show-buffer"], check=True, capture_output=True, timeout=_TMUX_DEADLINE_S).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    if held.decode("utf-8", "replace") != text:
        return None
    return "copied to tmux's buffer, which passes it on to the terminal (prefix ] pastes it)"


def _keep(text: str) -> str | None:
    path = platformdirs.user_state_path("oncall") / "copied.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError:
        return None
    home = str(Path.home())
    return str(path).replace(home, "~", 1) if str(path).startswith(home + "/") else str(path)
