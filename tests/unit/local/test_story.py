"""The order that the demo tells, and the reasons that it gives for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from local.story import Start, order, reasons, starts_of

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def start(letter, node, began, ready=0.0, kind="model"):
    return Start(letter, node, kind, at(began), at(ready))


def test_a_node_is_ready_when_all_that_it_depends_on_is_done():
    nodes = [
        {"name": "cutout", "type": "cutout", "dependsOn": []},
        {"name": "model_1", "type": "model", "dependsOn": ["cutout"]},
        {"name": "model_2", "type": "model", "dependsOn": ["cutout"]},
    ]
    told = [
        {"type": "task.queued", "at": at(0).isoformat()},
        {"type": "task.started", "node": "cutout", "at": at(1).isoformat()},
        {"type": "task.progress", "node": "cutout", "at": at(1.5).isoformat()},
        {"type": "task.completed", "node": "cutout", "at": at(2.25).isoformat()},
        {"type": "task.started", "node": "model_1", "at": at(3).isoformat()},
        {"type": "task.started", "node": "model_1", "at": at(9).isoformat()},
    ]
    found = starts_of("A", {"createdAt": at(0).isoformat(), "nodes": nodes}, told)
    assert found == [
        Start("A", "cutout", "cutout", at(1), at(0)),
        Start("A", "model_1", "model", at(3), at(2.25)),
    ]


def test_whole_seconds_are_not_put_after_their_fractions():
    # As text "12:00:01+00:00" would sort after "12:00:01.5+00:00".
    rows = order([start("A", "late", 1.5), start("A", "early", 1), start("B", "other", 0.5, kind="compose")])
    assert {kind: [one.node for one in row] for kind, row in rows.items()} == {
        "compose": ["other"],
        "model": ["early", "late"],
    }


def test_where_the_heavy_tenant_went_first_everywhere_nothing_is_to_be_explained():
    starts = [start("A", "model_1", 1), start("A", "model_2", 2), start("B", "model_1", 3)]
    assert reasons(starts, heavy="A", light="B") == ["On every worker A's nodes went before B's."]


def test_a_light_tenant_that_went_first_because_the_other_was_not_ready_is_explained_so():
    starts = [start("B", "model_1", 1), start("A", "model_1", 3, ready=2)]
    (reason,) = reasons(starts, heavy="A", light="B")
    assert reason == "B:model_1 went before A:model_1: that was not ready, and a free worker waits for nobody."


def test_a_light_tenant_that_passed_a_node_that_could_have_run_is_not_explained_away():
    starts = [start("A", "model_1", 1), start("B", "model_1", 2), start("A", "model_2", 3, ready=0.5)]
    (reason,) = reasons(starts, heavy="A", light="B")
    assert reason.startswith("B:model_1 went before A:model_2, whose turn could have come 1.5 s earlier: either")
