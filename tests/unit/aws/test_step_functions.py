"""Executions started and tokens answered. What Step Functions closed counts as sent."""

from __future__ import annotations

import json

import pytest

from artiway.outbox.model import Envelope
from artiway.platform import aws
from artiway.tasks import messages
from artiway.tasks.queue import MachineSender

ROLE = "arn:aws:iam::123456789012:role/machine"


@pytest.fixture
def machine():
    return aws.client("stepfunctions")


def envelope(destination, **data):
    return Envelope(1, None, "task:1", destination, json.dumps({"data": data}), 0, "")


QUEUES = {"lane:normal": "https://queue/normal"}
START = envelope(messages.START, name="task-1-run-1", input={"taskId": "1", "lane": "normal"})
ANSWER = envelope(messages.ANSWER, token="t", output={"status": "succeeded"})


class TestStart:
    @pytest.fixture
    def arn(self, machine):
        definition = json.dumps({"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}})
        return machine.create_state_machine(name="task_dag", definition=definition, roleArn=ROLE)["stateMachineArn"]

    def test_execution_starts_with_name_and_input(self, machine, arn):
        assert MachineSender(arn, QUEUES).send([START]) == {1}
        (execution,) = machine.list_executions(stateMachineArn=arn)["executions"]
        assert execution["name"] == "task-1-run-1"
        described = machine.describe_execution(executionArn=execution["executionArn"])
        assert json.loads(described["input"]) == {
            "taskId": "1",
            "lane": "normal",
            "queueUrl": "https://queue/normal",
        }

    def test_execution_that_exists_counts_as_sent(self, machine, arn):
        sender = MachineSender(arn, QUEUES)
        sender.send([START])
        other = envelope(messages.START, name="task-1-run-1", input={"taskId": "2", "lane": "normal"})
        assert sender.send([other]) == {1}
        assert len(machine.list_executions(stateMachineArn=arn)["executions"]) == 1

    def test_machine_that_is_not_there_stays_unsent(self, arn):
        assert MachineSender(arn + "-other", QUEUES).send([START]) == set()

    def test_start_in_lane_without_queue_stays_unsent(self, machine, arn):
        assert MachineSender(arn, {}).send([START]) == set()
        assert machine.list_executions(stateMachineArn=arn)["executions"] == []

    def test_start_without_machine_stays_unsent(self):
        assert MachineSender("", QUEUES).send([START]) == set()


class TestAnswer:
    @pytest.mark.parametrize("code", ["InvalidToken", "TaskDoesNotExist", "TaskTimedOut"])
    def test_token_that_is_closed_counts_as_sent(self, machine, answer, code):
        requests = answer(machine, 400, code)
        assert MachineSender("", QUEUES).send([ANSWER]) == {1}
        assert json.loads(requests[0].body) == {"taskToken": "t", "output": '{"status": "succeeded"}'}

    @pytest.mark.parametrize("code", ["InvalidOutput", "AccessDeniedException", "KmsAccessDeniedException"])
    def test_token_that_is_refused_stays_unsent(self, machine, answer, code):
        answer(machine, 400, code)
        assert MachineSender("", QUEUES).send([ANSWER]) == set()
