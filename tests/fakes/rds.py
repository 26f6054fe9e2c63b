"""RDS's way of signing in, in front of a real PostgreSQL: `+rds_iam` in pg_hba.conf decides who needs an IAM token."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
from psycopg import sql

from artiway.platform import iam_token
from local.servers import Server
from tests.fakes.tls import Front, relay, tls_front

HOST = "database.example.us-east-1.rds.amazonaws.com"
REGION = "us-east-1"
OWNER = "artiway_owner"
MASTER_PASSWORD = "master-password-of-rds"
# The front connects from here, so that pg_hba.conf can distinguish its connections from direct ones.
FRONT_ADDRESS = "127.0.0.2"
# RDS has `pam` in the place of `trust`. Here the front has checked the token before PostgreSQL is believed.
HBA = f"""
host all postgres  127.0.0.1/32       scram-sha-256
host all +rds_iam  {FRONT_ADDRESS}/32 trust
host all +rds_iam  all                reject
host all all       {FRONT_ADDRESS}/32 scram-sha-256
host all all       all                reject
"""
AUTHENTICATION_OK = b"R" + struct.pack("!ii", 8, 0)
ASK_PASSWORD = b"R" + struct.pack("!ii", 8, 3)
EXPECTS_ANSWER = {10, 11}  # AuthenticationSASL, AuthenticationSASLContinue
_OWNER_SESSION = threading.Lock()


@dataclass
class Rds:
    """The server and the master user that RDS makes: it has CREATEROLE and is no superuser."""

    server: Server
    front: Front
    roots: Path

    def url(self, user: str, password: str = "", *, host: str = HOST) -> str:
        secret = f":{password}" if password else ""
        return (
            f"postgresql://{user}{secret}@{host}:{self.front.port}/artiway"
            f"?hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert={self.roots}"
        )


def prepare(server: Server) -> None:
    """An empty database as RDS creates it."""
    with psycopg.connect(server.url, autocommit=True) as superuser:
        superuser.execute("CREATE ROLE rds_iam")
        superuser.execute(
            sql.SQL("CREATE ROLE artiway_owner LOGIN CREATEROLE CREATEDB PASSWORD {}").format(MASTER_PASSWORD)
        )
        superuser.execute("CREATE DATABASE artiway OWNER artiway_owner")
    _set_rules(server, HBA)


def remove(server: Server) -> None:
    with psycopg.connect(server.url, autocommit=True) as superuser:
        superuser.execute("DROP DATABASE IF EXISTS artiway WITH (FORCE)")
        superuser.execute(f"DROP ROLE IF EXISTS artiway_app, artiway_service, {OWNER}, rds_iam")
    _set_rules(server, "host all all all scram-sha-256\n")


def _set_rules(server: Server, rules: str) -> None:
    """Write pg_hba.conf and wait until new connections follow it."""
    with psycopg.connect(server.url, autocommit=True) as superuser:
        found = superuser.execute("SELECT current_setting('hba_file'), clock_timestamp()").fetchone()
        assert found is not None
        file, since = found
        Path(file).write_text(rules)
        superuser.execute("SELECT pg_reload_conf()")
    loaded = since
    while loaded <= since:
        with psycopg.connect(server.url) as later:
            (loaded,) = later.execute("SELECT pg_conf_load_time()").fetchone() or (since,)


@contextlib.contextmanager
def running_rds(server: Server, certificate: Path, roots: Path) -> Iterator[Rds]:
    serve = partial(_serve, server)
    with tls_front(server.port, certificate, is_postgres=True, source=FRONT_ADDRESS, serve=serve) as front:
        yield Rds(server, front, roots)


def _serve(server: Server, first: bytes, client: socket.socket, backend: socket.socket) -> None:
    """PostgreSQL lets a member of rds_iam in at once, which is the sign that it must show a token."""
    words = first[8:].decode().split("\0")
    user = dict(zip(words[::2], words[1::2], strict=False))["user"]
    answer = _message(backend)
    if answer == AUTHENTICATION_OK:
        client.sendall(ASK_PASSWORD)
        if not _is_token(_message(client)[5:-1].decode(), user):
            fields = f"SFATAL\0C28000\0MPAM authentication failed for user {user}\0\0".encode()
            client.sendall(b"E" + struct.pack("!i", len(fields) + 4) + fields)
            return
    while True:  # a password, until it is accepted or refused
        client.sendall(answer)
        if answer == AUTHENTICATION_OK:
            break
        if not answer.startswith(b"R"):
            return
        if struct.unpack("!i", answer[5:9])[0] in EXPECTS_ANSWER:
            backend.sendall(_message(client))
        answer = _message(backend)
    with _may_grant_rds_iam(server) if user == OWNER else contextlib.nullcontext():
        relay(client, backend)


def _message(source: socket.socket) -> bytes:
    head = _read(source, 5)
    if len(head) < 5:
        return b""
    return head + _read(source, struct.unpack("!i", head[1:])[0] - 4)


def _read(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := source.recv(size - len(data))):
        data += more
    return data


def _is_token(text: str, user: str) -> bool:
    """Whether the test's credentials signed the token for this user and host, as IAM checks it."""
    address = urlsplit(f"https://{text}")
    signed_at = parse_qs(address.query).get("X-Amz-Date")
    if signed_at is None or address.hostname != HOST or address.port is None:
        return False
    at = datetime.strptime(signed_at[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return text == iam_token.database_token(host=HOST, port=address.port, user=user, region=REGION, at=at)


@contextlib.contextmanager
def _may_grant_rds_iam(server: Server) -> Iterator[None]:
    """RDS lets its master user grant rds_iam without being a member. PostgreSQL needs a membership for that, so it
    exists while a session runs, and grants are kept as if the superuser had made them."""
    with _OWNER_SESSION, psycopg.connect(server.url, autocommit=True) as superuser:
        is_member = OWNER in _members(superuser)
        superuser.execute(f"GRANT rds_iam TO {OWNER} WITH ADMIN TRUE")
        if not is_member:
            superuser.execute(f"GRANT rds_iam TO {OWNER} WITH INHERIT FALSE, SET FALSE")
        yield
        with superuser.transaction():
            members = _members(superuser)
            superuser.execute(f"REVOKE rds_iam FROM {OWNER} CASCADE")
            for member in members:
                superuser.execute(sql.SQL("GRANT rds_iam TO {}").format(sql.Identifier(member)))


def _members(superuser: psycopg.Connection) -> set[str]:
    """Of rds_iam, without the membership that the front lends."""
    rows = superuser.execute(
        "SELECT member::regrole::text FROM pg_auth_members"
        " WHERE roleid = 'rds_iam'::regrole AND (inherit_option OR set_option)"
    )
    return {member for (member,) in rows}
