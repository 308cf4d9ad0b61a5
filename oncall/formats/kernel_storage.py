"""Network file systems that stop answering and come back: NFS (net/sunrpc/clnt.c) and Lustre clients (ptlrpc)."""

import re

from oncall.formats.kernel_line import Following, Reading, Signature

_NFS = re.compile(r"nfs: server (?P<server>\S{1,255}) (?:(?P<ok>OK)|not responding, (?P<mode>still trying|timed out))")
_TARGET = r"(?P<target>\S{1,80}?-(?:OST|MDT)[0-9a-f]{4})"
_IMPORT = rf"(?:[0-9a-f]+-\d+: )?{_TARGET}-\w+-\w+"
_LUSTRE_ERROR = re.compile(
    rf"LustreError: {_IMPORT}: operation (?P<operation>\S+) to node (?P<node>\S+) failed: rc = (?P<rc>-?\d+)"
)
_LUSTRE_EVICTED = re.compile(rf"LustreError: {_IMPORT}: This client was evicted by ")
_LUSTRE_LOST = re.compile(rf"Lustre: (?:\d+:\S+ )?{_IMPORT}: Connection to \S+ \(at (?P<node>\S+?)\) was lost")
_LUSTRE_RESTORED = re.compile(rf"Lustre: (?:\d+:\S+ )?{_IMPORT}: Connection restored to \S* ?\(at (?P<node>\S+?)\)")


def _read_nfs(message: str, _following: Following) -> Reading | None:
    found = _NFS.match(message)
    if found is None:
        return None
    if found["ok"]:
        return Reading("nfs_ok", {"server": found["server"]})
    return Reading("nfs_not_responding", {"server": found["server"], "mode": found["mode"]})


def _read_lustre(message: str, _following: Following) -> Reading | None:
    failed = _LUSTRE_ERROR.match(message)
    if failed is not None:
        return Reading("lustre_error", {**failed.groupdict(), "rc": int(failed["rc"])})
    for kind, pattern in (
        ("lustre_evicted", _LUSTRE_EVICTED),
        ("lustre_lost", _LUSTRE_LOST),
        ("lustre_restored", _LUSTRE_RESTORED),
    ):
        found = pattern.match(message)
        if found is not None:
            return Reading(kind, found.groupdict())
    return None


SIGNATURES = (
    Signature(b"nfs: server ", _read_nfs),
    Signature(b"Lustre", _read_lustre),
)
