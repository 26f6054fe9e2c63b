"""HTTP nodes of a flow: their parameters, the nodes that a body names, their calls and reports. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from artiway import ids
from artiway.jobs.chains.model import PLACEHOLDERS, filled
from artiway.jobs.definitions.model import DEFAULT_CALL_TIMEOUT_S, body_text, http_task_of
from artiway.jobs.definitions.validation import http_fault, secrets_in
from artiway.jobs.messages import Call, Outcome, Result
from artiway.jobs.model import CallKeys, InvalidJob
from artiway.outbox.model import Message
from artiway.tasks.messages import PROGRESS
from artiway.tasks.model import CALLER, HTTP, FlowNode, InvalidRequest, Node, PlannedNode, Source, Task

# Of the progress of a task a call counts as so much work of a GPU.
COST_US = 1_000_000
# No call begins later than this after it was handed over, so that none is left when the lease ends.
CALL_WAIT_S = 90
_PLACEHOLDER = re.compile(r"\{\{\s*nodes\.([^{}]*?)\s*\}\}")
_REFERENCE = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_-]{0,63})\.(answer|httpStatus|url)")
_CODES = {
    Outcome.FAILED: "CALL_FAILED",
    Outcome.REFUSED: "CALL_REFUSED",
    Outcome.EXPIRED: "CALL_EXPIRED",
}

Outputs = Mapping[str, Sequence[Mapping[str, Any]]]


def planned(node: FlowNode, others: Mapping[str, FlowNode], *, price_points: int, body_bytes: int) -> PlannedNode:
    """Raises InvalidRequest. A node that the body names is a dependency, as the node of an input is."""
    place = f"nodes.{node.name}"
    if node.step is not None:
        raise InvalidRequest(place, "give either a type or a tool")
    if node.uploads or node.sources:
        reason = "an HTTP node takes no inputs; name a node in its body: {{nodes.NAME.url}}"
        raise InvalidRequest(f"{place}.inputs", reason)
    try:
        task = http_task_of(node.params, place="")
    except InvalidJob as error:
        (fault,) = error.details["fields"]
        raise InvalidRequest(f"{place}.params.{fault['field']}", fault["reason"]) from None
    if (found := http_fault(task, body_bytes=body_bytes)) is not None:
        raise InvalidRequest(f"{place}.params.{found[0]}", found[1])
    params = task.model_dump(mode="json", by_alias=True, exclude_none=True)
    del params["type"]
    named = _named(f"{place}.params.body", params, others)
    return PlannedNode(
        name=node.name,
        type=HTTP,
        step=HTTP,
        params=params,
        sources=tuple(Source(name, node=name) for name in named),
        depends_on=tuple(dict.fromkeys((*node.depends_on, *named))),
        cost_us=COST_US,
        price_points=price_points,
        is_result=True,
        pool=HTTP,
    )


def _named(place: str, params: Mapping[str, Any], others: Mapping[str, FlowNode]) -> list[str]:
    found = _PLACEHOLDER.findall(body_text(params) or "")
    if len(found) > PLACEHOLDERS:
        raise InvalidRequest(place, f"has {len(found)} placeholders of nodes; at most {PLACEHOLDERS}")
    names = []
    for text in found:
        reference = _REFERENCE.fullmatch(text)
        if reference is None:
            raise InvalidRequest(place, f"nodes.{text[:64]}: after a node's name comes answer, httpStatus or url")
        name, field = reference.groups()
        if name not in others:
            raise InvalidRequest(place, f"there is no node {name}")
        if (others[name].type == HTTP) == (field == "url"):
            makes = "an answer and no picture" if field == "url" else "a picture and no answer"
            raise InvalidRequest(place, f"{name} makes {makes}")
        names.append(name)
    return list(dict.fromkeys(names))


def call_of(
    task: Task, node: Node, outputs: Outputs, keys: CallKeys, *, address: Callable[[str], str], now: datetime
) -> Call:
    """`outputs` are those of the nodes that the body names, `address` returns a signed address of a stored picture."""
    params = node.params
    wanted = secrets_in(params)
    body = filled(params.get("body"), lambda text: _PLACEHOLDER.sub(lambda one: _value(one, outputs, address), text))
    return Call(
        tenant_id=node.tenant_id,
        run_id=node.node_id,
        job_id=task.task_id,
        generation=1,
        attempt=node.attempt,
        # A retry by the user has it too: it repeats a call that did not succeed.
        idempotency_key=f"{ids.to_wire('task', task.task_id)}:{node.name}",
        scheduled_at=None,
        not_after=now + timedelta(seconds=CALL_WAIT_S),
        url=str(params["url"]),
        method=str(params["method"]),
        headers={str(name): str(value) for name, value in (params.get("headers") or {}).items()},
        body=body_text({"body": body}),
        timeout_s=int(params.get("timeoutSeconds") or DEFAULT_CALL_TIMEOUT_S),
        success_statuses=[int(status) for status in params.get("successStatuses") or ()],
        secrets={name: value for name, value in keys.secrets.get(node.tenant_id, {}).items() if name in wanted},
        signing_keys=list(keys.signing_keys.get(node.tenant_id, ())),
        trace_id=task.trace_id,
        node_of=task.task_id,
    )


def _value(found: re.Match[str], outputs: Outputs, address: Callable[[str], str]) -> str:
    reference = _REFERENCE.fullmatch(found[1])
    assert reference is not None, "checked when the flow was submitted"
    name, field = reference.groups()
    output = next(iter(outputs.get(name) or ()), {})
    if field == "url":
        return address(str(output["key"])) if "key" in output else ""
    return str(output.get("text" if field == "answer" else field, ""))


def report_of(result: Result) -> Message:
    """The result of a call as the report of a node: its attempt is fenced, retried and settled as any other."""
    data: dict[str, Any] = {
        "nodeId": str(result.run_id),
        "taskId": str(result.node_of),
        "tenantId": str(result.tenant_id),
        "attempt": result.attempt,
        "workerId": CALLER,
        "progress": 100,
    }
    if result.http_status is not None:
        answer = {"httpStatus": result.http_status, "text": result.answer or "", "elapsedMs": result.elapsed_ms or 0}
        data["answer"] = answer
    if result.outcome is not Outcome.SUCCEEDED:
        data["error"] = {
            "code": _CODES[result.outcome],
            "message": result.error or "",
            "isRetryable": result.outcome is not Outcome.REFUSED,
            "retryAfterSeconds": result.retry_after_s or 0,
        }
    kind = "result" if result.outcome is Outcome.SUCCEEDED else "failure"
    return Message(PROGRESS, f"node:{result.run_id}", kind, data, tenant_id=result.tenant_id)
