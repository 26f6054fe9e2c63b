"""`python -m bench.jobs.once [--stacks 5] [--ahead 5]`: the first job of a stack that has just started.

Each stack has an empty folder of its own. The job is stored as soon as the stack answers, for one time some seconds
ahead. Printed are the seconds from its time until its run had started and until its target was called.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import Request, urlopen

from local.servers import free_port
from local.stack import Stack

GOAL_S = 1.0
LIMIT_S = 60
JOBS = 3  # the first on a cold stack, then more on the warm one


class Target:
    """Notes when each path was called."""

    def __init__(self) -> None:
        self.called: dict[str, float] = {}
        target = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                target.called.setdefault(self.path, time.time())
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.port = free_port()
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stacks", type=int, default=5)
    parser.add_argument("--ahead", type=float, default=5, help="seconds from the request to the time of the job")
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the start")
    target = Target()
    os.environ["ARTIWAY_ALLOWED_TARGETS"] = f"127.0.0.1:{target.port}"
    first = []
    for number in range(arguments.stacks):
        with tempfile.TemporaryDirectory(prefix="artiway-once-") as home:
            Path(home).chmod(0o755)
            with Stack(home=Path(home), port=free_port()) as stack:
                delays = [_delays(stack.facts, target, f"/{number}/{n}", arguments.ahead) for n in range(JOBS)]
        first.append(delays[0][1])
        text = ", ".join(f"{started:.3f} / {called:.3f}" for started, called in delays)
        print(f"stack {number + 1}: started / called, s after the time: {text}", flush=True)
    target.close()
    print(
        f"latest call of a first job {max(first):.3f} s, goal {GOAL_S} s: {'met' if max(first) < GOAL_S else 'MISSED'}"
    )


def _delays(facts: dict[str, Any], target: Target, path: str, ahead_s: float) -> tuple[float, float]:
    """Of one job: until its run had started, and until its target was called."""
    token = _call(facts, "POST", "/auth/login", facts["admin"])["accessToken"]
    _call(facts, "GET", "/jobs", None, token)  # the start of the API's function must not use up the seconds
    at = (datetime.now(UTC) + timedelta(seconds=ahead_s)).replace(microsecond=0)
    task = {"type": "HTTP", "url": f"http://127.0.0.1:{target.port}{path}"}
    job = {"name": path, "schedule": {"type": "ONCE", "at": at.isoformat()}, "task": task}
    made = _call(facts, "POST", "/jobs", job, token)
    deadline = time.monotonic() + LIMIT_S
    while path not in target.called and time.monotonic() < deadline:
        time.sleep(0.02)
    (run,) = _call(facts, "GET", f"/runs?jobId={made['jobId']}", None, token)["items"]
    started = datetime.fromisoformat(run["startedAt"]) if run["startedAt"] else None
    return (
        (started - at).total_seconds() if started else float("inf"),
        target.called.get(path, float("inf")) - at.timestamp(),
    )


def _call(facts: dict[str, Any], method: str, path: str, body: Any, token: str = "") -> Any:
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(facts["apiUrl"] + path, data, headers, method=method), timeout=40) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()
