"""Reads a picture's type and size in pixels from its first bytes, without decoding it."""

from __future__ import annotations

from dataclasses import dataclass

from artiway.delivery.uploads.model import NotAPicture

PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
# Start-of-frame markers; C4, C8 and CC mark other segments.
JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD9)})


@dataclass(frozen=True)
class Picture:
    content_type: str
    width: int
    height: int


class NeedMore(Exception):
    """The bytes end before the size."""


def sniff(head: bytes) -> Picture:
    """Raises NotAPicture for other content, NeedMore if more bytes are needed."""
    if head.startswith(PNG_MAGIC):
        picture = _png(head)
    elif head.startswith(b"\xff\xd8\xff"):
        picture = _jpeg(head)
    elif head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        picture = _webp(head)
    elif len(head) < 16:
        raise NotAPicture("the upload is empty or cut short")
    else:
        raise NotAPicture("the upload is not PNG, JPEG or WebP")
    if picture.width < 1 or picture.height < 1:
        raise NotAPicture("the picture has no size")
    return picture


def _png(head: bytes) -> Picture:
    if len(head) < 24:
        raise NeedMore
    if head[12:16] != b"IHDR":
        raise NotAPicture("the PNG has no header")
    return Picture("image/png", int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big"))


def _jpeg(head: bytes) -> Picture:
    position = 2
    while position + 9 < len(head):
        if head[position] != 0xFF:
            raise NotAPicture("the JPEG is broken")
        marker = head[position + 1]
        if marker == 0xFF:  # fill byte
            position += 1
        elif marker in JPEG_FRAMES:
            height = int.from_bytes(head[position + 5 : position + 7], "big")
            return Picture("image/jpeg", int.from_bytes(head[position + 7 : position + 9], "big"), height)
        elif marker in JPEG_BARE:
            position += 2
        elif marker == 0xDA:
            raise NotAPicture("the JPEG has no frame")
        else:
            length = int.from_bytes(head[position + 2 : position + 4], "big")
            if length < 2:
                raise NotAPicture("the JPEG is broken")
            position += 2 + length
    raise NeedMore


def _webp(head: bytes) -> Picture:
    if len(head) < 30:
        raise NeedMore
    match head[12:16]:
        case b"VP8 ":
            width, height = (int.from_bytes(head[at : at + 2], "little") & 0x3FFF for at in (26, 28))
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            width, height = (int.from_bytes(head[at : at + 3], "little") + 1 for at in (24, 27))
        case _:
            raise NotAPicture("the WebP is broken")
    return Picture("image/webp", width, height)
