"""Creates the roles and the database of the platform on an empty PostgreSQL server."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from artiway.platform.sql import load
from local.files import write_whole
from local.servers import ServerFailed

ROLES = ("artiway_owner", "artiway_app", "artiway_service")
DATABASE = "artiway"
SQL = load("local", "bootstrap.sql")


def bootstrap(url: str, home: Path) -> Mapping[str, str]:
    """Create the roles and the database where missing, and return the connection URL of each role."""
    passwords = _passwords(home)
    address = urlsplit(url)
    place = f"{address.hostname}:{address.port or 5432}/{DATABASE}{'?' + address.query if address.query else ''}"
    urls = {role: f"postgresql://{role}:{password}@{place}" for role, password in passwords.items()}
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
            _run(connection, "create_owner", passwords)
            found = connection.execute(SQL["database_exists"]).fetchone()
            if not found or not found[0]:
                connection.execute(SQL["create_database"])
        with psycopg.connect(urls["artiway_owner"], autocommit=True, connect_timeout=5) as connection:
            _run(connection, "create_roles", passwords)
    except psycopg.Error as error:
        raise ServerFailed(f"the database could not be prepared: {error}") from error
    return urls


def _run(connection: psycopg.Connection, query: str, passwords: Mapping[str, str]) -> None:
    for role, password in passwords.items():
        connection.execute(SQL["set_role_password"], {"role": role, "password": password})
    connection.execute(SQL[query])


def in_database(url: str) -> str:
    """The same server and account, with the platform's database."""
    return urlsplit(url)._replace(path=f"/{DATABASE}").geturl()


def _passwords(home: Path) -> dict[str, str]:
    """Generated once per home. Only the owner can read the file."""
    file = home / "database.json"
    if not file.exists():
        write_whole(file, json.dumps({role: secrets.token_urlsafe(24) for role in ROLES}))
    passwords: dict[str, str] = json.loads(file.read_text())
    return passwords
