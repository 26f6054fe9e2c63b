"""Messages of jobs: hints that runs are due, calls for the caller, submissions of tasks, results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from artiway.jobs.model import JobPriority
from artiway.outbox.model import Message

# Destinations: a hint goes to the queue of its lane (`run_critical` … `run_low`).
CALLS = "run_calls"
SUBMISSIONS = "run_submissions"
RESULTS = "run_results"
HINT_RUNS = 50
HINT_OF_TENANT = 25  # runs of a tenant in one second that travel by themselves
# A message that is due later than this is published by a later pass: SQS delays 900 s at most.
HINT_AHEAD_S = 840
CALLS_PER_MESSAGE = 10
# A lease ends so long after the time limit of a call, which may wait in its queue, and its result too.
QUEUE_S = 120
CALL_BYTES = 200_000  # of one message, below the limit of SQS and of the outbox


class Outcome(StrEnum):
    """SUCCEEDED; FAILED: may pass later; REFUSED: will not pass later; EXPIRED: not tried, its time was over."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    REFUSED = "REFUSED"
    EXPIRED = "EXPIRED"


@dataclass(frozen=True)
class Call:
    """One HTTP call. Ciphertexts are base64; `headers` and `body` name secrets as `secret:NAME`.

    A node of a flow makes calls too: `node_of` is its task, `run_id` the node, and `scheduled_at` is not set.
    """

    tenant_id: UUID
    run_id: UUID
    job_id: UUID
    generation: int
    attempt: int
    idempotency_key: str
    scheduled_at: datetime | None
    # No call begins after this time: another attempt may exist by then.
    not_after: datetime
    url: str
    method: str
    headers: Mapping[str, str]
    body: str | None
    timeout_s: int
    success_statuses: Sequence[int]
    secrets: Mapping[str, str]
    signing_keys: Sequence[str]
    trace_id: str
    node_of: UUID | None = None

    def as_data(self) -> dict[str, Any]:
        return {
            "tenantId": str(self.tenant_id),
            "runId": str(self.run_id),
            "jobId": str(self.job_id),
            "generation": self.generation,
            "attempt": self.attempt,
            "idempotencyKey": self.idempotency_key,
            "scheduledAt": None if self.scheduled_at is None else self.scheduled_at.isoformat(),
            "notAfter": self.not_after.isoformat(),
            "url": self.url,
            "method": self.method,
            "headers": dict(self.headers),
            "body": self.body,
            "timeoutS": self.timeout_s,
            "successStatuses": list(self.success_statuses),
            "secrets": dict(self.secrets),
            "signingKeys": list(self.signing_keys),
            "traceId": self.trace_id,
            "nodeOf": None if self.node_of is None else str(self.node_of),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Call:
        scheduled_at, node_of = data["scheduledAt"], data.get("nodeOf")
        return cls(
            tenant_id=UUID(data["tenantId"]),
            run_id=UUID(data["runId"]),
            job_id=UUID(data["jobId"]),
            generation=int(data["generation"]),
            attempt=int(data["attempt"]),
            idempotency_key=str(data["idempotencyKey"]),
            scheduled_at=None if scheduled_at is None else datetime.fromisoformat(scheduled_at),
            not_after=datetime.fromisoformat(data["notAfter"]),
            url=str(data["url"]),
            method=str(data["method"]),
            headers={str(name): str(value) for name, value in data["headers"].items()},
            body=None if data["body"] is None else str(data["body"]),
            timeout_s=int(data["timeoutS"]),
            success_statuses=[int(status) for status in data["successStatuses"]],
            secrets={str(name): str(value) for name, value in data["secrets"].items()},
            signing_keys=[str(key) for key in data["signingKeys"]],
            trace_id=str(data["traceId"]),
            node_of=None if node_of is None else UUID(node_of),
        )


@dataclass(frozen=True)
class Result:
    """The result of one attempt, as it travels to the results queue. `at` is the end of the attempt.

    With `node_of` it is that of a node of a flow, as in `Call`, and leaves the caller as a report of the node.
    """

    tenant_id: UUID
    run_id: UUID
    generation: int
    attempt: int
    outcome: Outcome
    at: datetime
    http_status: int | None = None
    error: str | None = None
    answer: str | None = None
    retry_after_s: int | None = None
    started_at: datetime | None = None
    elapsed_ms: int | None = None
    task_id: UUID | None = None
    node_of: UUID | None = None

    def as_data(self) -> dict[str, Any]:
        return {
            "tenantId": str(self.tenant_id),
            "runId": str(self.run_id),
            "generation": self.generation,
            "attempt": self.attempt,
            "outcome": self.outcome.value,
            "at": self.at.isoformat(),
            "httpStatus": self.http_status,
            "error": self.error,
            "answer": self.answer,
            "retryAfterS": self.retry_after_s,
            "startedAt": None if self.started_at is None else self.started_at.isoformat(),
            "elapsedMs": self.elapsed_ms,
            "taskId": None if self.task_id is None else str(self.task_id),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Result:
        started_at, task_id = data.get("startedAt"), data.get("taskId")
        return cls(
            tenant_id=UUID(data["tenantId"]),
            run_id=UUID(data["runId"]),
            generation=int(data["generation"]),
            attempt=int(data["attempt"]),
            outcome=Outcome(data["outcome"]),
            at=datetime.fromisoformat(data["at"]),
            http_status=data.get("httpStatus"),
            error=data.get("error"),
            answer=data.get("answer"),
            retry_after_s=data.get("retryAfterS"),
            started_at=None if started_at is None else datetime.fromisoformat(started_at),
            elapsed_ms=data.get("elapsedMs"),
            task_id=None if task_id is None else UUID(task_id),
        )


def hint(lane: str, run_ids: Sequence[UUID], *, due_at: datetime, tenant_id: UUID | None) -> Message:
    """Runs of one lane and second. `tenant_id` only where all are of one tenant that has many due."""
    data = {"lane": lane, "at": due_at.isoformat(), "runIds": [str(run_id) for run_id in run_ids]}
    return Message(lane, f"runs:{run_ids[0]}", "runs_due", data, tenant_id=tenant_id, due_at=due_at)


def calls(batch: Sequence[Call], *, tenant_id: UUID | None = None) -> Message:
    """`tenant_id` only where all are of one tenant."""
    data = {"calls": [call.as_data() for call in batch]}
    return Message(CALLS, f"calls:{batch[0].run_id}:{batch[0].attempt}", "calls", data, tenant_id=tenant_id)


def submission(*, tenant_id: UUID, run_id: UUID, generation: int, attempt: int) -> Message:
    """A TASK or FLOW run that is to be submitted. Its definition is read again by the consumer."""
    data = {"tenantId": str(tenant_id), "runId": str(run_id), "generation": generation, "attempt": attempt}
    return Message(SUBMISSIONS, f"submission:{run_id}:{attempt}", "submit", data, tenant_id=tenant_id)


def results(batch: Sequence[Result]) -> Message:
    return Message(RESULTS, f"results:{batch[0].run_id}", "results", {"results": [one.as_data() for one in batch]})


def wake(lane: str, *, due_at: datetime | None = None) -> Message:
    """A place may be free: the dispatcher looks at the runs that wait. A dispatcher that had stopped starts."""
    return Message(lane, f"wake:{lane}", "runs_due", {"lane": lane, "runIds": []}, due_at=due_at)


def warm(lane: str = JobPriority.NORMAL.lane, *, due_at: datetime | None = None) -> list[Message]:
    """Messages that ask for nothing: a dispatcher and a caller start if none is running."""
    return [wake(lane, due_at=due_at), Message(CALLS, "calls:none", "calls", {"calls": []}, due_at=due_at)]


def cancellation(*, tenant_id: UUID, run_id: UUID, task_id: UUID) -> Message:
    """The run was terminated, so its task is cancelled."""
    data = {"tenantId": str(tenant_id), "runId": str(run_id), "taskId": str(task_id)}
    return Message(SUBMISSIONS, f"cancellation:{task_id}", "cancel", data, tenant_id=tenant_id)


def hints(due: Sequence[tuple[UUID, UUID, str, datetime]]) -> list[Message]:
    """Messages for (tenant, run, lane, due time). Each has runs of one lane and one second.

    A tenant with many runs in that second gets messages of its own, so that SQS can treat it fairly.
    """
    groups: dict[tuple[str, datetime], dict[UUID, list[tuple[datetime, UUID]]]] = {}
    for tenant_id, run_id, lane, due_at in due:
        group = groups.setdefault((lane, due_at.replace(microsecond=0)), {})
        group.setdefault(tenant_id, []).append((due_at, run_id))
    found: list[Message] = []
    for (lane, _), tenants in sorted(groups.items()):
        mixed: list[tuple[datetime, UUID]] = []
        for tenant_id, runs in sorted(tenants.items()):
            if len(runs) >= HINT_OF_TENANT:
                found += _hints(lane, runs, tenant_id)
            else:
                mixed += runs
        found += _hints(lane, mixed, None)
    return found


def _hints(lane: str, runs: list[tuple[datetime, UUID]], tenant_id: UUID | None) -> list[Message]:
    runs.sort()
    parts = [runs[start : start + HINT_RUNS] for start in range(0, len(runs), HINT_RUNS)]
    return [hint(lane, [run_id for _, run_id in part], due_at=part[0][0], tenant_id=tenant_id) for part in parts]


def submission_key(run_id: UUID, generation: int) -> str:
    """The key under which a run submits its task. All attempts of a generation share the task."""
    return f"run:{run_id.hex}:{generation}"


def task_ended(tenant_id: UUID, task_id: UUID, key: str, *, at: datetime) -> Message | None:
    """A result that names the task of a run; the task's row says how it ended. None: it is not the task of a run."""
    kind, _, rest = key.partition(":")
    run, _, generation = rest.partition(":")
    if kind != "run":
        return None
    result = Result(tenant_id, UUID(run), int(generation), 0, Outcome.SUCCEEDED, at, task_id=task_id)
    return replace(results([result]), tenant_id=tenant_id)
