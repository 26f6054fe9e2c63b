"""Dead letters on the running stack: what could not be handled is seen, sent back or thrown away, and on record."""

from __future__ import annotations

import contextlib
import json
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.e2e.conftest import Platform, wait_for
from tests.e2e.people import Client

pytestmark = pytest.mark.xdist_group("e2e")


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


def test_a_poison_message_ends_among_the_dead_letters_and_is_discarded_with_a_reason(
    platform: Platform, operator: Any
) -> None:
    body = json.dumps({"type": "result", "data": {"nodeId": str(uuid4())}})
    platform.aws("sqs").send_message(QueueUrl=url_of(platform, "WebhookQueue"), MessageBody=body)
    letters = wait_for(lambda: operator("GET", "/ops/dlq/webhook")["items"], 60)
    assert [letter["body"] for letter in letters] == [body]
    chosen = {"messageIds": [letters[0]["messageId"]], "reason": "a test"}
    assert operator("POST", "/ops/dlq/webhook/discard", chosen) == {"count": 1}
    assert depth(operator, "webhook") == 0
    with psycopg.connect(platform.facts["databaseUrl"]) as connection:
        acts = connection.execute("SELECT target, details FROM audit_log WHERE action = 'dlq.discard'").fetchall()
    assert [(target, details["reason"]) for target, details in acts] == [("webhook", "a test")]


def test_a_letter_that_is_sent_back_is_handled(platform: Platform, operator: Any) -> None:
    """A report about a node that nobody knows is dropped as stale, which is to handle it."""
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
