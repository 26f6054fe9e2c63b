"""Dead letters on the running stack: operators list, replay and discard them, and each action is audited."""

from __future__ import annotations

import contextlib
import json
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.e2e.conftest import Platform, wait_for
from tests.e2e.people import Client


@pytest.fixture
def operator(platform: Platform) -> Any:
    with contextlib.closing(Client(platform.facts["apiUrl"])) as client:
        token = client.call("POST", "/auth/login", platform.facts["admin"]).body["accessToken"]

        def call(method: str, path: str, body: Any = None) -> Any:
            answer = client.call(method, path, body, token=token)
            assert answer.status == 200, answer
            return answer.body

        yield call


def url_of(platform: Platform, name: str) -> str:
    urls = platform.aws("sqs").list_queues(MaxResults=1000)["QueueUrls"]
    return next(url for url in urls if name in url)


def depth(operator: Any, queue: str) -> int:
    return next(one["depth"] for one in operator("GET", "/ops/dlq")["items"] if one["queue"] == queue)


def test_poison_message_is_discarded_with_a_reason(platform: Platform, operator: Any) -> None:
    body = json.dumps({"type": "result", "data": {"nodeId": str(uuid4())}})
    platform.aws("sqs").send_message(QueueUrl=url_of(platform, "WebhookQueue"), MessageBody=body)
    messages = wait_for(lambda: operator("GET", "/ops/dlq/webhook")["items"], 60)
    assert [message["body"] for message in messages] == [body]
    chosen = {"messageIds": [messages[0]["messageId"]], "reason": "a test"}
    assert operator("POST", "/ops/dlq/webhook/discard", chosen) == {"count": 1}
    assert depth(operator, "webhook") == 0
    with psycopg.connect(platform.facts["databaseUrl"]) as connection:
        entries = connection.execute("SELECT target, details FROM audit_log WHERE action = 'dlq.discard'").fetchall()
    assert [(target, details["reason"]) for target, details in entries] == [("webhook", "a test")]


def test_replayed_dead_letter_is_handled(platform: Platform, operator: Any) -> None:
    """The consumer drops a report of an unknown node as stale, so the message is handled."""
    names = ("nodeId", "taskId", "tenantId")
    error = {"code": "X", "message": "x", "isRetryable": False}
    data = {**{name: str(uuid4()) for name in names}, "attempt": 1, "workerId": "w", "error": error}
    body = json.dumps({"type": "failure", "aggregate": "node:x", "data": data})
    platform.aws("sqs").send_message(QueueUrl=url_of(platform, "ProgressDeadLetterQueue"), MessageBody=body)
    assert wait_for(lambda: depth(operator, "progress")) == 1
    assert operator("POST", "/ops/dlq/progress/replay", {}) == {"count": 1}
    progress = url_of(platform, "ProgressQueue")
    names_of_depth = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]

    def is_handled() -> bool:
        answer = platform.aws("sqs").get_queue_attributes(QueueUrl=progress, AttributeNames=names_of_depth)
        return all(count == "0" for count in answer["Attributes"].values()) and depth(operator, "progress") == 0

    wait_for(is_handled, 60)
