"""What the caller uses of AWS: a key with a context, and the queue of results. Then the whole function."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import pytest
from botocore.exceptions import ClientError

from artiway import bootstrap
from artiway.jobs.messages import Call, Outcome, Result
from artiway.jobs.queue import RESULTS_PER_MESSAGE, ResultsQueue
from artiway.jobs.secrets import SecretCipher, SecretReader
from artiway.platform import aws
from artiway.platform.kms import KmsCipher
from artiway.tasks.calls.nodes import report_of
from tests.fakes.clock import NOON, FixedClock
from tools.openapi import load_handler

ROOT = Path(__file__).parents[3]
TENANT, OTHER = UUID(int=1), UUID(int=2)


@pytest.fixture
def key_id():
    return aws.client("kms").create_key()["KeyMetadata"]["Arn"]


@pytest.fixture
def queue_url():
    return aws.client("sqs").create_queue(QueueName="results")["QueueUrl"]


def received(queue_url):
    found = []
    while messages := aws.client("sqs").receive_message(QueueUrl=queue_url, MaxNumberOfMessages=10).get("Messages"):
        found += [json.loads(message["Body"]) for message in messages]
    return found


class TestKey:
    def test_value_comes_back_with_its_context_only(self, key_id):
        stored = SecretCipher(KmsCipher(key_id)).encrypt(tenant_id=TENANT, name="TOKEN", value="sesame ü")
        assert b"sesame" not in stored
        reader = SecretReader(KmsCipher(key_id))
        assert reader.decrypt(tenant_id=TENANT, name="TOKEN", ciphertext=stored) == "sesame ü"
        for tenant_id, name in ((OTHER, "TOKEN"), (TENANT, "OTHER")):
            with pytest.raises(ValueError):
                reader.decrypt(tenant_id=tenant_id, name=name, ciphertext=stored)

    @pytest.mark.parametrize("code", ["InvalidCiphertextException", "IncorrectKeyException"])
    def test_unreadable_ciphertext_is_a_value_error(self, answer, key_id, code):
        answer(aws.client("kms"), 400, code)
        with pytest.raises(ValueError):
            KmsCipher(key_id).decrypt(b"x" * 80, {})

    def test_key_that_is_away_is_no_value_error(self, answer, key_id):
        answer(aws.client("kms"), 400, "DisabledException")
        with pytest.raises(ClientError, match="DisabledException"):
            KmsCipher(key_id).decrypt(b"x" * 80, {})


class TestResultsQueue:
    def result(self, number):
        return Result(TENANT, UUID(int=number), 1, 1, Outcome.SUCCEEDED, NOON, answer="\x01" * 2_000)

    def test_many_results_are_few_messages(self, queue_url):
        results = [self.result(number) for number in range(RESULTS_PER_MESSAGE * 2 + 1)]
        ResultsQueue(queue_url, FixedClock(), reports_url=queue_url, report_of=report_of).send(results)
        messages = received(queue_url)
        assert sorted(len(one["data"]["results"]) for one in messages) == [1, RESULTS_PER_MESSAGE, RESULTS_PER_MESSAGE]
        found = [Result.from_data(data) for one in messages for data in one["data"]["results"]]
        assert sorted(found, key=lambda one: one.run_id) == results
        assert {one["type"] for one in messages} == {"results"}

    def test_refused_message_raises(self, queue_url):
        aws.client("sqs").delete_queue(QueueUrl=queue_url)
        with pytest.raises(ClientError):
            ResultsQueue(queue_url, FixedClock(), reports_url=queue_url, report_of=report_of).send([self.result(1)])


class TestFunction:
    @pytest.fixture
    def handler(self, monkeypatch, key_id, queue_url):
        address, _, name = queue_url.rpartition("/")
        monkeypatch.setenv("ARTIWAY_JOBS_KEY_ID", key_id)
        monkeypatch.setenv("ARTIWAY_QUEUE_ADDRESS", address)
        monkeypatch.setenv("ARTIWAY_QUEUES", json.dumps({"run_results": name, "progress": name}))
        bootstrap.forget_all()
        yield load_handler(ROOT / "functions/caller").handler
        bootstrap.forget_all()

    @staticmethod
    def context():
        return SimpleNamespace(get_remaining_time_in_millis=lambda: 60_000)

    @staticmethod
    def event(case):
        return json.loads((ROOT / f"events/caller.{case}.json").read_text())

    def test_old_message_ends_as_expired(self, handler, queue_url):
        assert handler(self.event("calls"), self.context()) == {"batchItemFailures": []}
        ((result,),) = (message["data"]["results"] for message in received(queue_url))
        assert (result["outcome"], result["attempt"]) == ("EXPIRED", 1)

    def test_secret_of_the_call_is_decrypted(self, handler, queue_url, key_id):
        """A private target is refused after the secrets were read."""
        event = self.event("calls")
        body = json.loads(event["Records"][0]["body"])
        (data,) = body["data"]["calls"]
        call = Call.from_data(data)
        cipher = SecretCipher(KmsCipher(key_id))
        stored = cipher.encrypt(tenant_id=call.tenant_id, name="SHOP_TOKEN", value="sesame")
        call = replace(
            call,
            url="http://10.0.0.1/",
            not_after=datetime.now(UTC) + timedelta(minutes=1),
            secrets={"SHOP_TOKEN": base64.b64encode(stored).decode()},
            signing_keys=[],
        )
        event["Records"][0]["body"] = json.dumps({**body, "data": {"calls": [call.as_data()]}})
        assert handler(event, self.context()) == {"batchItemFailures": []}
        ((result,),) = (message["data"]["results"] for message in received(queue_url))
        assert (result["outcome"], result["error"]) == ("REFUSED", "the address is not public")

    def test_empty_message_prepares_clients_of_first_call(self, handler, queue_url):
        """Made by the first call, they would delay it by a second."""
        event = self.event("calls")
        body = json.loads(event["Records"][0]["body"])
        event["Records"][0]["body"] = json.dumps({**body, "data": {"calls": []}})
        aws.client.cache_clear()
        assert handler(event, self.context()) == {"batchItemFailures": []}
        made = aws.client.cache_info().currsize
        for service in ("sqs", "kms"):
            aws.client(service)
        assert made == aws.client.cache_info().currsize == 2
        assert received(queue_url) == []

    def test_message_of_wrong_shape_fails_alone(self, handler, queue_url):
        event = self.event("calls")
        event["Records"] += self.event("poison")["Records"]
        event["Records"][1]["messageId"] = "poison"
        assert handler(event, self.context()) == {"batchItemFailures": [{"itemIdentifier": "poison"}]}
        assert len(received(queue_url)) == 1

    def test_unsent_results_fail_the_message(self, handler, queue_url):
        aws.client("sqs").delete_queue(QueueUrl=queue_url)
        (failure,) = handler(self.event("calls"), self.context())["batchItemFailures"]
        assert failure["itemIdentifier"] == self.event("calls")["Records"][0]["messageId"]
