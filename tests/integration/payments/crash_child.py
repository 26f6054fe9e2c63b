"""A child that numbers its side effects and kills itself at one of them.

`python crash_child.py <clock file> <scenario> … --before-sql <text>`, or without a scenario: those that arrive on
standard input. A side effect is whatever leaves the process: a statement to PostgreSQL, a command to Redis, a request
to WeChat or to AWS.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.integration.payments.environment import http_event, prepare


def watch(die: Callable[[int, str], bool], report: Callable[[str], object]) -> None:
    """Number every side effect, by the libraries that make them: nothing can be forgotten."""
    effects: list[str] = []
    import botocore.httpsession
    import psycopg
    import redis
    import urllib3

    def numbered(name: str, original: Any, describe: Callable[..., str]) -> Any:
        def effect(*arguments: Any, **options: Any) -> Any:
            text = f"{name} {describe(*arguments)}"
            if die(len(effects), text):
                os.kill(os.getpid(), signal.SIGKILL)
            effects.append(text)
            report(text)
            return original(*arguments, **options)

        return effect

    def statement(_cursor: Any, query: Any, *_: Any) -> str:
        text = query.decode() if isinstance(query, bytes) else str(query)
        return " ".join(line for line in text.split("\n") if not line.startswith("--"))[:60]

    psycopg.Cursor.execute = numbered("sql", psycopg.Cursor.execute, statement)  # type: ignore[method-assign]
    redis.Redis.execute_command = numbered(  # type: ignore[method-assign]
        "redis", redis.Redis.execute_command, lambda _client, *arguments: str(arguments[0])
    )
    urllib3.PoolManager.urlopen = numbered(  # type: ignore[method-assign]
        "http", urllib3.PoolManager.urlopen, lambda _pool, method, url, *_: f"{method} {url.partition('/v3')[2][:40]}"
    )
    botocore.httpsession.URLLib3Session.send = numbered(
        "aws",
        botocore.httpsession.URLLib3Session.send,
        lambda _session, request: request.headers.get("X-Amz-Target", ""),
    )


def perform(scenario: list[str], functions: dict[str, Any]) -> Any:
    match scenario:
        case ["request", file]:  # one HTTP request, as it was captured
            wanted = json.loads(Path(file).read_text())
            module = functions[wanted["function"]]
            body = wanted["body"].encode()
            event = http_event(wanted["method"], wanted["path"], wanted["headers"], body, set(module.api.rules))
            return module.handler(event, None)["statusCode"]
        case ["invoke", name, text]:
            return functions[name].handler(json.loads(text), None)
        case ["notify", sim_url, number]:
            import urllib.request

            # The simulator makes and signs the notification and hands it over instead of sending it.
            wish = json.dumps({"handOver": True}).encode()
            request = urllib.request.Request(f"{sim_url}/sim/orders/{number}/notify", data=wish, method="POST")
            with urllib.request.urlopen(request) as answer:
                envelope = json.load(answer)["envelopes"][0]
            module = functions["wechat"]
            event = http_event(
                "POST",
                "/api/v1/wechat/pay/notify",
                envelope["headers"],
                envelope["body"].encode(),
                set(module.api.rules),
            )
            return module.handler(event, None)["statusCode"]
    raise ValueError(scenario)


def die_at(at: int, writer: int) -> None:
    watch(lambda number, _text: number == at, lambda text: os.write(writer, f"{text}\n".encode()))


def serve(functions: dict[str, Any]) -> None:
    """Each line names a scenario and the side effect to die before; a fork performs it."""
    answers = int(os.environ["CRASH_ANSWERS"])
    for line in sys.stdin:
        wanted = json.loads(line)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            die_at(wanted["at"], writer)
            perform(wanted["scenario"], functions)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as seen:
            effects = seen.read().splitlines()
        _, status = os.waitpid(child, 0)
        answer = {"killed": os.WIFSIGNALED(status), "status": status, "effects": effects}
        os.write(answers, f"{json.dumps(answer)}\n".encode())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("clock", type=Path)
    parser.add_argument("scenario", nargs="*")
    parser.add_argument("--before-sql", default=None)
    options = parser.parse_args()
    functions = prepare(options.clock)
    if not options.scenario:
        serve(functions)
        return
    watch(lambda _number, text: options.before_sql is not None and options.before_sql in text, lambda _text: None)
    perform(options.scenario, functions)


if __name__ == "__main__":
    main()
