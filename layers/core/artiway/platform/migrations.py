"""Numbered migrations: each runs once and in order, before or after the new code, one runner at a time.

Comment lines at the start of a migration choose how it runs:

    -- phase: after        runs when the new code serves; without it, before
    -- undo: <SQL>         how to go back; every migration with phase after has one
    -- transaction: none   statements run one by one and must be repeatable (CREATE INDEX CONCURRENTLY)
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files

import psycopg
from psycopg import errors as pg
from psycopg import sql as composed

from artiway.platform import sql
from artiway.platform.logs import Logger

logger = Logger("migrations")
SQL = sql.load("artiway.platform", "migrations.sql")
_FILE = re.compile(r"^(\d{4})_(\w+)\.sql$")
_HEADER = re.compile(rb"^-- (phase|undo|transaction): *(.*?) *$", re.MULTILINE)
_END = re.compile(rb";[ \t]*(?:\n|$)")
_INDEX = re.compile(rb"\s*CREATE\s+(?:UNIQUE\s+)?INDEX\s+CONCURRENTLY\s+(IF\s+NOT\s+EXISTS\s+)?(\w+)", re.IGNORECASE)

WITHIN_S = 840.0
# A statement that waits for a lock makes all later writers wait behind it, so it gives up soon and tries again.
LOCK_TIMEOUT_MS = 2_000
LOCK_PAUSE_S = 5.0
RUNNER_PAUSE_S = 0.5


class Phase(StrEnum):
    BEFORE = "before"
    AFTER = "after"


class MigrationChanged(RuntimeError):
    """The text of a migration that already ran has changed. Add a new migration instead."""


class MigrationRefused(ValueError):
    """A migration has a header that is unknown or missing, or cannot be repeated."""


class MigrationBlocked(RuntimeError):
    """Another runner, or a transaction that holds a lock, did not end in time. Nothing of this migration remains."""


@dataclass(frozen=True)
class Migration:
    version: int
    name: str
    text: bytes

    def __post_init__(self) -> None:
        headers = self._headers
        if headers.get("phase", "before") not in list(Phase):
            raise MigrationRefused(f"{self}: phase is before or after, not {headers['phase']!r}")
        if headers.get("transaction", "none") != "none":
            raise MigrationRefused(f"{self}: transaction is none or left out")
        if self.phase is Phase.AFTER and not headers.get("undo"):
            raise MigrationRefused(f"{self}: a migration after the code needs a line `-- undo: <SQL>`")
        if not self.is_transaction and any(match and not match[1] for match in map(_INDEX.match, self.statements())):
            raise MigrationRefused(f"{self}: write CREATE INDEX CONCURRENTLY IF NOT EXISTS, so that it can run again")

    def __str__(self) -> str:
        return f"{self.version:04d}_{self.name}"

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text).hexdigest()

    @property
    def phase(self) -> Phase:
        return Phase(self._headers.get("phase", "before"))

    @property
    def is_transaction(self) -> bool:
        return "transaction" not in self._headers

    def statements(self) -> list[bytes]:
        """The statements without comments. A semicolon at the end of a line ends a statement."""
        text = re.sub(rb"(?m)^[ \t]*--.*\n?", b"", self.text)
        return [statement for part in _END.split(text) if (statement := part.strip())]

    @property
    def _headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in _HEADER.findall(self.text)}


def available() -> list[Migration]:
    folder = files("artiway.schema") / "migrations"
    found = sorted(
        (
            Migration(int(match[1]), match[2], file.read_bytes())
            for file in folder.iterdir()
            if (match := _FILE.match(file.name))
        ),
        key=lambda migration: migration.version,
    )
    versions = [migration.version for migration in found]
    if versions != list(range(1, len(found) + 1)):
        raise ValueError(f"migrations must be numbered 1..n without gap or repetition: {versions}")
    return found


def migrate(
    owner_url: str,
    *,
    phase: Phase | None = None,
    within_s: float = WITHIN_S,
    pause: Callable[[float], None] = time.sleep,
) -> list[int]:
    """Run the missing migrations of a phase, or of both. Returns the versions that ran.

    The connection must reach the server itself: a proxy could not keep the lock and the settings of a session.
    """
    limits = _Limits(time.monotonic() + within_s, pause)
    ran = []
    with psycopg.connect(owner_url, autocommit=True) as connection:
        _become_only_runner(connection, limits)
        connection.execute(SQL["sign_in_by_iam"])
        connection.execute(SQL["create_history"])
        done: dict[int, str] = dict(connection.execute(SQL["history"]).fetchall())
        for migration in available():
            if migration.version in done:
                if done[migration.version] != migration.checksum:
                    raise MigrationChanged(f"migration {migration} was edited after it ran")
                continue
            if phase not in (None, migration.phase):
                continue
            _run(connection, migration, limits)
            logger.info("migration ran", version=migration.version, migration=migration.name)
            ran.append(migration.version)
    return ran


@dataclass(frozen=True)
class _Limits:
    deadline: float
    pause: Callable[[float], None]

    @property
    def remaining_ms(self) -> int:
        return round((self.deadline - time.monotonic()) * 1_000)

    def pause_or_raise(self, seconds: float, reason: str) -> None:
        if self.remaining_ms < seconds * 1_000:
            raise MigrationBlocked(reason)
        self.pause(seconds)


def _become_only_runner(connection: psycopg.Connection, limits: _Limits) -> None:
    """Take the lock that the session keeps.

    A runner that waited inside a statement would hold a snapshot, and CREATE INDEX CONCURRENTLY of the other runner
    would wait for that snapshot: a deadlock.
    """
    while connection.execute(SQL["take_lock"]).fetchone() != (True,):
        limits.pause_or_raise(RUNNER_PAUSE_S, "another migration runs; try again when it has ended")


def _run(connection: psycopg.Connection, migration: Migration, limits: _Limits) -> None:
    remember = {"version": migration.version, "name": migration.name, "checksum": migration.checksum}
    while True:
        _limit(connection, limits, lock_ms=LOCK_TIMEOUT_MS if migration.is_transaction else 0)
        try:
            if migration.is_transaction:
                with connection.transaction():
                    connection.execute(migration.text)
                    connection.execute(SQL["remember"], remember)
            else:
                for statement in migration.statements():
                    _drop_unfinished_index(connection, statement)
                    connection.execute(statement)
                connection.execute(SQL["remember"], remember)
        except (pg.LockNotAvailable, pg.DeadlockDetected) as error:
            logger.warning("migration waits for a lock", version=migration.version, reason=type(error).__name__)
            limits.pause_or_raise(LOCK_PAUSE_S, f"migration {migration} found no moment without a conflicting lock")
        else:
            return


def _limit(connection: psycopg.Connection, limits: _Limits, *, lock_ms: int) -> None:
    """The server stops a statement in time for the deployment to report it. CONCURRENTLY blocks no writer, so it may
    wait for locks."""
    connection.execute(SQL["limit"], {"lock_ms": str(lock_ms), "statement_ms": str(max(1, limits.remaining_ms))})


def _drop_unfinished_index(connection: psycopg.Connection, statement: bytes) -> None:
    """CREATE INDEX CONCURRENTLY that failed leaves an invalid index, which IF NOT EXISTS would accept."""
    match = _INDEX.match(statement)
    if match is None:
        return
    name = match[2].decode()
    if connection.execute(SQL["is_invalid_index"], {"name": name}).fetchone() == (True,):
        connection.execute(composed.SQL("DROP INDEX CONCURRENTLY {}").format(composed.Identifier(name)))
