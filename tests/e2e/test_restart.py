"""`python -m local` as a user runs it: kill -9, a second run, a taken port, Ctrl-C, given servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import aiohttp
import psycopg
import pytest

from local.processes import identity
from local.servers import free_port, port_is_open, running, start_postgres, start_valkey
from local.stack import Stack
from tests.e2e.conftest import Platform, folder, wait_for

ROOT = Path(__file__).resolve().parent.parent.parent
READY = "Artiway is running"


class Run:
    """One `python -m local`, with its output."""

    def __init__(self, home: Path, port: int, **environment: str) -> None:
        self.home = home
        self.log = home.parent / f"run-{uuid4().hex}.log"
        settings = {"ARTIWAY_HOME": str(home), "ARTIWAY_PORT": str(port), "PYTHONPATH": f"{ROOT}/layers/core:{ROOT}"}
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "local"],
                cwd=ROOT,
                env={**os.environ, **settings, **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def output(self) -> str:
        return self.log.read_text()

    def ready(self) -> Platform:
        wait_for(lambda: READY in self.output() or self.process.poll() is not None, 90)
        assert READY in self.output(), self.output()
        return Platform(json.loads((self.home / "stack.json").read_text()))

    def children(self) -> list[int]:
        return [int(file.name) for file in (self.home / "processes").iterdir()]

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(60)


@pytest.fixture
def home() -> Iterator[Path]:
    with folder() as parent:
        yield parent / "home"


@contextlib.contextmanager
def started(home: Path, port: int, **environment: str) -> Iterator[Run]:
    run = Run(home, port, **environment)
    try:
        yield run
    finally:
        run.end()


def test_next_run_keeps_data_after_kill_9(home: Path) -> None:
    port, key = free_port(), uuid4().hex
    with started(home, port) as first:
        platform = first.ready()
        before = platform.facts
        user = platform.user()
        bucket = next(b["Name"] for b in platform.aws("s3").list_buckets()["Buckets"] if "artefact" in b["Name"])
        platform.aws("s3").put_object(Bucket=bucket, Key=f"{key}/photo", Body=b"a photo")
        with psycopg.connect(before["databaseUrl"]) as connection:
            connection.execute(
                "INSERT INTO outbox (tenant_id, aggregate, destination, body, created_at)"
                " VALUES (%s, %s, 'push', %s, now() - interval '1 minute')",
                (user.tenant_id, f"user:{user.user_id}", user.notice(42)),
            )
        killed = [first.process.pid, *first.children()]
        assert len(killed) > 4
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        first.process.wait()
        wait_for(lambda: not port_is_open(port))

    with started(home, port) as second:
        platform = second.ready()
        assert platform.facts == before
        assert platform.health()["status"] == "ok"
        kept = platform.aws("s3").get_object(Bucket=bucket, Key=f"{key}/photo")["Body"]
        assert kept.read() == b"a photo"
        kept.close()

        async def scenario() -> None:
            async with aiohttp.ClientSession() as session:
                # The token is of the first run; the cursor 0 asks for every event.
                socket = await session.ws_connect(f"{platform.facts['wsUrl']}?token={user.token}&after=0")
                types = [(await socket.receive_json(timeout=60))["type"] for _ in range(2)]
                assert types == ["connected", "task.progress"]
                await socket.close()

        asyncio.run(scenario())
        assert second.end(signal.SIGINT) == 0


def test_next_run_ends_processes_of_killed_launcher(home: Path) -> None:
    port = free_port()
    with started(home, port) as first:
        first.ready()
        orphans = {pid: identity(pid) for pid in first.children()}
        first.process.kill()
        first.process.wait()
        assert any(identity(pid) == known for pid, known in orphans.items())
    with started(home, port) as second:
        platform = second.ready()
        assert "of a killed run" in second.output()
        assert not [pid for pid, known in orphans.items() if known and identity(pid) == known]
        assert platform.health()["status"] == "ok"
        children = {pid: identity(pid) for pid in second.children()}
        assert second.end(signal.SIGTERM) == 0
    assert not [pid for pid, known in children.items() if known and identity(pid) == known]
    assert not (home / "stack.json").exists()
    assert second.children() == []


def test_second_run_in_same_home_is_refused(stack: Stack) -> None:
    with started(stack.home, free_port()) as second:
        assert second.process.wait(30) == 1
        assert f"already running in {stack.home}: pid {os.getpid()}, at {stack.url}" in second.output()
        assert len(second.output().strip().splitlines()) == 1


def test_taken_port_is_reported_with_its_holder(stack: Stack, home: Path) -> None:
    with started(home, stack.port) as second:
        assert second.process.wait(30) == 1
        assert f"port {stack.port} is taken (pid {os.getpid()}" in second.output()
        assert "ARTIWAY_PORT=" in second.output()


def test_given_database_and_redis_urls_are_used(home: Path) -> None:
    servers = home.parent / "servers"
    with (
        running(start_postgres(servers, free_port(), is_durable=False)) as postgres,
        running(start_valkey(servers, free_port(), is_durable=False)) as valkey,
    ):
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            connection.execute("CREATE ROLE operator LOGIN CREATEROLE CREATEDB PASSWORD 'own'")
        own = f"postgresql://operator:own@127.0.0.1:{postgres.port}/postgres"
        with started(home, free_port(), ARTIWAY_DATABASE_URL=own, ARTIWAY_REDIS_URL=valkey.url) as run:
            platform = run.ready()
            assert platform.facts["databaseUrl"] == own.removesuffix("postgres") + "artiway"
            assert platform.facts["redisUrl"] == valkey.url
            assert platform.health()["status"] == "ok"
            assert not (home / "postgres").exists()
            assert run.end() == 0


def test_unreachable_database_is_reported_in_one_line(home: Path) -> None:
    unreachable = f"postgresql://postgres:x@127.0.0.1:{free_port()}/postgres"
    with started(home, free_port(), ARTIWAY_DATABASE_URL=unreachable) as run:
        assert run.process.wait(60) == 1
        assert "the database could not be prepared" in run.output()
        assert "Traceback" not in run.output()
