"""Counts what a PNG's compressed data holds: decoders stop when their picture is full and never say what is left."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from worker.errors import InputUndecodable

CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
STEP_BYTES = 64 * 1024
SPARE_BYTES = 64 * 1024  # some encoders write a little too much, and decoders let them
# Adam7: where each pass begins and how far its pixels lie apart, across and down.
PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def require_fitting(data: bytes) -> None:
    """Refuses a file with more or fewer data than its header says: a decompression bomb, or a torn file.

    A little is unpacked at a time, and nothing far beyond what the header promises.
    """
    expected = promised(data)
    unpacked, unpacker = 0, zlib.decompressobj()
    try:
        for piece in pieces(data):
            rest = piece
            while rest and not unpacker.eof:
                unpacked += len(unpacker.decompress(rest, STEP_BYTES))
                rest = unpacker.unconsumed_tail
                if unpacked > expected + SPARE_BYTES:
                    raise InputUndecodable("the PNG holds more data than its header says")
    except zlib.error as error:
        raise InputUndecodable("the PNG cannot be decoded") from error
    if unpacked < expected:
        raise InputUndecodable("the PNG holds less data than its header says")


def promised(data: bytes) -> int:
    """Bytes of all rows, each with its filter byte."""
    try:
        width, height, depth, color, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
        bits: int = CHANNELS[color] * depth
    except (struct.error, KeyError) as error:
        raise InputUndecodable("the PNG has no usable header") from error
    if not interlaced:
        return int(height * (1 + (width * bits + 7) // 8))
    total = 0
    for x, y, across, down in PASSES:
        columns, rows = max(0, -(-(width - x) // across)), max(0, -(-(height - y) // down))
        total += rows * (1 + (columns * bits + 7) // 8) if columns else 0
    return total


def pieces(data: bytes) -> Iterator[bytes]:
    """The bodies of the data chunks, in order."""
    at = 8
    while at + 8 <= len(data):
        (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        if kind == b"IDAT":
            yield data[at + 8 : at + 8 + length]
        if kind == b"IEND":
            return
        at += 12 + length
