"""Names under which browsers save pictures."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from aiohttp.multipart import content_disposition_filename, parse_content_disposition
from hypothesis import given
from hypothesis import strategies as st

from artiway.delivery.uploads.names import content_disposition, file_name

DAY = datetime(2026, 11, 17, 23, 59, tzinfo=UTC)


def saved_as(header: str) -> str:
    """The name that a program reads from the header."""
    kind, parameters = parse_content_disposition(header)
    assert kind == "attachment"
    return str(content_disposition_filename(parameters))


@pytest.mark.parametrize(
    ("title", "kind", "name"),
    [
        ("cutout", "image/png", "cutout-2026-11-17-2.png"),
        ("model_photo", "image/jpeg", "model_photo-2026-11-17-2.jpg"),
        ("Summer  sale", "image/webp", "Summer-sale-2026-11-17-2.webp"),
        ("夏季 新款", "image/png", "夏季-新款-2026-11-17-2.png"),
        ("../../etc/passwd", "image/png", "etcpasswd-2026-11-17-2.png"),
        ('a"; filename="b.exe', "image/png", "a-filename=b.exe-2026-11-17-2.png"),
        ("x\r\nSet-Cookie: a=1", "image/png", "xSet-Cookie-a=1-2026-11-17-2.png"),
        ("photo\u202egnp.exe", "image/png", "photognp.exe-2026-11-17-2.png"),
        ("...", "text/html", "picture-2026-11-17-2.bin"),
    ],
)
def test_name_is_made_of_title_and_day(title: str, kind: str, name: str) -> None:
    assert file_name(title, DAY, 2, kind) == name
    assert saved_as(content_disposition(name)) == name


@given(st.text(max_size=200))
def test_any_title_gives_one_safe_header(title: str) -> None:
    name = file_name(title, DAY, 1, "image/png")
    header = content_disposition(name)
    assert header.isascii()
    assert header.isprintable()
    assert header.startswith('attachment; filename="')
    assert header.count('"') == 2
    assert saved_as(header) == name
    assert name.endswith("-2026-11-17-1.png")
    assert len(name) < 110
    assert not set(name) & set('<>:"/\\|?*\r\n\0')
