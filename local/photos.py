"""Draws a product photo as a PNG without a library: a shirt with soft edges on a plain background."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

Color = tuple[int, int, int]
Points = Sequence[tuple[float, float]]
LINES_PER_ROW = 4
GRAINS = 251

_SIDE = [(0.405, 0.20), (0.30, 0.245), (0.135, 0.42), (0.235, 0.50), (0.315, 0.42), (0.31, 0.85)]
_NECK = [(0.595, 0.20), (0.55, 0.245), (0.50, 0.262), (0.45, 0.245)]
SHIRT: Points = [*_SIDE, *((1 - x, y) for x, y in reversed(_SIDE)), *_NECK[1:]]


@dataclass(frozen=True)
class Garment:
    """Colours of a shirt: its cloth and its two stripes."""

    cloth: Color
    stripes: Color


BLUE = Garment((38, 84, 152), (236, 226, 196))
RED = Garment((168, 46, 52), (250, 240, 230))


def shirt(garment: Garment, *, side: int = 800) -> bytes:
    rows = [_row(garment, y, side) for y in range(side)]
    return png(rows, side)


def png(rows: Sequence[bytes], width: int) -> bytes:
    """A PNG file from rows of RGB triples."""
    header = struct.pack(">IIBBBBB", width, len(rows), 8, 2, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows), 6)
    parts = (_chunk(b"IHDR", header), _chunk(b"IDAT", body), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _row(garment: Garment, y: int, side: int) -> bytes:
    down = y / side
    row = _background(y, down, side)
    is_stripe = any(abs(down - middle) < 0.011 for middle in (0.55, 0.60))
    depth = 7 * min(1.0, max(0.0, (down - 0.25) * 5))
    for x, share in _cover(SHIRT, y, side).items():
        across = 2 * x / side - 1
        light = 1.06 - 0.25 * across * across
        fold = depth * math.sin(across * 22 + down * 5)
        color = garment.stripes if is_stripe and abs(across) < 0.4 else garment.cloth
        for place, channel in enumerate(color, x * 3):
            value = (channel * light + fold) * share + row[place] * (1 - share)
            row[place] = max(0, min(255, int(value)))
    return bytes(row)


def _background(y: int, down: float, side: int) -> bytearray:
    """A background with soft light and a little noise, so that it resembles a photo."""
    light = 238 - 24 * down
    grains = (((x * 7919 + y * 104_729) % GRAINS) / GRAINS * 4 - 2 for x in range(GRAINS))
    pattern = bytes(int(light + tint + grain) for grain in grains for tint in (2, 0, -3))
    return bytearray((pattern * (side // GRAINS + 1))[: side * 3])


def _cover(outline: Points, y: int, side: int) -> dict[int, float]:
    """The share of each pixel in a row that lies inside the outline."""
    cover: dict[int, float] = {}
    for line in range(LINES_PER_ROW):
        height = (y + (line + 0.5) / LINES_PER_ROW) / side
        crossings = sorted(_crossings(outline, height))
        for left, right in zip(crossings[::2], crossings[1::2], strict=True):
            start, end = left * side, right * side
            for x in range(int(start), min(side, int(end) + 1)):
                inside = min(end, x + 1) - max(start, x)
                cover[x] = cover.get(x, 0.0) + inside / LINES_PER_ROW
    return cover


def _crossings(outline: Points, height: float) -> list[float]:
    found = []
    for (x1, y1), (x2, y2) in zip(outline, [*outline[1:], outline[0]], strict=True):
        if (y1 <= height) != (y2 <= height):
            found.append(x1 + (height - y1) * (x2 - x1) / (y2 - y1))
    return found
