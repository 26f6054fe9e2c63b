"""Numbered migrations: each runs once, in order, in its own transaction, under one advisory lock."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files

import psycopg

from artiway.platform import sql
from artiway.platform.logs import Logger

logger = Logger("migrations")
SQL = sql.load("artiway.platform", "migrations.sql")
_FILE = re.compile(r"^(\d{4})_(\w+)\.sql$")


class MigrationChanged(RuntimeError):
    """The text of a migration that already ran has changed. Add a new migration instead."""


@dataclass(frozen=True)
class Migration:
    version: int
    name: str
    text: bytes

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text).hexdigest()


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


def migrate(owner_url: str) -> list[int]:
    """Run the missing migrations. Returns the versions that ran."""
    ran = []
    with psycopg.connect(owner_url, autocommit=True) as connection:
        connection.execute(SQL["take_lock"])  # held until the connection closes
        connection.execute(SQL["create_history"])
        done: dict[int, str] = dict(connection.execute(SQL["history"]).fetchall())
        for migration in available():
            if migration.version in done:
                if done[migration.version] != migration.checksum:
                    raise MigrationChanged(
                        f"migration {migration.version:04d}_{migration.name} was edited after it ran"
                    )
                continue
            with connection.transaction():
                connection.execute(migration.text)
                connection.execute(
                    SQL["remember"],
                    {"version": migration.version, "name": migration.name, "checksum": migration.checksum},
                )
            logger.info("migration ran", version=migration.version, migration=migration.name)
            ran.append(migration.version)
    return ran
