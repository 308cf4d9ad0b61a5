"""Remembers what a followed file held line by line, so that after a truncation the reader knows where it is."""

import os
import zlib
from array import array

_MARKS = 16_384
"""Line ends kept one by one; older ones are thinned. 12 bytes each: 400 KB a file at most."""

_BLOCK = 1 << 20


class LineMarks:
    """Running CRC-32 of a file's bytes from `start`, noted at each line end that was handed on."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._offsets = array("Q")
        self._sums = array("I")
        self._sum = 0

    def add(self, line: bytes, end: int) -> None:
        """Note one line, its newline included, that ends before byte `end`."""
        self._sum = zlib.crc32(line, self._sum)
        self._offsets.append(end)
        self._sums.append(self._sum)
        if len(self._offsets) >= 2 * _MARKS:
            self._offsets = self._offsets[:_MARKS:2] + self._offsets[_MARKS:]
            self._sums = self._sums[:_MARKS:2] + self._sums[_MARKS:]

    def skip(self, data: bytes) -> None:
        """Note bytes that no line was handed on from."""
        self._sum = zlib.crc32(data, self._sum)

    def common_prefix(self, fd: int, size: int) -> int | None:
        """The furthest noted line end up to which the file still holds the same bytes; None when it holds others.

        Reads the file from the start, once. Raises OSError.
        """
        position, checksum, last = self._start, 0, None
        for index, offset in enumerate(self._offsets):
            if offset > size:
                break
            checksum = _crc_of(fd, position, offset, checksum)
            if checksum != self._sums[index]:
                break
            position, last = offset, index
        if last is None:
            return None
        del self._offsets[last + 1 :]
        del self._sums[last + 1 :]
        self._sum = self._sums[last]
        return position


def _crc_of(fd: int, begin: int, end: int, checksum: int) -> int:
    while begin < end:
        block = os.pread(fd, min(_BLOCK, end - begin), begin)
        if not block:
            break
        checksum = zlib.crc32(block, checksum)
        begin += len(block)
    return checksum
