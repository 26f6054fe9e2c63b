"""Faults that the audit of a chaos run reports."""

from __future__ import annotations

from uuid import UUID

import pytest

from local.audit import entries_by_task, faults_of, wanted_of

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
