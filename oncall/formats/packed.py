"""Files packed with gzip (RFC 1952) or zstd (RFC 8878): unpacked as far as they go, within a bound."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import zstandard

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_CHUNK = 4096
"""Bytes unpacked at once. Of zstd they become 128 MiB at most: a block of four bytes may stand for 128 KiB."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What a file holds; `whole` is False where it was cut short or damaged, or goes on beyond the bound."""

    data: bytes
    whole: bool


def unpack(data: bytes, most: int) -> Unpacked:
    """The first `most` bytes of what is packed in `data`, all frames one after another; what is not packed as it is.

    Raises ValueError where not even its beginning can be unpacked.
    """
    if data.startswith(_GZIP):
        return _unpack(data, most, _GZIP, lambda: zlib.decompressobj(wbits=31))
    if data.startswith(_ZSTD):
        return _unpack(data, most, _ZSTD, lambda: zstandard.ZstdDecompressor().decompressobj())
    return Unpacked(data[:most], len(data) <= most)


def _unpack(data: bytes, most: int, mark: bytes, start: Callable[[], Any]) -> Unpacked:
    unpacked = bytearray()
    position = 0
    while data.startswith(mark, position):
        frame = start()
        while not frame.eof:
            chunk = data[position : position + _CHUNK]
            position += len(chunk)
            try:
                unpacked += frame.decompress(chunk)
            except (zlib.error, zstandard.ZstdError) as error:
                if not unpacked:
                    raise ValueError(str(error)) from error
                chunk = b""
            if not chunk or len(unpacked) > most:
                return Unpacked(bytes(unpacked[:most]), whole=False)
        position -= len(frame.unused_data)
    return Unpacked(bytes(unpacked), whole=not data[position:].strip(b"\0"))
