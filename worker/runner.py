"""Runs one attempt from its inputs to its report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from artiway.tasks.contract import Node, Output
from worker.attempt import Attempt, Stop, Stopped
from worker.engines.weights import Weights
from worker.errors import Cancelled, InputForeign, InputMissing, InputTooLarge, StoreUnavailable, WorkFailed
from worker.logs import Logger
from worker.pictures import check
from worker.ports import ObjectMissing, ObjectTooLarge, OutsideFailed, Store
from worker.reporting import Reporter
from worker.sandbox import Job, Made
from worker.settings import WorkerSettings
from worker.steps import read_params, step_of

logger = Logger("runner")
MAX_INPUTS = 8


class Slot(Protocol):
    def run(self, job: Job, attempt: Attempt, report: Callable[[float], None], *, time_limit_s: float) -> Made: ...


class Runner:
    def __init__(self, settings: WorkerSettings, store: Store, weights: Weights) -> None:
        self._settings, self._store, self._weights = settings, store, weights

    def run(self, attempt: Attempt, slot: Slot, reporter: Reporter) -> None:
        """One outcome at most: a result, a failure, or silence if the lease is no longer ours."""
        began = time.monotonic()
        reporter.started()
        try:
            made, gpu_s = self._make(attempt, slot, reporter)
            output = self._upload(attempt, made)
            attempt.begin_report()
            reporter.result([output], made.engine, gpu_s)
            logger.info("node done", node_id=attempt.node.node_id, attempt=attempt.node.attempt, gpu_s=round(gpu_s, 2))
        except Stopped as stopped:
            self._stopped(attempt, reporter, stopped.reason, time.monotonic() - began)
        except WorkFailed as error:
            self._failed(attempt, reporter, error, time.monotonic() - began)

    def _make(self, attempt: Attempt, slot: Slot, reporter: Reporter) -> tuple[Made, float]:
        node = attempt.node
        step = step_of(node.type, node.params)
        read_params(step, node.params)  # before anything is fetched
        inputs = self._inputs(attempt)
        engine = self._settings.engine_of(node.type)
        model = self._weights.choose(engine, step.name, node.model)
        path = self._weights.fetch(model) if model else None
        attempt.check()
        began = time.monotonic()
        job = Job(
            node.type,
            engine,
            node.params,
            inputs,
            model,
            str(path) if path else None,
            self._weights.spec(model).model_dump(by_alias=True) if model else None,
        )
        limit_s = min(node.time_limit_seconds, self._settings.time_limit_max_s)
        made = slot.run(
            job, attempt, lambda percent: reporter.progress(percent, time.monotonic() - began), time_limit_s=limit_s
        )
        return made, time.monotonic() - began

    def _inputs(self, attempt: Attempt) -> Mapping[str, bytes]:
        node = attempt.node
        if len(node.inputs) > MAX_INPUTS:
            raise InputTooLarge(f"a node takes at most {MAX_INPUTS} pictures")
        found: dict[str, bytes] = {}
        for reference in node.inputs:
            attempt.check()
            require_own(node, reference.key)
            try:
                data = self._store.read(reference.key, max_bytes=self._settings.input_max_bytes)
            except ObjectMissing as error:
                raise InputMissing(f"the input {reference.name} does not exist any more") from error
            except ObjectTooLarge as error:
                limit = self._settings.input_max_bytes
                raise InputTooLarge(f"the input {reference.name} is larger than {limit} bytes") from error
            except OutsideFailed as error:
                raise StoreUnavailable("the input could not be read") from error
            check(data, self._settings.limits)  # what the header tells is refused before a child sees the bytes
            found[reference.name] = data
        return found

    def _upload(self, attempt: Attempt, made: Made) -> Output:
        attempt.check()
        key = f"{attempt.node.output_prefix.rstrip('/')}/{made.name}.{made.extension}"
        try:
            self._store.write(key, made.data, made.content_type)
        except OutsideFailed as error:
            raise StoreUnavailable("the output could not be written") from error
        return Output(
            name=made.name,
            key=key,
            content_type=made.content_type,
            width=made.width,
            height=made.height,
            bytes=len(made.data),
        )

    def _failed(self, attempt: Attempt, reporter: Reporter, error: WorkFailed, gpu_s: float) -> None:
        node = attempt.node
        logger.warning("node failed", node_id=node.node_id, attempt=node.attempt, code=error.code, error=error.message)
        try:
            attempt.begin_report()
            reporter.failure(error, gpu_s)
        except Stopped as stopped:
            self._stopped(attempt, reporter, stopped.reason, gpu_s)

    def _stopped(self, attempt: Attempt, reporter: Reporter, reason: Stop, gpu_s: float) -> None:
        node = attempt.node
        logger.info("node stopped", node_id=node.node_id, attempt=node.attempt, reason=reason)
        # Drained nodes are handed back by the drain itself; a fenced one is another attempt's by now.
        if reason is Stop.CANCELLED:
            reporter.failure(Cancelled("stopped on request"), gpu_s)


def require_own(node: Node, key: str) -> None:
    """A second fence behind the one in `internal`: a node reads its own tenant's pictures and no others."""
    allowed = (f"inputs/{node.tenant_id}/", f"outputs/{node.tenant_id}/")
    if not key.startswith(allowed) or ".." in key.split("/"):
        raise InputForeign("an input of this node belongs to somebody else")
