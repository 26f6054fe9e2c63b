"""Runs one attempt: reads the inputs, runs the engine, uploads the output and reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from artiway.tasks.contract import Node, Output
from worker.attempt import Attempt, Stop, Stopped
from worker.engines.weights import Weights
from worker.errors import (
    AttemptFailed,
    Cancelled,
    InputForeign,
    InputMissing,
    InputTooLarge,
    ModelChecksum,
    ModelUnknown,
    OutputUnexpected,
    StoreUnavailable,
)
from worker.logs import Logger
from worker.pictures import check, read_header
from worker.ports import ObjectExists, ObjectMissing, ObjectTooLarge, ServiceFailed
from worker.reporting import Reporter
from worker.sandbox import EngineResult, Job
from worker.settings import WorkerSettings
from worker.steps import COMFYUI_STEPS, IMAGES_API_STEPS, MAX_INPUTS, Step, read_params, step_of
from worker.transfer import Transfer

logger = Logger("runner")
SERVER_ENGINES = ("comfyui", "images_api")
Renew = Callable[[], object]


class Slot(Protocol):
    def run(
        self, job: Job, attempt: Attempt, report: Callable[[float], None], *, time_limit_s: float
    ) -> EngineResult: ...


class Runner:
    def __init__(self, settings: WorkerSettings, transfer: Transfer, weights: Weights) -> None:
        self._settings, self._transfer, self._weights = settings, transfer, weights

    def run(self, attempt: Attempt, slot: Slot, reporter: Reporter, *, renew: Renew) -> None:
        """Report a result or a failure, or nothing if the worker has lost the lease. `renew` sends a heartbeat."""
        started_at = time.monotonic()
        try:
            result, gpu_s = self._run_engine(attempt, slot, reporter, renew)
            output = self._upload(attempt, result, renew)
            attempt.begin_report()
            reporter.result([output], result.engine, gpu_s)
            logger.info("node done", node_id=attempt.node.node_id, attempt=attempt.node.attempt, gpu_s=round(gpu_s, 2))
        except Stopped as stopped:
            self._stopped(attempt, reporter, stopped.reason, time.monotonic() - started_at)
        except AttemptFailed as error:
            self._failed(attempt, reporter, error, time.monotonic() - started_at)

    def _run_engine(self, attempt: Attempt, slot: Slot, reporter: Reporter, renew: Renew) -> tuple[EngineResult, float]:
        node = attempt.node
        step = step_of(node.type, node.params)
        read_params(step, node.params)  # refuse bad parameters before reading inputs
        inputs = self._inputs(attempt, renew)
        pixels = main_pixels(step, inputs)
        job, note = self._job(attempt, step, inputs, pixels)
        attempt.check()
        started_at = time.monotonic()
        limit_s = min(node.time_limit_seconds, self._settings.time_limit_max_s)
        result = slot.run(
            job,
            attempt,
            lambda percent: reporter.progress(percent, time.monotonic() - started_at),
            time_limit_s=limit_s,
        )
        if note:
            result = replace(result, engine=replace(result.engine, detail=f"{result.engine.detail}; {note}"))
        return result, time.monotonic() - started_at

    def _job(self, attempt: Attempt, step: Step, inputs: Mapping[str, bytes], pixels: int) -> tuple[Job, str]:
        """The job for the first engine of the step that has what it needs, and why an engine before it has not."""
        node = attempt.node
        names = self._settings.engines_of(step)
        note = ""
        for name in names:
            if name in SERVER_ENGINES and not self._serves(name, step) and name != names[-1]:
                continue
            try:
                model = self._weights.choose(name, step.name, node.model, pixels)
                path = self._weights.fetch(model) if model else None
            except (ModelUnknown, ModelChecksum, StoreUnavailable) as error:
                if name == names[-1]:
                    raise
                if self._weights.serves(name, step.name):  # a fault, and not a step that the engine never serves
                    logger.error("engine not used", engine=name, code=error.code, error=error.message, step=step.name)
                    note = f"not made by {name}: {error.message}"
                continue
            spec = self._weights.spec(model).model_dump(by_alias=True) if model else None
            return Job(node.type, name, node.params, inputs, model, str(path) if path else None, spec), note
        raise ModelUnknown(f"no engine is configured for the step {step.name}")

    def prepare(self) -> list[str]:
        """Fetch the weights that the engines of this worker need, and return why some could not be had."""
        wanted = {
            model: None
            for step in self._settings.steps
            for engine in self._settings.engines_of(step)
            for model in self._weights.needed(engine, step.name)
        }
        faults = []
        for model in wanted:
            try:
                self._weights.fetch(model)
            except (ModelUnknown, ModelChecksum, StoreUnavailable) as error:
                faults.append(error.message)
        return faults

    def neural_steps(self) -> list[str]:
        """The steps that this worker serves with a network, as far as it has what the network needs."""
        return [
            step.name
            for step in self._settings.steps
            if any(name != "preview" and self._serves(name, step) for name in self._settings.engines_of(step))
        ]

    def _serves(self, engine: str, step: Step) -> bool:
        if engine == "comfyui":
            return bool(self._settings.comfyui_url) and step.name in COMFYUI_STEPS
        if engine == "images_api":
            return bool(self._settings.images_api_url) and step.name in IMAGES_API_STEPS
        return self._weights.has(engine, step.name)

    def _inputs(self, attempt: Attempt, renew: Renew) -> Mapping[str, bytes]:
        node = attempt.node
        if len(node.inputs) > MAX_INPUTS:
            raise InputTooLarge(f"a node takes at most {MAX_INPUTS} pictures")
        found: dict[str, bytes] = {}
        for reference in node.inputs:
            attempt.check()
            require_own(node, reference.key)
            try:
                data = self._transfer.read(
                    attempt, reference.key, max_bytes=self._settings.input_max_bytes, renew=renew
                )
            except ObjectMissing as error:
                raise InputMissing(f"the input {reference.name} does not exist any more") from error
            except ObjectTooLarge as error:
                limit = self._settings.input_max_bytes
                raise InputTooLarge(f"the input {reference.name} is larger than {limit} bytes") from error
            except ServiceFailed as error:
                raise StoreUnavailable("the input could not be read") from error
            check(data, self._settings.limits)  # refuse by the header before a child gets the bytes
            found[reference.name] = data
        return found

    def _upload(self, attempt: Attempt, result: EngineResult, renew: Renew) -> Output:
        wanted = (result.name, result.content_type)
        output = next((one for one in attempt.node.outputs if (one.name, one.content_type) == wanted), None)
        if output is None:
            raise OutputUnexpected(f"the node has no output {result.name} of the type {result.content_type}")
        try:
            self._transfer.write(attempt, output, result.data, renew=renew)
        except (ServiceFailed, ObjectExists) as error:
            raise StoreUnavailable("the output could not be written") from error
        return Output(
            name=result.name,
            key=output.key,
            content_type=result.content_type,
            width=result.width,
            height=result.height,
            bytes=len(result.data),
        )

    def _failed(self, attempt: Attempt, reporter: Reporter, error: AttemptFailed, gpu_s: float) -> None:
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
        # The drain releases drained nodes; a fenced node belongs to another attempt.
        if reason is Stop.CANCELLED:
            reporter.failure(Cancelled("stopped on request"), gpu_s)


def main_pixels(step: Step, inputs: Mapping[str, bytes]) -> int:
    """The size of the main input, by its header; 0 if the step has none."""
    data = next((inputs[name] for name in step.main if name in inputs), None)
    if data is None:
        return 0
    header = read_header(data)
    return header.width * header.height


def require_own(node: Node, key: str) -> None:
    """Refuse inputs of other tenants. `internal` checks the same; this is the second check."""
    allowed = (f"inputs/{node.tenant_id}/", f"outputs/{node.tenant_id}/")
    if not key.startswith(allowed) or ".." in key.split("/"):
        raise InputForeign("an input of this node belongs to another tenant")
