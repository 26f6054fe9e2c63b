"""PostgreSQL: one lazy connection per role and execution environment, and transactions that know their tenant."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from artiway.errors import ArtiwayError, Unavailable
from artiway.platform import iam_token
from artiway.platform.clock import Clock, SystemClock
from artiway.platform.logs import Logger

logger = Logger("database")

Row = dict[str, Any]
RETRY_AFTER_S = 2
_PASSING = (psycopg.OperationalError, pg.DeadlockDetected, pg.SerializationFailure, pg.QueryCanceled)


class DatabaseAway(Unavailable):
    """PostgreSQL cannot be reached, or would not answer in time. Nothing is known to have been written."""

    code = "PLATFORM_503_DATABASE"

    def __init__(self, reason: str) -> None:
        super().__init__("the database is away; try again", retry_after_s=RETRY_AFTER_S)
        self.reason = reason


class Transaction:
    """The open transaction: runs named SQL, and remembers what to do once it is committed."""

    def __init__(self, connection: psycopg.Connection[Row], tenant_id: UUID | None) -> None:
        self._connection = connection
        self.tenant_id = tenant_id
        self.callbacks: list[Callable[[], object]] = []

    def run(
        self, query: bytes, parameters: Mapping[str, Any] | None = None, *, on_duplicate: ArtiwayError | None = None
    ) -> int:
        """Run a statement and say how many rows it changed."""
        return self._execute(query, parameters, on_duplicate).rowcount

    def one(
        self, query: bytes, parameters: Mapping[str, Any] | None = None, *, on_duplicate: ArtiwayError | None = None
    ) -> Row | None:
        return self._execute(query, parameters, on_duplicate).fetchone()

    def all(self, query: bytes, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        return self._execute(query, parameters, None).fetchall()

    def run_many(self, query: bytes, rows: Sequence[Mapping[str, Any]]) -> int:
        """Run one statement for many rows in one round trip."""
        with self._connection.cursor() as cursor:
            cursor.executemany(query, rows)
            return cursor.rowcount

    def after_commit(self, callback: Callable[[], object]) -> None:
        """Do this once the outermost transaction is in the database, and not at all if it is rolled back."""
        self.callbacks.append(callback)

    def _execute(
        self, query: bytes, parameters: Mapping[str, Any] | None, on_duplicate: ArtiwayError | None
    ) -> psycopg.Cursor[Row]:
        try:
            return self._connection.execute(query, parameters)
        except pg.UniqueViolation as error:
            if on_duplicate is None:
                raise
            raise on_duplicate from error


class Database:
    """One role's way into PostgreSQL. Used by one thread at a time, as a function's environment is."""

    def __init__(
        self,
        url: str,
        *,
        connect_timeout_s: int = 3,
        statement_timeout_ms: int = 8_000,
        clock: Clock | None = None,
    ) -> None:
        self._url = url
        self._connect_timeout_s = connect_timeout_s
        self._statement_timeout_ms = statement_timeout_ms
        self._clock = clock
        self._connection: psycopg.Connection[Row] | None = None
        self._active: Transaction | None = None

    @contextlib.contextmanager
    def tenant_transaction(self, tenant_id: UUID) -> Iterator[Transaction]:
        """A transaction that sees and writes the rows of one tenant. Inside another of the same tenant it joins it."""
        if not isinstance(tenant_id, UUID):
            raise TypeError("a tenant transaction needs the tenant's UUID")
        with self._transaction(tenant_id) as tx:
            yield tx

    @contextlib.contextmanager
    def service_transaction(self) -> Iterator[Transaction]:
        """A transaction without a tenant: the service role's policies decide, any other role sees nothing."""
        with self._transaction(None) as tx:
            yield tx

    @contextlib.contextmanager
    def losable_transaction(self, tenant_id: UUID | None) -> Iterator[Transaction]:
        """For what may happen twice: the commit does not wait for the disk, and a crash of the server may undo it."""
        with self._transaction(tenant_id) as tx:
            tx.run(b"SET LOCAL synchronous_commit = off")
            yield tx

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def _transaction(self, tenant_id: UUID | None) -> Iterator[Transaction]:
        if self._active is not None:
            with self._joined(self._active, tenant_id) as tx:
                yield tx
            return
        tx = self._active = Transaction(self._begin(tenant_id), tenant_id)
        try:
            try:
                yield tx
            except BaseException:
                self._end(b"ROLLBACK")
                raise
            self._end(b"COMMIT")
        except _PASSING as error:
            self.close()
            raise DatabaseAway(type(error).__name__) from error
        finally:
            self._active = None
        for callback in tx.callbacks:
            try:
                callback()
            except Exception:
                logger.exception("work after commit failed")

    @contextlib.contextmanager
    def _joined(self, active: Transaction, tenant_id: UUID | None) -> Iterator[Transaction]:
        if active.tenant_id != tenant_id:
            raise RuntimeError("a transaction of one tenant cannot contain one of another")
        if self._connection is None:
            raise DatabaseAway("connection lost")
        registered = len(active.callbacks)
        try:
            with self._connection.transaction():  # a savepoint: an inner refusal leaves the outer act intact
                yield active
        except BaseException:
            del active.callbacks[registered:]
            raise

    def _begin(self, tenant_id: UUID | None) -> psycopg.Connection[Row]:
        """Open the transaction and set its tenant in one round trip; a connection that died idle is replaced once."""
        # The value is a UUID or empty, so that it can stand in the text of a query without parameters.
        begin = (
            f"BEGIN; SET LOCAL statement_timeout = {self._statement_timeout_ms};"
            f" SET LOCAL app.tenant_id = '{tenant_id or ''}'"
        ).encode()
        for is_last_try in (False, True):
            try:
                if self._connection is None:
                    self._connection = self._connect()
                    is_last_try = True
                self._connection.execute(begin)
            except _PASSING as error:
                self.close()
                if is_last_try:
                    raise DatabaseAway(type(error).__name__) from error
            else:
                return self._connection
        raise AssertionError("unreachable")

    def _end(self, command: bytes) -> None:
        if self._connection is None:
            return
        if command == b"ROLLBACK":
            try:
                self._connection.execute(command)
            except psycopg.Error:
                self.close()  # the server rolls back when the connection is gone
            return
        self._connection.execute(command)

    def _connect(self) -> psycopg.Connection[Row]:
        # No prepared statements, which would pin the session in RDS Proxy, and no start-up options, which it refuses.
        return psycopg.connect(
            with_iam_password(self._url, self._clock),
            autocommit=True,
            row_factory=dict_row,
            prepare_threshold=None,
            connect_timeout=self._connect_timeout_s,
            application_name=os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "artiway"),
        )


def with_iam_password(url: str, clock: Clock | None = None) -> str:
    """The address to connect with. One that names no password is signed with the function's own credentials."""
    parts = conninfo_to_dict(url)
    region = os.environ.get("AWS_REGION")
    if parts.get("password") or region is None:
        return url
    password = iam_token.database_token(
        host=str(parts["host"]),
        port=int(parts.get("port") or 5432),
        user=str(parts["user"]),
        region=region,
        at=(clock or SystemClock()).now(),
    )
    return make_conninfo(url, password=password)
