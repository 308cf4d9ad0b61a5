"""Saves what the operator wants to keep beside the evidence, or where the user's state goes if that cannot be."""

import platformdirs

from oncall.bundle.store import Bundle


def keep(bundle: Bundle, name: str, text: str) -> str:
    """Write a text file; returns what happened in one line."""
    try:
        bundle.write(name, text.encode())
    except OSError as refused:
        path = platformdirs.user_state_path("oncall") / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            return f"not saved: {error}"
        return f"saved to {path}, as the bundle cannot be written ({refused.strerror})"
    return f"saved to {bundle.path / name}"
