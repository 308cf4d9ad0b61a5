"""The series that a PromQL expression reads, without a grammar of PromQL."""

import re

_SELECTOR = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"""|(?P<metric>[a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?P<matchers>\{(?:[^"'}]|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')*\})"""
)
_ALONE = re.compile(r"\s*[a-zA-Z_:][a-zA-Z0-9_:]*\s*")


def selectors(query: str) -> tuple[str, ...]:
    """Every `metric{matchers}` of an expression, each once; a name alone where that is all of it.

    Names without braces inside a longer expression are not told from functions and labels, and are left out.
    """
    if _ALONE.fullmatch(query):
        return (query.strip(),)
    found = (f"{each['metric']}{each['matchers']}" for each in _SELECTOR.finditer(query) if each["metric"])
    return tuple(dict.fromkeys(found))


def newest_query(query: str) -> str | None:
    """PromQL for when each series that an expression reads was last sampled, in unix seconds; None if not known."""
    found = selectors(query)
    return " or ".join(f"timestamp({each})" for each in found) or None
