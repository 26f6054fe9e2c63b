from __future__ import annotations

import contextlib
import json
import socket
import time as real_time
from collections.abc import Callable, Iterator

import pytest
from redis import Redis

from artiway.platform import redis as platform_redis
from artiway.platform.migrations import migrate
from local import servers
from local.servers import free_port, running, start_postgres, start_valkey
from tests.conftest import Addresses, make_database, make_roles, server_home
from tests.integration.common.hung import DATABASE
from tests.integration.common.scripted_server import Server

DEADLINE_S = 60


def awaited(redis: Redis, key: str) -> str:
    """The next message of a child process. In short waits, because the client's timeout is short for a busy machine."""
    for _ in range(DEADLINE_S):
        if answer := redis.blpop([key], timeout=1):
            return str(answer[1])
    raise AssertionError(f"no message arrived in {key}")


def until(is_met: Callable[[], object]) -> None:
    deadline = real_time.monotonic() + DEADLINE_S
    while not is_met():
        assert real_time.monotonic() < deadline
        real_time.sleep(0.005)


class Time:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0

    def __call__(self) -> float:
        return self.seconds

    def ms(self) -> int:
        return int(self.seconds * 1000)

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def client(valkey: Redis, valkey_url: str) -> Iterator[Redis]:
    """Redis as the layer connects to it."""
    with contextlib.closing(platform_redis.connect(valkey_url, timeout_s=5)) as client:
        yield client


@pytest.fixture
def nobody_there() -> Iterator[Redis]:
    """A client of a Redis that is away."""
    with contextlib.closing(platform_redis.connect(f"redis://127.0.0.1:{free_port()}/0", timeout_s=0.5)) as client:
        yield client


@pytest.fixture
def metric(capsys: pytest.CaptureFixture[str]) -> Callable[[str], list[float]]:
    """The values of a metric that were written since the last look."""

    def values(name: str) -> list[float]:
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return [value for line in lines if "_aws" in line for value in line.get(name, ())]

    return values


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[socket.socket], None]], Server]]:
    servers: list[Server] = []

    def start(answer: Callable[[socket.socket], None]) -> Server:
        servers.append(Server(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[servers.Server]:
    """One of the module's own, migrated: freezing it harms no other test."""
    with (
        server_home() as home,
        running(start_postgres(home, free_port(), is_durable=False)) as server,
    ):
        make_roles(server.url)
        make_database(server.url, DATABASE)
        migrate(Addresses.of(server.url, DATABASE).owner)
        yield server


@pytest.fixture(scope="module")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    with running(start_valkey(tmp_path_factory.mktemp("valkey"), free_port(), is_durable=False)) as server:
        yield server
