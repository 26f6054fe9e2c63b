"""Commands on kept connections: they answer as redis-py's client does, and survive what its pool survives."""

from __future__ import annotations

import threading

import pytest
import redis
from redis.exceptions import ConnectionError, ResponseError  # noqa: A004

from artiway.platform.breaker import Breaker
from artiway.platform.redis import connect
from artiway.platform.redis_lines import Lines, Script

ENTRY = ["1-1", ["event", "token"]]
COUNT = "return redis.call('INCRBY', KEYS[1], ARGV[1])"


@pytest.fixture
def lines(valkey_url, valkey):
    client = connect(valkey_url, timeout_s=2)
    yield Lines(client)
    client.close()


def connections(valkey: redis.Redis) -> int:
    return sum(row["lib-name"] != "" for row in valkey.client_list())


def test_command_stores_and_reads_any_text(lines: Lines, valkey: redis.Redis) -> None:
    text = 'café 服装 🧵 "\r\n*1\r\n$4\r\nQUIT\r\n'
    assert lines.call("SET", "name", text) == "OK"
    assert (lines.call("GET", "name"), valkey.get("name")) == (text, text)
    assert lines.call("STRLEN", "name") == len(text.encode())


def test_calls_keep_one_connection(lines: Lines, valkey: redis.Redis) -> None:
    before = connections(valkey)
    for _ in range(20):
        lines.call("PING")
    assert connections(valkey) == before + 1


def test_error_of_a_command_keeps_the_connection(lines: Lines, valkey: redis.Redis) -> None:
    lines.call("SET", "name", "text")
    before = connections(valkey)
    with pytest.raises(ResponseError):
        lines.call("INCR", "name")
    assert lines.call("GET", "name") == "text"
    assert connections(valkey) == before


def test_connections_that_died_idle_are_replaced(lines: Lines, valkey: redis.Redis) -> None:
    lines.call("PING")
    valkey.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    assert lines.call("PING") == "PONG"


def test_script_is_loaded_again_after_a_restart(lines: Lines, valkey: redis.Redis) -> None:
    script = Script(lines, COUNT)
    assert script(["count"], [2]) == 2
    valkey.script_flush()
    assert script(["count"], [3]) == 5
    assert script(["count"], [1]) == 6


def test_waiting_call_delays_no_other_thread(lines: Lines) -> None:
    found: list[object] = []
    waiting = threading.Thread(
        target=lambda: found.append(lines.call("XREAD", "BLOCK", 1_500, "STREAMS", "events", "0-0"))
    )
    waiting.start()
    for number in range(50):
        assert lines.call("SET", "number", number) == "OK"
    lines.call("XADD", "events", ENTRY[0], "event", "token")
    waiting.join()
    assert found == [{"events": [["1-1", ["event", "token"]]]}] or found == [
        [["events", [["1-1", ["event", "token"]]]]]
    ]


def test_breaker_rests_after_a_lost_server() -> None:
    breaker = Breaker()
    lines = Lines(connect("redis://127.0.0.1:1/0", timeout_s=0.2, breaker=breaker))
    with pytest.raises(ConnectionError):
        lines.call("PING")
    assert breaker.is_silent()
    with pytest.raises(ConnectionError, match="a moment ago"):
        lines.call("PING")
