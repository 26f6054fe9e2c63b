"""Pictures as users and attackers send them. The platform's tests have no picture library and run this program:

python -m tests.worker.odd_pictures make FOLDER     writes one of each
python -m tests.worker.odd_pictures look FILE …     prints the size of each and its colours in two corners
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageCms

from tests.worker.samples import (
    animated,
    chunk,
    jpeg_claiming,
    png,
    png_bomb,
    png_of,
    png_text_bomb,
    saved,
    webp_claiming,
)

WIDTH, HEIGHT = 96, 64
RED, BLUE = (200, 30, 30), (30, 30, 200)
NOISE = np.random.default_rng(1).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)


def motif() -> Image.Image:
    """Red at the top left, blue elsewhere, so that a test sees orientation and colours."""
    image = Image.new("RGB", (WIDTH, HEIGHT), BLUE)
    image.paste(RED, (0, 0, WIDTH // 2, HEIGHT // 2))
    return image


def turned() -> bytes:
    """As a phone stores it: rotated, with the orientation in EXIF."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return saved(motif().transpose(Image.Transpose.ROTATE_90), "JPEG", exif=exif, quality=95)


def deep(channels: int) -> bytes:
    """16 bits a channel, which Pillow cannot write in colour."""
    pixels = np.asarray(motif()).astype(">u2") * 257
    rows = pixels if channels == 3 else pixels[:, :, 2:]
    body = b"".join(b"\0" + row.tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 16, 2 if channels == 3 else 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")


def polyglot() -> bytes:
    """A picture that is also an HTML page with a script, for programs that guess types."""
    page = b"<html><script>alert(1)</script></html>"
    whole = saved(motif(), "PNG")
    return whole[:33] + chunk(b"tEXt", b"Comment\0" + page) + whole[33:] + b"PK\x03\x04" + page


def half(picture_format: str) -> bytes:
    whole = saved(Image.fromarray(NOISE), picture_format)
    return whole[: len(whole) // 2]


GOOD: dict[str, Callable[[], bytes]] = {
    "plain.png": lambda: saved(motif(), "PNG"),
    "palette.png": lambda: saved(motif().convert("P", palette=Image.Palette.ADAPTIVE), "PNG"),
    "deep.png": lambda: deep(3),
    "polyglot.png": polyglot,
    "turned.jpg": turned,
    "print.jpg": lambda: saved(motif().convert("CMYK"), "JPEG", quality=95),
    "progressive.jpg": lambda: saved(motif(), "JPEG", quality=95, progressive=True),
    "profile.jpg": lambda: saved(
        motif(),
        "JPEG",
        quality=95,
        icc_profile=ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes(),
    ),
    "lossless.webp": lambda: saved(motif(), "WEBP", lossless=True),
    "lossy.webp": lambda: saved(motif(), "WEBP", quality=95),
}
# Refused at first use, by their first bytes.
REFUSED: dict[str, Callable[[], bytes]] = {
    "vector.png": lambda: b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
    "page.png": lambda: b"<!doctype html><title>not a picture</title>",
    "loop.png": lambda: animated("GIF"),
    "bitmap.png": lambda: saved(motif(), "BMP"),
    "scan.png": lambda: saved(motif(), "TIFF"),
    "paper.png": lambda: b"%PDF-1.7\n" + bytes(100),
    "zeros.png": lambda: bytes(1_000),
    "byte.png": lambda: b"\x89",
    "magic.png": lambda: b"\x89PNG\r\n\x1a\n",
    "wide.png": lambda: png_bomb(20_000, 20_000),
    "flat.png": lambda: png_bomb(2_000_000, 1),
    "none.png": lambda: png_bomb(0, 0),
    "huge.jpg": lambda: jpeg_claiming(60_000, 60_000),
    "long.jpg": lambda: jpeg_claiming(30_000, 20),
    "magic.jpg": lambda: b"\xff\xd8\xff\xe0",
    "headless.jpg": lambda: b"\xff\xd8\xff\xd9" + bytes(100),
    "huge.webp": lambda: webp_claiming(16_000_000, 16_000_000),
    "chunkless.webp": lambda: b"RIFF" + struct.pack("<I", 40) + b"WEBPJUNK" + bytes(40),
    "actually-jpeg.png": lambda: saved(motif(), "JPEG"),
    "actually-png.webp": lambda: png(),
}
# Their headers are valid: only a decoder finds the fault.
FAILING: dict[str, Callable[[], bytes]] = {
    "torn.png": lambda: half("PNG"),
    "torn.jpg": lambda: half("JPEG"),
    "torn.webp": lambda: half("WEBP"),
    "noise.png": lambda: png(96, 64)[:50] + NOISE.tobytes()[:4_000],
    "bomb.png": lambda: png_of(bytes(100_000_000), 200, 200),
    "text-bomb.png": png_text_bomb,
    "dot.png": lambda: saved(Image.new("RGB", (1, 1), RED), "PNG"),
    "film.png": lambda: animated("PNG"),
    "film.webp": lambda: animated("WEBP"),
}


def make(folder: Path) -> None:
    for kind, pictures in (("good", GOOD), ("refused", REFUSED), ("failing", FAILING)):
        (folder / kind).mkdir(parents=True)
        for name, draw in pictures.items():
            (folder / kind / name).write_bytes(draw())


def look(file: Path) -> dict[str, object]:
    with Image.open(file) as image:
        rgb = np.asarray(image.convert("RGB")).astype(int)
        corner, rest = rgb[: rgb.shape[0] // 4, : rgb.shape[1] // 4], rgb[-rgb.shape[0] // 4 :, -rgb.shape[1] // 4 :]
        return {
            "size": list(image.size),
            "topLeft": [int(value) for value in corner.mean(axis=(0, 1))],
            "bottomRight": [int(value) for value in rest.mean(axis=(0, 1))],
        }


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    else:
        sys.stdout.write(json.dumps([look(Path(name)) for name in sys.argv[2:]]))
