"""The same due rows by pg-boss, on the same PostgreSQL in a database of its own. Installed on demand."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from bench.jobs.world import World

HERE = Path(__file__).parent
HOME = HERE.parent.parent / ".tools" / "bench" / "jobs"
PACKAGE = "pg-boss@10.4.2"
LIMIT_S = 900


def pg_boss(world: World, *, count: int, seconds: int) -> dict[str, Any]:
    """With `seconds` the rows are due one after the other, else all at one time."""
    _install()
    with psycopg.connect(world.admin_url, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS pg_boss WITH (FORCE)")
        connection.execute("CREATE DATABASE pg_boss")
    parts = conninfo_to_dict(world.admin_url)
    url = f"postgres://{parts['user']}:{parts.get('password', '')}@{parts['host']}:{parts['port']}/pg_boss"
    script = HOME / "pg_boss.mjs"
    script.write_text((HERE / "pg_boss.mjs").read_text())
    command = ["node", str(script), url, str(count), str(seconds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT_S)
    return json.loads(done.stdout.strip().splitlines()[-1])


def _install() -> None:
    if not (HOME / "node_modules" / "pg-boss").exists():
        HOME.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--prefix", str(HOME), PACKAGE], check=True)
