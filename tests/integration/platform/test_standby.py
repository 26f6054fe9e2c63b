"""A promoted standby in the place of a lost server: nothing that was acknowledged is missing."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from local.servers import Server, free_port, start_postgres
from local.standby import Standby


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="artiway-standby-") as place:
        Path(place).chmod(0o755)
        yield Path(place)


def write(url: str, acknowledged: list[int], stop: threading.Event) -> None:
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            while not stop.is_set():
                row = connection.execute("INSERT INTO noted DEFAULT VALUES RETURNING number").fetchone()
                acknowledged.append(row[0] if row else 0)
    except psycopg.OperationalError:
        pass  # the server is gone


def test_acknowledged_commits_survive_the_loss_of_the_primary(home: Path) -> None:
    primary: Server = start_postgres(home, free_port())
    with psycopg.connect(primary.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE noted (number bigint GENERATED ALWAYS AS IDENTITY)")
    acknowledged: list[int] = []
    stop, standby = threading.Event(), Standby(home, primary.url)
    writer = threading.Thread(target=write, args=(primary.url, acknowledged, stop))
    # Stands for the launcher, which is held while the standby takes the primary's place.
    launcher = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        writer.start()
        standby.start()
        before = len(acknowledged)
        while len(acknowledged) < before + 20:
            assert writer.is_alive()
        standby.take_over(primary.process.pid, launcher.pid)
        assert launcher.poll() is None
    finally:
        stop.set()
        writer.join()
        standby.stop()
        primary.kill()
        launcher.kill()
        launcher.wait()
    again = start_postgres(home, primary.port)
    try:
        with psycopg.connect(again.url) as connection:
            assert connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)
            kept = {row[0] for row in connection.execute("SELECT number FROM noted").fetchall()}
        assert set(acknowledged) <= kept
    finally:
        again.stop()
