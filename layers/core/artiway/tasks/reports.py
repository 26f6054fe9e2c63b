"""Parses a message of the progress queue into a Report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from artiway.tasks.contract import Fault, ReportData
from artiway.tasks.model import Answer, Failure, Output, Report, ReportKind


def report_from(kind: str, data: Mapping[str, Any], *, trace_id: str = "") -> Report:
    """Raises ValueError for a message that is not a report."""
    found = ReportData.model_validate(data)
    answer = None if found.answer is None else Answer(**found.answer.model_dump())
    report = Report(
        kind=ReportKind(kind),
        tenant_id=UUID(found.tenant_id),
        task_id=UUID(found.task_id),
        node_id=UUID(found.node_id),
        attempt=found.attempt,
        worker_id=found.worker_id,
        sequence=found.sequence,
        progress=found.progress,
        gpu_us=None if found.gpu_seconds is None else round(found.gpu_seconds * 1_000_000),
        outputs=tuple(Output(**output.model_dump()) for output in found.outputs),
        engine=None if found.engine is None else found.engine.as_wire(),
        failure=None if found.error is None else _failure(found.error, answer),
        trace_id=trace_id,
        answer=answer,
    )
    if report.kind is ReportKind.RESULT and not report.outputs and report.answer is None:
        raise ValueError("a result without outputs")
    if report.kind is ReportKind.FAILURE and report.failure is None:
        raise ValueError("a failure without an error")
    return report


def _failure(fault: Fault, answer: Answer | None) -> Failure:
    return Failure(fault.code, fault.message, fault.is_retryable, answer, fault.retry_after_seconds)
