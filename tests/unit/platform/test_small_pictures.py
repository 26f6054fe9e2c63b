"""What a model is shown of an upload, and which uploads it is not shown."""

from __future__ import annotations

import io
import random
import struct
import subprocess
import sys
import zlib

import pytest
from PIL import Image

from artiway.platform.small_pictures import MOST_BYTES, MOST_SIDE, small_jpeg


def encoded(picture: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    output = io.BytesIO()
    picture.save(output, kind, **options)
    return output.getvalue()


def small(data: bytes) -> Image.Image:
    found = Image.open(io.BytesIO(small_jpeg(data)))
    found.load()
    assert (found.format, found.mode) == ("JPEG", "RGB")
    return found


def is_near(found: object, wanted: tuple[int, int, int]) -> bool:
    assert isinstance(found, tuple)
    return all(abs(one - other) < 12 for one, other in zip(found, wanted, strict=True))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_large_picture_keeps_its_form(kind: str) -> None:
    assert small(encoded(Image.new("RGB", (4_000, 1_000), "red"), kind)).size == (MOST_SIDE, MOST_SIDE // 4)


def test_small_picture_is_not_made_larger() -> None:
    assert small(encoded(Image.new("RGB", (40, 30)))).size == (40, 30)


def test_turned_photograph_is_upright_without_metadata() -> None:
    picture = Image.new("RGB", (80, 40), "white")
    picture.paste("red", (0, 0, 20, 40))
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "a camera"  # turn by 90 degrees; the maker
    found = small(encoded(picture, "JPEG", quality=95, exif=exif))
    assert found.size == (40, 80)
    assert is_near(found.getpixel((20, 5)), (254, 0, 0))
    assert not found.getexif()
    assert "exif" not in found.info


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "L", "1", "CMYK", "I;16"])
def test_every_mode_becomes_plain_colour(mode: str) -> None:
    picture = Image.new("RGBA", (30, 30), (255, 0, 0, 255))
    if mode == "I;16":
        picture = Image.new("I;16", (30, 30), 65_535)
    elif mode != "RGBA":
        picture = picture.convert(mode)
    kind = "JPEG" if mode == "CMYK" else "PNG"
    expected = {"LA": (76, 76, 76), "L": (76, 76, 76), "1": None, "I;16": (255, 255, 255)}.get(mode, (254, 0, 0))
    found = small(encoded(picture, kind)).getpixel((15, 15))
    assert expected is None or is_near(found, expected)


def test_transparent_ground_is_white() -> None:
    assert is_near(small(encoded(Image.new("RGBA", (30, 30), (0, 0, 0, 0)))).getpixel((3, 3)), (255, 255, 255))


def test_noise_stays_within_the_bytes() -> None:
    noise = Image.frombytes("RGB", (1_536, 1_536), random.Random(1).randbytes(3 * 1_536 * 1_536))
    assert len(small_jpeg(encoded(noise))) <= MOST_BYTES


def header_of(width: int, height: int) -> bytes:
    """A PNG that says to have so many pixels, and has none."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\x00" * 100)) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no PNG, JPEG or WebP"),
        (b"hello" * 100, "no PNG, JPEG or WebP"),
        (encoded(Image.new("P", (9, 9)), "GIF"), "no PNG, JPEG or WebP"),
        (encoded(Image.new("RGB", (9, 9)), "TIFF"), "no PNG, JPEG or WebP"),
        (encoded(Image.effect_noise((400, 400), 90).convert("RGB"), "JPEG")[:9_000], "broken or incomplete"),
        (encoded(Image.effect_noise((400, 400), 90).convert("RGB"))[:9_000], "broken or incomplete"),
        (header_of(12_000, 12_000), "more than 50,000,000 pixels"),
        (header_of(60_000, 60_000), "of a size that is accepted"),
    ],
    ids=["empty", "text", "gif", "tiff", "cut-jpeg", "cut-png", "many-pixels", "bomb"],
)
def test_unreadable_picture_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        small_jpeg(data)


@pytest.mark.parametrize("function", ["openai", "generations", "text_stream", "text_batch", "watchdog", "ops"])
def test_pillow_is_imported_by_its_step_alone(function: str) -> None:
    code = f"import functions.{function}.app, sys; sys.exit(int('PIL' in sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, env={"PYTHONPATH": ":".join(sys.path)}).returncode
        == 0
    )
