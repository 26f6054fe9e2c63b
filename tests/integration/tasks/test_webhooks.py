"""Webhooks of one tenant cost no other tenant anything: limits, the fan-out after a task's end, fair sends."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import UUID, uuid4

import pytest

from artiway import ids
from artiway.delivery.webhooks import repository, service
from artiway.delivery.webhooks.model import Answer, DeliveryStatus, Limits, SettledTask
from artiway.delivery.webhooks.service import WebhookService
from artiway.errors import Conflict
from artiway.outbox.repository import Outbox
from artiway.platform.database import Database, Transaction
from artiway.tasks.model import TaskStatus
from artiway.tasks.repository import SQL as TASKS
from tests.integration.tasks.test_life import deliver_all, submit
from tests.simulation.world import NoPost, World

LIMIT = 20


def address(number=0):
    return f"https://shop.example.com/{number}"


def register(world, tenant, count=1):
    return [world.webhooks.register(tenant_id=tenant[0], url=address(number)) for number in range(count)]


def webhooks(world, tenant):
    return world.rows(
        "SELECT * FROM webhook WHERE tenant_id = %s AND deleted_at IS NULL ORDER BY webhook_id", tenant[0]
    )


def deliveries(world, tenant):
    return world.rows("SELECT * FROM webhook_delivery WHERE tenant_id = %s ORDER BY delivery_id", tenant[0])


def set_limits(world, **limits):
    world.webhooks._limits = Limits(**limits)


def settled(tenant, *, task_id=None, run=1, url=None):
    return SettledTask(tenant[0], task_id or uuid4(), run, url, json.dumps({"type": "task.settled"}))


@pytest.fixture
def messages(world):
    """What arrives in the queue of deliveries."""
    arrived, receive = [], world.receive

    def recording(message):
        if message.destination == "webhook":
            arrived.append(message.body["data"]["deliveryId"])
        receive(message)

    world.receive = recording
    return arrived


class TestLimit:
    def test_registration_beyond_limit_stores_nothing(self, world):
        tenant = world.tenant()
        register(world, tenant, LIMIT)
        with pytest.raises(Conflict, match="20") as refused:
            world.webhooks.register(tenant_id=tenant[0], url=address(LIMIT))
        assert refused.value.code == "WEBHOOK_409_TOO_MANY"
        assert refused.value.details == {"limit": LIMIT}
        assert len(webhooks(world, tenant)) == LIMIT

    def test_known_address_registers_again_at_limit(self, world):
        tenant = world.tenant()
        first, *_ = register(world, tenant, LIMIT)
        again = world.webhooks.register(tenant_id=tenant[0], url=first.url)
        assert again.webhook_id == first.webhook_id
        assert again.secret != first.secret

    def test_deleted_webhook_makes_room_for_another(self, world):
        tenant = world.tenant()
        first, *_ = register(world, tenant, LIMIT)
        world.webhooks.remove(tenant_id=tenant[0], webhook_id=first.webhook_id)
        world.webhooks.register(tenant_id=tenant[0], url=address(LIMIT))
        assert len(webhooks(world, tenant)) == LIMIT

    def test_other_tenants_registrations_do_not_count(self, world):
        register(world, world.tenant(), LIMIT)
        assert len(register(world, world.tenant(), LIMIT)) == LIMIT

    def test_implied_webhook_is_not_registered_beyond_limit(self, world):
        tenant = world.tenant()
        world.worker()
        submit(world, tenant, "crop", webhook_url=address("implied"))
        world.run_to_end()
        register(world, tenant, LIMIT)
        with pytest.raises(Conflict):
            world.webhooks.register(tenant_id=tenant[0], url=address("implied"))
        assert sum(row["is_implied"] for row in webhooks(world, tenant)) == 1

    def test_concurrent_registrations_stay_within_the_limit(self, world, addresses):
        tenant = world.tenant()
        register(world, tenant, LIMIT - 2)
        clients = 8
        barrier = Barrier(clients)

        def try_one(number):
            with contextlib.closing(Database(addresses.app)) as database:
                rows = repository.PostgresWebhooks(database, Outbox(lambda *_: None))
                hooks = WebhookService(rows, NoPost(), world.clock, Limits(registered=LIMIT))
                barrier.wait()
                try:
                    return hooks.register(tenant_id=tenant[0], url=address(f"race/{number}"))
                except Conflict:
                    return None

        with ThreadPoolExecutor(clients) as pool:
            made = [one for one in pool.map(try_one, range(clients)) if one]
        assert len(made) == 2
        assert len(webhooks(world, tenant)) == LIMIT


class TestEnd:
    """Of a task: what its own transaction does."""

    def run_to_end(self, world, tenant, **options):
        """Returns the messages of the fan-out, not delivered yet."""
        task = submit(world, tenant, "crop", **options)
        deliver_all(world)
        (worker,) = world.workers
        world.finish(worker, worker.held[0])
        kept = []
        while world.network.messages:
            kept += [one for one in world.network.messages if one.destination.startswith("webhook")]
            world.network.messages = [one for one in world.network.messages if one not in kept]
            world.deliver_one()
        assert world.task_row(task.task_id)["status"] == TaskStatus.COMPLETED
        return kept

    def test_end_of_task_creates_no_delivery(self, world):
        tenant = world.tenant()
        world.worker()
        register(world, tenant, LIMIT)
        kept = self.run_to_end(world, tenant, webhook_url=address("implied"))
        assert [message.destination for message in kept] == ["webhook_fanout"]
        assert deliveries(world, tenant) == []
        assert len(webhooks(world, tenant)) == LIMIT
        world.network.messages = kept
        world.run_to_end()
        assert len(deliveries(world, tenant)) == LIMIT + 1

    def test_end_without_listener_publishes_no_message(self, world):
        tenant = world.tenant()
        world.worker()
        assert self.run_to_end(world, tenant) == []

    def test_end_runs_equal_statements_with_twenty_webhooks(self, world, monkeypatch):
        tenant = world.tenant()
        world.worker()
        statements, ends, execute = Counter(), [], Transaction._execute

        def recording(transaction, query, *arguments):
            statements[transaction] += 1
            if query == TASKS["end_task"]:
                ends.append(transaction)
            return execute(transaction, query, *arguments)

        monkeypatch.setattr(Transaction, "_execute", recording)
        self.run_to_end(world, tenant)
        register(world, tenant, LIMIT)
        self.run_to_end(world, tenant)
        without, with_twenty = (statements[transaction] for transaction in ends)
        assert with_twenty == without


class TestFanOut:
    def test_repeated_message_creates_no_second_delivery(self, world, messages):
        tenant = world.tenant()
        register(world, tenant, 3)
        settled_task = settled(tenant, url=address("implied"))
        assert [world.webhooks.fan_out(settled_task) for _ in range(2)] == [4, 0]
        deliver_all(world)
        rows = deliveries(world, tenant)
        assert sorted(messages) == [str(row["delivery_id"]) for row in rows]
        assert len({row["webhook_id"] for row in rows}) == len(rows) == 4

    def test_next_run_of_task_is_delivered(self, world):
        tenant, task_id = world.tenant(), uuid4()
        register(world, tenant)
        for run in (1, 2, 2):
            world.webhooks.fan_out(settled(tenant, task_id=task_id, run=run))
        assert [row["run"] for row in deliveries(world, tenant)] == [1, 2]

    def test_repeated_message_restores_no_deleted_webhook(self, world):
        tenant = world.tenant()
        message = settled(tenant, url=address())
        world.webhooks.fan_out(message)
        (implied,) = webhooks(world, tenant)
        world.webhooks.remove(tenant_id=tenant[0], webhook_id=implied["webhook_id"])
        world.webhooks.fan_out(message)
        assert webhooks(world, tenant) == []
        assert len(deliveries(world, tenant)) == 1

    def test_crash_at_any_point_loses_no_delivery(self, addresses, valkey, subtests):
        def play(fuse):
            with contextlib.closing(World(addresses, valkey)) as world:
                tenant = world.tenant()
                world.worker()
                register(world, tenant, 3)
                arrived, receive = set(), world.receive

                def recording(message):
                    if message.destination == "webhook":
                        arrived.add(message.body["data"]["deliveryId"])
                    receive(message)

                world.receive = recording
                world.chaos.crash_at = fuse
                submit(world, tenant, "crop", webhook_url=address("implied"))
                world.run_to_end()
                assert world.chaos.crash_at is None
                rows = deliveries(world, tenant)
                assert len({row["webhook_id"] for row in rows}) == len(rows) == 4
                assert arrived == {str(row["delivery_id"]) for row in rows if row["parked_at"] is None}
                return [point for point in world.chaos.points if point.startswith("webhook_fanout ")]

        points = play(None)
        effects = {point.partition(": ")[2] for point in points}
        assert {"before commit", "after commit", "before message to webhook", "after message to webhook"} == effects
        for point in points:
            with subtests.test(point):
                play(point)

    def test_many_webhooks_are_split_into_pages(self, world, monkeypatch):
        monkeypatch.setattr(repository, "FAN_OUT_BATCH", 2)
        tenant = world.tenant()
        register(world, tenant, 4)
        assert world.webhooks.fan_out(settled(tenant, url=address("implied"))) == 2
        deliver_all(world)
        assert len(deliveries(world, tenant)) == 5

    def test_pending_limit_keeps_further_deliveries_unsent(self, world, messages):
        tenant = world.tenant()
        set_limits(world, pending=3)
        register(world, tenant, 5)
        assert world.webhooks.fan_out(settled(tenant)) == 3
        deliver_all(world)
        rows = deliveries(world, tenant)
        assert [row["status"] for row in rows] == ["PENDING"] * 3 + ["FAILED"] * 2
        assert len(messages) == 3
        assert rows[-1]["answer"] == repository.NOT_TRIED

    def test_oldest_idle_implied_webhook_is_evicted(self, world):
        tenant = world.tenant()
        set_limits(world, implied=2)
        register(world, tenant)
        for number in (1, 2, 3):
            world.webhooks.fan_out(settled(tenant, url=address(number)))
        # Each has a pending delivery, which would be lost.
        assert [row["url"] for row in webhooks(world, tenant)] == [address(number) for number in range(4)]
        world.superuser.execute("UPDATE webhook_delivery SET status = 'DELIVERED'")
        world.webhooks.fan_out(settled(tenant, url=address(4)))
        assert [row["url"] for row in webhooks(world, tenant)] == [address(0), address(3), address(4)]


class TestSends:
    """A tenant whose addresses do not answer leaves room for the others."""

    def due(self, world, tenant, count, *, seconds=3_600):
        """Deliveries that have been due for so long, the first for the longest time."""
        (webhook,) = register(world, tenant)
        made = [ids.new_id() for _ in range(count)]
        for place, delivery_id in enumerate(made):
            world.superuser.execute(
                "INSERT INTO webhook_delivery (tenant_id, delivery_id, webhook_id, event, body, next_try_at)"
                " VALUES (%s, %s, %s, 'task.settled', '{}', now() - make_interval(secs => %s))",
                [tenant[0], delivery_id, webhook.webhook_id, seconds - place],
            )
        return made

    def publish(self, world, messages, **limits):
        outbox = Outbox(world.relay.deliver, world.clock)
        count = repository.PostgresDueDeliveries(world.service_database, outbox).publish(**limits)
        deliver_all(world)
        assert len(messages) == count
        return set(messages)

    def test_due_pass_serves_every_tenant_first(self, world, messages):
        flood = self.due(world, world.tenant(), 30)
        (quiet,) = self.due(world, world.tenant(), 1, seconds=60)
        assert self.publish(world, messages, limit=2, tenant_limit=9) == {str(flood[0]), str(quiet)}

    def test_due_pass_takes_few_of_one_tenant(self, world, messages):
        flood = self.due(world, world.tenant(), 30)
        expected = {str(one) for one in flood[:5]}
        assert self.publish(world, messages, limit=100, tenant_limit=5) == expected

    @pytest.mark.parametrize("keep_s", [0, 60])
    def test_tenant_at_its_sends_waits_alone(self, world, messages, monkeypatch, keep_s):
        tenant, other = world.tenant(), world.tenant()
        set_limits(world, sends=2)
        first, second, third, fourth = self.due(world, tenant, 4)
        (quiet,) = self.due(world, other, 1)
        rows, depth, inner = world.webhooks._store, [], {}

        class Slow:
            """An address that takes as long as the other sends of the test."""

            def post(self, url, body, headers):
                depth.append(url)
                if len(depth) == 1:
                    inner["second"] = world.webhooks.deliver(tenant_id=tenant[0], delivery_id=second)
                elif len(depth) == 2:
                    inner["third"] = world.webhooks.deliver(tenant_id=tenant[0], delivery_id=third)
                    inner["quiet"] = world.webhooks.deliver(tenant_id=other[0], delivery_id=quiet)
                return Answer(200, "ok")

        world.webhooks._post = Slow()
        monkeypatch.setattr(service, "KEEP_SENDING_S", keep_s)
        assert world.webhooks.deliver(tenant_id=tenant[0], delivery_id=first) is DeliveryStatus.DELIVERED
        assert inner == {"second": DeliveryStatus.DELIVERED, "third": None, "quiet": DeliveryStatus.DELIVERED}
        deliver_all(world)
        status = {row["delivery_id"]: row["status"] for row in deliveries(world, tenant)}
        if keep_s:
            assert (messages, status[third]) == ([], "DELIVERED")  # by the call that ended a send
        else:
            assert (messages, status[third]) == ([str(third)], "PENDING")  # published by it
        assert rows.take(tenant[0], [fourth], lease_s=60, sends=1)

    def test_fan_out_publishes_as_many_as_sends(self, world, messages):
        tenant = world.tenant()
        set_limits(world, sends=3)
        register(world, tenant, 8)
        assert world.webhooks.fan_out(settled(tenant)) == 8
        deliver_all(world)
        assert len(messages) == 3

        class Taking:
            def post(self, url, body, headers):
                return Answer(200, "ok")

        world.webhooks._post = Taking()
        for delivery_id in messages:
            world.webhooks.deliver(tenant_id=tenant[0], delivery_id=UUID(delivery_id))
        assert {row["status"] for row in deliveries(world, tenant)} == {"DELIVERED"}

    def test_send_that_died_frees_its_place(self, world):
        tenant = world.tenant()
        first, second = self.due(world, tenant, 2)
        rows = world.webhooks._store
        assert rows.take(tenant[0], [first], lease_s=60, sends=1)
        assert not rows.take(tenant[0], [second], lease_s=60, sends=1)
        world.superuser.execute("UPDATE webhook_delivery SET sending_until = now() WHERE sending_until IS NOT NULL")
        assert rows.take(tenant[0], [second], lease_s=60, sends=1)
