"""PostgreSQL: one lazy connection per role and execution environment, and transactions that know their tenant."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

import psycopg
from psycopg import errors as pg
from psycopg import generators, waiting
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from artiway.errors import ArtiwayError, Unavailable
from artiway.platform import iam_token, waits
from artiway.platform.clock import Clock, SystemClock
from artiway.platform.logs import Logger
from artiway.platform.secrets import Secret

logger = Logger("database")

Row = dict[str, Any]
RETRY_AFTER_S = 2
NO_READER = "off"
# The server's statement_timeout is this much shorter than the client's limit, so that the server stops first.
HEAD_START_S = 0.2
# How often psycopg checks for signals while it waits: psycopg's own value.
_POLL_S = 0.1
# A client that vanishes with its host closes no connection: without this limit its row locks would stay for hours.
IDLE_TRANSACTION_MS = 60_000
_T = TypeVar("_T")
_PASSING = (
    psycopg.OperationalError,
    pg.DeadlockDetected,
    pg.IdleInTransactionSessionTimeout,
    pg.SerializationFailure,
    pg.QueryCanceled,
)


class DatabaseAway(Unavailable):
    """PostgreSQL cannot be reached or did not answer in time. The outcome of an open transaction is unknown."""

    code = "PLATFORM_503_DATABASE"

    def __init__(self, reason: str) -> None:
        super().__init__("the database is away; try again", retry_after_s=RETRY_AFTER_S)
        self.reason = reason


class ServerSilent(psycopg.OperationalError):
    """No answer in time. The connection is closed, but the server may still run the statement."""


class _Connection(psycopg.Connection[Row]):
    """Waits for each answer at most `limit_s` on the client's clock: a server that hangs enforces no timeout."""

    limit_s: float
    request_s: float

    def wait(self, gen: PQGen[_T], interval: float = _POLL_S, timeout: float | None = None) -> _T:
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        try:
            with _waiting(self.limit_s, request_s=self.request_s) as remaining_s:
                return super().wait(gen, interval, remaining_s)
        except ServerSilent:
            self.pgconn.finish()  # does not wait either
            raise


@contextlib.contextmanager
def _waiting(limit_s: float, *, request_s: float) -> Iterator[float]:
    """Count a wait against its request. Raises ServerSilent if no time remains or the wait timed out."""
    waited = waits.current()
    remaining_s = waited.remaining_s(limit_s, request_s=request_s)
    if remaining_s <= 0:
        raise ServerSilent("no time remains to wait for the server")
    began = time.monotonic()
    try:
        yield remaining_s
    except psycopg.OperationalError as error:
        if time.monotonic() - began < remaining_s:
            raise
        waited.is_server_silent = True
        logger.warning("database did not answer in time", waited_s=round(remaining_s, 3))
        raise ServerSilent("the server did not answer in time") from error
    finally:
        waited.total_s += time.monotonic() - began


class Transaction:
    """The open transaction: runs statements and keeps the callbacks for after the commit."""

    def __init__(self, connection: psycopg.Connection[Row], tenant_id: UUID | None) -> None:
        self._connection = connection
        self.tenant_id = tenant_id
        self.callbacks: list[Callable[[], object]] = []

    def run(
        self, query: bytes, parameters: Mapping[str, Any] | None = None, *, on_duplicate: ArtiwayError | None = None
    ) -> int:
        """Run a statement. Returns how many rows it changed."""
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
        """Call this after the outermost transaction has committed; never after a rollback."""
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
    """A connection of one role. Only one thread at a time uses it.

    The default limits are for batch programs; functions get theirs from the settings.
    """

    def __init__(
        self,
        url: str,
        *,
        connect_timeout_s: float = 3,
        begin_timeout_s: float = 8,
        statement_timeout_ms: int = 8_000,
        request_timeout_s: float = 60,
        idle_transaction_ms: int = IDLE_TRANSACTION_MS,
        clock: Clock | None = None,
        is_read_only: bool = False,
    ) -> None:
        """With `is_read_only` the server refuses every write, also where the address is the writer's."""
        self._url = url
        self._begin_command = "BEGIN READ ONLY" if is_read_only else "BEGIN"
        self._connect_timeout_s = connect_timeout_s
        self._begin_timeout_s = begin_timeout_s
        self._statement_timeout_ms = statement_timeout_ms
        self._request_timeout_s = request_timeout_s
        self._idle_transaction_ms = idle_transaction_ms
        self._clock = clock
        self._connection: _Connection | None = None
        self._active: Transaction | None = None

    @contextlib.contextmanager
    def tenant_transaction(self, tenant_id: UUID) -> Iterator[Transaction]:
        """A transaction on the rows of one tenant. Inside another one of the same tenant it is a savepoint."""
        if not isinstance(tenant_id, UUID):
            raise TypeError("a tenant transaction needs the tenant's UUID")
        with self._transaction(tenant_id) as tx:
            yield tx

    @contextlib.contextmanager
    def service_transaction(self) -> Iterator[Transaction]:
        """A transaction without a tenant: the row policies let the service role see all rows and others none."""
        with self._transaction(None) as tx:
            yield tx

    def read_shared(self, query: bytes) -> list[Row]:
        """Rows that every tenant may read; inside an open transaction, whatever its tenant."""
        with self._transaction(None if self._active is None else self._active.tenant_id) as tx:
            return tx.all(query)

    def read_all_tenants(self, query: bytes, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """Rows of all tenants; inside an open transaction of the service without a savepoint."""
        if self._active is None:
            with self._transaction(None) as tx:
                return tx.all(query, parameters)
        if self._active.tenant_id is not None:
            raise RuntimeError("a transaction of one tenant cannot read the rows of all")
        return self._active.all(query, parameters)

    def run_alone(self, query: bytes, parameters: Mapping[str, Any]) -> None:
        """Run one statement as a transaction of its own, in one round trip. The statement sets its tenant itself."""
        if self._active is not None:
            raise RuntimeError("a transaction is open")
        try:
            if self._connection is None:
                self._connection = self._connect()
            self._connection.limit_s = self._statement_limit_s
            self._connection.execute(query, parameters)
        except _PASSING as error:
            self.close()
            raise DatabaseAway(type(error).__name__) from error

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
                logger.exception("callback after commit failed")

    @contextlib.contextmanager
    def _joined(self, active: Transaction, tenant_id: UUID | None) -> Iterator[Transaction]:
        if active.tenant_id != tenant_id:
            raise RuntimeError("a transaction of one tenant cannot contain one of another")
        if self._connection is None:
            raise DatabaseAway("connection lost")
        registered = len(active.callbacks)
        try:
            with self._connection.transaction():  # a savepoint: an inner failure keeps the outer work
                yield active
        except BaseException:
            del active.callbacks[registered:]
            raise

    def _begin(self, tenant_id: UUID | None) -> psycopg.Connection[Row]:
        """Begin and set the tenant in one round trip; a connection that died idle is replaced once.

        BEGIN needs no lock and no disk, so a server that does not answer it hangs: its limit is short everywhere.
        """
        for is_last_try in (False, True):
            try:
                if self._connection is None:
                    self._connection = self._connect()
                    is_last_try = True
                self._connection.limit_s = self._begin_timeout_s
                self._connection.execute(self._begin_text(tenant_id))
                self._connection.limit_s = self._statement_limit_s
            except _PASSING as error:
                self.close()
                if is_last_try or isinstance(error, ServerSilent):
                    raise DatabaseAway(type(error).__name__) from error
            else:
                return self._connection
        raise AssertionError("unreachable")

    def _begin_text(self, tenant_id: UUID | None) -> bytes:
        """The values are numbers and a UUID or empty, so they need no parameters."""
        remaining_s = waits.current().remaining_s(self._statement_limit_s, request_s=self._request_timeout_s)
        timeout_ms = max(1, round((remaining_s - HEAD_START_S) * 1_000))
        return (
            f"{self._begin_command}; SET LOCAL statement_timeout = {timeout_ms};"
            f" SET LOCAL idle_in_transaction_session_timeout = {self._idle_transaction_ms};"
            f" SET LOCAL app.tenant_id = '{tenant_id or ''}'"
        ).encode()

    @property
    def _statement_limit_s(self) -> float:
        return self._statement_timeout_ms / 1_000 + HEAD_START_S

    def _end(self, command: bytes) -> None:
        if self._connection is None:
            return
        if command == b"ROLLBACK":
            try:
                self._connection.execute(command)
            except psycopg.Error:
                self.close()  # the server rolls back when the connection closes
            return
        self._connection.execute(command)

    def _connect(self) -> _Connection:
        """All addresses of the host share one limit. libpq's connect_timeout is at least two seconds for each."""
        address = make_conninfo(
            with_iam_password(self._url, self._clock),
            application_name=os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "artiway"),
        )
        try:
            with _waiting(self._connect_timeout_s, request_s=self._request_timeout_s) as remaining_s:
                connected = waiting.wait_conn(generators.connect(address), interval=_POLL_S, timeout=remaining_s)
        except psycopg.OperationalError as error:  # a wrong certificate, for example: callers see only DatabaseAway
            logger.warning("database connection refused", reason=str(error))
            raise
        connection = _Connection(connected, row_factory=dict_row)
        connection.limit_s, connection.request_s = self._statement_limit_s, self._request_timeout_s
        connection.autocommit = True
        # RDS Proxy pins sessions with prepared statements and refuses start-up options, so neither is used.
        connection.prepare_threshold = None
        return connection


def reader_or_writer(
    writer: Callable[[], Database], url: str, *, host: str, connect: Callable[[str], Database]
) -> Database:
    """The replica at another host, or the writer's connection where no replica is set."""
    return writer() if host == NO_READER else connect(make_conninfo(url, host=host))


def owner_address(url: str, secret: Secret, *, connect_timeout_s: int = 10) -> str:
    """The address with which the owner signs in: with IAM, or with the password of RDS's secret.

    RDS accepts IAM from members of rds_iam, and the owner joins them with its first migration.
    """
    with_token = with_iam_password(url)
    try:
        psycopg.connect(with_token, connect_timeout=connect_timeout_s).close()
    except psycopg.OperationalError as error:
        text = secret.text() if "authentication failed" in str(error) else ""
        if not text:
            raise
        return make_conninfo(url, password=json.loads(text)["password"])
    return with_token


def with_iam_password(url: str, clock: Clock | None = None) -> str:
    """The address to connect with. Without a password, IAM authentication provides one."""
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
