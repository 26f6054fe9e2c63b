"""Writes layers/core/artiway/schema/schema.sql, the schema after all migrations: `make schema`."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from artiway.platform.migrations import migrate
from local.servers import free_port, postgres_install, running, start_postgres

TARGET = Path(__file__).parent.parent / "layers/core/artiway/schema/schema.sql"
# Partitions are named by their day and made at run time: they are not part of the schema.
DAY_PARTITIONS = "*_" + "[0-9]" * 8
HEADER = "-- The schema as the migrations leave it. Written by `make schema`; a test keeps it true.\n"


def dump(url: str) -> str:
    """The schema of a database as plain SQL, without the lines that differ between servers."""
    parts = conninfo_to_dict(url)
    binary = postgres_install() / "bin/pg_dump"
    text = subprocess.run(
        [
            str(binary),
            "--schema-only",
            "--no-owner",
            "--exclude-table=schema_migration",
            f"--exclude-table={DAY_PARTITIONS}",
        ],
        env={
            "PGDATABASE": str(parts["dbname"]),
            "PATH": os.environ["PATH"],
            "PGHOST": str(parts["host"]),
            "PGPORT": str(parts["port"]),
            "PGUSER": str(parts["user"]),
            "PGPASSWORD": str(parts["password"]),
        },
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    text = re.sub(r"(?m)^(CREATE POLICY .*? TO )([\w, ]+?)( USING| WITH|;)", _sorted_roles, text)
    lines = [
        line
        for line in text.splitlines()
        if line and not re.match(r"--($| |$)|SET |SELECT pg_catalog|\\(un)?restrict|CREATE SCHEMA public", line)
    ]
    return HEADER + re.sub(r";\n(?=[A-Z])", ";\n\n", "\n".join(lines)) + "\n"


def _sorted_roles(match: re.Match[str]) -> str:
    """Sort a policy's roles: pg_dump lists them in catalogue order, which an ALTER ROLE changes."""
    return match[1] + ", ".join(sorted(match[2].split(", "))) + match[3]


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as home,
        running(start_postgres(Path(home), free_port(), is_durable=False)) as server,
    ):
        Path(home).chmod(0o755)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE ROLE artiway_owner CREATEROLE LOGIN PASSWORD 'schema'")
            connection.execute("CREATE DATABASE artiway OWNER artiway_owner TEMPLATE template0")
        owner = make_conninfo(server.url, user="artiway_owner", password="schema", dbname="artiway")  # noqa: S106
        migrate(owner)
        TARGET.write_text(dump(owner), "utf-8")


if __name__ == "__main__":
    main()
