"""Archived days: an object is a series of gzip members, each with the rows of some runs. Pure.

`zcat` reads a whole object. The index has the first run, the place and the checksum of each member, so one run needs
one range of one object.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from typing import Any, NamedTuple
from uuid import UUID

from artiway.errors import Unavailable
from artiway.jobs.definitions.model import LogLine
from artiway.jobs.model import Run, RunKind, RunState, TaskType

_TIMES = frozenset(("scheduled_at", "assigned_at", "due_at", "started_at", "ended_at", "dead_at", "created_at"))
# About 200 runs: small enough to read for one run, large enough to compress well.
MEMBER_ROWS = 200


class Member(NamedTuple):
    first_id: UUID
    offset: int
    length: int
    sha256: str

    def as_data(self) -> list[Any]:
        return [str(self.first_id), self.offset, self.length, self.sha256]

    @classmethod
    def from_data(cls, data: Sequence[Any]) -> Member:
        return cls(UUID(data[0]), int(data[1]), int(data[2]), str(data[3]))


@dataclass(frozen=True)
class Packed:
    """The content of an object and its index."""

    content: bytes
    members: Sequence[Member]
    first_id: UUID
    last_id: UUID
    rows: int

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True)
class Part:
    kind: str
    day: date
    batch: int
    part: int
    first_id: UUID
    last_id: UUID
    key: str
    rows: int
    bytes: int
    sha256: str
    members: Sequence[Member]


class OldDay(NamedTuple):
    kind: str
    day: date


class Batch(NamedTuple):
    batch: int
    rows: int
    fingerprint: Any


class ArchiveDamaged(Unavailable):
    """An object is missing, or is not what was stored."""

    code = "JOB_503_ARCHIVE_DAMAGED"

    def __init__(self, key: str, reason: str) -> None:
        super().__init__("the archive of this day cannot be read", retry_after_s=300, object=key, reason=reason)


def packed(rows: Sequence[tuple[UUID, str]]) -> Packed:
    """`rows` are (run, line), sorted by run. Rows of one run are in one member."""
    members: list[Member] = []
    content = bytearray()
    start = 0
    while start < len(rows):
        end = min(start + MEMBER_ROWS, len(rows))
        while end < len(rows) and rows[end][0] == rows[end - 1][0]:
            end += 1
        text = "".join(f"{line}\n" for _, line in rows[start:end])
        member = gzip.compress(text.encode(), compresslevel=6, mtime=0)
        members.append(Member(rows[start][0], len(content), len(member), hashlib.sha256(member).hexdigest()))
        content += member
        start = end
    return Packed(bytes(content), members, rows[0][0], rows[-1][0], len(rows))


def member_of(part: Part, run_id: UUID) -> Member:
    """The member that has the run, if the part has it."""
    place = bisect_right([member.first_id for member in part.members], run_id) - 1
    return part.members[max(0, place)]


def lines(part: Part, content: bytes, members: Iterable[Member], *, start: int = 0) -> list[str]:
    """The rows of these members. `content` begins at `start` of the object. Raises ArchiveDamaged."""
    found: list[str] = []
    for member in members:
        piece = content[member.offset - start : member.offset - start + member.length]
        if hashlib.sha256(piece).hexdigest() != member.sha256:
            raise ArchiveDamaged(part.key, "a checksum differs")
        try:
            found += gzip.decompress(piece).decode().splitlines()
        except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
            raise ArchiveDamaged(part.key, "it cannot be decompressed") from error
    return found


def verify(part: Part, content: bytes) -> None:
    """Whether an object is what was stored: length, checksum and number of rows. Raises ArchiveDamaged."""
    if len(content) != part.bytes or hashlib.sha256(content).hexdigest() != part.sha256:
        raise ArchiveDamaged(part.key, "length or checksum differ")
    if len(lines(part, content, part.members)) != part.rows:
        raise ArchiveDamaged(part.key, "rows are missing")


def key_of(kind: str, day: date, batch: int, part: int) -> str:
    return f"archive/{kind}/{day.isoformat()}/{batch:03d}-{part:05d}.jsonl.gz"


def as_run(row: Mapping[str, Any]) -> Run:
    """From the line of an archived run."""
    values = {field.name: row.get(field.name) for field in fields(Run)}
    for name in ("tenant_id", "run_id", "job_id", "task_id"):
        values[name] = None if row[name] is None else UUID(row[name])
    for name in values.keys() & _TIMES:
        values[name] = _time(values[name])
    kinds = {"kind": RunKind(row["kind"]), "state": RunState(row["state"]), "task_type": TaskType(row["task_type"])}
    return Run(**{**values, **kinds})


def as_line(row: Mapping[str, Any]) -> LogLine:
    at = _time(row["at"])
    assert at is not None
    return LogLine(UUID(row["log_id"]), at, row["attempt"], row["level"], row["message"])


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
