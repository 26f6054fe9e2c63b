"""`python -m tools.text_load stream|batch free|paid <service>`: drive the handlers of texts under load, offline.

The handlers run in processes of their own, as Lambda runs them, on a PostgreSQL and a Valkey that this program starts.
SQS and Secrets Manager are a small server in it; the provider is the stand-in, or one that `--providers` names.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import multiprocessing
import os
import queue
import resource
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any

import psycopg

from artiway.generations.model import Mode
from artiway.generations.services import load as load_services
from artiway.platform import migrations
from artiway.scheduling.lanes import LANES
from local import database, text_model
from local.servers import free_port, running, start_postgres, start_valkey
from local.text_standin import TextStandin

REGION = "eu-central-1"
QUEUES = "text-"
SECRET = "text-providers"  # noqa: S105 (a name)
VISIBILITY_S = 30  # of a message that its function did not delay
FUNCTION_S = 300
POINTS = 100_000
TEXT = "A light cotton dress with two pockets, blue, made for warm days."
Json = dict[str, Any]


@dataclass
class Delivery:
    """A message in a queue, and when it is visible."""

    queue: str
    body: str
    due_at: float
    attributes: Json
    message_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    receives: int = 0


class Cloud:
    """SQS's SendMessageBatch and ChangeMessageVisibility, and GetSecretValue, as AWS's JSON protocol."""

    def __init__(self, secret: str) -> None:
        self._secret, self._lock = secret, threading.Lock()
        self._waiting: dict[str, Delivery] = {}
        self._taken: dict[str, Delivery] = {}
        cloud = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = json.dumps(cloud.answer(self.headers["X-Amz-Target"].rpartition(".")[2], body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-amz-json-1.0")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_arguments: object) -> None:
                """Nothing: each message would be a line."""

        self._server = ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def answer(self, action: str, body: Json) -> Json:
        if action == "GetSecretValue":
            return {"ARN": body["SecretId"], "Name": SECRET, "SecretString": self._secret}
        if action == "ChangeMessageVisibility":
            self.give_back(body["ReceiptHandle"], body["VisibilityTimeout"])
            return {}
        if action != "SendMessageBatch":
            raise ValueError(f"{action} is not served")
        name = body["QueueUrl"].rpartition("/")[2]
        with self._lock:
            for entry in body["Entries"]:
                due_at = time.monotonic() + entry.get("DelaySeconds", 0)
                message = Delivery(name, entry["MessageBody"], due_at, entry.get("MessageAttributes", {}))
                self._waiting[message.message_id] = message
        return {"Successful": [{"Id": one["Id"], "MessageId": "m", "MD5OfMessageBody": ""} for one in body["Entries"]]}

    def take(self) -> Delivery | None:
        """A message that is visible, of any queue."""
        with self._lock:
            now = time.monotonic()
            found = next((one for one in self._waiting.values() if one.due_at <= now), None)
            if found is not None:
                self._taken[found.message_id] = self._waiting.pop(found.message_id)
                found.receives += 1
            return found

    def give_back(self, message_id: str, delay_s: float) -> None:
        with self._lock:
            if (message := self._taken.pop(message_id, None)) is not None:
                message.due_at = time.monotonic() + delay_s
                self._waiting[message_id] = message

    def delete(self, message_id: str) -> None:
        with self._lock:
            self._taken.pop(message_id, None)


def event_of(message: Delivery) -> Json:
    attributes = {
        name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
        for name, value in message.attributes.items()
    }
    record = {
        "messageId": message.message_id,
        "receiptHandle": message.message_id,
        "body": message.body,
        "attributes": {"ApproximateReceiveCount": str(message.receives)},
        "messageAttributes": attributes,
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:000000000000:{message.queue}",
        "awsRegion": REGION,
    }
    return {"Records": [record]}


class Context:
    """What a handler reads of Lambda's context."""

    aws_request_id = "offline"

    def __init__(self) -> None:
        self._ends_at = time.monotonic() + FUNCTION_S

    def get_remaining_time_in_millis(self) -> int:
        return max(0, round(1_000 * (self._ends_at - time.monotonic())))


def run_function(name: str, inbox: multiprocessing.Queue[Json | None], outbox: multiprocessing.Queue[Json]) -> None:
    """One execution environment: it handles one event after the other."""
    log = os.open(os.environ["TEXT_LOAD_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, sys.stdout.fileno())
    handler = importlib.import_module(f"functions.{name}.app").handler
    outbox.put({})  # ready
    while (event := inbox.get()) is not None:
        outbox.put({"id": event["Records"][0]["messageId"], "answer": handler(event, Context())})


class Functions:
    """As many processes of a function as Lambda may run at once."""

    def __init__(self, name: str, count: int) -> None:
        spawn: SpawnContext = multiprocessing.get_context("spawn")
        self._inbox: Any = spawn.Queue()
        self._outbox: Any = spawn.Queue()
        self._count = count
        self._processes: list[SpawnProcess] = [
            spawn.Process(target=run_function, args=(name, self._inbox, self._outbox), daemon=True)
            for _ in range(count)
        ]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        for process in self._processes:
            process.start()
        try:
            for _ in self._processes:
                self._outbox.get(timeout=60)
            yield
        finally:
            for _ in self._processes:
                self._inbox.put(None)
            for process in self._processes:
                process.join(FUNCTION_S)

    def serve(self, cloud: Cloud, is_over: threading.Event) -> None:
        """Deliver visible messages to free processes until it is over."""
        busy = 0
        while not is_over.is_set() or busy:
            while busy < self._count and not is_over.is_set() and (message := cloud.take()) is not None:
                self._inbox.put(event_of(message))
                busy += 1
            with contextlib.suppress(queue.Empty):
                done = self._outbox.get(timeout=0.02)
                busy -= 1
                if done["answer"]["batchItemFailures"]:
                    cloud.give_back(done["id"], VISIBILITY_S)
                else:
                    cloud.delete(done["id"])


@dataclass(frozen=True)
class Load:
    mode: str
    tier: str
    service: str
    texts: int
    at_once: int
    tenants: int
    max_tokens: int

    @property
    def function(self) -> str:
        return "text_stream" if self.mode == "stream" else "text_batch"


def submit(load: Load, superuser: str) -> None:
    """Accept all texts through the service that the API calls. A free text has a user of its own: the allowance is."""
    from artiway import bootstrap
    from artiway.generations.model import Wishes
    from artiway.points.model import Change, Kind

    tenants = [uuid.uuid4() for _ in range(load.tenants)]
    people = [(tenants[place % len(tenants)], uuid.uuid4()) for place in range(load.texts)]
    with psycopg.connect(superuser, autocommit=True) as connection:
        for tenant in tenants:
            connection.execute("INSERT INTO tenant (tenant_id, name, tier) VALUES (%s, 'load', 'enterprise')", [tenant])
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO app_user (tenant_id, user_id, email) VALUES (%s, %s, %s)",
                [(tenant, user, f"{user}@load.test") for tenant, user in people],
            )
    for tenant, user in people:
        if load.tier == "paid":
            change = Change(user, Kind.RECHARGE, POINTS, "load", f"load:{user}")
            bootstrap.points().credit(tenant_id=tenant, change=change)
        wishes = Wishes(service=load.service, input={"text": TEXT}, params={}, max_tokens=load.max_tokens)
        bootstrap.generations().submit(tenant_id=tenant, user_id=user, wishes=wishes)


REPORT = """
SELECT status, count(*) AS texts, sum(charged_points) AS points, sum(used_output) AS tokens,
       percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY first_s) AS first_s,
       percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY whole_s) AS whole_s,
       string_agg(DISTINCT error ->> 'code', ', ') AS codes
  FROM (SELECT *, extract(epoch FROM first_token_at - started_at) AS first_s,
               extract(epoch FROM ended_at - started_at) AS whole_s
          FROM generation) AS one
 GROUP BY status ORDER BY status
"""
UNENDED = "SELECT count(*) FROM generation WHERE status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')"


def drive(load: Load, secret: str, home: Path, *, limit_s: float) -> Json:
    with contextlib.ExitStack() as stack:
        postgres = stack.enter_context(running(start_postgres(home / "postgres", free_port(), is_durable=False)))
        valkey = stack.enter_context(running(start_valkey(home / "valkey", free_port(), is_durable=False)))
        urls = database.bootstrap(postgres.url, home)
        cloud = Cloud(secret)
        stack.enter_context(cloud.serving())
        os.environ.update(environment(urls, valkey.url, cloud.url, home))
        superuser = database.in_database(postgres.url)
        with (home / "submissions.log").open("w") as log, contextlib.redirect_stdout(log):
            migrations.migrate(urls["artiway_owner"])
            began = time.monotonic()
            submit(load, superuser)
        accepted_s = time.monotonic() - began
        functions = Functions(load.function, load.at_once)
        stack.enter_context(functions.running())
        is_over = threading.Event()
        server = threading.Thread(target=functions.serve, args=[cloud, is_over])
        began = time.monotonic()
        server.start()
        try:
            ended_s = wait_until_ended(superuser, began, limit_s)
        finally:
            is_over.set()
            server.join()
        rows = report(superuser)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "acceptedSeconds": accepted_s,
        "endedSeconds": ended_s,
        "cpuSeconds": spent.ru_utime + spent.ru_stime,
        "rows": rows,
    }


def wait_until_ended(url: str, began: float, limit_s: float) -> float:
    with psycopg.connect(url, autocommit=True) as connection:
        while (row := connection.execute(UNENDED).fetchone()) and row[0]:
            if time.monotonic() - began > limit_s:
                print(f"{row[0]} texts had not ended after {limit_s:.0f} s", flush=True)
                break
            time.sleep(0.05)
    return time.monotonic() - began


def report(url: str) -> list[Json]:
    from psycopg.rows import dict_row

    with psycopg.connect(url, row_factory=dict_row) as connection:
        return [{**row} for row in connection.execute(REPORT)]


def environment(urls: Mapping[str, str], redis_url: str, aws_url: str, home: Path) -> dict[str, str]:
    """As the template gives it to the functions."""
    return {
        "ARTIWAY_DATABASE_URL": urls["artiway_app"],
        "ARTIWAY_SERVICE_DATABASE_URL": urls["artiway_service"],
        "ARTIWAY_REDIS_URL": redis_url,
        "ARTIWAY_QUEUE_ADDRESS": f"{aws_url}/000000000000",
        "ARTIWAY_QUEUES": json.dumps({f"lane:{lane}": f"{QUEUES}{lane}" for lane in LANES}),
        "ARTIWAY_TEXT_QUEUES": QUEUES,
        "ARTIWAY_TEXT_PROVIDERS_SECRET_ARN": SECRET,
        "ARTIWAY_ENVIRONMENT": "load",
        "AWS_ENDPOINT_URL": aws_url,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "TEXT_LOAD_LOG": str(home / "functions.log"),
    }


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.text_load", description=(__doc__ or "").split("\n")[0])
    services = {name: service.mode for name, service in load_services().items()}
    parser.add_argument("mode", choices=["stream", "batch"])
    parser.add_argument("tier", choices=["free", "paid"])
    parser.add_argument("service", choices=sorted(services))
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=4, help="processes of the function")
    parser.add_argument("--tenants", type=int, default=10)
    parser.add_argument("--max-tokens", type=int, default=100)
    parser.add_argument(
        "--scene", default="steady-100", help="how the stand-in answers: a name of local/text_standin.py"
    )
    parser.add_argument("--providers", type=Path, help="a document as of ARTIWAY_TEXT_PROVIDERS, in its place")
    parser.add_argument("--limit", type=float, default=600, help="seconds after which the program gives up")
    found = parser.parse_args(arguments)
    is_stream = services[found.service] is Mode.STREAM
    if is_stream != (found.mode == "stream"):
        parser.error(f"{found.service} is a service of {'stream' if is_stream else 'batch'}")
    return found


def main(arguments: list[str]) -> int:
    found = parsed(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the servers end too
    load = Load(found.mode, found.tier, found.service, found.texts, found.at_once, found.tenants, found.max_tokens)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="artiway-load-"))
        Path(folder).chmod(0o755)
        if found.providers is None:
            standin = stack.enter_context(TextStandin())
            secret = text_model.document(standin.port, found.scene)
        else:
            secret = found.providers.read_text("utf-8")
        result = drive(load, secret, Path(folder), limit_s=found.limit)
    show(load, result)
    is_whole = sum(row["texts"] for row in result["rows"] if row["status"] in ("COMPLETED", "FAILED")) == load.texts
    return 0 if is_whole else 1


def show(load: Load, result: Json) -> None:
    print(f"{load.texts} {load.tier} texts of {load.service} ({load.mode}), {load.at_once} at once")
    print(f"accepted in {result['acceptedSeconds']:.2f} s, ended in {result['endedSeconds']:.2f} s", end=", ")
    print(f"{load.texts / result['endedSeconds']:.1f} texts/s, {result['cpuSeconds']:.1f} s of CPU in all processes")
    print("status      texts  tokens  points  first token p50/p95 s  whole p50/p95 s  codes")
    for row in result["rows"]:
        first, whole = (
            " / ".join(f"{value:.2f}" for value in row[name] or ()) or "-" for name in ("first_s", "whole_s")
        )
        print(
            f"{row['status']:<10} {row['texts']:>6} {row['tokens'] or 0:>7} {row['points'] or 0:>7}"
            f"  {first:<21}  {whole:<15}  {row['codes'] or ''}"
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
