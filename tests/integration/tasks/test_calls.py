"""HTTP nodes of flows with the real services and PostgreSQL: order, answers, retries, limits, cancellation."""

from __future__ import annotations

import threading
from dataclasses import replace
from uuid import uuid4

import pytest

from artiway import bootstrap
from artiway.jobs.messages import Outcome
from artiway.jobs.settings import JOB_LIMITS
from artiway.tasks.calls.model import DueCall
from artiway.tasks.calls.settings import CAPACITY
from artiway.tasks.model import Cycle, InvalidRequest, OnFailure, TaskStatus
from tests.integration.tasks.test_life import deliver_all, held, running
from tests.simulation.world import MANAGER, World, flow, http_node


def submit(world, tenant, nodes, on_failure=OnFailure.CONTINUE):
    tenant_id, user_id = tenant
    return world.tasks.submit_flow(
        tenant_id=tenant_id, user_id=user_id, name="f", nodes=nodes, webhook_url=None, on_failure=on_failure
    ).task


def error_of(world, task, name):
    return world.rows("SELECT error FROM task_node WHERE task_id = %s AND name = %s", task.task_id, name)[0]["error"]


def calls_in_queue(world):
    return [message for message in world.network.messages if message.destination == "run_calls"]


def deliver_but_calls(world):
    """All messages except those to the caller."""
    for _ in range(1_000):
        waiting = calls_in_queue(world)
        world.network.messages = [one for one in world.network.messages if one not in waiting]
        is_delivered = world.deliver_one()
        world.network.messages += waiting
        if not is_delivered:
            return


def test_picture_then_call_that_names_it(world):
    tenant = world.tenant(points=100)
    world.worker()
    body = {"picture": "{{nodes.a.url}}", "kept": "{{ nodes.b.answer }}/{{nodes.b.httpStatus}}", "n": 1}
    nodes = [*flow("a"), http_node("b"), http_node("notify", body=body, method="PUT")]
    task = submit(world, tenant, nodes)
    deliver_all(world)
    assert world.statuses(task.task_id) == {"a": "PROCESSING", "b": "COMPLETED", "notify": "PENDING"}
    world.finish(*held(world, "a"))
    deliver_all(world)
    assert world.task_row(task.task_id)["status"] == "COMPLETED"
    call = world.targets.calls[-1]
    assert call.idempotency_key == f"task_{task.task_id.hex}:notify"
    assert (call.method, call.node_of, call.attempt) == ("PUT", task.task_id, 1)
    assert f'"picture": "https://pictures.test/outputs/{tenant[0]}/{task.task_id}/' in call.body
    assert '"kept": "answer of b/200"' in call.body
    assert call.signing_keys, "the first flow with a call makes the tenant's signing key"


def test_call_costs_points_and_no_slot(world):
    tenant = world.tenant(points=100)
    task = submit(world, tenant, [http_node("a"), http_node("b", "a")])
    assert world.balance(*tenant) == (98, 2)
    deliver_all(world)  # without a worker
    assert world.balance(*tenant) == (98, 0)
    row = world.task_row(task.task_id)
    assert (row["status"], row["charged_points"]) == ("COMPLETED", 2)
    output = world.rows("SELECT output FROM task_node WHERE name = 'b' AND task_id = %s", task.task_id)[0]["output"]
    assert output == [{"httpStatus": 200, "text": "answer of b", "elapsedMs": 7}]


def test_call_is_retried_three_times_then_fails(world):
    tenant = world.tenant(points=100)
    world.targets.answer = lambda _: 503
    task = submit(world, tenant, [http_node("a"), http_node("b", "a")])
    world.run_to_end()
    assert [call.attempt for call in world.targets.calls] == [1, 2, 3, 4]
    assert len({call.idempotency_key for call in world.targets.calls}) == 1
    assert world.statuses(task.task_id) == {"a": "FAILED", "b": "CANCELLED"}
    error = error_of(world, task, "a")
    assert (error["code"], error["answer"]["httpStatus"]) == ("CALL_FAILED", 503)
    assert world.task_row(task.task_id)["status"] == "FAILED"
    assert world.balance(*tenant) == (100, 0)


def test_refusal_of_the_target_fails_at_once(world):
    tenant = world.tenant(points=100)
    world.targets.answer = lambda _: 404
    task = submit(world, tenant, [http_node("a")])
    deliver_all(world)
    assert len(world.targets.calls) == 1
    assert error_of(world, task, "a")["code"] == "CALL_REFUSED"


def test_retry_after_puts_the_attempt_off(world):
    tenant = world.tenant(points=100)
    make = world.targets.result
    world.targets.result = lambda call, at: replace(make(call, at), retry_after_s=500)
    world.targets.answer = lambda _: 429
    task = submit(world, tenant, [http_node("a")])
    deliver_all(world)
    (row,) = world.rows(
        "SELECT extract(epoch FROM not_before - now()) AS s FROM task_node WHERE task_id = %s", task.task_id
    )
    assert 450 < row["s"] <= 500
    world.targets.answer = lambda _: 200
    world.run_to_end()
    assert world.task_row(task.task_id)["status"] == "COMPLETED"


def test_lost_call_times_out_and_is_repeated(world):
    tenant = world.tenant(points=100)
    task = submit(world, tenant, [http_node("a")])
    deliver_but_calls(world)
    (lost,) = calls_in_queue(world)
    world.network.messages.remove(lost)
    world.advance(181)
    world.sweep()
    assert error_of(world, task, "a")["code"] == "CALL_NO_RESULT"
    world.run_to_end()
    assert [call.attempt for call in world.targets.calls] == [2]
    world.receive(lost)  # its time to begin is over, so no call is made
    deliver_all(world)
    assert len(world.targets.calls) == 1


def test_late_result_of_an_older_attempt_changes_nothing(world):
    tenant = world.tenant(points=100)
    world.targets.answer = lambda _: 503
    task = submit(world, tenant, [http_node("a")])
    deliver_all(world)
    old = world.targets.calls[0]
    world.targets.answer = lambda _: 200
    world.advance(5)
    deliver_but_calls(world)
    world.report_call(replace(world.targets.result(old, world.clock.now()), outcome=Outcome.SUCCEEDED))
    deliver_but_calls(world)
    assert world.statuses(task.task_id) == {"a": "PROCESSING"}
    world.run_to_end()
    assert world.task_row(task.task_id)["status"] == "COMPLETED"


def test_repeated_message_hands_over_once(world):
    tenant = world.tenant(points=100)
    task = submit(world, tenant, [http_node("a")])
    deliver_but_calls(world)
    (node,) = world.rows("SELECT node_id, attempt FROM task_node WHERE task_id = %s", task.task_id)
    due = DueCall(tenant[0], task.task_id, node["node_id"], node["attempt"])
    assert not bootstrap.call_hand_over().hand_over(due)
    assert not bootstrap.call_hand_over().hand_over(replace(due, attempt=2))
    assert not bootstrap.call_hand_over().hand_over(replace(due, task_id=uuid4()))
    assert len(calls_in_queue(world)) == 1
    world.run_to_end()


def test_cancel_ends_calls_and_ignores_results(world):
    tenant = world.tenant(points=100)
    task = submit(world, tenant, [http_node("a"), http_node("b", "a")])
    deliver_but_calls(world)
    world.tasks.cancel(tenant_id=tenant[0], task_id=task.task_id, requester=MANAGER)
    deliver_all(world)
    assert world.statuses(task.task_id) == {"a": "CANCELLED", "b": "CANCELLED"}
    assert world.balance(*tenant) == (100, 0)


def test_retry_of_task_repeats_only_the_call(world):
    tenant = world.tenant(points=100)
    world.worker()
    world.targets.answer = lambda _: 404
    task = submit(world, tenant, [*flow("a"), http_node("notify", body="{{nodes.a.url}}")])
    deliver_all(world)
    world.finish(*held(world, "a"))
    deliver_all(world)
    row = world.task_row(task.task_id)
    assert row["status"] == "PARTIAL"
    world.targets.answer = lambda _: 200
    world.tasks.retry(tenant_id=tenant[0], task_id=task.task_id, requester=MANAGER)
    deliver_all(world)
    assert running(world) == set()
    first, second = world.targets.calls
    assert (first.idempotency_key, first.body) == (second.idempotency_key, second.body)
    row = world.task_row(task.task_id)
    assert (row["status"], row["charged_points"]) == ("COMPLETED", row["price_points"])


class TestLimits:
    @pytest.fixture
    def limited(self, addresses, valkey):
        """Three calls at once of a free tenant, and of all."""
        values = {JOB_LIMITS["free.runs_at_once"]: 3, CAPACITY: 3}
        world = World(addresses, valkey, values=values)
        yield world
        world.run_to_end()
        world.assert_invariants()
        world.close()

    def started(self, world, tenant):
        return len(
            world.rows(
                "SELECT 1 FROM task_node WHERE pool = 'http' AND status = 'PROCESSING' AND tenant_id = %s", tenant[0]
            )
        )

    def test_tenant_has_limited_calls_at_once(self, limited):
        tenant = limited.tenant("free", points=100)
        submit(limited, tenant, [http_node(f"n{number}") for number in range(10)])
        deliver_but_calls(limited)
        assert self.started(limited, tenant) == 3
        assert len(calls_in_queue(limited)) == 3

    def test_places_of_all_are_shared(self, limited):
        greedy, modest = limited.tenant("free", points=100), limited.tenant("free", points=100)
        submit(limited, greedy, [http_node(f"n{number}") for number in range(10)])
        deliver_but_calls(limited)
        submit(limited, modest, [http_node(f"n{number}") for number in range(10)])
        deliver_but_calls(limited)
        assert (self.started(limited, greedy), self.started(limited, modest)) == (3, 0)
        # The first that ends makes room for the tenant with fewer, although nodes of the other wait for longer.
        call = calls_in_queue(limited)[0]
        limited.network.messages.remove(call)
        limited.receive(call)
        deliver_but_calls(limited)
        assert (self.started(limited, greedy), self.started(limited, modest)) == (2, 1)

    def test_ended_call_starts_the_next_at_once(self, limited):
        tenant = limited.tenant("free", points=100)
        submit(limited, tenant, [http_node(f"n{number}") for number in range(7)])
        deliver_all(limited)  # without a sweep
        assert len(limited.targets.calls) == 7

    def test_placements_at_once_keep_the_limit(self, limited, addresses):
        from artiway.outbox.repository import Outbox
        from artiway.platform.database import Database
        from artiway.settings.model import Fixed
        from artiway.tasks.calls.repository import PostgresPlacement
        from artiway.tasks.calls.service import CallPlacement

        tenant = limited.tenant("free", points=100)
        limited.network.chaos.refuse = 1.0  # no message is sent, so nothing starts by itself
        task = submit(limited, tenant, [http_node(f"n{number}") for number in range(10)])
        limited.rows(
            "UPDATE task_node SET status = 'QUEUED', version = version + 1, ready_at = now()"
            " WHERE task_id = %s RETURNING 1",
            task.task_id,
        )
        values = Fixed({JOB_LIMITS["free.runs_at_once"]: 3, CAPACITY: 3})
        databases = [Database(addresses.service) for _ in range(4)]
        counts = []

        def place(database):
            placement = CallPlacement(PostgresPlacement(database, Outbox(lambda *_: None)), values)
            counts.append(placement.place())

        threads = [threading.Thread(target=place, args=(database,)) for database in databases]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for database in databases:
            database.close()
        assert sum(counts) == 3
        limited.network.chaos.refuse = 0


class TestBadInput:
    @pytest.mark.parametrize(
        ("nodes", "field"),
        [
            ([http_node("a", body="{{nodes.b.answer}}")], "nodes.a.params.body"),
            ([*flow("p"), http_node("a", body="{{nodes.p.answer}}")], "nodes.a.params.body"),
            ([http_node("p"), http_node("a", body="{{nodes.p.url}}")], "nodes.a.params.body"),
            ([http_node("p"), http_node("a", body="{{nodes.p.else}}")], "nodes.a.params.body"),
            ([http_node("p"), http_node("a", body="{{nodes.p.answer}}" * 11)], "nodes.a.params.body"),
            ([http_node("a", body="x" * 65_537)], "nodes.a.params.body"),
            ([http_node("a", method="GET", body="x")], "nodes.a.params.body"),
            ([http_node("a", method="BREW")], "nodes.a.params.method"),
            ([http_node("a", headers={"Host": "x"})], "nodes.a.params.headers.Host"),
            ([http_node("a", timeoutSeconds=61)], "nodes.a.params.timeoutSeconds"),
            ([http_node("a", more=1)], "nodes.a.params.more"),
            ([http_node("a", url="https://10.0.0.1/")], "nodes.a.params.url"),
            ([http_node("a", url="http://169.254.169.254/latest")], "nodes.a.params.url"),
            ([http_node("a", url="ftp://shop.example/")], "nodes.a.params.url"),
            ([http_node("a", headers={"X": "Bearer secret:NOT_THERE"})], "nodes.a.params"),
            ([replace(http_node("a"), sources={"product": "b"}), *flow("b")], "nodes.a.inputs"),
            ([replace(http_node("a"), step="derive")], "nodes.a"),
            ([http_node("b"), replace(flow("a")[0], uploads={}, sources={"product": "b"})], "nodes.a.inputs.product"),
        ],
    )
    def test_refused_and_nothing_stored(self, world, nodes, field):
        tenant = world.tenant(points=100)
        with pytest.raises(InvalidRequest) as refusal:
            submit(world, tenant, nodes)
        assert refusal.value.details["fields"][0]["field"] == field
        assert world.rows("SELECT 1 FROM task WHERE tenant_id = %s", tenant[0]) == []
        assert world.rows("SELECT 1 FROM job_signing_key WHERE tenant_id = %s", tenant[0]) == []
        assert world.balance(*tenant) == (100, 0)

    def test_circle_through_placeholders_is_named(self, world):
        tenant = world.tenant(points=100)
        nodes = [http_node("a", body="{{nodes.b.answer}}"), http_node("b", "a")]
        with pytest.raises(Cycle):
            submit(world, tenant, nodes)

    def test_answers_that_make_it_too_large_fail(self, world):
        tenant = world.tenant(points=100)
        make = world.targets.result
        # Each character of the answer is escaped in the message, as a control character is.
        world.targets.result = lambda call, at: replace(make(call, at), answer="\x01" * 2_000)
        task = submit(world, tenant, [http_node("a"), http_node("b", body=["{{nodes.a.answer}}" * 10, "x" * 60_000])])
        deliver_all(world)
        assert error_of(world, task, "b")["code"] == "CALL_TOO_LARGE"
        assert world.task_row(task.task_id)["status"] == TaskStatus.PARTIAL


class TestStop:
    def test_failure_cancels_every_node_that_waits(self, world):
        tenant = world.tenant(points=100)
        world.worker(slots=2)
        world.targets.answer = lambda _: 404
        nodes = [*flow("a", "a>b", "c", "c>d"), http_node("x", "b"), http_node("bad")]
        task = submit(world, tenant, nodes, OnFailure.STOP)
        deliver_but_calls(world)
        deliver_all(world)
        assert world.statuses(task.task_id) == {
            "a": "PROCESSING",
            "c": "PROCESSING",
            "bad": "FAILED",
            "b": "CANCELLED",
            "d": "CANCELLED",
            "x": "CANCELLED",
        }
        assert error_of(world, task, "d")["code"] == "FLOW_STOPPED"
        world.finish(*held(world, "a"))
        world.fail(*held(world, "c"), is_retryable=True)
        deliver_all(world)
        assert world.statuses(task.task_id)["c"] == "FAILED", "a retry would be a start after the failure"
        assert world.task_row(task.task_id)["status"] == "PARTIAL"

    def test_retry_of_stopped_task_runs_the_rest(self, world):
        tenant = world.tenant(points=100)
        world.worker()
        world.targets.answer = lambda _: 404
        task = submit(world, tenant, [*flow("a", "a>b"), http_node("bad")], OnFailure.STOP)
        deliver_but_calls(world)
        deliver_all(world)
        world.finish(*held(world, "a"))
        deliver_all(world)
        world.targets.answer = lambda _: 200
        world.tasks.retry(tenant_id=tenant[0], task_id=task.task_id, requester=MANAGER)
        world.run_to_end()
        assert set(world.statuses(task.task_id).values()) == {"COMPLETED"}
        row = world.task_row(task.task_id)
        assert (row["status"], row["charged_points"]) == ("COMPLETED", row["price_points"])
