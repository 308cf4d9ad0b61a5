"""Packed files: all frames, as far as they go, within a bound."""

import gzip
from collections.abc import Callable

import pytest
import zstandard

from oncall.formats.packed import unpack

LINES = b"".join(b"line %d of a log, %d\n" % (number, number * 7919 % 104729) for number in range(20_000))
PACKERS = [gzip.compress, zstandard.ZstdCompressor().compress]
Pack = Callable[[bytes], bytes]


def test_what_is_not_packed_is_as_it_is() -> None:
    assert unpack(b"abc", 3) == unpack(b"abc", 4)
    assert unpack(b"abc", 3).whole
    assert (unpack(b"abc", 2).data, unpack(b"abc", 2).whole) == (b"ab", False)


@pytest.mark.parametrize("pack", PACKERS)
def test_frames_one_after_another_are_one_file(pack: Pack) -> None:
    """As `cat a.gz b.gz` makes them, and tools that pack in parallel."""
    held = unpack(pack(LINES) + pack(b"the end\n"), 1 << 30)
    assert held.data == LINES + b"the end\n"
    assert held.whole


@pytest.mark.parametrize("pack", PACKERS)
def test_half_a_file_is_half_and_says_so(pack: Pack) -> None:
    packed = pack(LINES)
    held = unpack(packed[: len(packed) * 3 // 4], 1 << 30)
    assert LINES.startswith(held.data)
    assert len(held.data) > len(LINES) // 4
    assert not held.whole


@pytest.mark.parametrize("pack", PACKERS)
def test_what_follows_the_frames_is_not_passed_over_in_silence(pack: Pack) -> None:
    assert not unpack(pack(LINES) + b"and more", 1 << 30).whole
    assert unpack(pack(LINES) + bytes(512), 1 << 30).whole, "zeros fill the last block of a tape or a tar"


@pytest.mark.parametrize("pack", PACKERS)
def test_a_bomb_is_cut_at_the_bound(pack: Pack) -> None:
    held = unpack(pack(bytes(64 << 20)), 1 << 20)
    assert (len(held.data), held.whole) == (1 << 20, False)


@pytest.mark.parametrize("mark", [b"\x1f\x8b", b"\x28\xb5\x2f\xfd"])
def test_what_cannot_be_unpacked_at_all_is_refused(mark: bytes) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        unpack(mark + b"\xff" * 64, 1 << 20)
