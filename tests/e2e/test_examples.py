"""The example of every operation of the OpenAPI document, sent as a request to the running stack.

Ids, addresses and tokens of the examples are replaced by real ones; everything else is sent as the document has it.
The answer has the documented status and schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen
from uuid import uuid4

import jsonschema
import psycopg
import pytest

from local import photos
from local.emulator import client as aws_client
from tests.e2e.attacks import DOCUMENT, operations
from tests.e2e.conftest import wait_for
from tests.e2e.people import PASSWORD, Client
from tests.e2e.studio import Studio

OPERATIONS = {one.spec["operationId"]: one for one in operations()}
# WeChat calls them, with its own signature: the simulator does, when an order is paid and refunded below.
BY_WECHAT = {"receive_payment", "receive_refund"}
ENDED = {"COMPLETED", "PARTIAL", "FAILED", "CANCELLED", "SUCCESS", "TERMINATED"}
SECONDS = 120


def example_of(parameter: str, operation: str) -> str:
    found = next(one for one in OPERATIONS[operation].spec["parameters"] if one["name"] == parameter)
    return str(found["example"])


TASK, RUN = example_of("task_id", "get_task"), example_of("run_id", "get_run")
GENERATION, INPUT = example_of("generation_id", "get_generation"), "inp_01a1ec29ae6379768ab111478b9086b1"
COLLEAGUE, TRANSFEREE = example_of("user_id", "change_user"), "usr_01a1ec3da0487715830dfc884b7a8770"
LINK = "the token of the link in the mail"


@dataclass
class World:
    """A tenant with points, an administrator, and the real values of the examples' ids."""

    studio: Studio
    client: Client
    real: dict[str, Any] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)

    def send(self, method: str, path: str, body: Any = None, *, by: str = "owner") -> Any:
        """A request that is no example: it prepares one."""
        headers = {"idempotency-key": uuid4().hex} if method == "POST" else {}
        answer = self.client.call(method, path, body, token=self.tokens[by], headers=headers)
        assert answer.status < 300, (method, path, answer)
        return answer.body

    def example(self, name: str, by: str) -> Any:
        """Send the example of the operation, and check status and schema of the answer."""
        operation = OPERATIONS[name]
        path, query = operation.path.removeprefix("/api/v1"), ""
        for parameter in operation.spec.get("parameters", []):
            if parameter.get("required"):
                value = quote(str(self.replaced(parameter["example"])), safe="")
                if parameter["in"] == "path":
                    path = path.replace(f"{{{parameter['name']}}}", value)
                else:
                    query = f"?{parameter['name']}={value}"
        content = operation.spec.get("requestBody", {}).get("content", {}).get("application/json")
        headers = {"idempotency-key": uuid4().hex} if operation.spec.get("x-idempotent") else {}
        body = None if content is None else self.replaced(content["example"])
        answer = self.client.call(
            operation.method, path + query, body, token=self.tokens.get(by) if by else None, headers=headers
        )
        self.sent.append(name)
        status, known = next(one for one in operation.spec["responses"].items() if one[0].startswith("2"))
        assert str(answer.status) == status, answer
        if schema := known.get("content", {}).get("application/json", {}).get("schema"):
            whole = {**schema, "components": DOCUMENT["components"]}
            jsonschema.Draft202012Validator(whole).validate(answer.body)
        return answer.body

    def replaced(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self.replaced(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.replaced(one) for one in value]
        return self.real.get(value, value) if isinstance(value, str) else value

    def token_of_mail(self, address: str, count: int = 1) -> str:
        """Of the newest of `count` mails."""

        def found() -> list[str]:
            with urlopen(f"{self.studio.stack.facts['mailboxUrl']}.json", timeout=10) as answer:
                mails = [one for one in json.load(answer)["items"] if one["to"] == [address]]
            return [re.search(r"[?]token=(\S+)", mail["text"])[1] for mail in mails]  # type: ignore[index]

        return wait_for(lambda: found() if len(found()) >= count else [], SECONDS)[0]

    def until(self, path: str, *states: str, name: str = "status") -> Any:
        def look() -> Any:
            view = self.send("GET", path)
            return view if view[name] in (states or ENDED) else None

        return wait_for(look, SECONDS)

    def paused(self, lane: str, act: Callable[[], Any]) -> Any:
        """What is submitted in `act` waits: a paused lane starts nothing."""
        self.send("POST", f"/ops/lanes/{lane}/pause", {}, by="admin")
        return act()

    def simulator(self, path: str, **wish: Any) -> Any:
        request = Request(
            f"{self.studio.stack.facts['wechatSimUrl']}/sim/{path}",
            json.dumps(wish).encode(),
            {"content-type": "application/json"},
        )
        with urlopen(request, timeout=60) as answer:
            return json.load(answer)["statuses"]

    def change(self, statement: str) -> None:
        with psycopg.connect(self.studio.stack.facts["databaseUrl"]) as connection:
            connection.execute(statement)


@pytest.fixture(scope="module")
def world(studio: Studio) -> Iterator[World]:
    with closing(Client(studio.stack.facts["apiUrl"])) as client:
        made = World(studio, client)
        made.tokens["admin"] = client.log_in(**studio.stack.facts["admin"])["token"]
        email = f"{uuid4().hex}@example.com"
        shop = {"name": "shop", "tier": "vip", "ratePerSecond": 10_000, "owner": {"email": email, "password": PASSWORD}}
        tenant = made.send("POST", "/tenants", shop, by="admin")["tenantId"]
        owner = client.log_in(email)
        made.tokens["owner"] = owner["token"]
        grant = {"userId": owner["userId"], "amount": 1_000, "reason": "a start"}
        made.send("POST", "/points/grants", grant, by="admin")
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        made.real = {
            "owner@example.com": f"{uuid4().hex}@example.com",  # registers by the example itself
            "colleague@example.com": f"{uuid4().hex}@example.com",
            example_of("tenant_id", "change_tenant"): tenant,
            COLLEAGUE: owner["userId"],
            "0a3b9c": f"ok-{uuid4().hex[:8]}-1",
            INPUT: uploaded(made, photos.shirt(photos.RED, side=96)),
            "2026-11-16T00:00:00Z": (today - timedelta(days=2)).isoformat().replace("+00:00", "Z"),
            "2026-11-17T00:00:00Z": (today - timedelta(days=1)).isoformat().replace("+00:00", "Z"),
        }
        made.change("DELETE FROM login_failure")  # other tests of this machine took trial points
        yield made


def uploaded(world: World, picture: bytes) -> str:
    ticket = world.send("POST", "/uploads", {"contentType": "image/png", "bytes": len(picture)})
    with urlopen(Request(ticket["url"], picture, ticket["headers"], method=ticket["method"]), timeout=60):
        return str(ticket["inputId"])


# ---------------------------------------------------------------- what an example needs, and what it leaves


def use_mail(address: str, count: int = 1) -> Callable[[World], None]:
    def prepare(world: World) -> None:
        world.real[LINK] = world.token_of_mail(world.real[address], count)

    return prepare


def new_address(world: World) -> None:
    world.real["colleague@example.com"] = f"{uuid4().hex}@example.com"


def mail_is_old(world: World) -> None:
    world.change("UPDATE invitation SET sent_at = sent_at - interval '5 minutes'")


def another_invitation(world: World) -> None:
    body = {"email": f"{uuid4().hex}@example.com", "roles": ["member"]}
    made = world.send("POST", "/invitations", body)
    world.real[example_of("invitation_id", "revoke_invitation")] = made["invitationId"]


def task_waits(world: World) -> None:
    body = {"tool": "cutout", "inputs": {"product": world.real[INPUT]}}
    lane = world.send("POST", "/tasks/estimate", body)["lane"]
    world.real[example_of("lane", "pause_lane")] = lane
    world.real[TASK] = world.paused(lane, lambda: world.send("POST", "/tasks", body))["taskId"]


def task_failed(world: World) -> None:
    """A PNG that ends in its middle."""
    broken = photos.shirt(photos.RED, side=96)
    made = world.send("POST", "/tasks", {"tool": "crop", "inputs": {"product": uploaded(world, broken[:600])}})
    world.real[TASK] = made["taskId"]
    assert world.until(f"/tasks/{made['taskId']}")["status"] == "FAILED"


def task_completed(world: World) -> None:
    assert world.until(f"/tasks/{world.real[TASK]}")["status"] == "COMPLETED"


def text_waits(world: World) -> None:
    lane = example_of("lane", "change_lane")
    body = {"service": "copywriting", "input": {"text": "a teapot"}}
    world.real[GENERATION] = world.paused(lane, lambda: world.send("POST", "/generations", body))["generationId"]


def lanes_run(world: World) -> None:
    for lane in world.send("GET", "/ops/lanes", by="admin")["items"]:
        if lane["paused"]:
            world.send("POST", f"/ops/lanes/{lane['lane']}/resume", by="admin")


def text_ended(world: World) -> None:
    world.until(f"/generations/{world.real[GENERATION]}")


def run_retries(world: World) -> None:
    """Its target does not exist, so it waits for its second attempt."""
    world.until(f"/runs/{world.real[RUN]}", "RETRYING", *ENDED, name="state")


def run_ended(world: World) -> None:
    world.until(f"/runs/{world.real[RUN]}", name="state")


def delivery_failed(world: World) -> None:
    path = f"/webhooks/{world.real[example_of('webhook_id', 'redeliver')]}/deliveries"
    first = wait_for(lambda: world.send("GET", path)["items"], SECONDS)[0]
    world.real[example_of("delivery_id", "redeliver")] = first["deliveryId"]


def paid(world: World) -> None:
    number = world.real[example_of("order_id", "get_order")].removeprefix("ord_")
    assert world.simulator(f"orders/{number}/pay") == [204]
    world.sent.append("receive_payment")


def refunded(world: World) -> None:
    refund = world.send("GET", "/refunds")["items"][0]["refundId"]
    assert world.simulator(f"refunds/{refund.removeprefix('ref_')}/finish", status="SUCCESS") == [204]
    world.sent.append("receive_refund")


def another_order(world: World) -> None:
    made = world.send("POST", "/orders", {"packageId": "starter", "channel": "native"})
    world.real[example_of("order_id", "get_order")] = made["orderId"]


def day_reconciled(world: World) -> None:
    day = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()
    world.real[example_of("day", "get_reconciliation")] = day
    functions = aws_client("lambda", world.studio.stack.facts["lambdaUrl"])
    event = json.dumps({"action": "bill", "day": day}).encode()
    answer = functions.invoke(FunctionName="ReconcileFunction", Payload=event)
    assert "FunctionError" not in answer, answer["Payload"].read()


def some_worker(world: World) -> None:
    """A worker that has drained is started again."""
    workers = world.send("GET", "/ops/workers", by="admin")["items"]
    world.real[example_of("worker_id", "drain_worker")] = workers[-1]["workerId"]


def keep(example: str, name: str) -> Callable[[World, Any], None]:
    """A field of the answer is the real value of an example's id from now on."""

    def remember(world: World, body: Any) -> None:
        world.real[example] = body[name]

    return remember


def keep_token(user: str) -> Callable[[World, Any], None]:
    def remember(world: World, body: Any) -> None:
        world.tokens[user] = body["accessToken"]

    return remember


def keep_colleague(world: World, body: Any) -> None:
    world.real[COLLEAGUE] = world.real[TRANSFEREE] = body["userId"]


def undo_lane(world: World, _body: Any) -> None:
    world.send("PATCH", f"/ops/lanes/{example_of('lane', 'change_lane')}", {"parallelism": None}, by="admin")


def undo_model(world: World, body: Any) -> None:
    world.send("PUT", f"/ops/models/{body['model']}", {"limit": None}, by="admin")


@dataclass(frozen=True)
class Step:
    name: str
    by: str = "owner"
    before: Callable[[World], None] | None = None
    after: Callable[[World, Any], None] | None = None


# In an order in which each example finds what it needs; what deletes comes after what reads.
STEPS = [
    *(Step(name, "") for name in ("get_health", "get_docs", "get_openapi")),
    # accounts
    Step("register", "", after=keep_token("new")),
    Step("take_trial", "new"),
    Step("log_in", "", after=keep("rt_5f2b7c", "refreshToken")),
    Step("refresh", ""),
    Step("forget_password", ""),
    Step("reset_password", "", use_mail("owner@example.com")),
    Step("log_in_by_wechat", "", after=keep_token("leaving")),
    Step("log_out", "leaving"),
    *(Step(name) for name in ("get_me", "change_me", "list_own_logins", "get_tenant", "change_own_tenant")),
    Step(
        "send_invitation",
        before=new_address,
        after=keep(example_of("invitation_id", "resend_invitation"), "invitationId"),
    ),
    Step("list_invitations"),
    Step("resend_invitation", before=mail_is_old),
    Step("look_at_invitation", "", use_mail("colleague@example.com", 2)),
    Step("accept_invitation", "", after=keep_token("colleague")),
    Step("change_password", "colleague"),
    Step("revoke_invitation", before=another_invitation),
    Step("invite_user", before=new_address, after=keep_colleague),
    *(Step(name) for name in ("list_users", "change_user", "list_logins", "list_roles", "add_role", "change_role")),
    Step("create_api_key", after=keep(example_of("key_id", "delete_api_key"), "keyId")),
    Step("list_api_keys"),
    # points and orders
    *(Step(name) for name in ("get_points", "list_entries", "transfer_points", "list_packages")),
    Step("grant_points", "admin"),
    Step("create_order", after=keep(example_of("order_id", "get_order"), "orderId")),
    *(Step(name) for name in ("list_orders", "get_order", "pay_order")),
    Step("check_order", before=paid),
    Step("get_receipt"),
    Step("refund_order"),
    Step("list_refunds"),
    Step("close_order", before=another_order),
    # pictures
    *(Step(name) for name in ("list_tools", "list_dictionaries", "list_labels", "create_upload", "estimate_task")),
    Step("submit_flow"),
    Step("submit_task", after=keep(TASK, "taskId")),
    Step("get_task", before=task_completed),
    *(Step(name) for name in ("get_task_events", "explain_task", "list_tasks", "delete_result")),
    Step("pause_lane", "admin", task_waits),
    Step("cancel_task"),
    Step("resume_lane", "admin"),
    Step("retry_task", before=task_failed),
    # texts
    Step("list_services"),
    Step("submit_generation", after=keep(GENERATION, "generationId")),
    Step("get_generation", before=text_ended),
    *(Step(name) for name in ("get_generation_events", "list_generations")),
    Step("cancel_generation", before=text_waits),
    # jobs
    Step("put_secret"),
    Step("list_secrets"),
    Step("create_job", after=keep(example_of("job_id", "get_job"), "jobId")),
    *(Step(name) for name in ("list_jobs", "export_jobs", "import_jobs", "preview_schedule", "rotate_signing_secret")),
    *(Step(name) for name in ("get_job", "change_job", "pause_job", "resume_job", "list_fires")),
    Step("trigger_job", after=keep(RUN, "runId")),
    *(Step(name) for name in ("list_runs", "get_run", "list_log_lines")),
    Step("terminate_run", before=run_retries),
    Step("replay_run", before=run_ended),
    Step("start_backfill", after=keep(example_of("backfill_id", "get_backfill"), "backfillId")),
    *(Step(name) for name in ("list_backfills", "get_backfill", "cancel_backfill", "replay_range")),
    # webhooks
    Step("create_webhook", after=keep(example_of("webhook_id", "send_test"), "webhookId")),
    *(Step(name) for name in ("list_webhooks", "send_test", "list_deliveries")),
    Step("redeliver", before=delivery_failed),
    # operations
    *(
        Step(name, "admin")
        for name in (
            *("list_tenants", "create_tenant", "change_tenant", "list_tenant_orders", "list_tenant_users"),
            *("list_audit", "list_caches", "refresh_cache", "delete_cached", "list_decisions", "get_fairness"),
            *("list_dead_queues", "list_dead_letters", "replay_dead_letters", "discard_dead_letters"),
            *("operations_list_generations", "cancel_generations", "retry_generations"),
            *("get_guard", "get_invariants", "list_lanes", "get_metrics", "list_models", "get_scheduler"),
            *("list_margins", "get_series", "list_settings", "change_setting", "restore_setting", "simulate"),
            *("search_runs", "cancel_runs", "retry_runs", "search_tasks", "get_task_history"),
            *("cancel_tasks", "retry_tasks", "list_workers"),
        )
    ),
    Step("change_lane", "admin", lanes_run, undo_lane),
    Step("limit_model", "admin", after=undo_model),
    Step("list_reconciliations", "admin", day_reconciled),
    Step("get_reconciliation", "admin"),
    Step("list_usage"),
    # what ends something
    *(Step(name) for name in ("delete_webhook", "delete_job", "delete_secret", "delete_role")),
    *(Step(name) for name in ("delete_api_key", "disable_user")),
    Step("drain_worker", "admin", some_worker),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_example_is_answered_as_documented(world: World, step: Step) -> None:
    if step.before is not None:
        step.before(world)
    body = world.example(step.name, step.by)
    if step.after is not None:
        step.after(world, body)


def test_wechat_notified_of_payment_and_refund(world: World) -> None:
    refunded(world)
    assert set(world.sent) >= BY_WECHAT


def test_every_operation_has_an_example_that_runs() -> None:
    names = [step.name for step in STEPS]
    assert len(names) == len(set(names))
    assert OPERATIONS.keys() - set(names) == BY_WECHAT
