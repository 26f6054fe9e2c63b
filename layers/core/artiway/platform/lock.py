"""A lock in Redis that saves work. It gives no guarantee: if Redis is lost, a lock can have two owners.

Work that must happen once relies on a unique key in PostgreSQL. The fence numbers the owners of one Redis; after a
flush it restarts at one, so nothing that outlives Redis may compare it.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from artiway.errors import Conflict, Unavailable
from artiway.platform import metrics, redis_keys, scripts
from artiway.platform import redis as platform_redis
from artiway.platform.breaker import Breaker
from artiway.platform.logs import Logger

if TYPE_CHECKING:
    from redis import Redis

logger = Logger("lock")

RENEWALS_PER_TTL = 3
POLL_S = 0.02
LONGEST_POLL_S = 0.25
# An owner's clock may run 1% slower than the server's, and the server counts whole milliseconds.
DRIFT = 0.01
CLOCK_GRAIN_S = 0.002


class LockTaken(Conflict):
    code = "LOCK_409_TAKEN"

    def __init__(self, name: str) -> None:
        super().__init__("another request is working on this; try again")
        self.name = name


class LockLost(Conflict):
    """The lock expired or Redis lost it. Another owner may have it: stop before the next effect."""

    code = "LOCK_409_LOST"

    def __init__(self, name: str) -> None:
        super().__init__("the work took longer than its lock; try again")
        self.name = name


class LockUnavailable(Unavailable):
    """Redis does not answer. Code that relies on unique keys may continue without the lock."""

    code = "LOCK_503_UNAVAILABLE"

    def __init__(self, name: str) -> None:
        super().__init__("locks are away; try again", retry_after_s=platform_redis.RETRY_AFTER_S)
        self.name = name


class Outcome(StrEnum):
    RENEWED = "renewed"
    RELEASED = "released"
    LOST = "lost"


def elapsed_s() -> float:
    """Seconds that also count while the machine is suspended, as Lambda suspends an environment between calls."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


class Lock:
    """A lock that was acquired. Its deadline counts from before the request, so it ends no later than Redis's."""

    def __init__(self, locks: Locks, name: str, *, ttl_s: float, token: str, fence: int, asked_at: float) -> None:
        self._locks, self.name, self._ttl_s, self._token = locks, name, ttl_s, token
        self.fence = fence
        self._deadline = self._deadline_from(asked_at)
        self._is_lost = False
        self._guard = threading.Lock()

    @property
    def is_lost(self) -> bool:
        return self._check_deadline()

    def _check_deadline(self) -> bool:
        with self._guard:
            if not self._is_lost and self._locks.now() >= self._deadline:
                self._is_lost = True
            return self._is_lost

    def check(self) -> None:
        """Call before each effect: raises LockLost once the lock is lost."""
        if self.is_lost:
            raise LockLost(self.name)

    def renew(self) -> bool:
        """Extend the deadline. The watchdog thread calls this. False once the lock is lost."""
        if self._check_deadline():
            return False
        asked_at = self._locks.now()
        outcome = self._locks.renew(self.name, self._token, ttl_s=self._ttl_s)
        if self._check_deadline():  # the answer came too late: a lost lock stays lost
            return False
        with self._guard:
            if outcome is Outcome.RENEWED:
                self._deadline = self._deadline_from(asked_at)
            else:
                self._is_lost = True
            return not self._is_lost

    def _deadline_from(self, asked_at: float) -> float:
        return asked_at + self._ttl_s * (1 - DRIFT) - CLOCK_GRAIN_S

    def release(self) -> bool:
        return self._locks.release(self.name, self._token) is Outcome.RELEASED

    def watch(self, stopped: threading.Event) -> None:
        """Renew until the owner stops. A renewal that Redis does not answer is retried until the deadline."""
        while not stopped.wait(self._ttl_s / RENEWALS_PER_TTL):
            try:
                if not self.renew():
                    return
            except LockUnavailable:
                continue


class Locks:
    """`with locks.hold("order:17", ttl_s=10) as lock:` — one owner at a time, while Redis lives."""

    def __init__(
        self,
        redis: Redis,
        *,
        breaker: Breaker | None = None,
        now: Callable[[], float] = elapsed_s,
        server_now_ms: Callable[[], int] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.now, self._server_now_ms, self._sleep = now, server_now_ms, sleep
        self._guarded = (breaker or Breaker()).guard("LocksAway")
        self._acquire = scripts.load(redis, "lock_acquire")
        self._renew = scripts.load(redis, "lock_renew")
        self._release = scripts.load(redis, "lock_release")

    @contextlib.contextmanager
    def hold(self, name: str, *, ttl_s: float, wait_s: float = 0) -> Iterator[Lock]:
        """Acquire the lock within `wait_s`, renew it, and release it at the end."""
        lock = self.acquire(name, ttl_s=ttl_s, wait_s=wait_s)
        stopped = threading.Event()
        watchdog = threading.Thread(target=lock.watch, args=(stopped,), name=f"lock {name}", daemon=True)
        watchdog.start()
        try:
            yield lock
        finally:
            stopped.set()
            watchdog.join()
            self._finish(lock)

    def acquire(self, name: str, *, ttl_s: float, wait_s: float = 0) -> Lock:
        """The lock without a watchdog. Prefer `hold`."""
        token = secrets.token_hex(16)
        give_up_at = self.now() + wait_s
        pause_s = POLL_S
        while True:
            asked_at = self.now()
            fence = self._try(name, token, ttl_s=ttl_s)
            if fence:
                return Lock(self, name, ttl_s=ttl_s, token=token, fence=fence, asked_at=asked_at)
            remaining_s = give_up_at - self.now()
            if remaining_s <= 0:
                raise LockTaken(name)
            # Random, so that waiting requests do not all retry at once.
            self._sleep(min(remaining_s, pause_s * random.uniform(0.5, 1)))  # noqa: S311
            pause_s = min(2 * pause_s, LONGEST_POLL_S)

    def renew(self, name: str, token: str, *, ttl_s: float) -> Outcome:
        with _translated(name):
            return Outcome(self._renew([redis_keys.lock(name)], [token, _ms(ttl_s), self._server_now()]))

    def release(self, name: str, token: str) -> Outcome:
        with _translated(name):
            return Outcome(self._release([redis_keys.lock(name)], [token]))

    def _try(self, name: str, token: str, *, ttl_s: float) -> int:
        try:
            with self._guarded:
                return int(
                    self._acquire(
                        [redis_keys.lock(name), redis_keys.LOCK_FENCE], [token, _ms(ttl_s), self._server_now()]
                    )
                )
        except platform_redis.RedisAway as error:
            if error.__cause__ is not None:
                # The answer was lost, but Redis may have set the lock: release it instead of waiting for its TTL.
                with contextlib.suppress(LockUnavailable):
                    self.release(name, token)
            raise LockUnavailable(name) from error

    def _server_now(self) -> str | int:
        return "" if self._server_now_ms is None else self._server_now_ms()

    @staticmethod
    def _finish(lock: Lock) -> None:
        was_lost = lock.is_lost
        try:
            was_lost = not lock.release() or was_lost
        except LockUnavailable:
            logger.warning("lock left to its TTL", lock=lock.name)
        if was_lost:
            metrics.emit("LocksLost", 1)
            logger.warning("lock lost before its owner ended", lock=lock.name, fence=lock.fence)


def _ms(seconds: float) -> int:
    if not 0.05 <= seconds <= 86_400:
        raise ValueError("a lock lives from 50 ms to a day")
    return int(seconds * 1000)


@contextlib.contextmanager
def _translated(name: str) -> Iterator[None]:
    from redis.exceptions import RedisError

    try:
        yield
    except RedisError as error:
        raise LockUnavailable(name) from error
