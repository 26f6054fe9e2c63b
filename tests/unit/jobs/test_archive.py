"""The format of archived days: members, index, checksums."""

from __future__ import annotations

import gzip
from datetime import date
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artiway.jobs.archive.model import (
    MEMBER_ROWS,
    ArchiveDamaged,
    Member,
    Packed,
    Part,
    lines,
    member_of,
    packed,
    verify,
)


def part_of(content: Packed) -> Part:
    size = len(content.content)
    head = ("run_log", date(2026, 3, 2), 1, 0, content.first_id, content.last_id, "key", content.rows, size)
    return Part(*head, content.sha256, content.members)


def rows_of(runs: list[int]) -> list[tuple[UUID, str]]:
    ordered = sorted(runs)
    return [(UUID(int=number), f'{{"run": {number}, "place": {place}}}') for place, number in enumerate(ordered)]


@given(st.lists(st.integers(1, 400), min_size=1, max_size=900))
def test_each_run_is_found_by_one_member(runs):
    rows = rows_of(runs)
    content = packed(rows)
    part = part_of(content)
    verify(part, content.content)
    assert gzip.decompress(content.content).decode().splitlines() == [line for _, line in rows]
    for number in sorted({*runs})[::40]:
        member = member_of(part, UUID(int=number))
        piece = content.content[member.offset : member.offset + member.length]
        found = lines(part, piece, [member], start=member.offset)
        assert [line for line in found if f'"run": {number},' in line] == [
            line for run_id, line in rows if run_id.int == number
        ]


def test_rows_are_spread_over_members():
    content = packed(rows_of(list(range(1, 1_001))))
    assert len(content.members) == 1_000 // MEMBER_ROWS
    assert [Member.from_data(one.as_data()) for one in content.members] == list(content.members)


@pytest.mark.parametrize("change", ["shorter", "other", "empty", "longer"])
def test_changed_object_is_damaged(change):
    content = packed(rows_of(list(range(1, 500))))
    part, stored = part_of(content), content.content
    changed = {
        "shorter": stored[:-1],
        "other": stored[:100] + bytes([stored[100] ^ 1]) + stored[101:],
        "empty": b"",
        "longer": stored + b"x",
    }[change]
    with pytest.raises(ArchiveDamaged):
        verify(part, changed)


def test_changed_member_is_damaged():
    content = packed(rows_of(list(range(1, 500))))
    part = part_of(content)
    member = content.members[1]
    piece = bytearray(content.content[member.offset : member.offset + member.length])
    piece[20] ^= 1
    with pytest.raises(ArchiveDamaged):
        lines(part, bytes(piece), [member], start=member.offset)
