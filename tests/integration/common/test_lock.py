from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from redis import Redis

from artiway.errors import Conflict, Unavailable
from artiway.platform.lock import LockLost, Locks, LockTaken, LockUnavailable
from tests.integration.common.conftest import DEADLINE_S, awaited, until


@pytest.fixture
def locks(client: Redis) -> Locks:
    return Locks(client)


@pytest.fixture
def owner(valkey: Redis, valkey_url: str) -> Iterator[Callable[[float], subprocess.Popen[bytes]]]:
    """Another process that holds the lock "x"."""
    started: list[subprocess.Popen[bytes]] = []

    def start(ttl_s: float) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.integration.common.lock_child", valkey_url, "x", str(ttl_s)]
        started.append(subprocess.Popen(command))
        assert awaited(valkey, "test:said").startswith("held")
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_second_owner_is_refused_until_first_gives_back(locks, client):
    with locks.hold("x", ttl_s=30) as first:
        with pytest.raises(LockTaken) as refused, locks.hold("x", ttl_s=30):
            pass
        first.check()
    assert isinstance(refused.value, Conflict)
    assert client.exists("lock:x") == 0
    with locks.hold("x", ttl_s=30) as second:
        assert second.fence > first.fence


def test_locks_of_different_names_do_not_meet(locks):
    with locks.hold("x", ttl_s=30), locks.hold("y", ttl_s=30) as other:
        other.check()


def test_failure_inside_gives_lock_back(locks):
    with pytest.raises(ZeroDivisionError), locks.hold("x", ttl_s=30):
        raise ZeroDivisionError
    with locks.hold("x", ttl_s=30):
        pass


def test_waiting_owner_gets_the_released_lock(locks):
    order: list[str] = []
    is_waiting = threading.Event()

    def wait() -> None:
        is_waiting.set()
        with locks.hold("x", ttl_s=30, wait_s=DEADLINE_S):
            order.append("second")

    thread = threading.Thread(target=wait)
    with locks.hold("x", ttl_s=30):
        thread.start()
        is_waiting.wait()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_one_that_waits_gives_up_in_time(client, time):
    locks = Locks(client, now=time, sleep=time.advance)
    began = time()
    with locks.hold("x", ttl_s=30), pytest.raises(LockTaken), locks.hold("x", ttl_s=30, wait_s=2):
        pass
    assert time() - began == pytest.approx(2)


def test_watchdog_renews_while_owner_lives(locks, client):
    with locks.hold("x", ttl_s=3) as lock:
        deadlines = {client.hget("lock:x", "expires_ms")}
        until(lambda: deadlines.add(client.hget("lock:x", "expires_ms")) or len(deadlines) == 3)
        lock.check()


def test_watchdog_ends_with_owner(locks):
    with locks.hold("x", ttl_s=30):
        assert any(thread.name == "lock x" for thread in threading.enumerate())
    assert not any(thread.name == "lock x" for thread in threading.enumerate())


def test_killed_owner_leaves_lock_to_its_ttl(locks, owner):
    owner(0.5).kill()
    with locks.hold("x", ttl_s=30, wait_s=DEADLINE_S) as lock:
        assert lock.fence == 2


def test_paused_owner_sees_that_its_lock_is_lost(locks, owner, valkey):
    paused = owner(0.5)
    paused.send_signal(signal.SIGSTOP)
    with locks.hold("x", ttl_s=30, wait_s=DEADLINE_S) as lock:
        valkey.rpush("test:asked", "whose is it?")
        paused.send_signal(signal.SIGCONT)
        assert awaited(valkey, "test:said") == "lost"
        assert paused.wait(DEADLINE_S) == 0
        assert lock.renew()  # the loser's leaving took nothing from the new owner


def test_flushed_redis_is_noticed_at_next_renewal(locks, client, metric):
    with locks.hold("x", ttl_s=0.6) as lock:
        client.flushall()
        until(lambda: lock.is_lost)
        with pytest.raises(LockLost):
            lock.check()
    assert metric("LocksLost") == [1]


def test_owner_without_redis_loses_its_lock_in_time(client, nobody_there, time):
    lock = Locks(client, now=time).acquire("x", ttl_s=10)
    lock._locks._renew = Locks(nobody_there)._renew
    for _ in range(3):
        time.advance(3)
        with pytest.raises(LockUnavailable):
            lock.renew()
        assert not lock.is_lost
    time.advance(1)
    assert lock.is_lost
    assert not lock.renew()


def test_late_renewal_does_not_restore_the_lock(client, time):
    """The owner may have seen the loss while the answer was in flight."""

    class Slow(Locks):
        def renew(self, *arguments, **options):
            outcome = super().renew(*arguments, **options)
            time.advance(11)
            return outcome

    lock = Slow(client, now=time, server_now_ms=time.ms).acquire("x", ttl_s=10)
    assert not lock.renew()
    assert lock.is_lost


def test_repeated_question_of_one_owner_is_one_taking(locks, client):
    """The client asks again when a connection died idle; the first question may have arrived."""
    fences = {locks._try("x", "token", ttl_s=30) for _ in range(3)}
    assert fences == {1}


def test_without_redis_lock_is_unavailable(nobody_there):
    with pytest.raises(LockUnavailable) as away, Locks(nobody_there).hold("x", ttl_s=30):
        pass
    assert isinstance(away.value, Unavailable)
    assert away.value.retry_after_s > 0


@pytest.mark.parametrize("ttl_s", [0, -1, 0.01, 86_401, float("nan")])
def test_lock_without_sensible_life_is_refused(locks, ttl_s):
    with pytest.raises(ValueError, match="a lock lives"):
        locks.acquire("x", ttl_s=ttl_s)


def test_fifty_threads_lose_no_increment_under_lock(locks, client):
    """Read, think, write: what the lock is for."""
    fences: list[int] = []

    def add() -> None:
        with locks.hold("counter", ttl_s=30, wait_s=DEADLINE_S) as lock:
            fences.append(lock.fence)
            read = int(client.get("test:counter") or 0)
            client.set("test:counter", read + 1)

    threads = [threading.Thread(target=add) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get("test:counter") == "50"
    assert fences == sorted(set(fences))


def test_old_owner_cannot_touch_lock_after_flush(locks, client):
    old = locks.acquire("x", ttl_s=30)
    client.flushall()
    new = locks.acquire("x", ttl_s=30)
    assert not old.renew()
    assert not old.release()
    with pytest.raises(LockLost):
        old.check()
    assert new.renew()


def test_expired_free_lock_is_not_renewed(client, time):
    locks = Locks(client, now=time, server_now_ms=time.ms)
    lock = locks.acquire("x", ttl_s=10)
    time.advance(10)
    assert locks.renew("x", lock._token, ttl_s=10) == "lost"
