"""Tasks and nodes: their states and legal transitions, requests, reports of workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from artiway.circuits.model import Circuit
from artiway.errors import ArtiwayError, Conflict, NotAllowed, NotFound, Refused, TooMany, Unavailable
from artiway.events import Event
from artiway.scheduling.model import Priority


class NodeStatus(StrEnum):
    PENDING = "PENDING"
    QUEUED = "QUEUED"
    PROCESSING = "PROCESSING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"


# R-TSK-5. A table in the database has the same rows, and a trigger refuses any other transition.
TRANSITIONS: Mapping[NodeStatus, frozenset[NodeStatus]] = {
    NodeStatus.PENDING: frozenset({NodeStatus.QUEUED, NodeStatus.CANCELLED}),
    NodeStatus.QUEUED: frozenset({NodeStatus.PROCESSING, NodeStatus.CANCELLED, NodeStatus.TIMEOUT}),
    NodeStatus.PROCESSING: frozenset(
        {NodeStatus.COMPLETED, NodeStatus.FAILED, NodeStatus.TIMEOUT, NodeStatus.CANCELLED}
    ),
    NodeStatus.FAILED: frozenset({NodeStatus.PENDING}),
    NodeStatus.TIMEOUT: frozenset({NodeStatus.PENDING}),
    NodeStatus.COMPLETED: frozenset(),
    NodeStatus.CANCELLED: frozenset(),
}
NODE_ENDS = frozenset({NodeStatus.COMPLETED, NodeStatus.FAILED, NodeStatus.TIMEOUT, NodeStatus.CANCELLED})


class TaskStatus(StrEnum):
    QUEUED = "QUEUED"
    PROCESSING = "PROCESSING"
    COMPLETED = "COMPLETED"
    PARTIAL = "PARTIAL"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


TASK_ENDS = frozenset({TaskStatus.COMPLETED, TaskStatus.PARTIAL, TaskStatus.FAILED, TaskStatus.CANCELLED})
RETRYABLE_ENDS = frozenset({TaskStatus.PARTIAL, TaskStatus.FAILED})

# The type, the step and the pool of an HTTP node. The caller serves it, and it holds no slot of a GPU worker.
HTTP = "http"
CALLER = "caller"


class OnFailure(StrEnum):
    """What a node that fails for good cancels: the nodes that depend on it, or every node that has not started."""

    CONTINUE = "continue"
    STOP = "stop"


class NoSuchTask(NotFound):
    code = "TASK_404_NO_TASK"

    def __init__(self) -> None:
        super().__init__("there is no such task")


class ColleaguesTask(NotAllowed):
    """A task of another user of the tenant, for which `task.manage` is needed."""

    def __init__(self) -> None:
        super().__init__("this is a task of another user", permission="task.manage")


class QueueFull(TooMany):
    """The tenant has reached its limit of unfinished tasks."""

    code = "TASK_429_QUEUE_FULL"


class TenantThrottled(TooMany):
    """The tenant has used its quota. A suspended tenant gets `TENANT_403_SUSPENDED` instead."""

    code = "SCHED_429_TENANT_THROTTLED"


class DispatchBacklog(Unavailable):
    """The lane is full, with nodes of any tenants."""

    code = "SCHED_503_DISPATCH_BACKLOG"


class NotRetryable(Conflict):
    code = "TASK_409_NOT_RETRYABLE"


class InvalidRequest(Refused):
    """A field of the request, and the reason why it is not valid."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__("the request is not valid", fields=[{"field": name, "reason": reason}])


class Cycle(Refused):
    code = "DAG_422_CYCLE"

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"nodes depend on each other in a circle: {' → '.join(names)}", cycle=list(names))


@dataclass(frozen=True)
class Answer:
    """The answer of an HTTP target; `text` is its beginning."""

    http_status: int
    text: str
    elapsed_ms: int

    def as_json(self) -> dict[str, Any]:
        return {"httpStatus": self.http_status, "text": self.text, "elapsedMs": self.elapsed_ms}


@dataclass(frozen=True)
class Failure:
    """Why a node failed, and whether a retry may succeed."""

    code: str
    message: str
    is_retryable: bool = False
    # Of an HTTP target: its answer, and the shortest time to the next attempt.
    answer: Answer | None = None
    retry_after_s: int = 0

    def as_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}

    def as_stored(self) -> dict[str, Any]:
        return self.as_json() if self.answer is None else {**self.as_json(), "answer": self.answer.as_json()}


@dataclass(frozen=True)
class Source:
    """Where a node's input comes from: an upload, or the output of another node."""

    name: str
    input_id: UUID | None = None
    node: str | None = None
    output: str = ""


@dataclass(frozen=True)
class PlannedNode:
    """A node as the catalogue or a flow defines it, before it has an id."""

    name: str
    type: str
    step: str
    params: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    depends_on: tuple[str, ...] = ()
    cost_us: int = 1
    price_points: int = 0
    is_result: bool = False
    model: str = ""
    pool: str = ""  # empty: that of the task

    @property
    def is_http(self) -> bool:
        return self.type == HTTP


@dataclass(frozen=True)
class FlowNode:
    """A node of a caller's own flow. An input is an upload, or `node` or `node.output` in `sources`."""

    name: str
    step: str | None
    type: str | None
    params: Mapping[str, Any]
    uploads: Mapping[str, UUID]
    sources: Mapping[str, str]
    depends_on: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """All nodes of a task, in topological order."""

    tool: str
    nodes: tuple[PlannedNode, ...]
    is_draft: bool = False

    @property
    def price_points(self) -> int:
        return sum(node.price_points for node in self.nodes)

    @property
    def cost_us(self) -> int:
        """On workers: a call takes none of their time."""
        return sum(node.cost_us for node in self.nodes if not node.is_http)


@dataclass(frozen=True)
class Task:
    tenant_id: UUID
    task_id: UUID
    user_id: UUID
    tool: str
    name: str
    status: TaskStatus
    run: int
    hold_id: UUID
    lane: str
    pool: str
    priority: Priority
    price_points: int
    charged_points: int
    webhook_url: str | None
    event_sequence: int
    error: Mapping[str, Any] | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    cancel_requested_at: datetime | None
    trace_id: str = ""  # of the request that submitted it
    submission_key: str | None = None  # of the caller: the same key submits once
    is_draft: bool = False
    on_failure: OnFailure = OnFailure.CONTINUE

    @property
    def execution_name(self) -> str:
        """A retry by the user starts a new execution, and Step Functions accepts a name only once."""
        return str(self.task_id) if self.run == 1 else f"{self.task_id}-{self.run}"


@dataclass(frozen=True)
class TaskOfTenant:
    """A task as operators see it."""

    tenant_id: UUID
    task_id: UUID
    user_id: UUID
    tool: str
    name: str
    status: TaskStatus
    lane: str
    priority: str
    price_points: int
    charged_points: int
    trace_id: str
    error: Mapping[str, Any] | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    tenant_name: str
    user_email: str | None


@dataclass(frozen=True)
class HandledTask:
    """What became of one id: the status after the change, or the error that prevented it."""

    task_id: UUID
    status: TaskStatus | None = None
    error: ArtiwayError | None = None


@dataclass(frozen=True)
class TaskSearch:
    """All given fields must match. A trace is searched in the tasks of the last week."""

    task_id: UUID | None = None
    trace_id: str | None = None
    email: str | None = None
    tenant_id: UUID | None = None
    user_id: UUID | None = None
    status: str | None = None
    tool: str | None = None
    lane: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class Node:
    tenant_id: UUID
    node_id: UUID
    task_id: UUID
    user_id: UUID
    position: int
    name: str
    type: str
    step: str
    model: str
    lane: str
    pool: str
    params: Mapping[str, Any]
    inputs: Sequence[Mapping[str, Any]]
    cost_us: int
    price_points: int
    is_result: bool
    is_charged: bool
    status: NodeStatus
    version: int
    attempt: int
    failures: int
    in_degree: int
    progress: int
    gpu_us: int | None
    output: Sequence[Mapping[str, Any]]
    engine: Mapping[str, Any] | None
    error: Mapping[str, Any] | None
    worker_id: str | None


@dataclass(frozen=True)
class Output:
    """A picture that a worker stored."""

    name: str
    key: str
    content_type: str
    width: int
    height: int
    bytes: int

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "key": self.key,
            "contentType": self.content_type,
            "width": self.width,
            "height": self.height,
            "bytes": self.bytes,
        }


class ReportKind(StrEnum):
    STARTED = "started"
    PROGRESS = "progress"
    RESULT = "result"
    FAILURE = "failure"

    @property
    def is_terminal(self) -> bool:
        return self in (ReportKind.RESULT, ReportKind.FAILURE)


@dataclass(frozen=True)
class Report:
    """A worker's message about one attempt at a node."""

    kind: ReportKind
    tenant_id: UUID
    task_id: UUID
    node_id: UUID
    attempt: int
    worker_id: str
    sequence: int
    progress: int = 0
    gpu_us: int | None = None
    outputs: tuple[Output, ...] = ()
    engine: Mapping[str, Any] | None = None
    failure: Failure | None = None
    trace_id: str = ""
    answer: Answer | None = None


@dataclass(frozen=True)
class Occurrence:
    """An event before it has its number in the task. `node` is the node's name, None for an event of the whole task."""

    event: Event
    node: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class Claimed(StrEnum):
    NOW = "now"
    BEFORE = "before"  # the same worker repeated its claim
    GONE = "gone"


@dataclass(frozen=True)
class Published:
    """An event with its number in the task. `event` is its short name."""

    task_id: UUID
    sequence: int
    event: str
    body: Mapping[str, Any]


@dataclass(frozen=True)
class NodeProgress:
    """The newest progress report of an attempt at a node."""

    attempt: int
    percent: int


@dataclass(frozen=True)
class Claim:
    """The answer of the database to a claim. `outputs` are the pictures of the nodes before it, by node name."""

    claimed: Claimed
    node: Node | None = None
    outputs: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Finished:
    """A completed node. No node depends on a leaf. `run_s` has passed since its claim."""

    name: str
    is_leaf: bool
    pool: str
    type: str
    run_s: float


@dataclass(frozen=True)
class ReleasedSlot:
    """A node that no longer waits or runs: it leaves the fair queue, and its slot, if it had one, is free."""

    node_id: UUID
    pool: str
    gpu_us: int | None


@dataclass(frozen=True)
class Waiting:
    """A node in the fair queue, with the facts about it and its tenant that the queue needs. Its ids are text."""

    node_id: str
    tenant_id: str
    user_id: str
    pool: str
    lane: str
    type: str
    model: str
    cost_us: int
    weight: int
    cap: int
    user_cap: int | None
    own_cap: int | None
    priority: str
    step: str


@dataclass(frozen=True)
class Trial:
    """The present attempt of a node and the circuit of its step, read at `now` on the database's clock."""

    now: datetime
    dispatched_at: datetime | None
    circuit: Circuit


@dataclass(frozen=True)
class Held:
    """A running attempt of a worker, with the facts that name its pictures. `outputs` as in `Claim`."""

    tenant_id: UUID
    task_id: UUID
    node_id: UUID
    attempt: int
    params: Mapping[str, Any]
    inputs: Sequence[Mapping[str, Any]]
    outputs: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Renewal:
    """The answer to a heartbeat: the claims whose lease was renewed, cancelled nodes, and whether the worker drains."""

    renewed: Mapping[UUID, Held] = field(default_factory=dict)
    cancelled: frozenset[UUID] = frozenset()
    is_draining: bool = False


@dataclass(frozen=True)
class Terms:
    """How a worker holds a node. An operator may change the terms at any time: they act on the next claim or beat."""

    lease_s: int = 30
    beat_s: float = 10
    time_limit_s: int = 600


@dataclass(frozen=True)
class WorkerCard:
    """The facts that a worker registers with."""

    worker_id: str
    pool: str
    types: tuple[str, ...]
    slots: int
    neural: tuple[str, ...] = ()  # the steps that it serves with a network


@dataclass(frozen=True)
class Requester:
    """The user who wants to change a task. With `may_manage` also tasks of other users."""

    user_id: UUID
    may_manage: bool

    def must_control(self, task: Task) -> None:
        self.must_own(task.user_id)

    def must_own(self, user_id: UUID) -> None:
        """`user_id` is the user whose task it is."""
        if user_id != self.user_id and not self.may_manage:
            raise ColleaguesTask


@dataclass(frozen=True)
class TenantLimits:
    tier: str
    status: str
    weight: int
    concurrency: int
    queue_depth: int
    artefact_days: int


@dataclass(frozen=True)
class LaneLoad:
    """The waiting nodes of a lane. `depth` is counted up to one more than the limit."""

    lane: str
    pool: str
    is_paused: bool
    depth_limit: int
    depth: int
    ended_lately: int


@dataclass(frozen=True)
class TaskFilter:
    user_id: UUID | None = None
    status: str | None = None
    tool: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class NewTask:
    task_id: UUID
    user_id: UUID
    tool: str
    name: str
    hold_id: UUID
    lane: str
    pool: str
    priority: Priority
    params: Mapping[str, Any]
    price_points: int
    webhook_url: str | None
    eta_s: int | None
    eta_model_s: float | None
    submission_key: str | None = None
    is_draft: bool = False
    request: Mapping[str, Any] = field(default_factory=dict)  # inputs by name, and the number of outputs
    on_failure: OnFailure = OnFailure.CONTINUE


@dataclass(frozen=True)
class NewNode:
    """A node with its id and the ids of its dependencies, ready to be stored."""

    node_id: UUID
    position: int
    name: str
    type: str
    step: str
    model: str
    params: Mapping[str, Any]
    inputs: Sequence[Mapping[str, Any]]
    cost_us: int
    price_points: int
    is_result: bool
    in_degree: int
    depends_on_ids: tuple[UUID, ...] = ()
    pool: str = ""  # empty: that of the task
