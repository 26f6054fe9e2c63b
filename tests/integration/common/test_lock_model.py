"""1,000 random schedules of owners that expire, pause, renew and release, against the real scripts.

Time is the test's. Questions and answers travel for a random time, and each owner's clock has its own zero and runs a
little fast or slow, as clocks do.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from redis import Redis

from artiway.platform.lock import Lock, LockLost, Locks, LockTaken, Outcome
from tests.conftest import soaked
from tests.integration.common.conftest import Time

SCHEDULES, BATCHES = soaked(1_000), 4
STEPS = 30
TTL_S = 10
FASTEST_DRIFT = 0.009


class SlowLocks(Locks):
    """The road to Redis and back takes time; sometimes longer than a lock lives."""

    def __init__(self, redis: Redis, time: Time, dice: random.Random) -> None:
        self._time, self._dice = time, dice
        zero, rate = dice.uniform(-1e6, 1e6), 1 + dice.uniform(-FASTEST_DRIFT, FASTEST_DRIFT)
        start = time()
        super().__init__(redis, now=lambda: zero + (time() - start) * rate, server_now_ms=self._arrive)

    def _arrive(self) -> int:
        self._travel()
        return self._time.ms()

    def _travel(self) -> None:
        self._time.advance(self._dice.choice([0, 0.001, 0.01, 0.5, 4, 12]) if self._dice.random() < 0.5 else 0)

    def _try(self, name: str, token: str, *, ttl_s: float) -> int:
        fence = super()._try(name, token, ttl_s=ttl_s)
        self._travel()
        return fence

    def renew(self, name: str, token: str, *, ttl_s: float) -> Outcome:
        outcome = super().renew(name, token, ttl_s=ttl_s)
        self._travel()
        return outcome


@pytest.mark.soak
@pytest.mark.parametrize("batch", range(BATCHES))
def test_two_owners_never_overlap(client, batch):
    taken = lost = 0
    for seed in range(batch * SCHEDULES // BATCHES, (batch + 1) * SCHEDULES // BATCHES):
        counts = play(client, random.Random(seed), f"model:{seed}")
        taken, lost = taken + counts[0], lost + counts[1]
    # The schedules are worth something only if locks change hands, and are often lost rather than given back.
    assert taken > SCHEDULES
    assert lost > SCHEDULES / 10


def play(client: Redis, dice: random.Random, name: str) -> tuple[int, int]:
    time = Time()
    owners = [SlowLocks(client, time, dice) for _ in range(3)]
    held: list[Lock | None] = [None] * len(owners)
    taken = lost = last_fence = 0

    for _ in range(STEPS):
        owner = dice.randrange(len(owners))
        lock = held[owner]
        if lock is None:
            try:
                lock = held[owner] = owners[owner].acquire(name, ttl_s=TTL_S)
            except LockTaken:
                continue
            finally:
                check_exclusive(client, name, time, held)
            assert lock.fence > last_fence
            last_fence, taken = lock.fence, taken + 1
        else:
            act: Callable[[], object] = dice.choice([lock.renew, lock.renew, lock.check, lock.release, lambda: None])
            try:
                act()
            except LockLost:
                held[owner], lost = None, lost + 1
            if act == lock.release:
                held[owner] = None
        if dice.random() < 0.3:
            time.advance(dice.choice([0.1, 3, 9.8, 9.9, 10, 10.1, 30]))
        check_exclusive(client, name, time, held)
    return taken, lost


def check_exclusive(client: Redis, name: str, time: Time, held: list[Lock | None]) -> None:
    """An owner whose lock is not lost is the owner in Redis, and its lock has not expired there."""
    believers = [lock for lock in held if lock is not None and not lock.is_lost]
    assert len(believers) <= 1
    for lock in believers:
        token, expires_ms = client.hmget(f"lock:{name}", "token", "expires_ms")
        assert token == lock._token
        assert int(expires_ms) > time.ms()
