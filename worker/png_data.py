"""Checks the size of a PNG's decompressed data. Decoders stop when the picture is full and ignore further data."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from worker.errors import InputUndecodable

CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
STEP_BYTES = 64 * 1024
SLACK_BYTES = 64 * 1024  # some encoders write a little more than announced, and decoders accept it
# Adam7: the first column and row of each pass, and the steps between its columns and rows.
PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def require_announced_size(data: bytes) -> None:
    """Refuse a file with more or less data than its header announces: a decompression bomb or a truncated file.

    It decompresses in small steps and stops soon after the announced size.
    """
    expected = announced_bytes(data)
    unpacked, unpacker = 0, zlib.decompressobj()
    try:
        for chunk in data_chunks(data):
            rest = chunk
            while rest and not unpacker.eof:
                unpacked += len(unpacker.decompress(rest, STEP_BYTES))
                rest = unpacker.unconsumed_tail
                if unpacked > expected + SLACK_BYTES:
                    raise InputUndecodable("the PNG holds more data than its header says")
    except zlib.error as error:
        raise InputUndecodable("the PNG cannot be decoded") from error
    if unpacked < expected:
        raise InputUndecodable("the PNG holds less data than its header says")


def announced_bytes(data: bytes) -> int:
    """The size of all rows by the header, each with its filter byte."""
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


def data_chunks(data: bytes) -> Iterator[bytes]:
    """The contents of the IDAT chunks, in order."""
    at = 8
    while at + 8 <= len(data):
        (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        if kind == b"IDAT":
            yield data[at + 8 : at + 8 + length]
        if kind == b"IEND":
            return
        at += 12 + length
