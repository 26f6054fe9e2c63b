"""The index of archived days in PostgreSQL, and their objects in S3."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

from artiway.errors import Unavailable
from artiway.jobs.archive.model import Batch, Member, OldDay, Part
from artiway.platform import sql
from artiway.platform.database import Database, Row, Transaction

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

SQL = sql.load("artiway.jobs.archive")


class ArchiveRows:
    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def lock(self) -> datetime | None:
        """Until the commit no other pass works. None: another one does."""
        row = self._one("lock_archive", {})
        return row["now"].astimezone(UTC) if row["is_locked"] else None

    def old_days(self, before: date) -> list[OldDay]:
        return [OldDay(row["kind"], row["day"]) for row in self._tx.all(SQL["old_days"], {"before": before})]

    def has_live_runs(self, day: date) -> bool:
        return bool(self._one("has_live_runs", _bounds(day))["is_found"])

    def fingerprint(self, old: OldDay) -> tuple[int, Any]:
        row = self._one(f"fingerprint_{old.kind}", _bounds(old.day))
        return row["rows"], row["fingerprint"]

    def rows(self, old: OldDay, *, after: UUID | None, limit: int) -> list[tuple[UUID, str]]:
        given = {**_bounds(old.day), "after": after, "limit": limit}
        return [(row["run_id"], row["line"]) for row in self._tx.all(SQL[f"rows_{old.kind}"], given)]

    def copying(self, old: OldDay) -> Batch | None:
        row = self._tx.one(SQL["copying"], old._asdict())
        return None if row is None else Batch(**row)

    def begin(self, old: OldDay, rows: int, fingerprint: Any) -> Batch:
        row = self._one("begin_batch", {**old._asdict(), "rows": rows, "fingerprint": fingerprint})
        return Batch(row["batch"], rows, fingerprint)

    def forget(self, old: OldDay, batch: int) -> None:
        self._tx.run(SQL["forget_batch"], {**old._asdict(), "batch": batch})

    def parts(self, old: OldDay, batch: int) -> list[Part]:
        rows = self._tx.all(SQL["parts_of_batch"], {**old._asdict(), "batch": batch})
        return [_part(row) for row in rows]

    def add_part(self, part: Part) -> None:
        members = json.dumps([member.as_data() for member in part.members])
        self._tx.run(SQL["add_part"], {**vars(part), "members": members})

    def drop(self, old: OldDay, batch: Batch) -> bool:
        """False: its rows are not those that were copied."""
        self._tx.run(SQL["lock_day"], old._asdict())
        if self.fingerprint(old) != (batch.rows, batch.fingerprint):
            return False
        self._tx.run(SQL["drop_day"], old._asdict())
        self._tx.run(SQL["note_drop"], {**old._asdict(), "batch": batch.batch})
        return True

    def expired(self, before: date, *, limit: int) -> list[Part]:
        return [_part(row) for row in self._tx.all(SQL["expired_parts"], {"before": before, "limit": limit})]

    def forget_part(self, part: Part) -> None:
        given = {"kind": part.kind, "day": part.day, "batch": part.batch, "part": part.part}
        self._tx.run(SQL["forget_part"], given)

    def forget_empty(self, before: date) -> None:
        self._tx.run(SQL["forget_empty"], {"before": before})

    def _one(self, query: str, parameters: dict[str, Any]) -> Row:
        row = self._tx.one(SQL[query], parameters)
        assert row is not None
        return row


class PostgresArchive:
    def __init__(self, database: Database) -> None:
        self._database = database

    @contextlib.contextmanager
    def open(self) -> Iterator[ArchiveRows]:
        with self._database.service_transaction() as tx:
            yield ArchiveRows(tx)


class PostgresParts:
    """The index, which is the same for every tenant. Joins the tenant's open transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def parts_with(self, tenant_id: UUID, kind: str, first: date, last: date, run_id: UUID | None) -> list[Part]:
        wanted = {"kind": kind, "first": first, "last": last, "run_id": run_id}
        with self._database.tenant_transaction(tenant_id) as tx:
            return [_part(row) for row in tx.all(SQL["parts_with"], wanted)]


class S3Archive:
    def __init__(self, bucket: str) -> None:
        self._bucket = bucket

    @cached_property
    def _s3(self) -> S3Client:
        import boto3
        from botocore.config import Config

        return boto3.client("s3", config=Config(connect_timeout=3, read_timeout=20, retries={"max_attempts": 2}))

    def put(self, key: str, content: bytes) -> None:
        self._s3.put_object(Bucket=self._bucket, Key=key, Body=content, ContentType="application/gzip")

    def get(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes | None:
        """None: there is no such object."""
        from botocore.exceptions import BotoCoreError, ClientError

        wanted = {} if length is None else {"Range": f"bytes={offset}-{offset + length - 1}"}
        try:
            return self._s3.get_object(Bucket=self._bucket, Key=key, **wanted)["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] in {"NoSuchKey", "404", "InvalidRange", "416"}:
                return None
            raise Unavailable("the archive does not answer", retry_after_s=30) from error
        except BotoCoreError as error:
            raise Unavailable("the archive does not answer", retry_after_s=30) from error

    def delete(self, key: str) -> None:
        self._s3.delete_object(Bucket=self._bucket, Key=key)


def _bounds(day: date) -> dict[str, datetime]:
    since = datetime.combine(day, time(), UTC)
    return {"since": since, "until": since + timedelta(days=1)}


def _part(row: Row) -> Part:
    return Part(**{**row, "members": [Member.from_data(one) for one in row["members"]]})
