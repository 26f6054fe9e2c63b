"""The order of starts that the demo prints, and the reasons for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from local.story import Start, order, reasons, starts_of

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def start(tenant, node, began, ready=0.0, kind="model"):
    return Start(tenant, node, kind, at(began), at(ready))


def test_node_is_ready_after_its_last_dependency():
    nodes = [
        {"name": "cutout", "type": "cutout", "dependsOn": []},
        {"name": "model_1", "type": "model", "dependsOn": ["cutout"]},
        {"name": "model_2", "type": "model", "dependsOn": ["cutout"]},
    ]
    events = [
        {"type": "task.queued", "at": at(0).isoformat()},
        {"type": "task.started", "node": "cutout", "at": at(1).isoformat()},
        {"type": "task.progress", "node": "cutout", "at": at(1.5).isoformat()},
        {"type": "task.completed", "node": "cutout", "at": at(2.25).isoformat()},
        {"type": "task.started", "node": "model_1", "at": at(3).isoformat()},
        {"type": "task.started", "node": "model_1", "at": at(9).isoformat()},
    ]
    found = starts_of("A", {"createdAt": at(0).isoformat(), "nodes": nodes}, events)
    assert found == [
        Start("A", "cutout", "cutout", at(1), at(0)),
        Start("A", "model_1", "model", at(3), at(2.25)),
    ]


def test_whole_seconds_sort_before_their_fractions():
    # As text "12:00:01+00:00" would sort after "12:00:01.5+00:00".
    rows = order([start("A", "late", 1.5), start("A", "early", 1), start("B", "other", 0.5, kind="compose")])
    assert {kind: [one.node for one in row] for kind, row in rows.items()} == {
        "compose": ["other"],
        "model": ["early", "late"],
    }


def test_heavy_tenant_first_everywhere_needs_no_reason():
    starts = [start("A", "model_1", 1), start("A", "model_2", 2), start("B", "model_1", 3)]
    assert reasons(starts, heavy="A", light="B") == ["On every worker A's nodes went before B's."]


def test_light_tenant_first_while_other_was_not_ready():
    starts = [start("B", "model_1", 1), start("A", "model_1", 3, ready=2)]
    (reason,) = reasons(starts, heavy="A", light="B")
    assert reason == "B:model_1 went before A:model_1, which was not ready: a free worker does not wait."


def test_light_tenant_before_ready_node_is_reported():
    starts = [start("A", "model_1", 1), start("B", "model_1", 2), start("A", "model_2", 3, ready=0.5)]
    (reason,) = reasons(starts, heavy="A", light="B")
    assert reason.startswith("B:model_1 went before A:model_2, which was ready 1.5 s earlier: either")
