"""Deliveries of webhooks: published when due, sent in parallel to real servers, signed by Standard Webhooks."""

from __future__ import annotations

import contextlib
import http.server
import json
import queue
import threading
from uuid import UUID

import pytest

from artiway import ids
from artiway.delivery.webhooks.model import Answer, DeliveryStatus, Limits, NoSuchWebhook
from artiway.delivery.webhooks.outbound import WebhookPost
from artiway.delivery.webhooks.repository import PostgresDueDeliveries, PostgresWebhooks
from artiway.delivery.webhooks.service import PARALLEL_SENDS, WebhookService
from artiway.errors import Refused
from artiway.outbox.repository import Outbox
from artiway.outbox.service import Relay
from artiway.platform.clock import SystemClock
from artiway.platform.database import Database
from artiway.platform.outbound import Client
from tests.integration.tasks.test_life import submit
from tests.unit.tasks.test_webhooks import verified

URL = "https://shop.example.com/a"
DUE, DEAD = 500, 100
CONSUMERS = 8  # sandboxes of one function on one machine; AWS has more


class Receiver:
    """Answers 200 on /, nothing on /dead until the test ends, and on /together when all requests have arrived."""

    def __init__(self, together=0):
        self.paths, self._is_over = [], threading.Event()
        arrived = threading.Barrier(together) if together else None
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                receiver.paths.append(self.path)
                if self.path == "/dead":
                    receiver._is_over.wait(60)
                    return
                if self.path == "/together":
                    arrived.wait(60)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 256
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def url(self, path):
        return f"http://127.0.0.1:{self.port}{path}"

    def post(self):
        """Calls of dead targets time out soon; others have a long time-out, in case this process is slow."""
        client = Client(allowed=frozenset({("127.0.0.1", self.port)}))
        short, long = (WebhookPost(client, timeout_s=timeout_s, lookup_s=1) for timeout_s in (0.2, 60))
        return Recorder(lambda url, *rest: (short if url.endswith("/dead") else long).post(url, *rest))

    def close(self):
        self._is_over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def receiver():
    with contextlib.closing(Receiver(together=PARALLEL_SENDS)) as made:
        yield made


class Recorder:
    def __init__(self, answer=lambda *_: Answer(200, "ok")):
        self.sent, self._answer = [], answer

    def refusal(self, _url, *, is_looked_up):
        assert is_looked_up

    def post(self, url, body, headers):
        self.sent.append((url, body, headers))
        return self._answer(url, body, headers)


def add_deliveries(world, tenant, urls):
    """One webhook for each URL and its deliveries, all of them due for a minute."""
    webhooks = {}
    for url in urls:
        if url not in webhooks:
            webhooks[url] = ids.new_id()
            world.superuser.execute(
                "INSERT INTO webhook (tenant_id, webhook_id, url, secret) VALUES (%s, %s, %s, 'whsec_AAAA')",
                [tenant[0], webhooks[url], url],
            )
    rows = [(tenant[0], ids.new_id(), webhooks[url]) for url in urls]
    with world.superuser.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO webhook_delivery (tenant_id, delivery_id, webhook_id, event, body, next_try_at)"
            " VALUES (%s, %s, %s, 'e', '{}', now() - interval '1 minute')",
            rows,
        )
    return [(tenant_id, delivery_id) for tenant_id, delivery_id, _ in rows]


def publish_due(world, limit=DUE):
    outbox = Outbox(world.relay.deliver, world.clock)
    return PostgresDueDeliveries(world.service_database, outbox).publish(limit=limit, tenant_limit=DUE)


def published(world):
    data = [message.body["data"] for message in world.network.messages if message.destination == "webhook"]
    return [(UUID(one["tenantId"]), UUID(one["deliveryId"])) for one in data]


def counts(world):
    rows = world.rows("SELECT status, attempts, count(*) AS n FROM webhook_delivery GROUP BY 1, 2")
    return {(row["status"], row["attempts"]): row["n"] for row in rows}


def test_due_deliveries_are_published_and_not_called(world):
    tenant, other = world.tenant(), world.tenant()
    due = add_deliveries(world, tenant, [URL] * 3) + add_deliveries(world, other, [URL] * 2)
    assert publish_due(world, limit=4) == 4
    assert len(published(world)) == 4
    assert publish_due(world) == 5
    assert set(published(world)) == set(due)
    assert counts(world) == {("PENDING", 0): 5}


def test_batch_is_sent_in_parallel(world, receiver):
    wanted = add_deliveries(world, world.tenant(), [receiver.url("/together")] * PARALLEL_SENDS)
    world.webhooks._post = receiver.post()
    assert set(world.webhooks.deliver_all(wanted).values()) == {DeliveryStatus.DELIVERED}
    assert counts(world) == {("DELIVERED", 1): PARALLEL_SENDS}


def test_dead_targets_do_not_delay_other_deliveries(world, addresses, receiver):
    tenant = world.tenant()
    urls = [receiver.url("/dead" if number % (DUE // DEAD) == 0 else "/") for number in range(DUE)]
    add_deliveries(world, tenant, urls)
    assert publish_due(world) == DUE
    wanted, batches = published(world), queue.SimpleQueue()
    for place in range(0, DUE, PARALLEL_SENDS):
        batches.put(wanted[place : place + PARALLEL_SENDS])
    rounds = [0] * CONSUMERS

    def consume(number):
        with contextlib.closing(Database(addresses.app)) as database:
            outbox = Outbox(Relay(_Store(), world.network).deliver)
            service = WebhookService(
                PostgresWebhooks(database, outbox), receiver.post(), SystemClock(), Limits(sends=DUE)
            )
            with contextlib.suppress(queue.Empty):
                while True:
                    service.deliver_all(batches.get_nowait())
                    rounds[number] += 1

    consumers = [threading.Thread(target=consume, args=(number,)) for number in range(CONSUMERS)]
    for consumer in consumers:
        consumer.start()
    for consumer in consumers:
        consumer.join()
    assert counts(world) == {("DELIVERED", 1): DUE - DEAD, ("PENDING", 1): DEAD}
    assert sum(rounds) == DUE / PARALLEL_SENDS


class _Store:
    """The retries stay in the outbox: another consumer's transaction holds the fake network."""

    @contextlib.contextmanager
    def claim(self, *_):
        yield _Nothing()


class _Nothing:
    envelopes = ()

    def mark_sent(self, _ids):
        pass


def test_second_copy_of_message_sends_nothing(world, receiver):
    (place,) = add_deliveries(world, world.tenant(), [receiver.url("/")])
    world.webhooks._post = receiver.post()
    assert len(world.webhooks.deliver_all([place, place])) == 1
    assert world.webhooks.deliver_all([place]) == {}
    assert receiver.paths == ["/"]


def test_error_on_our_side_is_a_failed_attempt(world):
    tenant = world.tenant()
    wanted = add_deliveries(world, tenant, [URL] * 2)
    world.webhooks._post = Recorder(lambda *_: 1 / 0)
    assert set(world.webhooks.deliver_all(wanted).values()) == {DeliveryStatus.PENDING}
    assert counts(world) == {("PENDING", 1): 2}


def test_answer_is_stored_although_another_fails(world):
    (good,), (bad,) = add_deliveries(world, world.tenant(), [URL]), add_deliveries(world, world.tenant(), [URL])
    world.webhooks._post = Recorder()
    note = world.webhooks._store.note_answers

    def note_one(tenant_id, *rest, **named):
        if tenant_id == bad[0]:
            raise ZeroDivisionError
        return note(tenant_id, *rest, **named)

    world.webhooks._store.note_answers = note_one
    with pytest.raises(ZeroDivisionError):
        world.webhooks.deliver_all([bad, good])
    assert counts(world) == {("DELIVERED", 1): 1, ("PENDING", 1): 1}


def test_delivery_is_signed_by_the_standard(world):
    tenant = world.tenant()
    world.webhooks._post = post = Recorder()
    made = world.webhooks.register(tenant_id=tenant[0], url=URL)
    delivery_id = world.webhooks.send_test(tenant_id=tenant[0], webhook_id=made.webhook_id)
    world.webhooks.deliver(tenant_id=tenant[0], delivery_id=delivery_id)
    ((_, body, headers),) = post.sent
    assert verified(made.secret, headers, body)
    assert headers["webhook-id"] == headers["X-Artiway-Delivery"] == ids.to_wire("dlv", delivery_id)


def test_older_secret_still_signs(world):
    tenant = world.tenant()
    place = add_deliveries(world, tenant, [URL])
    old = "whsec_" + "-_" * 21 + "8"  # as token_urlsafe made them
    world.superuser.execute("UPDATE webhook SET secret = %s", [old])
    world.webhooks._post = post = Recorder()
    world.webhooks.deliver_all(place)
    ((_, body, headers),) = post.sent
    assert verified("whsec_" + "+/" * 21 + "8=", headers, body)


def test_test_delivery_is_sent_as_any_other(world):
    tenant, stranger = world.tenant(), world.tenant()
    made = world.webhooks.register(tenant_id=tenant[0], url=URL)
    delivery_id = world.webhooks.send_test(tenant_id=tenant[0], webhook_id=made.webhook_id)
    assert published(world) == [(tenant[0], delivery_id)]
    (row,) = world.webhooks.deliveries(tenant_id=tenant[0], webhook_id=made.webhook_id, before=None, limit=9)
    assert (row.delivery_id, row.event, row.status) == (delivery_id, "webhook.test", DeliveryStatus.PENDING)
    assert json.loads(row.body)["type"] == "webhook.test"
    for owner, webhook_id in ((tenant, ids.new_id()), (stranger, made.webhook_id)):
        with pytest.raises(NoSuchWebhook):
            world.webhooks.send_test(tenant_id=owner[0], webhook_id=webhook_id)
    assert len(published(world)) == 1


NEVER_DELIVERED = [
    "ftp://shop.example.com/",
    "https://user:password@shop.example.com/",
    "https://shop.example.com:6379/",
    "http://127.0.0.1:8080/",
    "http://2130706433/",
    "http://169.254.169.254/latest/meta-data/",
    "http://[::ffff:10.0.0.1]/",
    "http://localhost/",
    "http://shop..example.com/",
    "http://shop.example.com./",
]


@pytest.mark.parametrize("url", NEVER_DELIVERED)
def test_url_that_can_never_be_called_is_refused(world, url):
    tenant = world.tenant()
    for name, ask in (
        ("url", lambda: world.webhooks.register(tenant_id=tenant[0], url=url)),
        ("webhookUrl", lambda: submit(world, tenant, "crop", webhook_url=url)),
    ):
        with pytest.raises(Refused) as refused:
            ask()
        assert refused.value.status == 422
        assert [field["field"] for field in refused.value.details["fields"]] == [name]
