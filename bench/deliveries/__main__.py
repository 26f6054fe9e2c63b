"""How long 500 due deliveries take when 100 of their targets never answer: `python -m bench.deliveries`.

It runs the local stack with its default time-outs. The watchdog's slow pass publishes the deliveries, the queue's
consumers send them to an HTTP server, and PostgreSQL records each attempt.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import platform
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psycopg

from artiway import ids
from local.emulator import client
from local.servers import free_port
from local.stack import Stack

RESULTS = Path(__file__).parent.parent / "results" / "deliveries.json"
DUE, DEAD = 500, 100
LIMIT_S = 60
GIVE_UP_S = 180


class Handler(http.server.BaseHTTPRequestHandler):
    is_over = threading.Event()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.startswith("/dead"):
            self.is_over.wait(GIVE_UP_S)
            return
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


@contextlib.contextmanager
def receiver() -> Any:
    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        Handler.is_over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def add_deliveries(connection: psycopg.Connection[Any], port: int) -> None:
    """One webhook per delivery. The dead targets are spread over all batches."""
    tenant_id = ids.new_id()
    connection.execute("INSERT INTO tenant (tenant_id, name, tier) VALUES (%s, 'Bench', 'vip')", [tenant_id])
    for number in range(DUE):
        webhook_id = ids.new_id()
        path = "dead" if number % (DUE // DEAD) == 0 else "good"
        connection.execute(
            "INSERT INTO webhook (tenant_id, webhook_id, url, secret) VALUES (%s, %s, %s, 'whsec_AAAA')",
            [tenant_id, webhook_id, f"http://127.0.0.1:{port}/{path}/{number}"],
        )
        connection.execute(
            "INSERT INTO webhook_delivery (tenant_id, delivery_id, webhook_id, event, body, next_try_at)"
            " VALUES (%s, %s, %s, 'webhook.test', '{}', now() - interval '1 minute')",
            [tenant_id, ids.new_id(), webhook_id],
        )


def tried(connection: psycopg.Connection[Any]) -> dict[str, int]:
    rows = connection.execute("SELECT status, count(*) FROM webhook_delivery WHERE answer IS NOT NULL GROUP BY 1")
    return dict(rows.fetchall())


def measure(port: int, home: Path) -> dict[str, Any]:
    with (
        Stack(home=home, port=free_port(), parameters={"AllowedTargets": f"127.0.0.1:{port}"}) as stack,
        psycopg.connect(stack.facts["databaseUrl"], autocommit=True) as connection,
    ):
        add_deliveries(connection, port)
        began = time.monotonic()
        client("lambda", stack.facts["lambdaUrl"]).invoke(FunctionName="WatchdogFunction", Payload=b'{"pass": "slow"}')
        published_s = time.monotonic() - began
        while sum((found := tried(connection)).values()) < DUE and time.monotonic() - began < GIVE_UP_S:
            time.sleep(0.2)
        total_s = time.monotonic() - began
    return {"due": DUE, "dead": DEAD, "tried": found, "publishedSeconds": published_s, "totalSeconds": total_s}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="artiway-bench-") as folder, receiver() as port:
        result = {"python": platform.python_version(), **measure(port, Path(folder) / "home")}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{DUE} due deliveries, {DEAD} to targets that never answer (goal: under {LIMIT_S} s)")
    print(f"  published  {result['publishedSeconds']:6.1f} s")
    print(f"  all tried  {result['totalSeconds']:6.1f} s  {result['tried']}")
    assert result["tried"] == {"DELIVERED": DUE - DEAD, "PENDING": DEAD}
    assert result["totalSeconds"] < LIMIT_S


if __name__ == "__main__":
    main()
