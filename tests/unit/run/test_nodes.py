"""Folded notation, in and out."""

import pytest

from oncall.run.nodes import expand_hosts, expand_ranks, fold_hosts, fold_ranks


def test_hosts_fold_and_unfold() -> None:
    hosts = expand_hosts("node[001-003,005],gpu-a7")
    assert hosts == ("gpu-a7", "node001", "node002", "node003", "node005")
    assert expand_hosts(fold_hosts(hosts)) == hosts
    assert fold_hosts(["node010", "node009", "node008"]) == "node[008-010]"
    assert fold_hosts([]) == ""


def test_ranks_fold_by_number() -> None:
    assert fold_ranks([10, 9, 8, 0]) == "0,8-10"
    assert fold_ranks([]) == ""
    assert expand_ranks("0-2,10") == (0, 1, 2, 10)


@pytest.mark.parametrize("text", ["node[001-", "node[3-1]", "a]b["])
def test_wrong_notation_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        expand_hosts(text)


def test_what_is_no_set_of_ranks_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a set of ranks"):
        expand_ranks("five")
