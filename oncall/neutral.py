"""Text from nodes, dumps and logs, made safe to print."""


def neutral(text: str) -> str:
    """Text made safe for a terminal: what is not printable becomes an escape like `\\x1b`."""
    return text if text.isprintable() else "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
