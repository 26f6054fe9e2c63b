"""The name under which a browser saves a picture: cutout-2026-11-17-1.png."""

from __future__ import annotations

import unicodedata
from datetime import datetime
from urllib.parse import quote

EXTENSIONS = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp"}
LONGEST_TITLE = 80
# Not allowed in a file's name on one of the usual systems, or with a meaning in the header.
_RESERVED = frozenset('<>:"/\\|?*%;')


def file_name(title: str, made_at: datetime, number: int, content_type: str) -> str:
    """`title` is a tool, or the name that a user gave to a flow."""
    return f"{_cleaned(title) or 'picture'}-{made_at:%Y-%m-%d}-{number}.{EXTENSIONS.get(content_type, 'bin')}"


def content_disposition(name: str) -> str:
    """RFC 6266: the name in UTF-8, before it one in ASCII for clients that read no other."""
    plain = "".join(one if one.isascii() else "_" for one in name)
    extended = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    return f'attachment; filename="{plain}"{extended}'


def _cleaned(title: str) -> str:
    """Without control characters, marks of writing direction, line ends and reserved characters."""
    text = "".join(one for one in unicodedata.normalize("NFC", title) if one not in _RESERVED and _is_written(one))
    return "-".join(text.split())[:LONGEST_TITLE].strip(".-_")


def _is_written(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] != "C" and category not in {"Zl", "Zp"}
