"""Faults that the audit of a chaos run reports."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from local.audit import ReceivedCall, WantedRuns, entries_by_task, faults_of, run_faults, wanted_of

TASK = f"task_{UUID(int=7).hex}"
FREEZE, CONFIRM, CANCEL = ("FREEZE", -30, 30), ("CONFIRM", 0, -30), ("CANCEL", 30, -30)


def view(status, delivered, charged, *, price=30):
    nodes = [{"name": "cutout", "dependsOn": []}]
    nodes += [{"name": f"compose_{number}", "dependsOn": ["cutout"]} for number in (1, 2, 3)]
    results = [{"name": f"compose_{number + 1}"} for number in range(delivered)]
    return {
        "taskId": TASK,
        "status": status,
        "pricePoints": price,
        "chargedPoints": charged,
        "nodes": nodes,
        "results": results,
    }


def test_nodes_with_dependents_count_as_no_result():
    assert wanted_of(view("COMPLETED", 3, 30)) == 3


@pytest.mark.parametrize(
    ("found", "entries"),
    [
        (view("COMPLETED", 3, 30), [FREEZE, CONFIRM]),
        (view("PARTIAL", 2, 20), [FREEZE, ("CONFIRM", 10, -30)]),
        (view("FAILED", 0, 0), [FREEZE, CANCEL]),
    ],
    ids=["all pictures", "some pictures", "no picture"],
)
def test_hold_ended_once_for_delivery_is_right(found, entries):
    assert list(faults_of(found, entries)) == []


@pytest.mark.parametrize(
    ("found", "entries"),
    [
        (view("COMPLETED", 3, 30), []),
        (view("COMPLETED", 3, 30), [FREEZE]),
        (view("COMPLETED", 3, 30), [FREEZE, CANCEL]),
        (view("COMPLETED", 3, 30), [FREEZE, CONFIRM, CONFIRM]),
        (view("COMPLETED", 3, 30), [FREEZE, FREEZE, CONFIRM]),
        (view("COMPLETED", 3, 30), [CONFIRM, FREEZE]),
        (view("COMPLETED", 2, 20), [FREEZE, ("CONFIRM", 10, -30)]),
        (view("COMPLETED", 3, 20), [FREEZE, CONFIRM]),
        (view("PARTIAL", 2, 20), [FREEZE, CONFIRM]),
        (view("FAILED", 0, 0), [FREEZE, CONFIRM]),
        (view("FAILED", 1, 10), [FREEZE, ("CONFIRM", 20, -30)]),
        (view("PROCESSING", 0, 0), [FREEZE, CANCEL]),
    ],
    ids=[
        *("no entry", "open", "cancelled", "confirmed twice", "held twice", "wrong order", "picture lost"),
        *("wrong charge", "charged too much", "charged without picture", "failed with picture", "not ended"),
    ],
)
def test_every_other_end_of_a_hold_is_reported(found, entries):
    assert list(faults_of(found, entries)) != []


def test_ledger_entries_are_grouped_by_task_oldest_first():
    rows = [
        {"kind": "CONFIRM", "balanceDelta": 0, "frozenDelta": -30, "reference": f"task:{UUID(int=7)}"},
        {"kind": "FREEZE", "balanceDelta": -30, "frozenDelta": 30, "reference": f"task:{UUID(int=7)}"},
        {"kind": "GIFT", "balanceDelta": 100, "frozenDelta": 0, "reference": "a start"},
    ]
    assert entries_by_task(rows) == {TASK: [FREEZE, CONFIRM]}


FIRST = datetime(2026, 11, 18, 4, 0, tzinfo=UTC)
WANTED = WantedRuns("job_1", frozenset({FIRST, FIRST + timedelta(minutes=1)}))


def run(number, *, minute=None, **changes):
    time = FIRST + timedelta(minutes=number if minute is None else minute)
    return {
        "runId": f"run_{number}",
        "scheduledTime": time.isoformat(),
        "startedAt": time.isoformat(),
        "state": "SUCCESS",
        "lastError": None,
        "idempotencyKey": f"job_1:{number}",
        **changes,
    }


def call(number, key=None):
    return ReceivedCall(key or f"job_1:{number}", f"run_{number}")


def test_call_that_repeats_with_its_key_is_right():
    assert list(run_faults(WANTED, [run(0), run(1)], [call(0), call(1), call(1)])) == []


@pytest.mark.parametrize(
    ("runs", "calls", "fault"),
    [
        ([run(0)], [call(0)], "has no run for"),
        ([run(0), run(1), run(2)], [call(0), call(1), call(2)], "which is no time of it"),
        ([run(0), run(1), run(2, minute=1)], [call(0), call(1), call(2)], "2 runs for"),
        ([run(0), run(1, state="FAILED", lastError="HTTP 500")], [call(0), call(1)], "is FAILED"),
        ([run(0), run(1, state="RUNNING")], [call(0), call(1)], "is RUNNING"),
        ([run(0), run(1)], [call(0)], "was not called"),
        ([run(0), run(1)], [call(0), call(1), call(1, "other")], "with the keys"),
        ([run(0), run(1, idempotencyKey="job_1:0")], [call(0), call(1, "job_1:0")], "is the key of 2 runs"),
        ([run(0), run(1)], [call(0), call(1), call(7)], "which does not exist"),
        (
            [run(0), run(1, startedAt=(FIRST + timedelta(seconds=59)).isoformat())],
            [call(0), call(1)],
            "started before its time",
        ),
    ],
)
def test_lost_and_doubled_runs_are_reported(runs, calls, fault):
    found = list(run_faults(WANTED, runs, calls))
    assert len(found) == 1
    assert fault in found[0]
