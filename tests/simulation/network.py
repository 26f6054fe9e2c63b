"""Queues and Step Functions in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from artiway.outbox.model import Envelope
from artiway.outbox.queue import delay_of
from tests.fakes.clock import NOON
from tests.simulation.chaos import Chaos

# Destinations whose messages may end in a dead-letter queue. Step Functions retries its own calls until they succeed.
MAY_BE_LOST = (
    *("machine", "lane", "work", "progress", "push"),
    *("run_critical", "run_high", "run_normal", "run_low", "run_calls", "run_submissions", "run_results"),
)
MAP_LIMIT = 4  # far below 40, so that the order of a bounded Map matters


@dataclass
class QueuedMessage:
    destination: str
    body: Mapping[str, Any]
    due: float


class Network:
    """All queues as one bag: any message may be the next one, may be delivered twice, or late."""

    def __init__(self, chaos: Chaos) -> None:
        self.chaos, self.now = chaos, 0.0
        self.messages: list[QueuedMessage] = []

    def send(self, envelopes: Sequence[Envelope]) -> set[int]:
        accepted: set[int] = set()
        for envelope in envelopes:
            if self.chaos.refuse and self.chaos.random.random() < self.chaos.refuse:
                continue
            with self.chaos.around(f"message to {envelope.destination.partition(':')[0]}"):
                self.post(envelope.destination, json.loads(envelope.body), self._delay_s(envelope))
            accepted.add(envelope.outbox_id)
        return accepted

    def _delay_s(self, envelope: Envelope) -> float:
        return delay_of(envelope, NOON + timedelta(seconds=self.now))

    def post(self, destination: str, body: Mapping[str, Any], delay_s: float = 0) -> None:
        if self.chaos.delay and self.chaos.random.random() < self.chaos.delay:
            delay_s += self.chaos.random.choice([2, 20, 60])
        self.messages.append(QueuedMessage(destination, body, self.now + delay_s))

    def take_along(self, message: QueuedMessage, limit: int) -> list[QueuedMessage]:
        """Other messages of the same queue and kind, for a batch. Where nothing is delayed a batch has one message."""
        if not self.chaos.delay or self.chaos.random.random() < 0.5:
            return []
        like = [
            one
            for one in self.messages
            if one.due <= self.now
            and one.destination == message.destination
            and one.body.get("type") == message.body.get("type")
        ][:limit]
        for one in like:
            self.messages.remove(one)
        return like

    def take(self) -> QueuedMessage | None:
        due = [index for index, message in enumerate(self.messages) if message.due <= self.now]
        if not due:
            return None
        chance = self.chaos.random
        index = chance.choice(due)
        if self.chaos.duplicate and chance.random() < self.chaos.duplicate:
            # It is delivered again: now, or when its attempt may have ended.
            self.messages[index].due = self.now + chance.choice([0, 0, 35, 90])
            return self.messages[index]
        message = self.messages.pop(index)
        if (
            self.chaos.lose
            and message.destination.partition(":")[0] in MAY_BE_LOST
            and chance.random() < self.chaos.lose
        ):
            return self.take()
        return message


@dataclass
class Iteration:
    node_id: str
    state: str = "waiting"  # ready, over
    token: str = ""


@dataclass
class Execution:
    name: str
    input: Mapping[str, Any]
    iterations: list[Iteration]
    is_over: bool = False


class Machine:
    """`task_dag` as Step Functions runs it: a bounded Map in order, each token answered once, each name used once."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.executions: dict[str, Execution] = {}
        self._tokens: dict[str, tuple[Execution, Iteration]] = {}
        self._count = 0

    def start(self, name: str, machine_input: Mapping[str, Any]) -> None:
        if name in self.executions:
            return  # ExecutionAlreadyExists
        iterations = [Iteration(node["nodeId"]) for node in machine_input["nodes"]]
        execution = self.executions[name] = Execution(name, machine_input, iterations)
        self._advance(execution)

    def answer(self, token: str) -> None:
        found = self._tokens.pop(token, None)
        if found is None:
            return  # TaskDoesNotExist, TaskTimedOut
        execution, iteration = found
        iteration.state = "over"
        self._advance(execution)

    def tokens(self) -> list[str]:
        return list(self._tokens)

    def time_out(self, token: str) -> None:
        """The token timed out or was lost: that iteration ends, the others continue."""
        execution, iteration = self._tokens.pop(token)
        iteration.state = "over"
        self._advance(execution)

    def restart(self) -> None:
        """The emulator restarts: executions and tokens are lost, names are free again."""
        self.executions, self._tokens = {}, {}

    def _advance(self, execution: Execution) -> None:
        free = MAP_LIMIT - sum(one.state == "ready" for one in execution.iterations)
        for iteration in [one for one in execution.iterations if one.state == "waiting"][:free]:
            iteration.state = "ready"
            self._send(execution, iteration)
        if not execution.is_over and all(one.state == "over" for one in execution.iterations):
            execution.is_over = True
            self._network.post("settle", {"data": execution.input})

    def _send(self, execution: Execution, iteration: Iteration) -> None:
        self._count += 1
        iteration.token = f"token-{execution.name}-{self._count}"
        self._tokens[iteration.token] = (execution, iteration)
        data = {
            "nodeId": iteration.node_id,
            "taskId": execution.input["taskId"],
            "tenantId": execution.input["tenantId"],
            "taskToken": iteration.token,
        }
        self._network.post(f"lane:{execution.input['lane']}", {"type": "ready", "data": data})
