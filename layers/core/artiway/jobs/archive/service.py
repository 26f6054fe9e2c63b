"""Moves old days of runs, results and logs to objects, and reads them there.

A day leaves PostgreSQL only after each object was read back and compared, and only if its rows are still those that
were copied. A pass that ends early continues at the next part.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from artiway.jobs.archive.model import (
    ArchiveDamaged,
    Batch,
    OldDay,
    Packed,
    Part,
    as_line,
    as_run,
    key_of,
    lines,
    member_of,
    packed,
    verify,
)
from artiway.jobs.archive.settings import HOT_DAYS, KEEP_DAYS
from artiway.jobs.definitions.model import LogLine
from artiway.jobs.model import Run
from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.settings.model import SettingValues

logger = Logger("jobs")
PART_ROWS = 50_000
EXPIRED_PARTS = 500
LAST_MS = 250_000_000_000_000
# The logs of a run lie between its creation and so long after its end.
LOG_SLACK = timedelta(days=1)


class ArchiveTransaction(Protocol):
    def lock(self) -> datetime | None: ...
    def old_days(self, before: date) -> list[OldDay]: ...
    def has_live_runs(self, day: date) -> bool: ...
    def fingerprint(self, old: OldDay) -> tuple[int, Any]: ...
    def rows(self, old: OldDay, *, after: UUID | None, limit: int) -> list[tuple[UUID, str]]: ...
    def copying(self, old: OldDay) -> Batch | None: ...
    def begin(self, old: OldDay, rows: int, fingerprint: Any) -> Batch: ...
    def forget(self, old: OldDay, batch: int) -> None: ...
    def parts(self, old: OldDay, batch: int) -> list[Part]: ...
    def add_part(self, part: Part) -> None: ...
    def drop(self, old: OldDay, batch: Batch) -> bool: ...
    def expired(self, before: date, *, limit: int) -> list[Part]: ...
    def forget_part(self, part: Part) -> None: ...
    def forget_empty(self, before: date) -> None: ...


class ArchiveStore(Protocol):
    def open(self) -> AbstractContextManager[ArchiveTransaction]: ...


class Objects(Protocol):
    def put(self, key: str, content: bytes) -> None: ...
    def get(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes | None: ...
    def delete(self, key: str) -> None: ...


class ArchiveService:
    """Each step is a transaction of its own under one lock, so two passes at once do not copy a day twice."""

    def __init__(
        self, store: ArchiveStore, objects: Objects, values: SettingValues, *, monotonic: Callable[[], float]
    ) -> None:
        self._store, self._objects, self._values, self._monotonic = store, objects, values, monotonic

    def run(self, *, within_s: float) -> dict[str, int]:
        """Archive old days, oldest first, and delete what has been kept long enough."""
        deadline = self._monotonic() + within_s
        counts = {"days": 0, "parts": 0, "failures": 0, "expired": 0}
        with self._store.open() as tx:
            now = tx.lock()
            if now is None:
                return counts
            old = tx.old_days(now.date() - timedelta(days=self._values.get(HOT_DAYS)))
        for day in old:
            while self._monotonic() < deadline:
                try:
                    step = self._step(day)
                except ArchiveDamaged as error:
                    logger.error("copy of a day is damaged", kind=day.kind, day=day.day.isoformat(), **error.details)
                    self._start_anew(day)
                    counts["failures"] += 1
                    break
                except Exception as error:
                    # The day stays: a later pass repeats the step. Other days go on.
                    logger.exception("day not archived", kind=day.kind, day=day.day.isoformat(), reason=str(error))
                    counts["failures"] += 1
                    break
                if step is None:
                    break
                counts[step] += 1
                if step == "days":
                    break
        counts["expired"] = self._expire(now.date() - timedelta(days=self._values.get(KEEP_DAYS)))
        metrics.emit("ArchiveFailures", counts["failures"])
        metrics.emit("ArchiveWaitingDays", max(0, len({one.day for one in old}) - counts["days"]), "None")
        return counts

    def _step(self, old: OldDay) -> str | None:
        """Copy one part, or verify and drop the day. None: it has to wait."""
        with self._store.open() as tx:
            if tx.lock() is None or (old.kind == "job_run" and tx.has_live_runs(old.day)):
                return None
            batch = tx.copying(old)
            if batch is None:
                batch = tx.begin(old, *tx.fingerprint(old))
            known = tx.parts(old, batch.batch)
            rows = tx.rows(old, after=known[-1].last_id if known else None, limit=PART_ROWS)
            if rows:
                part = self._stored(old, batch.batch, len(known), packed(rows))
                tx.add_part(part)
                return "parts"
            for part in known:
                verify(part, self._read(part))
            if sum(part.rows for part in known) != batch.rows or not tx.drop(old, batch):
                # A row changed since: the day is copied again.
                logger.warning("day changed while it was archived", kind=old.kind, day=old.day.isoformat())
                tx.forget(old, batch.batch)
                return None
        logger.info("day archived", kind=old.kind, day=old.day.isoformat(), rows=batch.rows)
        return "days"

    def _start_anew(self, old: OldDay) -> None:
        """The next pass copies the day again."""
        with self._store.open() as tx:
            batch = None if tx.lock() is None else tx.copying(old)
            if batch is not None:
                tx.forget(old, batch.batch)

    def _stored(self, old: OldDay, batch: int, number: int, content: Packed) -> Part:
        key = key_of(old.kind, old.day, batch, number)
        self._objects.put(key, content.content)
        return Part(
            kind=old.kind,
            day=old.day,
            batch=batch,
            part=number,
            first_id=content.first_id,
            last_id=content.last_id,
            key=key,
            rows=content.rows,
            bytes=len(content.content),
            sha256=content.sha256,
            members=content.members,
        )

    def _read(self, part: Part) -> bytes:
        content = self._objects.get(part.key)
        if content is None:
            raise ArchiveDamaged(part.key, "it is missing")
        return content

    def _expire(self, before: date) -> int:
        with self._store.open() as tx:
            parts = tx.expired(before, limit=EXPIRED_PARTS)
            for part in parts:
                self._objects.delete(part.key)
                tx.forget_part(part)
            tx.forget_empty(before)
        return len(parts)


class ColdParts(Protocol):
    def parts_with(self, tenant_id: UUID, kind: str, first: date, last: date, run_id: UUID | None) -> list[Part]: ...


class ColdReader:
    """Reads archived rows of one tenant. Raises ArchiveDamaged."""

    def __init__(self, parts: ColdParts, objects: Objects) -> None:
        self._parts, self._objects = parts, objects

    def run(self, tenant_id: UUID, run_id: UUID) -> Run | None:
        # An id of a request can name any time.
        day = datetime.fromtimestamp(min(run_id.int >> 80, LAST_MS) / 1_000, UTC).date()
        found = self._rows("job_run", tenant_id, day - timedelta(days=1), day + timedelta(days=1), run_id)
        return as_run(found[-1]) if found else None

    def log(self, tenant_id: UUID, run: Run) -> list[LogLine]:
        since, until = (run.created_at - LOG_SLACK).date(), ((run.ended_at or run.created_at) + LOG_SLACK).date()
        return [as_line(row) for row in self._rows("run_log", tenant_id, since, until, run.run_id)]

    def runs_of_job(self, tenant_id: UUID, job_id: UUID, since: datetime, until: datetime) -> list[Run]:
        """Reads whole days: for a range that was archived."""
        found = self._rows("job_run", tenant_id, since.date(), until.date(), None)
        runs = (as_run(row) for row in found if row["job_id"] == str(job_id))
        return [run for run in runs if since <= run.scheduled_at < until]

    def _rows(
        self, kind: str, tenant_id: UUID, first: date, last: date, run_id: UUID | None
    ) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        for part in self._parts.parts_with(tenant_id, kind, first, last, run_id):
            for line in self._lines(part, run_id):
                row = json.loads(line)
                if row["tenant_id"] == str(tenant_id) and run_id in {None, UUID(row["run_id"])}:
                    found.append(row)
        return found

    def _lines(self, part: Part, run_id: UUID | None) -> Sequence[str]:
        if run_id is None:
            content = self._objects.get(part.key)
            members, start = part.members, 0
        else:
            member = member_of(part, run_id)
            content = self._objects.get(part.key, offset=member.offset, length=member.length)
            members, start = [member], member.offset
        if content is None:
            raise ArchiveDamaged(part.key, "it is missing")
        return lines(part, content, members, start=start)
