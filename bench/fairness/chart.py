"""A line chart as a PNG with nothing but the standard library: four panels, one line per tenant."""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise
from pathlib import Path

Colour = tuple[int, int, int]
WIDTH, HEIGHT, MARGIN = 1200, 380, 46
COLOURS: dict[str, Colour] = {"vip": (200, 60, 40), "standard": (40, 110, 190), "free": (70, 150, 70)}
INK: Colour = (60, 60, 60)
# A 3x5 font: each number is a row of three bits, from the top.
GLYPHS = {
    "a": (0, 3, 5, 7, 5), "b": (6, 5, 6, 5, 6), "c": (3, 4, 4, 4, 3), "d": (6, 5, 5, 5, 6), "e": (7, 4, 6, 4, 7),
    "f": (7, 4, 6, 4, 4), "g": (3, 4, 5, 5, 3), "h": (5, 5, 7, 5, 5), "i": (7, 2, 2, 2, 7), "j": (1, 1, 1, 5, 2),
    "k": (5, 5, 6, 5, 5), "l": (4, 4, 4, 4, 7), "m": (5, 7, 7, 5, 5), "n": (6, 5, 5, 5, 5), "o": (2, 5, 5, 5, 2),
    "p": (6, 5, 6, 4, 4), "q": (2, 5, 5, 6, 3), "r": (6, 5, 6, 5, 5), "s": (3, 4, 2, 1, 6), "t": (7, 2, 2, 2, 2),
    "u": (5, 5, 5, 5, 7), "v": (5, 5, 5, 5, 2), "w": (5, 5, 7, 7, 5), "x": (5, 5, 2, 5, 5), "y": (5, 5, 2, 2, 2),
    "z": (7, 1, 2, 4, 7), "0": (7, 5, 5, 5, 7), "1": (2, 6, 2, 2, 7), "2": (6, 1, 2, 4, 7), "3": (6, 1, 2, 1, 6),
    "4": (5, 5, 7, 1, 1), "5": (7, 4, 6, 1, 6), "6": (3, 4, 7, 5, 7), "7": (7, 1, 2, 2, 2), "8": (7, 5, 7, 5, 7),
    "9": (7, 5, 7, 1, 6), "-": (0, 0, 7, 0, 0), ".": (0, 0, 0, 0, 2), ",": (0, 0, 0, 2, 4), "(": (1, 2, 2, 2, 1),
    ")": (4, 2, 2, 2, 4), "%": (5, 1, 2, 4, 5), " ": (0, 0, 0, 0, 0),
}  # fmt: skip


class Canvas:
    def __init__(self) -> None:
        self._rows = [bytearray(b"\xff" * WIDTH * 3) for _ in range(HEIGHT)]

    def dot(self, x: int, y: int, colour: Colour) -> None:
        if 0 <= x < WIDTH and 0 <= y < HEIGHT:
            self._rows[y][x * 3 : x * 3 + 3] = bytes(colour)

    def line(self, start: tuple[float, float], end: tuple[float, float], colour: Colour, thick: int = 2) -> None:
        steps = int(max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1))
        for step in range(steps + 1):
            x = start[0] + (end[0] - start[0]) * step / steps
            y = start[1] + (end[1] - start[1]) * step / steps
            for dx in range(thick):
                for dy in range(thick):
                    self.dot(int(x) + dx, int(y) + dy, colour)

    def text(self, x: int, y: int, text: str, colour: Colour = INK, size: int = 2) -> None:
        for letter in text.lower():
            for row, bits in enumerate(GLYPHS.get(letter, GLYPHS[" "])):
                for column in range(3):
                    if bits & (4 >> column):
                        for dx in range(size):
                            for dy in range(size):
                                self.dot(x + column * size + dx, y + row * size + dy, colour)
            x += 4 * size

    def save(self, path: Path) -> None:
        def chunk(kind: bytes, body: bytes) -> bytes:
            return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

        header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
        pixels = zlib.compress(b"".join(b"\0" + bytes(row) for row in self._rows), 9)
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))


def draw(path: Path, panels: list[tuple[str, list[tuple[float, dict[str, int]]]]]) -> None:
    canvas = Canvas()
    width = (WIDTH - MARGIN) // len(panels)
    top, bottom = 70, HEIGHT - MARGIN
    most = max(max(counts.values()) for _, points in panels for _, counts in points)
    latest = panels[0][1][-1][0]
    canvas.text(MARGIN, 14, "nodes started over time, after a free tenant flooded the queue", size=3)
    for place, (tenant, colour) in enumerate(COLOURS.items()):
        canvas.text(MARGIN + place * 130, 42, tenant, colour, size=3)
    for place, (name, points) in enumerate(panels):
        left, right = MARGIN + place * width, MARGIN + (place + 1) * width - 30
        canvas.line((left, bottom), (right, bottom), INK, 1)
        canvas.line((left, top), (left, bottom), INK, 1)
        canvas.text(left + 8, top, name)
        canvas.text(right - 60, bottom + 10, f"{latest:.0f} s")
        if place == 0:
            canvas.text(2, top, str(most))
        for tenant, colour in COLOURS.items():
            path_points = [
                (left + (right - left) * at / latest, bottom - (bottom - top - 20) * counts[tenant] / most)
                for at, counts in points
            ]
            for start, end in pairwise(path_points):
                canvas.line(start, end, colour)
    canvas.save(path)
