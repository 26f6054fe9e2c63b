"""The promises that a run must have kept at its end, each checked on the rows that it left."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise, zip_longest
from typing import Any
from uuid import UUID

from artiway.delivery.feed.model import EntryId
from artiway.tasks.lifecycle import Rules
from tests.simulation.story import POINTS, Story

ENDS = {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"}
FAILURES = {"FAILED", "TIMEOUT"}
LEGAL = {
    (None, "PENDING"),
    ("PENDING", "QUEUED"),
    ("PENDING", "CANCELLED"),
    ("QUEUED", "QUEUED"),  # dispatch raises the attempt
    ("QUEUED", "PROCESSING"),
    ("QUEUED", "CANCELLED"),
    ("QUEUED", "TIMEOUT"),
    ("PROCESSING", "COMPLETED"),
    ("PROCESSING", "FAILED"),
    ("PROCESSING", "TIMEOUT"),
    ("PROCESSING", "CANCELLED"),
    ("FAILED", "PENDING"),
    ("TIMEOUT", "PENDING"),
}


class Promises:
    def __init__(self, story: Story) -> None:
        self.story, self.world = story, story.world
        self.tasks = {row["task_id"]: row for row in self.world.rows("SELECT * FROM task")}
        self.nodes = {row["node_id"]: row for row in self.world.rows("SELECT * FROM task_node")}
        self.before: dict[UUID, list[UUID]] = defaultdict(list)
        for edge in self.world.rows("SELECT node_id, depends_on_id FROM node_dependency"):
            self.before[edge["node_id"]].append(edge["depends_on_id"])
        self.history: dict[UUID, list[dict[str, Any]]] = defaultdict(list)
        for row in self.world.rows("SELECT * FROM node_history ORDER BY node_id, version"):
            self.history[row["node_id"]].append(row)

    def check(self) -> None:
        assert self.tasks.keys() >= {task_id for _, task_id in self.story.tasks}
        self.tasks_ended_as_their_nodes_did()
        self.changes_are_legal_and_in_history()
        self.nodes_started_after_their_dependencies()
        self.dependents_of_failed_nodes_did_not_run()
        self.independent_branches_finished()
        self.nothing_started_after_a_failure_that_stops()
        self.retries_stay_within_their_limit()
        self.attempts_were_made_once()
        self.attempts_ended_as_reported()
        self.results_are_of_the_last_attempt()
        self.only_deliveries_were_charged()
        self.no_hold_or_slot_is_left()
        self.events_were_served_once_in_order()
        self.world.assert_invariants()

    def tasks_ended_as_their_nodes_did(self) -> None:
        for task_id, task in self.tasks.items():
            nodes = self._nodes_of(task_id)
            statuses = {node["status"] for node in nodes}
            assert task["ended_at"] is not None
            assert statuses <= ENDS
            is_delivered = any(node["is_result"] and node["status"] == "COMPLETED" for node in nodes)
            if statuses == {"COMPLETED"}:
                expected = "COMPLETED"
            elif task["cancel_requested_at"]:
                expected = "CANCELLED"
            else:
                expected = "PARTIAL" if is_delivered else "FAILED"
            assert task["status"] == expected

    def changes_are_legal_and_in_history(self) -> None:
        for node_id, node in self.nodes.items():
            rows = self.history[node_id]
            assert [row["version"] for row in rows] == list(range(node["version"] + 1))
            assert {(row["from_status"], row["to_status"]) for row in rows} <= LEGAL
            assert all(later["from_status"] == row["to_status"] for row, later in pairwise(rows))
            assert rows[-1]["to_status"] == node["status"]

    def nodes_started_after_their_dependencies(self) -> None:
        for node_id, before in self.before.items():
            starts = [row["changed_at"] for row in self.history[node_id] if row["to_status"] == "PROCESSING"]
            for other in before if starts else ():
                done = [row["changed_at"] for row in self.history[other] if row["to_status"] == "COMPLETED"]
                assert done, f"{self.nodes[node_id]['name']} ran, its dependency never finished"
                assert done[0] < starts[0], f"{self.nodes[node_id]['name']} started before its dependency finished"

    def dependents_of_failed_nodes_did_not_run(self) -> None:
        for node_id in self.nodes:
            if any(self.nodes[other]["status"] != "COMPLETED" for other in self._ancestors(node_id)):
                reached = {row["to_status"] for row in self.history[node_id]}
                assert reached <= {"PENDING", "CANCELLED"}

    def independent_branches_finished(self) -> None:
        for task_id, task in self.tasks.items():
            nodes = self._nodes_of(task_id) if task["cancel_requested_at"] is None else []
            is_stopped = task["on_failure"] == "stop" and any(node["status"] in FAILURES for node in nodes)
            for node in nodes:
                is_cut_off = any(self.nodes[other]["status"] in FAILURES for other in self._ancestors(node["node_id"]))
                assert (node["status"] == "CANCELLED") == is_cut_off or is_stopped

    def nothing_started_after_a_failure_that_stops(self) -> None:
        """Between a failure that was not retried in its transaction and a retry by the user no node starts."""
        for task_id, task in self.tasks.items():
            if task["on_failure"] != "stop":
                continue
            own = [node_id for node_id, node in self.nodes.items() if node["task_id"] == task_id]
            starts = [row["changed_at"] for one in own for row in self.history[one] if row["to_status"] == "PROCESSING"]
            for one in own:
                for row, later in zip_longest(self.history[one], self.history[one][1:]):
                    if row["to_status"] in FAILURES:
                        until = None if later is None else later["changed_at"]
                        assert not [at for at in starts if row["changed_at"] < at and (until is None or at < until)]

    def retries_stay_within_their_limit(self) -> None:
        most = Rules().retries + 1
        for node in self.nodes.values():
            assert node["failures"] <= most
            if node["status"] in FAILURES:
                is_final = node["error"]["code"] in ("INPUT_UNDECODABLE", "STEP_UNAVAILABLE", "CALL_REFUSED")
                is_stopped = self.tasks[node["task_id"]]["on_failure"] == "stop"
                assert node["failures"] == most or is_final or is_stopped

    def attempts_were_made_once(self) -> None:
        for node_id, node in self.nodes.items():
            rows = self.history[node_id]
            dispatched = [row["attempt"] for row in rows if row["from_status"] == row["to_status"] == "QUEUED"]
            claimed = [row["attempt"] for row in rows if row["to_status"] == "PROCESSING"]
            assert dispatched == list(range(1, node["attempt"] + 1))
            assert len(set(claimed)) == len(claimed)

    def attempts_ended_as_reported(self) -> None:
        kinds = {"COMPLETED": "result", "FAILED": "failure"}
        for node_id, rows in self.history.items():
            for row in rows:
                if kind := kinds.get(row["to_status"]):
                    assert (str(node_id), row["attempt"], kind) in self.world.reported

    def results_are_of_the_last_attempt(self) -> None:
        for node in self.nodes.values():
            if node["status"] == "COMPLETED" and node["pool"] == "http":
                assert node["output"][0]["httpStatus"] == 200
            elif node["status"] == "COMPLETED":
                assert f"/{node['node_id']}/{node['attempt']}/" in node["output"][0]["key"]

    def only_deliveries_were_charged(self) -> None:
        artefacts = {row["node_id"] for row in self.world.rows("SELECT node_id FROM artefact")}
        charged: dict[UUID, int] = defaultdict(int)
        for task_id, task in self.tasks.items():
            nodes = [node for node in self.nodes.values() if node["task_id"] == task_id]
            completed = [node for node in nodes if node["status"] == "COMPLETED"]
            delivered = [node for node in completed if node["node_id"] in artefacts or node["pool"] == "http"]
            assert task["charged_points"] == sum(node["price_points"] for node in delivered)
            assert {node["node_id"] for node in nodes if node["is_charged"]} == {
                node["node_id"] for node in delivered if node["price_points"]
            }
            charged[task["tenant_id"]] += task["charged_points"]
        for tenant_id, user_id in self.story.tenants:
            assert self.world.balance(tenant_id, user_id) == (POINTS - charged[tenant_id], 0)

    def no_hold_or_slot_is_left(self) -> None:
        assert self.world.rows("SELECT 1 FROM points_hold WHERE status = 'HELD'") == []
        assert self.world.rows("SELECT 1 FROM slot_in_use") == []
        assert self.world.mirrored_slots() == set()
        assert all(execution.is_over for execution in self.world.machine.executions.values())

    def events_were_served_once_in_order(self) -> None:
        """A client that reads from the beginning receives every number once."""
        for task_id, task in self.tasks.items():
            last, received = EntryId(), []
            reader = {"tenant_id": task["tenant_id"], "task_id": task_id}
            while events := self.world.events.available(**reader, last=last):
                received += [event.entry_id.sequence for event in events if event.entry_id.part == 0]
                assert [event.entry_id for event in events] == sorted({event.entry_id for event in events})
                assert events[0].entry_id > last
                last = events[-1].entry_id
            assert received == list(range(1, task["event_sequence"] + 1))

    def _nodes_of(self, task_id: UUID) -> list[dict[str, Any]]:
        return [node for node in self.nodes.values() if node["task_id"] == task_id and node["superseded_at"] is None]

    def _ancestors(self, node_id: UUID) -> set[UUID]:
        found: set[UUID] = set()
        waiting = list(self.before[node_id])
        while waiting:
            other = waiting.pop()
            if other not in found:
                found.add(other)
                waiting += self.before[other]
        return found
