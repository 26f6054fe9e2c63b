"""A process of the outbox tests: writes or relays messages, and dies at the given point."""

from __future__ import annotations

import os
import signal
import sys
from uuid import UUID

import redis

from artiway.outbox.model import Message
from artiway.outbox.repository import Outbox, PostgresStore
from artiway.outbox.service import Relay
from artiway.platform.database import Database
from tests.fakes.outbox import ListSender

TENANT = UUID("0190a000-0000-7000-8000-00000000000a")


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def write(address: str, redis_url: str, count: int, first: int, *, dies_at: str) -> None:
    """Commit `count` events over ten aggregates; each transaction is one event."""
    database = Database(address)
    relay = Relay(
        PostgresStore(database),
        ListSender(redis_url),
        crash_point=lambda point: die() if point == dies_at else None,
    )
    counter = redis.Redis.from_url(redis_url)
    outbox = Outbox(die if dies_at == "after commit" else relay.deliver)
    for number in range(first, first + count):
        with database.tenant_transaction(TENANT) as tx:
            aggregate = f"thing:{number % 10}"
            tx.run(b"SELECT pg_advisory_xact_lock(99, hashtext(%(aggregate)s))", {"aggregate": aggregate})
            version = counter.incr(f"version:{aggregate}") - 1
            outbox.publish(tx, [Message("queue", aggregate, "happened", {"version": version})])


def relay(address: str, redis_url: str, *, dies_at: str) -> None:
    Relay(
        PostgresStore(Database(address)),
        ListSender(redis_url),
        crash_point=lambda point: die() if point == dies_at else None,
    ).sweep(age_s=0, limit=500)


if __name__ == "__main__":
    verb, address, redis_url, count, first, dies_at = sys.argv[1:]
    if verb == "write":
        write(address, redis_url, int(count), int(first), dies_at=dies_at)
    else:
        relay(address, redis_url, dies_at=dies_at)
