"""What is wrong with a run file beyond the type and range of each key: notation, names that fit nothing, templates."""

import ipaddress
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from oncall.run.nodes import expand_hosts
from oncall.run.templates import FIELDS, field_mistakes

Where = Callable[..., str]
"""The place of a key, `run42.toml:3: actions.stop`, given its path."""

_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")


def further_mistakes(data: Mapping[str, Any], where: Where) -> Iterator[str]:
    """Each mistake of a parsed run file, with its place. A key of a wrong type is passed over: it is told elsewhere."""
    yield from _of_nodes(data, where)
    yield from _of_actions(_table(data, "actions"), where)
    for table in ("prometheus", "alertmanager"):
        yield from _of_address(_table(data, table).get("url"), where(table, "url"))
    yield from _of_pattern(_table(data, "processes").get("match"), where("processes", "match"))


def _table(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _of_nodes(data: Mapping[str, Any], where: Where) -> Iterator[str]:
    nodes = data.get("nodes")
    if not isinstance(nodes, str):
        return
    try:
        hosts = expand_hosts(nodes)
    except ValueError as error:
        yield f"{where('nodes')}: {error}"
        return
    wrong = [host for host in hosts if not _is_host(host)]
    if not hosts:
        yield f"{where('nodes')}: names no node"
    for host in wrong[:3]:
        yield f"{where('nodes')}: {host!r} is no host name: commas separate nodes, user and port are keys of [reach]"
    addresses = _table(_table(data, "reach"), "addresses")
    for host in sorted(addresses.keys() - set(hosts)):
        yield f"{where('reach', 'addresses', host)}: `nodes` names no such node"


def _is_host(text: str) -> bool:
    if ":" not in text:
        return _HOST.fullmatch(text) is not None
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _of_actions(actions: Mapping[str, Any], where: Where) -> Iterator[str]:
    for name, template in actions.items():
        if isinstance(template, str):
            yield from (f"{where('actions', name)}: {mistake}" for mistake in field_mistakes(template, FIELDS))


def _of_address(url: object, place: str) -> Iterator[str]:
    """A bundle keeps the run file, so an address must not hold a secret."""
    if not isinstance(url, str) or not url:
        return
    try:
        parts = urlsplit(url)
        port_is_one = parts.port != 0
    except ValueError as error:
        yield f"{place}: {error}"
        return
    if parts.scheme not in {"http", "https"} or not parts.hostname or not port_is_one or re.search(r"\s", url):
        yield f"{place}: is no http or https address"
    elif "@" in parts.netloc:
        yield f"{place}: holds a password; name a variable or file instead"


def _of_pattern(pattern: object, place: str) -> Iterator[str]:
    """The nodes' `grep -E` reads the pattern; what it cannot read finds no process, and a living job looks gone."""
    if not isinstance(pattern, str):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a character class of POSIX looks like a slip to Python
            re.compile(pattern)
    except re.error as error:
        yield f"{place}: is no regular expression: {error}"
