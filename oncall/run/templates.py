"""Fills the site's command templates, every value quoted for the shell."""

import shlex
import string
from collections.abc import Iterator, Mapping, Sequence

from oncall.run.nodes import fold_hosts
from oncall.run.strict import near

FIELDS = ("host", "hosts", "run", "step", "reason")
"""What a template may hold in braces."""


def field_mistakes(text: str, known: Sequence[str]) -> Iterator[str]:
    """What is wrong in braces: those that do not match, fields that nothing fills, fields with a format."""
    try:
        fields = [(name, form or conversion) for _, name, form, conversion in string.Formatter().parse(text)]
    except ValueError as error:
        yield f"{error}; a brace that is meant is written twice"
        return
    for name, extra in fields:
        if name is not None and name not in known:
            there = ", ".join(f"`{{{field}}}`" for field in known)
            yield f"nothing fills `{{{name}}}`{near(name, known) or f'; there are {there}'}"
        elif extra:
            yield f"write `{{{name}}}` with nothing after the name: it is filled in as it is"


def fill(template: str, run: str, hosts: tuple[str, ...], texts: Mapping[str, str]) -> list[str | None]:
    """The commands of a template: one for each host where it holds `{host}`, else one."""
    step = texts["step"].strip(" ()").removeprefix("step ").replace(",", "") or "latest"
    values = {
        "run": run,
        "hosts": fold_hosts(hosts),
        "step": step,
        "reason": f"oncall: {texts['what'].split('; ')[0]}"[:160],
    }
    quoted = {name: shlex.quote(value) for name, value in values.items()}
    if "{host}" in template:
        return [template.format(host=shlex.quote(host), **quoted) for host in hosts]
    return [template.format(**quoted)]
