"""Fills the site's command templates, every value quoted for the shell."""

import shlex
import string
from collections.abc import Mapping

from oncall.run.nodes import fold_hosts

FIELDS = ("host", "hosts", "run", "step", "reason")
"""What a template may hold in braces."""


def template_mistakes(template: str) -> list[str]:
    """What is wrong with a template: braces that do not match, fields that nothing fills, fields with a format."""
    try:
        fields = [part[1:] for part in string.Formatter().parse(template) if part[1] is not None]
    except ValueError as error:
        return [f"{error}; a brace that is meant is written twice"]
    known = ", ".join(f"{{{field}}}" for field in FIELDS)
    mistakes = []
    for name, form, conversion in fields:
        if name not in FIELDS:
            mistakes.append(f"nothing fills {{{name}}}; known are {known}")
        elif form or conversion:
            mistakes.append(f"write {{{name}}} with nothing after the name: it is filled in quoted for the shell")
    return mistakes


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
