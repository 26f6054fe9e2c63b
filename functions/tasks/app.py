"""Tasks: the catalogue, uploads, submissions, flows, and their status and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import AwareDatetime, Field

from artiway import bootstrap
from artiway.errors import NotFound
from artiway.ids import from_wire, to_wire
from artiway.platform import http

if TYPE_CHECKING:
    from artiway.delivery.uploads.model import Thumbnail
    from artiway.scheduling.model import Priority
    from artiway.tasks.model import (
        FlowNode,
        HandledTask,
        Node,
        NodeStatus,
        OnFailure,
        Requester,
        Task,
        TaskOfTenant,
        TaskStatus,
    )
else:
    # The values on the wire. The enums are imported with the services, at the first request.
    Priority = Literal["HIGH", "NORMAL", "LOW"]
    TaskStatus = Literal["QUEUED", "PROCESSING", "COMPLETED", "PARTIAL", "FAILED", "CANCELLED"]
    NodeStatus = Literal["PENDING", "QUEUED", "PROCESSING", "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"]

api = http.Api("tasks", origin=bootstrap.origin, access_check=bootstrap.access_check, warm_up=bootstrap.warm_up)
handler = api.handler

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$")]
InputId = Annotated[str, Field(max_length=64)]
Params = dict[Annotated[str, Field(max_length=64)], Any]


DRAFT = "only the preview engine serves a step that needs a network: the result is a draft"
DRAFT_NOTES = "what each draft step can and cannot do, by language (en, zh); empty unless isDraft"


class ToolBody(http.Wire):
    tool: str
    group: str
    title: dict[str, str] = Field(description="by language: en, zh")
    price_points: int = Field(description="for each output")
    inputs: list[str]
    optional_inputs: list[str]
    count: dict[str, int] = Field(description="minimum, maximum and default number of outputs")
    params: dict[str, Any] = Field(description="JSON Schema")
    node_types: list[str]
    input_help: dict[str, str] = Field(description="what an input is, where its name does not say it")
    is_draft: bool = Field(description=DRAFT)
    draft_notes: list[dict[str, str]] = Field(description=DRAFT_NOTES)


class ToolsBody(http.Wire):
    items: list[ToolBody]
    next_cursor: str | None


class LabelBody(http.Wire):
    key: str
    zh: str
    en: str
    order: int


class DictionariesBody(http.Wire):
    dictionaries: dict[str, list[LabelBody]] = Field(description="all labels, by type")


class LabelsBody(http.Wire):
    items: list[LabelBody]
    next_cursor: str | None


class UploadBody(http.Wire):
    content_type: Literal["image/png", "image/jpeg", "image/webp"]
    bytes: int = Field(ge=1, le=100_000_000)


class TicketBody(http.Wire):
    input_id: str
    url: str
    method: str
    headers: dict[str, str] = Field(description="to be sent exactly so")
    expires_at: datetime


PRIORITY: Any = Field(default="NORMAL", description="orders the task among the work of its own tenant only")


INPUTS = (
    "uploads by name, as `inputs` and `optionalInputs` of the tool list them. "
    "A `mask` is a picture of the same shape: white = change (for cutout: keep), black = leave as it is"
)
PARAMS = (
    "as `params` of the tool describes them. "
    "`regions` are places to change instead of a mask: [x, y, width, height], each a part of the picture "
    "from 0 to 1, from its upper left corner and inside it"
)


NODE_PARAMS = (
    "of the step; of an http node: url, method (POST), headers, body, timeoutSeconds (30), successStatuses "
    "(200 to 299), as in an HTTP job. A header or the body may name a secret, `secret:NAME`. The body may name "
    "other nodes: `{{nodes.NAME.answer}}` and `{{nodes.NAME.httpStatus}}` of an http node, `{{nodes.NAME.url}}` of "
    "another one is a signed address of its picture; a named node is a dependency"
)
ON_FAILURE = (
    "what a node that fails for good cancels: continue, the nodes that depend on it; stop, every node that has not "
    "started, and no running one is retried"
)


class AskBody(http.Wire):
    tool: str = Field(min_length=1, max_length=64)
    inputs: dict[Name, InputId] = Field(max_length=64, description=INPUTS)
    params: Params = Field(default_factory=dict, max_length=64, description=PARAMS)
    count: int | None = Field(default=None, ge=1, le=50, strict=True)


class SubmitBody(AskBody):
    webhook_url: str | None = Field(default=None, max_length=2_000)
    priority: Priority = PRIORITY


class FlowNodeBody(http.Wire):
    name: Name
    type: str | None = Field(
        default=None, max_length=64, description="a node type, of which the first step is taken; or http, a call"
    )
    tool: str | None = Field(default=None, max_length=64, description="a step")
    params: Params = Field(default_factory=dict, max_length=64, description=NODE_PARAMS)
    inputs: dict[Name, Annotated[str, Field(max_length=140)]] = Field(
        default_factory=dict, max_length=16, description="an input id, or a node's name, or node.output"
    )
    depends_on: list[Name] = Field(default_factory=list, max_length=500)


class FlowBody(http.Wire):
    name: str = Field(default="", max_length=200)
    nodes: list[FlowNodeBody] = Field(min_length=1, max_length=501)
    on_failure: Literal["continue", "stop"] = Field(default="continue", description=ON_FAILURE)
    webhook_url: str | None = Field(default=None, max_length=2_000)
    priority: Priority = PRIORITY


class AcceptedBody(http.Wire):
    task_id: str
    status: TaskStatus
    lane: str
    priority: Priority
    price_points: int
    eta_seconds: int | None = Field(description="expected end; null where it cannot start, see detail")
    detail: str | None
    is_draft: bool = Field(description=DRAFT)


class EstimateBody(http.Wire):
    price_points: int
    lane: str
    eta_start_seconds: int | None = Field(description="null where it cannot start, see detail")
    eta_end_seconds: int | None
    detail: str | None = Field(description="why there is no expected start, in words")
    nodes: int
    is_draft: bool = Field(description=DRAFT)
    draft_notes: list[dict[str, str]] = Field(description=DRAFT_NOTES)


class FaultBody(http.Wire):
    code: str
    message: str


class TaskBody(http.Wire):
    task_id: str
    user_id: str
    tool: str
    name: str
    status: TaskStatus
    progress: int = Field(ge=0, le=100)
    lane: str
    priority: Priority
    price_points: int
    charged_points: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    error: FaultBody | None
    is_draft: bool = Field(description=DRAFT)


class ThumbnailBody(http.Wire):
    url: str
    width: int
    height: int


class ListedTaskBody(TaskBody):
    thumbnail: ThumbnailBody | None = Field(description="the first result, in full size")


class TasksBody(http.Wire):
    items: list[ListedTaskBody]
    next_cursor: str | None


class AnswerBody(http.Wire):
    http_status: int
    text: str = Field(description="the beginning of the answer, at most 2,000 characters")
    elapsed_ms: int


class NodeBody(http.Wire):
    node_id: str
    name: str
    type: str
    step: str = Field(description="a key of the dictionary `steps`")
    status: NodeStatus
    progress: int
    attempt: int
    run_seconds: float | None = Field(description="how long the attempt that ended ran, as the worker measured it")
    depends_on: list[str]
    error: FaultBody | None
    engine: dict[str, Any] | None = Field(description="the engine that made the picture, as the worker reported it")
    answer: AnswerBody | None = Field(description="of an HTTP node: what the target answered to the last attempt")


class ResultBody(http.Wire):
    name: str
    url: str = Field(description="valid until expiresAt; a new request returns a new one")
    download_url: str = Field(description="the same picture, which a browser saves under a good name")
    content_type: str
    width: int
    height: int
    expires_at: datetime
    is_draft: bool = Field(description="made without the network that one of its steps needs")


class OriginalBody(http.Wire):
    name: str = Field(description="as the submission named it; in a flow `node.input`")
    input_id: str
    url: str | None = Field(description="valid until expiresAt; null: the picture is not kept any more")
    content_type: str
    width: int | None
    height: int | None
    expires_at: datetime | None


class TaskViewBody(TaskBody):
    trace_id: str = Field(description="of the request that submitted the task; in the log lines of all its steps")
    nodes: list[NodeBody]
    results: list[ResultBody]
    inputs: list[OriginalBody] = Field(description="the pictures that were submitted")
    params: dict[str, Any] = Field(description="as they were submitted")
    count: int | None = Field(description="as it was submitted; null: the default")
    deleted_results: list[str] = Field(description="names of results that were deleted")


class ReasonBody(http.Wire):
    name: str
    status: NodeStatus
    waiting_for: Literal[
        "dependency",
        "tenant_cap",
        "user_cap",
        "model_cap",
        "lane_paused",
        "circuit_open",
        "lane_cap",
        "no_worker",
        "turn",
        "none",
    ]
    position: int | None = Field(description="nodes of all tenants that start before it, about")
    eta_seconds: int | None = Field(description="expected start; null where it cannot start")
    detail: str


class WhyBody(http.Wire):
    priority: Priority = Field(description="among the work of the tenant")
    nodes: list[ReasonBody]


class TaskIdBody(http.Wire):
    task_id: str
    status: TaskStatus


@api.get("/tools")
def list_tools(cursor: http.Cursor = None, limit: http.Limit = 50) -> ToolsBody:
    """The tools of the catalogue."""
    tools, following = http.page_of(list(bootstrap.live_catalogue().tools.values()), cursor, limit)
    drafts = bootstrap.tasks().draft_steps(api.identity.tenant_id)
    return ToolsBody(
        items=[
            ToolBody(
                tool=tool.name,
                group=tool.group,
                title=dict(tool.title),
                price_points=tool.price_points,
                inputs=list(tool.inputs) or [f"{tool.batch}_1"],
                optional_inputs=list(tool.optional_inputs),
                count=dict(tool.count),
                params=tool.json_schema,
                node_types=list(tool.node_types),
                input_help=tool.input_help,
                is_draft=bool(tool.steps & drafts),
                draft_notes=bootstrap.catalogue().draft_notes(tool.steps & drafts),
            )
            for tool in tools
        ],
        next_cursor=following,
    )


@api.get("/dictionaries")
def list_dictionaries() -> DictionariesBody:
    """The labels of every type at once, for a client that shows pages."""
    found = bootstrap.dictionaries().all_labels()
    return DictionariesBody(
        dictionaries={
            type_: [LabelBody(key=one.key, zh=one.zh, en=one.en, order=one.order) for one in labels]
            for type_, labels in found.items()
        }
    )


@api.get("/dictionaries/<type>")
def list_labels(type: str, cursor: http.Cursor = None, limit: http.Limit = 100) -> LabelsBody:  # noqa: A002 (the name in the path)
    """Labels in Chinese and English: tools, steps, lanes, states, error codes, presets."""
    labels, following = http.page_of(bootstrap.dictionaries().labels(type), cursor, limit)
    items = [LabelBody(key=label.key, zh=label.zh, en=label.en, order=label.order) for label in labels]
    return LabelsBody(items=items, next_cursor=following)


@api.post("/uploads", permission="task.submit", status=201, errors=[409])
def create_upload(body: UploadBody) -> tuple[TicketBody, int]:
    """Permission to upload one picture directly to S3."""
    ticket = bootstrap.uploads().ticket(
        tenant_id=api.identity.tenant_id,
        user_id=api.identity.user_id,
        content_type=body.content_type,
        size=body.bytes,
    )
    return (
        TicketBody(
            input_id=to_wire("inp", ticket.input_id),
            url=ticket.url,
            method=ticket.method,
            headers=dict(ticket.headers),
            expires_at=ticket.expires_at,
        ),
        201,
    )


@api.post("/tasks", permission="task.submit", status=202, errors=[402, 404], idempotent=True)
def submit_task(body: SubmitBody) -> tuple[AcceptedBody, int]:
    """Submit a task. Its points are held now, and charged for delivered results."""
    accepted = bootstrap.tasks().submit(
        tenant_id=api.identity.tenant_id,
        user_id=api.identity.user_id,
        tool=body.tool,
        inputs=_inputs(body.inputs),
        params=body.params,
        count=body.count,
        webhook_url=body.webhook_url,
        priority=_priority(body.priority),
    )
    return _accepted(accepted.task, accepted.timing.end_s, accepted.timing.detail), 202


@api.post("/tasks/estimate", permission="task.submit", errors=[404])
def estimate_task(body: SubmitBody) -> EstimateBody:
    """The price and duration of a submission. Changes nothing."""
    found = bootstrap.tasks().estimate(
        tenant_id=api.identity.tenant_id,
        tool=body.tool,
        inputs=_inputs(body.inputs),
        params=body.params,
        count=body.count,
        priority=_priority(body.priority),
    )
    return EstimateBody(
        price_points=found.price_points,
        lane=found.lane,
        eta_start_seconds=found.timing.start_s,
        eta_end_seconds=found.timing.end_s,
        detail=found.timing.detail,
        nodes=found.nodes,
        is_draft=found.is_draft,
        draft_notes=bootstrap.catalogue().draft_notes(found.draft_steps),
    )


@api.post("/flows", permission="task.submit", status=202, errors=[402, 404], idempotent=True)
def submit_flow(body: FlowBody) -> tuple[AcceptedBody, int]:
    """Submit a DAG of the caller's own nodes."""
    accepted = bootstrap.tasks().submit_flow(
        tenant_id=api.identity.tenant_id,
        user_id=api.identity.user_id,
        name=body.name,
        nodes=[_flow_node(node) for node in body.nodes],
        webhook_url=body.webhook_url,
        priority=_priority(body.priority),
        on_failure=_on_failure(body.on_failure),
    )
    return _accepted(accepted.task, accepted.timing.end_s, accepted.timing.detail), 202


@api.get("/tasks", permission="task.read")
def list_tasks(
    user_id: Annotated[str | None, Query(alias="userId", max_length=64)] = None,
    status: TaskStatus | None = None,
    tool: Annotated[str | None, Query(max_length=64)] = None,
    since: Annotated[AwareDatetime | None, Query(alias="from")] = None,
    until: Annotated[AwareDatetime | None, Query(alias="to")] = None,
    cursor: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> TasksBody:
    """The tenant's tasks, newest first."""
    from artiway.tasks.model import TaskFilter

    try:
        user = None if user_id is None else from_wire("usr", user_id)
    except NotFound:
        return TasksBody(items=[], next_cursor=None)
    found = bootstrap.tasks().tasks(
        tenant_id=api.identity.tenant_id,
        wanted=TaskFilter(user, status, tool, since, until),
        before=http.place_of(cursor),
        limit=limit + 1,
    )
    pictures = bootstrap.uploads().thumbnails(
        tenant_id=api.identity.tenant_id,
        task_ids=[task.task_id for task, _ in found[:limit]],
        base_url=api.public_url,
    )
    items = [
        ListedTaskBody(**_task(task, progress), thumbnail=_thumbnail(pictures.get(task.task_id)))
        for task, progress in found[:limit]
    ]
    next_place = found[limit - 1][0].task_id if len(found) > limit else None
    return TasksBody(items=items, next_cursor=http.cursor_of(next_place))


@api.get("/tasks/<task_id>", permission="task.read")
def get_task(task_id: str) -> TaskViewBody:
    """A task with its nodes and results."""
    place = from_wire("task", task_id)
    view = bootstrap.tasks().view(tenant_id=api.identity.tenant_id, task_id=place)
    graph = view.graph
    names = {node.node_id: node.name for node in graph.nodes}
    drafts = bootstrap.catalogue().drafts_of(graph.nodes, graph.dependencies)
    results = bootstrap.uploads().results(tenant_id=api.identity.tenant_id, task_id=place, base_url=api.public_url)
    asked = bootstrap.uploads().request(tenant_id=api.identity.tenant_id, task_id=place, base_url=api.public_url)
    return TaskViewBody(
        **(_task(graph.task, view.progress) | {"is_draft": graph.task.is_draft or bool(drafts)}),
        trace_id=graph.task.trace_id,
        nodes=[
            NodeBody(
                node_id=to_wire("node", node.node_id),
                name=node.name,
                type=node.type,
                step=node.step,
                status=node.status,
                progress=view.node_progress[node.node_id],
                attempt=node.attempt,
                run_seconds=None if node.gpu_us is None else node.gpu_us / 1_000_000,
                depends_on=sorted(names[other] for other in graph.dependencies.get(node.node_id, ())),
                error=_fault(node.error),
                engine=None if node.engine is None else dict(node.engine),
                answer=_answer(node),
            )
            for node in graph.nodes
        ],
        results=[
            ResultBody(
                name=result.name,
                url=result.url,
                download_url=result.download_url,
                content_type=result.content_type,
                width=result.width,
                height=result.height,
                expires_at=result.expires_at,
                is_draft=result.name in drafts,
            )
            for result in results
        ],
        inputs=[
            OriginalBody(
                name=one.name,
                input_id=to_wire("inp", one.input_id),
                url=one.url,
                content_type=one.content_type,
                width=one.width,
                height=one.height,
                expires_at=one.expires_at,
            )
            for one in asked.originals
        ],
        params=dict(asked.params),
        count=asked.count,
        deleted_results=list(asked.deleted),
    )


@api.delete("/tasks/<task_id>/results/<name>", permission="task.submit", status=204, errors=[409])
def delete_result(task_id: str, name: str) -> tuple[None, int]:
    """Delete a result of an ended task. Another user's task needs task.manage."""
    bootstrap.uploads().delete_result(
        tenant_id=api.identity.tenant_id, task_id=from_wire("task", task_id), name=name, requester=_requester()
    )
    return None, 204


@api.get("/tasks/<task_id>/why", permission="task.read")
def explain_task(task_id: str) -> WhyBody:
    """Why each node that has not ended waits, and for how long."""
    found = bootstrap.why().explain(tenant_id=api.identity.tenant_id, task_id=from_wire("task", task_id))
    return WhyBody(priority=found.priority, nodes=_reasons(found))


@api.post("/tasks/<task_id>/cancel", permission="task.cancel", status=202, errors=[409])
def cancel_task(task_id: str) -> tuple[TaskIdBody, int]:
    """Cancel a task. Delivered results are charged, other points released. Another user's task needs task.manage."""
    status = bootstrap.tasks().cancel(
        tenant_id=api.identity.tenant_id, task_id=from_wire("task", task_id), requester=_requester()
    )
    return TaskIdBody(task_id=task_id, status=status), 202


@api.post("/tasks/<task_id>/retry", permission="task.submit", status=202, errors=[402, 409])
def retry_task(task_id: str) -> tuple[TaskIdBody, int]:
    """Run the nodes of a failed or partial task that did not complete. Another user's task needs task.manage."""
    task = bootstrap.tasks().retry(
        tenant_id=api.identity.tenant_id, task_id=from_wire("task", task_id), requester=_requester()
    )
    return TaskIdBody(task_id=task_id, status=task.status), 202


class OpsTaskBody(http.Wire):
    task_id: str
    tenant_id: str
    tenant_name: str
    user_id: str
    user_email: str | None
    tool: str
    name: str
    status: TaskStatus
    lane: str
    priority: Priority
    price_points: int
    charged_points: int
    trace_id: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    error: FaultBody | None


class OpsTasksBody(http.Wire):
    items: list[OpsTaskBody]
    next_cursor: str | None


class OpsNodeBody(http.Wire):
    node_id: str
    name: str
    type: str
    step: str
    status: NodeStatus
    attempt: int
    failures: int
    progress: int
    depends_on: list[str]
    worker_id: str | None = Field(description="of the last attempt")
    error: FaultBody | None
    engine: dict[str, Any] | None
    created_at: datetime
    ready_at: datetime | None
    dispatched_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None


class StepBody(http.Wire):
    at: datetime
    node: str
    from_status: str | None
    to_status: str
    attempt: int
    worker_id: str | None
    reason: str | None


class OpsTaskViewBody(OpsTaskBody):
    nodes: list[OpsNodeBody]
    timeline: list[StepBody] = Field(description="every change of a node, oldest first; history is kept for 90 days")
    why: list[ReasonBody] = Field(description="why each node that has not ended waits")


class TaskIdsBody(http.Wire):
    ids: list[Annotated[str, Field(max_length=64)]] = Field(min_length=1, max_length=100)


class HandledTaskBody(http.Wire):
    id: str
    status: TaskStatus | None
    error_code: str | None = Field(description="why this one was not changed")


class HandledTasksBody(http.Wire):
    results: list[HandledTaskBody]


@api.get("/ops/tasks", permission="ops.read", slow=True)
def search_tasks(
    q: Annotated[str | None, Query(max_length=254, description="a task's id, a trace id or an e-mail address")] = None,
    tenant_id: Annotated[str | None, Query(alias="tenantId", max_length=64)] = None,
    user_id: Annotated[str | None, Query(alias="userId", max_length=64)] = None,
    status: TaskStatus | None = None,
    tool: Annotated[str | None, Query(max_length=64)] = None,
    lane: Annotated[str | None, Query(max_length=64)] = None,
    since: Annotated[AwareDatetime | None, Query(alias="from")] = None,
    until: Annotated[AwareDatetime | None, Query(alias="to")] = None,
    cursor: http.Cursor = None,
    limit: http.Limit = 50,
) -> OpsTasksBody:
    """Tasks of all tenants, newest first. A trace id is found in the tasks of the last seven days."""
    from artiway.tasks.model import TaskSearch

    text = (q or "").strip()
    try:
        wanted = TaskSearch(
            task_id=from_wire("task", text) if text.startswith("task_") else None,
            email=text.lower() if "@" in text else None,
            trace_id=text if text and "@" not in text and not text.startswith("task_") else None,
            tenant_id=None if tenant_id is None else from_wire("tnt", tenant_id),
            user_id=None if user_id is None else from_wire("usr", user_id),
            status=status,
            tool=tool,
            lane=lane,
            since=since,
            until=until,
        )
    except NotFound:  # nobody has such an id
        return OpsTasksBody(items=[], next_cursor=None)
    found = bootstrap.task_operations().search(wanted, before=http.place_of(cursor), limit=limit + 1)
    next_place = found[limit - 1].task_id if len(found) > limit else None
    items = [OpsTaskBody(**_ops_task(one)) for one in found[:limit]]
    return OpsTasksBody(items=items, next_cursor=http.cursor_of(next_place))


@api.get("/ops/tasks/<any_task_id>", permission="ops.read", slow=True)
def get_task_history(any_task_id: str) -> OpsTaskViewBody:
    """A task of any tenant: nodes, attempts, workers, timeline, and why it waits. Pictures are not shown."""
    history = bootstrap.task_operations().history(from_wire("task", any_task_id))
    found = history.found
    reasons: list[ReasonBody] = []
    if found.ended_at is None:
        reasons = _reasons(bootstrap.why().explain(tenant_id=found.tenant_id, task_id=found.task_id))
    return OpsTaskViewBody(
        **_ops_task(found),
        nodes=[
            OpsNodeBody(
                **{
                    **row,
                    "node_id": to_wire("node", row["node_id"]),
                    "error": _fault(row["error"]),
                    "depends_on": list(row["depends_on"]),
                }
            )
            for row in history.nodes
        ],
        timeline=[StepBody(**asdict(step)) for step in history.steps],
        why=reasons,
    )


@api.post("/ops/tasks/retry", permission="ops.write", status=202)
def retry_tasks(body: TaskIdsBody) -> tuple[HandledTasksBody, int]:
    """Retry failed or partial tasks of any tenant, for their own users' points."""
    found = bootstrap.task_operations().retry(_task_ids(body.ids), actor_id=api.identity.user_id)
    return HandledTasksBody(results=[_handled(one) for one in found]), 202


@api.post("/ops/tasks/cancel", permission="ops.write", status=202)
def cancel_tasks(body: TaskIdsBody) -> tuple[HandledTasksBody, int]:
    """Cancel tasks of any tenant. Delivered results are charged, other points released."""
    found = bootstrap.task_operations().cancel(_task_ids(body.ids), actor_id=api.identity.user_id)
    return HandledTasksBody(results=[_handled(one) for one in found]), 202


def _task_ids(texts: Sequence[str]) -> list[UUID]:
    """An id that cannot exist is refused as a whole: it is a mistake of the caller."""
    return [from_wire("task", text) for text in texts]


def _handled(handled: HandledTask) -> HandledTaskBody:
    return HandledTaskBody(
        id=to_wire("task", handled.task_id),
        status=handled.status,
        error_code=None if handled.error is None else handled.error.code,
    )


def _ops_task(found: TaskOfTenant) -> dict[str, Any]:
    return {
        **asdict(found),
        "task_id": to_wire("task", found.task_id),
        "tenant_id": to_wire("tnt", found.tenant_id),
        "user_id": to_wire("usr", found.user_id),
        "error": _fault(found.error),
    }


def _reasons(found: Any) -> list[ReasonBody]:
    return [
        ReasonBody(
            name=reason.node.name,
            status=reason.node.status,
            waiting_for=reason.waiting_for,
            position=reason.position,
            eta_seconds=reason.eta_s,
            detail=reason.detail,
        )
        for reason in found.reasons
    ]


def _thumbnail(found: Thumbnail | None) -> ThumbnailBody | None:
    return None if found is None else ThumbnailBody(url=found.url, width=found.width, height=found.height)


def _requester() -> Requester:
    from artiway.tasks.model import Requester

    return Requester(api.identity.user_id, may_manage=api.identity.may("task.manage"))


def _inputs(inputs: Mapping[str, str]) -> dict[str, UUID]:
    return {name: from_wire("inp", input_id) for name, input_id in inputs.items()}


def _flow_node(node: FlowNodeBody) -> FlowNode:
    from artiway.tasks.model import FlowNode

    uploads, sources = {}, {}
    for name, reference in node.inputs.items():
        if reference.startswith("inp_"):
            uploads[name] = from_wire("inp", reference)
        else:
            sources[name] = reference
    return FlowNode(
        name=node.name,
        step=node.tool,
        type=node.type,
        params=node.params,
        uploads=uploads,
        sources=sources,
        depends_on=tuple(node.depends_on),
    )


def _priority(given: str) -> Priority:
    from artiway.scheduling.model import Priority

    return Priority(given)


def _on_failure(given: str) -> OnFailure:
    from artiway.tasks.model import OnFailure

    return OnFailure(given)


def _answer(node: Node) -> AnswerBody | None:
    """Of an HTTP node: its result, or what it failed with."""
    found = (node.error or {}).get("answer") or next((one for one in node.output if "httpStatus" in one), None)
    return None if found is None else AnswerBody.model_validate(found)


def _accepted(task: Task, eta_s: int | None, detail: str | None) -> AcceptedBody:
    return AcceptedBody(
        task_id=to_wire("task", task.task_id),
        status=task.status,
        lane=task.lane,
        priority=task.priority,
        price_points=task.price_points,
        eta_seconds=eta_s,
        detail=detail,
        is_draft=task.is_draft,
    )


def _task(task: Task, progress: int) -> dict[str, Any]:
    return {
        "task_id": to_wire("task", task.task_id),
        "user_id": to_wire("usr", task.user_id),
        "tool": task.tool,
        "name": task.name,
        "status": task.status,
        "progress": progress,
        "lane": task.lane,
        "priority": task.priority,
        "price_points": task.price_points,
        "charged_points": task.charged_points,
        "created_at": task.created_at,
        "started_at": task.started_at,
        "ended_at": task.ended_at,
        "error": _fault(task.error),
        "is_draft": task.is_draft,
    }


def _fault(error: Mapping[str, Any] | None) -> FaultBody | None:
    return None if error is None else FaultBody(code=error["code"], message=error["message"])
