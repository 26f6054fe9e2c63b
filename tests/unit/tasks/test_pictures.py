from __future__ import annotations

import struct

import pytest

from artiway.delivery.uploads.model import NotAPicture
from artiway.delivery.uploads.pictures import NeedMore, Picture, sniff


def png(width, height):
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + b"\x08\x02\x00\x00\x00"


def jpeg(width, height, *, before=b""):
    frame = b"\xff\xc0" + struct.pack(">HBHH", 17, 8, height, width) + bytes(12)
    return b"\xff\xd8" + before + frame


def segment(marker, size):
    return bytes([0xFF, marker]) + struct.pack(">H", size + 2) + bytes(size)


def webp(kind, rest):
    return b"RIFF" + struct.pack("<I", 4 + 8 + len(rest)) + b"WEBP" + kind + struct.pack("<I", len(rest)) + rest


@pytest.mark.parametrize(
    ("head", "picture"),
    [
        (png(640, 480), Picture("image/png", 640, 480)),
        (jpeg(640, 480, before=segment(0xE0, 14)), Picture("image/jpeg", 640, 480)),
        (jpeg(640, 480, before=segment(0xE1, 5_000) + b"\xff" + segment(0xC4, 30)), Picture("image/jpeg", 640, 480)),
        (webp(b"VP8 ", bytes(6) + struct.pack("<HH", 640, 480) + bytes(9)), Picture("image/webp", 640, 480)),
        (
            webp(b"VP8L", b"\x2f" + struct.pack("<I", 639 | 479 << 14) + bytes(9)),
            Picture("image/webp", 640, 480),
        ),
        (
            webp(b"VP8X", bytes(4) + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")),
            Picture("image/webp", 640, 480),
        ),
    ],
    ids=["png", "jpeg", "jpeg with much before", "webp", "webp lossless", "webp extended"],
)
def test_first_bytes_give_type_and_size(head, picture):
    assert sniff(head + bytes(64)) == picture


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"GIF89a" + bytes(64),
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"%PDF-1.7" + bytes(64),
        b"\x89PNG\r\n\x1a\n" + bytes(64),
        png(0, 5) + bytes(64),
        b"\xff\xd8\xff\xda" + bytes(64),
        b"\xff\xd8\xff\xe0\x00\x01" + bytes(64),
        b"\xff\xd8\xff\xe0\x00\x04\x00\x00garbage" + bytes(64),
        webp(b"JUNK", bytes(40)),
    ],
    ids=["empty", "gif", "svg", "pdf", "png without header", "no width", "no frame", "short", "garbage", "webp"],
)
def test_other_content_is_refused(head):
    with pytest.raises(NotAPicture):
        sniff(head)


def test_jpeg_with_late_size_needs_more_bytes():
    with pytest.raises(NeedMore):
        sniff(jpeg(640, 480, before=segment(0xE1, 60_000))[:1_000])
