"""Pictures as bytes: valid ones and those of an attacker."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
from PIL import Image

from worker.pictures import Picture, encode


def png(width: int = 64, height: int = 48) -> bytes:
    y, x = np.mgrid[0:height, 0:width]
    rgb = np.dstack([x * 3 % 256, y * 5 % 256, (x + y) % 256]).astype(np.uint8)
    return encode(Picture(rgb), "png", 90)


def saved(image: Image.Image, picture_format: str, **options: object) -> bytes:
    target = io.BytesIO()
    image.save(target, picture_format, **options)
    return target.getvalue()


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_bomb(width: int = 30_000, height: int = 30_000) -> bytes:
    """A few kilobytes that decode to gigabytes: one bit per pixel, all equal."""
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    pixels = zlib.compress(bytes((width + 7) // 8 + 1) * 64, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def png_of(data: bytes, width: int = 64, height: int = 48) -> bytes:
    """A colour picture by its header, with the data of the caller."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(data, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def png_text_bomb() -> bytes:
    """A small picture whose text inflates to 200 MB."""
    whole = png()
    text = b"Comment\x00\x00" + zlib.compress(bytes(200 * 1024 * 1024), 9)
    return whole[:33] + chunk(b"zTXt", text) + whole[33:]


def jpeg_claiming(width: int, height: int) -> bytes:
    """A valid JPEG whose frame states a wrong size."""
    data = bytearray(saved(Image.new("RGB", (64, 64), "red"), "JPEG"))
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def webp_claiming(width: int, height: int) -> bytes:
    """An extended WebP header with a canvas of 16 million pixels a side."""
    body = b"VP8X" + struct.pack("<I", 10) + bytes([0, 0, 0, 0]) + (width - 1).to_bytes(3, "little")
    body += (height - 1).to_bytes(3, "little") + b"VP8 " + struct.pack("<I", 0)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def animated(picture_format: str) -> bytes:
    frames = [Image.new("RGB", (64, 64), color) for color in ("red", "green", "blue")]
    return saved(frames[0], picture_format, save_all=True, append_images=frames[1:], duration=100)
