"""Uploads, progress, events and webhooks on PostgreSQL and Redis."""

from __future__ import annotations

import json
import struct
from collections import Counter
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from artiway.audit.repository import AuditLog
from artiway.delivery.feed.model import EntryId
from artiway.delivery.uploads.model import NoSuchInput, NotAPicture, NotUploaded, OpenLimits
from artiway.delivery.uploads.repository import CloudFrontPictures, PostgresUploads
from artiway.delivery.uploads.service import Bounds, UploadService
from artiway.delivery.webhooks.model import (
    BACKOFF_S,
    Answer,
    DeliveryStatus,
    NoSuchDelivery,
    NoSuchWebhook,
    signature,
)
from artiway.platform import picture_keys
from artiway.platform.redis import RedisAway
from artiway.platform.signed_urls import UrlSigner
from artiway.tasks.model import NodeProgress, TaskFilter
from artiway.tasks.reports import report_from
from tests.integration.tasks.test_life import deliver_all, held, submit

BOUNDS = Bounds(
    bytes=1_000,
    pixels=1_000_000,
    side=4_000,
    url_ttl_s=900,
    url_step_s=600,
    upload_ttl_s=900,
    opened=OpenLimits(3, 5),
)
SIGNER = UrlSigner("K1", picture_keys.new_key)
PICTURES = CloudFrontPictures(SIGNER)
HERE = "https://shop.example"


def png(width=64, height=64, size=100):
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)
    return head.ljust(size, b"\0")


class Objects:
    """S3 as a dictionary."""

    def __init__(self):
        self.stored, self.reads = {}, 0

    def upload_url(self, key, *, content_type, size, ttl_s):
        return f"s3://{key}", {"Content-Type": content_type, "Content-Length": str(size)}

    def head(self, key, *, length):
        self.reads += 1
        body = self.stored.get(key)
        return None if body is None else (body[:length], len(body))


@pytest.fixture
def objects():
    return Objects()


@pytest.fixture
def uploads(world, objects):
    return UploadService(
        PostgresUploads(world.database, AuditLog()), objects, PICTURES, world.clock, lambda: BOUNDS, originals=PICTURES
    )


def upload(uploads, objects, tenant, body, content_type="image/png", size=None):
    ticket = uploads.ticket(tenant_id=tenant[0], user_id=tenant[1], content_type=content_type, size=size or len(body))
    objects.stored[ticket.url.removeprefix("s3://")] = body
    return ticket.input_id


def test_upload_is_inspected_once(world, uploads, objects):
    tenant = world.tenant()
    input_id = upload(uploads, objects, tenant, png())
    for _ in range(2):
        found = uploads.inspect(tenant[0], [input_id])
        assert found[input_id].key == f"inputs/{tenant[0]}/{input_id}"
    assert objects.reads == 1


def test_upload_of_another_tenant_is_not_found(world, uploads, objects):
    tenant, stranger = world.tenant(), world.tenant()
    input_id = upload(uploads, objects, tenant, png())
    for tenant_id, asked in ((stranger[0], input_id), (tenant[0], uuid4())):
        with pytest.raises(NoSuchInput):
            uploads.inspect(tenant_id, [asked])


@pytest.mark.parametrize(
    ("body", "declared"),
    [
        (b"not a picture at all, and long enough to be one", {}),
        (png(), {"content_type": "image/jpeg"}),
        (png(), {"size": 99}),
        (png(100_000, 100_000), {}),
        (png(5_000, 10), {}),
        (b"\xff\xd8\xff\xe1\xff\xff" + bytes(500), {"content_type": "image/jpeg"}),
    ],
    ids=["undecodable", "wrong type", "wrong size", "bomb", "too wide", "endless header"],
)
def test_upload_unlike_its_declaration_is_refused(world, uploads, objects, body, declared):
    tenant = world.tenant()
    input_id = upload(uploads, objects, tenant, body, **declared)
    with pytest.raises(NotAPicture):
        uploads.inspect(tenant[0], [input_id])


def test_ticket_without_upload_is_refused(world, uploads):
    tenant = world.tenant()
    ticket = uploads.ticket(tenant_id=tenant[0], user_id=tenant[1], content_type="image/png", size=10)
    with pytest.raises(NotUploaded):
        uploads.inspect(tenant[0], [ticket.input_id])


def test_picture_above_limit_gets_no_ticket(world, uploads):
    tenant = world.tenant()
    with pytest.raises(NotAPicture):
        uploads.ticket(tenant_id=tenant[0], user_id=tenant[1], content_type="image/png", size=1_001)


def test_results_are_listed_until_they_expire(world, uploads):
    tenant = world.tenant()
    world.worker()
    task = submit(world, tenant, "model_photo", count=2)
    world.run_to_end()
    results = uploads.results(tenant_id=tenant[0], task_id=task.task_id, base_url=HERE)
    assert [result.name for result in results] == ["compose_1", "compose_2"]
    assert uploads.results(tenant_id=world.tenant()[0], task_id=task.task_id, base_url=HERE) == []
    world.superuser.execute(
        "UPDATE artefact SET expires_at = now() - interval '1 s' WHERE task_id = %s", [task.task_id]
    )
    assert uploads.results(tenant_id=tenant[0], task_id=task.task_id, base_url=HERE) == []


def test_result_keeps_its_address_for_one_step(world, uploads):
    tenant = world.tenant()
    world.worker()
    task = submit(world, tenant, "model_photo", count=2)
    world.run_to_end()

    def addresses():
        found = uploads.results(tenant_id=tenant[0], task_id=task.task_id, base_url=HERE)
        return [(one.url, one.download_url, one.expires_at) for one in found]

    world.advance(600 - world.clock.now().timestamp() % 600)
    first = addresses()
    world.advance(299)
    assert addresses() == first
    world.advance(2)
    assert {one[2] for one in addresses()} == {first[0][2] + timedelta(seconds=600)}
    assert len({address for url, download, _ in [*first, *addresses()] for address in (url, download)}) == 8
    assert all(url.startswith(f"{HERE}/outputs/{tenant[0]}/") for url, _, _ in first)
    assert [f"model_photo-{world.clock.now():%Y-%m-%d}-{number}.png" in first[number - 1][1] for number in (1, 2)]


def test_address_ends_with_its_picture(world, uploads):
    tenant = world.tenant()
    world.worker()
    task = submit(world, tenant, "cutout")
    world.run_to_end()
    world.superuser.execute("UPDATE artefact SET expires_at = now() + interval '30 s'")
    (row,) = world.rows("SELECT expires_at FROM artefact")
    (found,) = uploads.results(tenant_id=tenant[0], task_id=task.task_id, base_url=HERE)
    assert found.expires_at == row["expires_at"]
    assert f"&Expires={int(row['expires_at'].timestamp())}&" in found.url


# Progress


def running_node(world, tenant):
    world.worker()
    task = submit(world, tenant, "style")
    deliver_all(world)
    worker, holding = held(world, "style_1")
    return task, worker, holding


def report(holding, kind="progress", **extra):
    order = holding.order
    names = ("tenantId", "taskId", "nodeId", "attempt")
    return report_from(kind, {**{name: order[name] for name in names}, "workerId": "w1", **extra})


def test_many_progress_messages_make_one_write(world):
    task, _, holding = running_node(world, world.tenant())
    world.advance(6)  # since the claim, which wrote
    world.nodes.beat(world.workers[0].card, [(UUID(holding.order["nodeId"]), 1)])
    writes = Counter()
    real = world.nodes.note_progress

    def counted(one, **kwargs):
        writes["asked"] += 1
        changed = real(one, **kwargs)
        writes["written"] += changed
        return changed

    world.nodes.note_progress = counted
    for sequence in range(1, 251):
        world.progress.handle([report(holding, sequence=sequence, progress=min(99, sequence))])
    assert writes == {"asked": 1, "written": 1}
    assert world.feed.progress([task.task_id])[UUID(holding.order["nodeId"])] == NodeProgress(1, 99)
    world.run_to_end()


def test_batch_is_reduced_to_newest_report(world):
    _, _, holding = running_node(world, world.tenant())
    batch = [report(holding, sequence=n, progress=p) for n, p in ((3, 60), (1, 20), (2, 40))]
    world.progress.handle(batch)
    assert [body["progress"] for body in world.notices if body["type"] == "task.progress"] == [60]
    world.run_to_end()


def test_late_progress_changes_nothing(world):
    task, _, holding = running_node(world, world.tenant())
    world.progress.handle([report(holding, sequence=5, progress=50)])
    for late in (
        report(holding, sequence=4, progress=90),
        report(holding, sequence=5, progress=91),
    ):
        world.progress.handle([late])
    world.nodes.release(worker_id="w1", held=[(UUID(holding.order["nodeId"]), 1)])
    deliver_all(world)
    world.progress.handle([report(holding, sequence=9, progress=95)])
    assert world.feed.progress([task.task_id])[UUID(holding.order["nodeId"])] == NodeProgress(2, 0)
    pushed = [body["progress"] for body in world.notices if body["type"] == "task.progress"]
    assert pushed == [50]
    world.run_to_end()


def test_progress_without_redis_is_stored_in_postgresql(world, monkeypatch):
    tenant = world.tenant()
    task, worker, holding = running_node(world, tenant)
    world.advance(6)
    world.beat()

    def away(*_, **__):
        raise RedisAway

    monkeypatch.setattr(world.feed, "note_progress", away)
    monkeypatch.setattr(world.feed, "add", away)
    world.progress.handle([report(holding, sequence=1, progress=40)])
    (node,) = world.rows("SELECT progress FROM task_node WHERE task_id = %s", task.task_id)
    assert node["progress"] == 40
    world.finish(worker, holding)
    world.run_to_end()
    assert world.task_row(task.task_id)["status"] == "COMPLETED"


def test_view_shows_newest_progress_of_running_node(world, monkeypatch):
    tenant = world.tenant()
    task, _, holding = running_node(world, tenant)
    world.progress.handle([report(holding, sequence=1, progress=40)])
    place = {"tenant_id": tenant[0], "task_id": task.task_id}
    view = world.tasks.view(**place)
    assert (view.progress, view.node_progress) == (40, {UUID(holding.order["nodeId"]): 40})

    def away(*_):
        raise RedisAway

    monkeypatch.setattr(world.feed, "progress", away)
    stored = world.rows("SELECT progress FROM task_node WHERE task_id = %s", task.task_id)[0]["progress"]
    assert world.tasks.view(**place).progress == stored
    world.run_to_end()


def test_list_shows_newest_progress_like_view(world, monkeypatch):
    tenant = world.tenant()
    ended, worker, holding = running_node(world, tenant)
    world.finish(worker, holding)
    deliver_all(world)
    first, second = (running_node(world, tenant)[0].task_id for _ in range(2))
    holdings = {UUID(one.order["taskId"]): one for worker in world.workers for one in worker.held}
    for task_id, percent in ((first, 33), (second, 67)):
        world.progress.handle([report(holdings[task_id], sequence=1, progress=1)])
        world.progress.handle([report(holdings[task_id], sequence=2, progress=percent)])
    reads = []
    read_progress = world.feed.progress
    monkeypatch.setattr(world.feed, "progress", lambda tasks: reads.append(set(tasks)) or read_progress(tasks))

    def listed():
        page = world.tasks.tasks(tenant_id=tenant[0], wanted=TaskFilter(), before=None, limit=10)
        return {task.task_id: progress for task, progress in page}

    assert listed() == {first: 33, second: 67, ended.task_id: 100}
    assert reads == [{first, second}]
    assert listed() == {
        task_id: world.tasks.view(tenant_id=tenant[0], task_id=task_id).progress
        for task_id in (first, second, ended.task_id)
    }

    def away(*_):
        raise RedisAway

    monkeypatch.setattr(world.feed, "progress", away)
    stored = world.rows("SELECT task_id, progress FROM task_node WHERE tenant_id = %s", tenant[0])
    assert listed() == {row["task_id"]: row["progress"] for row in stored}
    world.run_to_end()


# Events


def read(world, tenant, task, last):
    return world.events.available(tenant_id=tenant[0], task_id=task.task_id, last=last)


def test_client_continues_after_its_last_event(world):
    tenant = world.tenant()
    task, worker, holding = running_node(world, tenant)
    first = read(world, tenant, task, EntryId())
    assert [event.event for event in first] == ["queued", "started"]
    world.progress.handle([report(holding, sequence=1, progress=30)])
    second = read(world, tenant, task, first[-1].entry_id)
    assert [(event.event, str(event.entry_id)) for event in second] == [("progress", "2-1")]
    world.finish(worker, holding)
    deliver_all(world)
    third = read(world, tenant, task, second[-1].entry_id)
    assert [event.event for event in third] == ["completed", "completed", "settled"]
    assert third[-1].body["status"] == "COMPLETED"
    assert read(world, tenant, task, third[-1].entry_id) is None
    assert third[0].as_frame().startswith("id: 3-0\nevent: completed\ndata: {")


@pytest.mark.parametrize("when", ["before", "in the middle"])
def test_events_lost_by_redis_come_from_database(world, when):
    tenant = world.tenant()
    if when == "before":
        world.redis.flushall()
    task, worker, holding = running_node(world, tenant)
    received = read(world, tenant, task, EntryId())
    world.redis.flushall()
    world.progress.handle([report(holding, sequence=1, progress=30)])
    world.finish(worker, holding)
    deliver_all(world)
    received += read(world, tenant, task, received[-1].entry_id)
    assert [event.entry_id.sequence for event in received if event.entry_id.part == 0] == [1, 2, 3, 4, 5]


class Behind:
    """A stream to which two functions added events in reverse order, after the client had read the task."""

    def __init__(self, stream, happens):
        self._stream, self._happens = stream, happens

    def after(self, task_id, last, *, wait_ms, limit):
        happens, self._happens = self._happens, lambda: None
        happens()
        return self._stream.after(task_id, last, wait_ms=wait_ms, limit=limit)


def test_events_added_in_reverse_are_served_in_order(world, monkeypatch):
    tenant = world.tenant()
    task, worker, holding = running_node(world, tenant)
    received = read(world, tenant, task, EntryId())
    real, withheld = world.feed.add, []

    def last_first(events):
        withheld.extend(events)

    def happens():
        monkeypatch.setattr(world.feed, "add", last_first)
        world.finish(worker, holding)
        deliver_all(world)
        real(withheld[::-1])

    monkeypatch.setattr(world.events, "_stream", Behind(world.feed, happens))
    received += read(world, tenant, task, received[-1].entry_id)
    assert [event.sequence for event in withheld] == [3, 4, 5]
    assert [(event.entry_id.sequence, event.event) for event in received] == [
        (1, "queued"),
        (2, "started"),
        (3, "completed"),
        (4, "completed"),
        (5, "settled"),
    ]


def test_progress_after_end_of_node_is_dropped(world):
    tenant = world.tenant()
    task, worker, holding = running_node(world, tenant)
    world.progress.handle([report(holding, sequence=1, progress=30)])
    world.finish(worker, holding)
    deliver_all(world)
    world.progress.handle([report(holding, sequence=2, progress=90)])
    assert [event.event for event in read(world, tenant, task, EntryId())][-1] == "settled"
    assert [body["progress"] for body in world.notices if body["type"] == "task.progress"] == [30]


def test_progress_in_empty_redis_waits_for_change(world):
    tenant = world.tenant()
    task, _, holding = running_node(world, tenant)
    world.redis.flushall()
    world.progress.handle([report(holding, sequence=1, progress=30)])
    received = read(world, tenant, task, EntryId())
    assert [event.event for event in received] == ["queued", "started"]
    world.run_to_end()


def test_client_that_reconnects_receives_each_event_once(world):
    """Also if Redis is emptied between two reads."""
    tenant = world.tenant()
    world.worker()
    task = submit(world, tenant, "model_photo", count=3)
    received = []
    while (found := read(world, tenant, task, received[-1].entry_id if received else EntryId())) is not None:
        received += found[:1]
        if found:
            if len(received) % 4 == 0:
                world.redis.flushall()
        elif not world.deliver_one():
            worker, holding = next((one, holding) for one in world.workers for holding in one.held)
            world.progress.handle([report(holding, sequence=1, progress=50)])
            world.finish(worker, holding)
    changes = [event.entry_id.sequence for event in received if event.entry_id.part == 0]
    assert changes == list(range(1, len(changes) + 1))
    assert received[-1].event == "settled"


def test_events_of_another_tenant_are_not_found(world):
    tenant = world.tenant()
    task, _, _ = running_node(world, tenant)
    with pytest.raises(Exception, match="no such task"):
        read(world, world.tenant(), task, EntryId())
    world.run_to_end()


def test_text_that_is_no_entry_id_means_beginning():
    for text in (None, "", "x", "1", "1-", "-1", "1-2-3", "9" * 30 + "-0"):
        assert EntryId.parse(text) == EntryId()


# Webhooks


class Post:
    def __init__(self, *answers):
        self.answers, self.sent = list(answers), []

    def post(self, url, body, headers):
        self.sent.append((url, body, headers))
        return self.answers.pop(0) if self.answers else Answer(200, "ok")


def ended_task(world, tenant, **options):
    world.worker()
    task = submit(world, tenant, "crop", **options)
    world.run_to_end()
    return task


def deliveries(world):
    return world.rows("SELECT * FROM webhook_delivery ORDER BY delivery_id")


def test_end_of_task_is_delivered_once_and_signed(world):
    tenant, stranger = world.tenant(), world.tenant()
    made = world.webhooks.register(tenant_id=tenant[0], url="https://shop.example.com/a")
    world.webhooks.register(tenant_id=stranger[0], url="https://other.example.com/a")
    task = ended_task(world, tenant, webhook_url="https://shop.example.com/b")
    post = world.webhooks._post = Post()
    rows = deliveries(world)
    assert len(rows) == 2
    for row in rows:
        sent = world.webhooks.deliver(tenant_id=tenant[0], delivery_id=row["delivery_id"])
        assert sent is DeliveryStatus.DELIVERED
        assert world.webhooks.deliver(tenant_id=tenant[0], delivery_id=row["delivery_id"]) is None
    assert {url for url, _, _ in post.sent} == {"https://shop.example.com/a", "https://shop.example.com/b"}
    body, headers = next((body, headers) for url, body, headers in post.sent if url == made.url)
    assert json.loads(body) == {
        "type": "task.settled",
        "taskId": f"task_{task.task_id.hex}",
        "tool": "crop",
        "status": "COMPLETED",
        "chargedPoints": 1,
    }
    timestamp = int(headers["X-Artiway-Timestamp"])
    assert headers["X-Artiway-Signature"] == signature(made.secret, timestamp=timestamp, body=body)


def test_implied_webhook_receives_only_its_own_tasks(world):
    tenant = world.tenant()
    ended_task(world, tenant, webhook_url="https://shop.example.com/b")
    ended_task(world, tenant)
    assert len(deliveries(world)) == 1
    (implied,) = world.webhooks.webhooks(tenant_id=tenant[0], before=None, limit=9)
    made = world.webhooks.register(tenant_id=tenant[0], url=implied.url)
    assert (made.webhook_id, made.is_implied) == (implied.webhook_id, False)
    assert made.secret != implied.secret
    ended_task(world, tenant)
    assert len(deliveries(world)) == 2


def test_failed_delivery_is_retried_with_growing_delays(world):
    tenant = world.tenant()
    world.webhooks.register(tenant_id=tenant[0], url="https://shop.example.com/a")
    ended_task(world, tenant)
    attempts = len(BACKOFF_S) + 1
    post = world.webhooks._post = Post(*[Answer(500, "no")] * attempts)
    (row,) = deliveries(world)
    place = {"tenant_id": tenant[0], "delivery_id": row["delivery_id"]}
    for wait_s in BACKOFF_S:
        assert world.webhooks.deliver(**place) is DeliveryStatus.PENDING
        assert world.webhooks.deliver(**place) is None
        (row,) = deliveries(world)
        (remaining,) = world.rows(
            "SELECT extract(epoch FROM next_try_at - clock_timestamp()) AS s FROM webhook_delivery"
        )
        assert wait_s - 5 < remaining["s"] <= wait_s
        world.superuser.execute("UPDATE webhook_delivery SET next_try_at = now()")
    assert world.webhooks.deliver(**place) is DeliveryStatus.FAILED
    assert len(post.sent) == attempts
    (row,) = deliveries(world)
    assert (row["status"], row["attempts"], row["answer_code"]) == ("FAILED", attempts, 500)
    webhook_id = row["webhook_id"]
    world.webhooks.redeliver(tenant_id=tenant[0], webhook_id=webhook_id, delivery_id=row["delivery_id"])
    assert world.webhooks.deliver(**place) is DeliveryStatus.DELIVERED


def test_webhooks_of_another_tenant_are_not_found(world):
    tenant, stranger = world.tenant(), world.tenant()
    made = world.webhooks.register(tenant_id=tenant[0], url="https://shop.example.com/a")
    ended_task(world, tenant)
    (row,) = deliveries(world)
    ask = {"tenant_id": stranger[0], "webhook_id": made.webhook_id}
    with pytest.raises(NoSuchWebhook):
        world.webhooks.remove(**ask)
    with pytest.raises(NoSuchWebhook):
        world.webhooks.deliveries(**ask, before=None, limit=9)
    with pytest.raises(NoSuchDelivery):
        world.webhooks.redeliver(**ask, delivery_id=row["delivery_id"])
    assert world.webhooks.deliver(tenant_id=stranger[0], delivery_id=row["delivery_id"]) is None


def test_removed_webhook_is_not_called(world):
    tenant = world.tenant()
    made = world.webhooks.register(tenant_id=tenant[0], url="https://shop.example.com/a")
    ended_task(world, tenant)
    world.webhooks.remove(tenant_id=tenant[0], webhook_id=made.webhook_id)
    post = world.webhooks._post = Post()
    (row,) = deliveries(world)
    assert world.webhooks.deliver(tenant_id=tenant[0], delivery_id=row["delivery_id"]) is DeliveryStatus.FAILED
    assert post.sent == []
