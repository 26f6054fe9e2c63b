"""The contract between workers and the platform, as both sides read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from artiway.tasks import contract
from artiway.tasks.model import ReportKind
from artiway.tasks.reports import report_from

EVENTS = Path(__file__).parents[3] / "events"
NODE = "018f3c1a-7b00-7000-8000-000000000020"
REPORT = {"nodeId": NODE, "taskId": NODE, "tenantId": NODE, "attempt": 1, "workerId": "w1", "sequence": 3}


@pytest.mark.parametrize("path", sorted(EVENTS.glob("internal.*.json")), ids=lambda path: path.name)
def test_sample_calls_of_internal_fit_the_contract(path):
    request = contract.REQUEST.validate_python(json.loads(path.read_text()))
    assert request.contract == contract.VERSION
    assert contract.REQUEST.validate_python(request.as_wire()) == request


def test_call_without_version_counts_as_first():
    claim = contract.REQUEST.validate_python({"action": "claim", "workerId": "w1", "nodeId": NODE, "attempt": 1})
    assert claim.contract == 1


@pytest.mark.parametrize(
    "change",
    [
        {"contract": 99},
        {"action": "steal"},
        {"workerId": ""},
        {"attempt": -1},
        {"attempt": "one"},
        {"nodeId": None},
    ],
    ids=str,
)
def test_call_outside_the_contract_is_refused(change):
    good = {"action": "claim", "workerId": "w1", "nodeId": NODE, "attempt": 1}
    with pytest.raises(ValidationError):
        contract.REQUEST.validate_python({**good, **change})


def test_unknown_fields_of_newer_sender_are_ignored():
    answer = {"outcome": "gone", "node": None, "contract": 1, "reason": "added later"}
    assert contract.ClaimAnswer.model_validate(answer).outcome is contract.ClaimOutcome.GONE


def test_answers_of_the_release_before_are_readable():
    node = {"nodeId": NODE, "taskId": NODE, "tenantId": NODE, "attempt": 1, "type": "cutout", "outputPrefix": "o/"}
    claimed = contract.ClaimAnswer.model_validate({"contract": 1, "outcome": "claimed", "node": node})
    assert claimed.node is not None
    assert (claimed.node.urls, claimed.node.outputs) == ({}, [])
    beat = contract.BeatAnswer.model_validate({"nodes": [{"nodeId": NODE, "verdict": "go"}], "drain": False})
    assert (beat.settings, beat.nodes[0].urls) == (None, {})
    assert contract.Terms.model_validate({"leaseSeconds": 30, "beatSeconds": 10}).settings is None


def test_answer_of_unknown_version_is_refused():
    with pytest.raises(ValidationError, match="contract version 2"):
        contract.Terms.model_validate({"contract": 2, "leaseSeconds": 30, "beatSeconds": 10})


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("progress", {"progress": 101}),
        ("progress", {"gpuSeconds": -1}),
        ("progress", {"nodeId": "not a uuid"}),
        ("progress", {"contract": 99}),
        ("result", {}),
        ("failure", {}),
        ("song", {}),
        ("failure", {"error": {"code": ""}}),
    ],
    ids=str,
)
def test_report_outside_the_contract_is_refused(kind, change):
    with pytest.raises(ValueError):
        report_from(kind, {**REPORT, **change})


def test_report_of_the_worker_reads_back_whole():
    data = contract.ReportData(
        node_id=NODE,
        task_id=NODE,
        tenant_id=NODE,
        attempt=2,
        worker_id="w1",
        sequence=4,
        progress=100,
        gpu_seconds=1.25,
        outputs=[contract.Output(name="o", key="k", content_type="image/png", width=2, height=3, bytes=4)],
        engine=contract.Engine(name="preview"),
    )
    report = report_from("result", data.as_wire())
    assert report.kind is ReportKind.RESULT
    assert (report.attempt, report.progress, report.gpu_us) == (2, 100, 1_250_000)
    assert report.outputs[0].as_json()["contentType"] == "image/png"
