"""Checks the task of a TASK or FLOW job as its submission would be checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from artiway import ids
from artiway.jobs.model import TaskType
from artiway.jobs.submissions import flow_node
from artiway.tasks.catalogue import Catalogue
from artiway.tasks.model import InvalidRequest, Plan
from artiway.tasks.service import Inputs

CheckCalls = Callable[[UUID, Plan], None]


class SubmissionCheck:
    """An input may expire later; then the run fails and says so. Each submission extends the life of its inputs."""

    def __init__(
        self, catalogue: Catalogue, inputs: Inputs, *, refusal_of: Callable[[str], str | None], check_calls: CheckCalls
    ) -> None:
        self._catalogue, self._inputs, self._refusal_of = catalogue, inputs, refusal_of
        self._check_calls = check_calls

    def check(self, *, tenant_id: UUID, task_type: TaskType, task: Mapping[str, Any]) -> None:
        """Raises what a submission would, except for the tenant's limits and points."""
        if task_type is TaskType.TASK:
            inputs = {name: ids.from_wire("inp", one) for name, one in (task.get("inputs") or {}).items()}
            plan = self._catalogue.plan(
                str(task["tool"]), inputs=inputs, params=task.get("params") or {}, count=task.get("count"), seed=0
            )
        else:
            plan = self._catalogue.flow([flow_node(node) for node in task["nodes"]], seed=0)
        url = task.get("webhookUrl")
        if url is not None and (reason := self._refusal_of(url)) is not None:
            raise InvalidRequest("task.webhookUrl", reason)
        self._check_calls(tenant_id, plan)
        uploads = [one.input_id for node in plan.nodes for one in node.sources if one.input_id is not None]
        self._inputs.inspect(tenant_id, list(dict.fromkeys(uploads)))
