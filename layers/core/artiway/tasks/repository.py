"""Tasks and nodes in PostgreSQL. Changes, events and messages commit in one transaction."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from artiway import ids
from artiway.circuits.model import Attempt, Circuit, StoppedSteps
from artiway.circuits.repository import stopped
from artiway.outbox.model import Message
from artiway.outbox.repository import Outbox
from artiway.platform import sql, tracing
from artiway.platform.clock import Clock
from artiway.platform.database import Database, Row, Transaction
from artiway.platform.logs import Logger
from artiway.scheduling.model import Priority
from artiway.tasks import dag, messages
from artiway.tasks.durations import Windows
from artiway.tasks.model import (
    Claim,
    Claimed,
    Failure,
    Finished,
    Held,
    LaneLoad,
    NewNode,
    NewTask,
    Node,
    NodeProgress,
    NodeStatus,
    NoSuchTask,
    Occurrence,
    OnFailure,
    Published,
    ReleasedSlot,
    Renewal,
    Report,
    Task,
    TaskFilter,
    TaskOfTenant,
    TaskSearch,
    TaskStatus,
    TenantLimits,
    Trial,
    Waiting,
    WorkerCard,
)

SQL = sql.load("artiway.tasks")
logger = Logger("tasks")


class PostgresTaskTransaction:
    """The open transaction of one tenant. A caller locks the task before it changes the task's nodes."""

    def __init__(self, tx: Transaction, tenant_id: UUID, clock: Clock) -> None:
        self._tx, self._tenant_id, self._clock = tx, tenant_id, clock
        self.messages: list[Message] = []
        self.released: list[ReleasedSlot] = []
        self.ready: list[Waiting] = []
        self.published: list[Published] = []
        self.attempts: list[Attempt] = []
        self._occurrences: list[tuple[Task, Occurrence]] = []
        self._sequences: dict[UUID, int] = {}

    # Messages and events

    def send(self, message: Message) -> None:
        self.messages.append(message)

    def publish(self, task: Task, occurrence: Occurrence) -> None:
        """Add an event of the task. Clients receive the events after the commit, in this order."""
        self._occurrences.append((task, occurrence))

    def flush(self, outbox: Outbox) -> None:
        """Number and store the new events, and store the messages, in one request. The caller has locked the tasks."""
        at = self._clock.now()
        for task, occurrence in self._occurrences:
            sequence = self._sequences[task.task_id] = self._sequences.get(task.task_id, task.event_sequence) + 1
            body = messages.event_body(task.task_id, occurrence, sequence=sequence, at=at)
            self.published.append(Published(task.task_id, sequence, occurrence.event.short, body))
            self.messages.append(messages.notice(self._tenant_id, task.user_id, body, event=(task.task_id, sequence)))
        if not self.published:
            outbox.publish(self._tx, self.messages)
            return
        events = [
            {"task_id": str(one.task_id), "sequence": one.sequence, "event": one.event, "body": one.body}
            for one in self.published
        ]
        prepared = outbox.prepare(self.messages)
        parameters = {**prepared.parameters, "events": json.dumps(events, ensure_ascii=False)}
        outbox.deliver_after(self._tx, prepared, self._tx.all(SQL["publish"], parameters))

    # Tasks

    def limits(self) -> TenantLimits:
        row = self._tx.one(SQL["tenant_limits"])
        if row is None:
            raise NoSuchTask
        return TenantLimits(**row)

    def lock_submissions(self) -> None:
        self._tx.run(SQL["lock_submissions"])

    def live_tasks(self) -> int:
        return self._number(SQL["count_live_tasks"], "live")

    def recent_ends(self, *, window_s: int) -> int:
        return self._number(SQL["count_recent_ends"], "ended", {"window_s": window_s})

    def add_task(self, task: NewTask) -> Task:
        row = self._tx.one(
            SQL["insert_task"],
            {
                "task_id": task.task_id,
                "user_id": task.user_id,
                "tool": task.tool,
                "name": task.name,
                "hold_id": task.hold_id,
                "lane": task.lane,
                "pool": task.pool,
                "priority": task.priority,
                "params": Jsonb(task.params),
                "price_points": task.price_points,
                "webhook_url": task.webhook_url,
                "eta_s": task.eta_s,
                "eta_model_s": task.eta_model_s,
                "trace_id": tracing.current(),
                "submission_key": task.submission_key,
                "is_draft": task.is_draft,
                "request": Jsonb(task.request),
                "on_failure": task.on_failure,
            },
        )
        assert row is not None
        return _task(row)

    def task_with_key(self, submission_key: str) -> Task | None:
        row = self._tx.one(SQL["task_with_key"], {"submission_key": submission_key})
        return None if row is None else _task(row)

    def add_nodes(self, task: Task, nodes: Sequence[NewNode]) -> None:
        rows = [
            {
                "node_id": str(node.node_id),
                "position": node.position,
                "name": node.name,
                "type": node.type,
                "step": node.step,
                "model": node.model,
                "params": node.params,
                "inputs": list(node.inputs),
                "cost_us": node.cost_us,
                "price_points": node.price_points,
                "is_result": node.is_result,
                "in_degree": node.in_degree,
                "pool": node.pool or task.pool,
            }
            for node in nodes
        ]
        self._tx.run(
            SQL["insert_nodes"],
            {
                "task_id": task.task_id,
                "user_id": task.user_id,
                "lane": task.lane,
                "priority": task.priority,
                "nodes": Jsonb(rows),
            },
        )
        edges = [(node.node_id, dependency) for node in nodes for dependency in node.depends_on_ids]
        if edges:
            self._tx.run(
                SQL["insert_dependencies"],
                {"node_ids": [edge[0] for edge in edges], "depends_on_ids": [edge[1] for edge in edges]},
            )

    def task(self, task_id: UUID) -> Task | None:
        row = self._tx.one(SQL["task"], {"task_id": task_id})
        return _task(row) if row else None

    def lock_task(self, task_id: UUID) -> Task | None:
        """To the end of the transaction, lines are logged and messages published under the task's trace id."""
        row = self._tx.one(SQL["lock_task"], {"task_id": task_id})
        if row is None:
            return None
        tracing.follow(row["trace_id"])
        return _task(row)

    def tasks(self, wanted: TaskFilter, *, before: UUID | None, limit: int) -> list[Task]:
        parameters = {
            "before": before,
            "limit": limit,
            "user_id": wanted.user_id,
            "status": wanted.status,
            "tool": wanted.tool,
            "since": wanted.since,
            "until": wanted.until,
        }
        return [_task(row) for row in self._tx.all(SQL["tasks_page"], parameters)]

    def progress_of(self, task_ids: Sequence[UUID], live: Mapping[UUID, NodeProgress]) -> dict[UUID, int]:
        """The progress of each task. `live` is newer than what is stored about running nodes."""
        parameters = {
            "task_ids": list(task_ids),
            "node_ids": list(live),
            "attempts": [one.attempt for one in live.values()],
            "percents": [one.percent for one in live.values()],
        }
        rows = self._tx.all(SQL["progress_of_tasks"], parameters)
        return {row["task_id"]: row["progress"] for row in rows}

    def request_cancel(self, task_id: UUID) -> None:
        self._tx.run(SQL["request_cancel"], {"task_id": task_id})

    def charge_nodes(self, task_id: UUID) -> int:
        """Mark the delivered nodes that are not charged yet. Returns their price."""
        return sum(row["price_points"] for row in self._tx.all(SQL["charge_nodes"], {"task_id": task_id}))

    def end_task(self, task_id: UUID, status: TaskStatus, *, charged: int, error: Mapping[str, Any] | None) -> bool:
        parameters = {"task_id": task_id, "status": status, "charged": charged, "error": _jsonb(error)}
        return self._tx.run(SQL["end_task"], parameters) == 1

    def begin_run(self, task_id: UUID, hold_id: UUID) -> bool:
        return self._tx.run(SQL["begin_run"], {"task_id": task_id, "hold_id": hold_id}) == 1

    def events_after(self, task_id: UUID, sequence: int, *, limit: int) -> list[Published]:
        rows = self._tx.all(SQL["events_after"], {"task_id": task_id, "sequence": sequence, "limit": limit})
        return [Published(task_id, row["sequence"], row["event"], row["body"]) for row in rows]

    # Nodes

    def node(self, node_id: UUID) -> Node | None:
        row = self._tx.one(SQL["node"], {"node_id": node_id})
        return _node(row) if row else None

    def nodes(self, task_id: UUID) -> list[Node]:
        return [_node(row) for row in self._tx.all(SQL["nodes_of_task"], {"task_id": task_id})]

    def ranks(self, task: Task) -> dict[UUID, int]:
        """How many nodes of the tenant wait before each waiting node of the task, by PostgreSQL alone."""
        rows = self._tx.all(SQL["ranks_of_task"], {"task_id": task.task_id, "pool": task.pool, "lane": task.lane})
        return {row["node_id"]: row["rank"] for row in rows}

    def dependencies(self, node_ids: Sequence[UUID]) -> dict[UUID, list[UUID]]:
        found: dict[UUID, list[UUID]] = {}
        for row in self._tx.all(SQL["dependencies_of_nodes"], {"node_ids": list(node_ids)}):
            found.setdefault(row["node_id"], []).append(row["depends_on_id"])
        return found

    def claim(self, node_id: UUID, attempt: int, worker_id: str, *, lease_s: int) -> Claim:
        """Also starts the task, if it is the first claim of the task."""
        parameters = {"node_id": node_id, "attempt": attempt, "worker_id": worker_id, "lease_s": lease_s}
        for claimed, query in ((Claimed.NOW, "claim"), (Claimed.BEFORE, "claimed_before")):
            if row := self._tx.one(SQL[query], parameters):
                outputs = row.pop("outputs") or {}
                return Claim(claimed, _node(row), outputs)
        return Claim(Claimed.GONE)

    def finish(self, report: Report) -> Finished | None:
        """Complete the running attempt with its pictures. Its dependents become ready, and tokens are answered."""
        parameters = {
            "task_id": report.task_id,
            "node_id": report.node_id,
            "attempt": report.attempt,
            "output": Jsonb([one.as_json() for one in (report.answer, *report.outputs) if one is not None]),
            "engine": _jsonb(report.engine),
            "gpu_us": report.gpu_us,
            "artefacts": json.dumps([{"artefact_id": str(ids.new_id()), **vars(output)} for output in report.outputs]),
        }
        row = self._tx.one(SQL["finish"], parameters)
        if row is None:
            return None
        self.released.append(ReleasedSlot(report.node_id, row["pool"], report.gpu_us))
        self.ready += [Waiting(**one) for one in row["ready"] or ()]
        self.messages += token_answers(row["answers"] or ())
        if row["step"] is not None:
            self.count_attempt(Attempt(row["pool"], row["step"], row["dispatched_at"]))
        return Finished(row["name"], is_leaf=row["is_leaf"], pool=row["pool"], type=row["type"], run_s=row["run_s"])

    def trial(self, node: Node) -> Trial:
        row = self._tx.one(SQL["trial"], {"node_id": node.node_id})
        assert row is not None, node.node_id
        now, dispatched_at = row.pop("now"), row.pop("dispatched_at")
        return Trial(now, dispatched_at, Circuit(**row))

    def count_attempt(self, attempt: Attempt) -> None:
        """Count the end of an attempt in the circuit of its step, after the commit."""
        self.attempts.append(attempt)

    def stopped_steps(self) -> StoppedSteps:
        return stopped(self._tx)

    def fail(self, node: Node, attempt: int, failure: Failure, *, gpu_us: int | None, is_counted: bool = True) -> bool:
        """`is_counted`: the failure uses up a retry of the node."""
        parameters = {
            "node_id": node.node_id,
            "attempt": attempt,
            "error": Jsonb(failure.as_stored()),
            "gpu_us": gpu_us,
            "counted": int(is_counted),
        }
        return self._ended(node, self._tx.run(SQL["fail"], parameters), gpu_us)

    def time_out(self, verb: str, node: Node, attempt: int, failure: Failure, *, worker_id: str = "") -> bool:
        """`verb` is one of time_out_lease, time_out_running, time_out_unclaimed, time_out_stopped, hand_back."""
        parameters = {
            "node_id": node.node_id,
            "attempt": attempt,
            "error": Jsonb(failure.as_json()),
            "worker_id": worker_id,
        }
        return self._ended(node, self._tx.run(SQL[verb], parameters), None)

    def retry(self, node: Node, attempt: int, *, delay_s: float) -> bool:
        parameters = {"node_id": node.node_id, "attempt": attempt, "delay_s": delay_s}
        return self._tx.run(SQL["retry"], parameters) == 1

    def reset_failures(self, task_id: UUID) -> None:
        self._tx.run(SQL["reset_failures"], {"task_id": task_id})

    def supersede(self, node_ids: Sequence[UUID]) -> int:
        return self._tx.run(SQL["supersede"], {"node_ids": list(node_ids)})

    def cancel_all(self, task: Task, failure: Failure) -> list[UUID]:
        rows = self._tx.all(SQL["cancel_nodes"], {"task_id": task.task_id, "error": Jsonb(failure.as_json())})
        return self._cancelled(rows)

    def cancel_waiting(self, task: Task, failure: Failure) -> list[UUID]:
        parameters = {"task_id": task.task_id, "error": Jsonb(failure.as_json())}
        return self._cancelled(self._tx.all(SQL["cancel_waiting"], parameters))

    def cancel_dependents(self, node: Node, failure: Failure) -> list[UUID]:
        siblings = self._tx.all(SQL["node_ids_of_task"], {"task_id": node.task_id})
        dependents = dag.dependents(node.node_id, self.dependencies([row["node_id"] for row in siblings]))
        if not dependents:
            return []
        parameters = {"node_ids": list(dependents), "error": Jsonb(failure.as_json())}
        return self._cancelled(self._tx.all(SQL["cancel_dependents"], parameters))

    def is_running(self, node_id: UUID, attempt: int) -> bool:
        return self._tx.one(SQL["is_running"], {"node_id": node_id, "attempt": attempt}) is not None

    def note_progress(self, node_id: UUID, attempt: int, progress: int, *, interval_s: float) -> bool:
        parameters = {"node_id": node_id, "attempt": attempt, "progress": progress, "interval_s": interval_s}
        return self._tx.run(SQL["note_progress"], parameters) == 1

    def has_listener(self, user_id: UUID) -> bool:
        """Whether an open socket receives the user's events."""
        row = self._tx.one(SQL["has_listener"], {"user_id": user_id})
        return row is not None and bool(row["has_listener"])

    # Tokens of Step Functions

    def answer_tokens(self, node_ids: Sequence[UUID]) -> int:
        """Publish answers for the tokens of these nodes whose wait is over."""
        if not node_ids:
            return 0
        answers = token_answers(self._tx.all(SQL["token_answers"], {"node_ids": list(node_ids)}))
        self.messages += answers
        return len(answers)

    def _ended(self, node: Node, changed: int, gpu_us: int | None) -> bool:
        if changed:
            self.released.append(ReleasedSlot(node.node_id, node.pool, gpu_us))
        return changed == 1

    def _cancelled(self, rows: Sequence[Row]) -> list[UUID]:
        self.released += [ReleasedSlot(row["node_id"], row["pool"], None) for row in rows]
        return [row["node_id"] for row in rows]

    def _number(self, query: bytes, column: str, parameters: Mapping[str, Any] | None = None) -> int:
        row = self._tx.one(query, parameters)
        assert row is not None
        return int(row[column])


class PostgresTasks:
    """The rows of one tenant at a time, as `artiway_app`."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        clock: Clock,
        *,
        announce: Callable[[Sequence[Published]], object],
        count: Callable[[Sequence[Attempt]], object],
        schedule: Callable[[Sequence[ReleasedSlot], Sequence[Waiting]], object],
    ) -> None:
        self._database, self._outbox, self._clock = database, outbox, clock
        self._announce, self._count, self._schedule = announce, count, schedule
        self._batch: tuple[list[ReleasedSlot], list[Waiting]] | None = None

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """The slots of all transactions inside are released together, at the end, and then their messages sent: the
        next nodes start before executions are answered."""
        with self._outbox.batch():
            released, ready = self._batch = [], []
            try:
                yield
            finally:
                self._batch = None
            if released:
                try:
                    self._schedule(released, ready)
                except Exception:
                    logger.exception("slots left to the sweep", slots=len(released))

    @contextlib.contextmanager
    def open(self, tenant_id: UUID) -> Iterator[PostgresTaskTransaction]:
        """Begin a transaction. After its commit events are announced, attempts counted, slots released and ready nodes
        enqueued."""
        with tracing.restored(), self._database.tenant_transaction(tenant_id) as tx:
            task_tx = PostgresTaskTransaction(tx, tenant_id, self._clock)
            yield task_tx
            task_tx.flush(self._outbox)
            if task_tx.published:
                tx.after_commit(lambda: self._announce(task_tx.published))
            if task_tx.attempts:  # before the slots: a circuit that opens keeps them from its step
                tx.after_commit(lambda: self._count(task_tx.attempts))
            if task_tx.released:
                tx.after_commit(lambda: self._release(task_tx.released, task_tx.ready))

    def _release(self, released: Sequence[ReleasedSlot], ready: Sequence[Waiting]) -> None:
        if self._batch is None:
            self._schedule(released, ready)
        else:
            self._batch[0].extend(released)
            self._batch[1].extend(ready)


class PostgresNodes:
    """Nodes and workers of all tenants, as `artiway_service`: for the scheduler, workers and sweeps."""

    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database, self._outbox = database, outbox

    def mark_ready(self, node_ids: Sequence[UUID], tokens: Mapping[UUID, str] | None = None) -> list[Waiting]:
        """Ready messages arrived for these nodes. Returns those that wait in the fair queue, new or not, oldest first.

        A token is kept in any state of the node; the token of a node that has ended is answered at once. Tokens come
        first, because they lock the tasks: a transaction locks a task before its nodes.
        """
        parameters = {"node_ids": sql.array(node_ids)}
        with self._database.service_transaction() as tx:
            if tokens:
                self._keep_tokens(tx, tokens)
            return [Waiting(**row) for row in tx.all(SQL["mark_ready"], parameters)]

    def _keep_tokens(self, tx: Transaction, tokens: Mapping[UUID, str]) -> None:
        given = [
            {"token_id": str(ids.new_id()), "node_id": str(node_id), "kind": "ready", "token": token}
            for node_id, token in tokens.items()
        ]
        self._outbox.publish(tx, token_answers(tx.all(SQL["keep_tokens"], {"tokens": json.dumps(given)})))

    def dispatch(self, chosen: Sequence[tuple[str, int, int]]) -> list[str]:
        """Begin an attempt at each node (id, charged_us, tag_us) that still waits, and publish its work message.

        Returns the ids of the dispatched nodes.
        """
        node_ids, charges_us, tags_us = map(sql.array, zip(*chosen, strict=True))
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["dispatch"], {"node_ids": node_ids, "charges_us": charges_us, "tags_us": tags_us})
            self._outbox.publish(tx, work_messages(rows))
        for row in rows:
            named = {name: row[name] for name in ("trace_id", "task_id", "node_id", "attempt", "pool")}
            logger.info("node dispatched", **named)
        return [row["node_id"] for row in rows]

    def places(self, node_ids: Sequence[UUID]) -> dict[UUID, tuple[UUID, UUID]]:
        """Tenant and task of each node."""
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["tasks_of_nodes"], {"node_ids": list(node_ids)})
        return {row["node_id"]: (row["tenant_id"], row["task_id"]) for row in rows}

    def register(self, card: WorkerCard, *, engine: str) -> None:
        """Also publishes a message to the scheduler, so that the new slots are used at once."""
        registered = messages.worker_registered(pool=card.pool, worker_id=card.worker_id) if card.slots else None
        with self._database.service_transaction() as tx:
            tx.run(SQL["register_worker"], {**_card(card), "engine": engine})
            self._outbox.publish(tx, [registered] if registered else [])

    def renew(self, card: WorkerCard, held: Sequence[tuple[UUID, int]], *, lease_s: int) -> Renewal:
        """A heartbeat for all nodes of a worker."""
        parameters = {
            "node_ids": [node_id for node_id, _ in held],
            "attempts": [attempt for _, attempt in held],
            "worker_id": card.worker_id,
            "pool": card.pool,
            "lease_s": lease_s,
        }
        with self._database.service_transaction() as tx:
            beat = tx.one(SQL["beat_worker"], _card(card))
            is_draining = beat is not None and bool(beat["is_draining"])
            if not held:
                return Renewal(is_draining=is_draining)
            renewed = {row["node_id"]: _held(row) for row in tx.all(SQL["renew"], parameters)}
            cancelled = frozenset(row["node_id"] for row in tx.all(SQL["cancelled_of"], parameters))
        return Renewal(renewed, cancelled, is_draining)

    def delete_worker(self, worker_id: str) -> None:
        with self._database.service_transaction() as tx:
            tx.run(SQL["delete_worker"], {"worker_id": worker_id})

    def measured(self, pool: str, windows: Windows) -> dict[str, Any]:
        """Durations of the newest nodes that completed, and how promises were kept: for `Durations.measured`."""
        limits = {"pool": pool, "limit": windows.nodes}
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["measured_durations"], {**limits, "window_s": windows.nodes_s})
            demand = tx.all(SQL["demand_of_types"], {"pool": pool, "window_s": windows.demand_s})
            lateness = tx.one(SQL["lateness"], {**limits, "window_s": windows.tasks_s})
        return {
            "rows": [dict(row) for row in rows],
            "demand": [{**row, "window_us": windows.demand_s * 1_000_000} for row in demand],
            "lateness": dict(lateness or {}),
        }

    def neural_steps(self, pool: str, *, silence_s: int) -> frozenset[str] | None:
        """The steps that live workers of the pool serve with a network; None if no worker lives."""
        with self._database.service_transaction() as tx:
            row = tx.one(SQL["neural_steps"], {"pool": pool, "silence_s": silence_s})
        assert row is not None
        return frozenset(row["steps"] or ()) if row["workers"] else None

    def lane_load(self, lane: str) -> LaneLoad:
        with self._database.service_transaction() as tx:
            row = tx.one(SQL["lane_load"], {"lane": lane})
        assert row is not None, lane
        return LaneLoad(**row)


def work_messages(rows: Sequence[Row]) -> list[Message]:
    return [
        messages.work(
            tenant_id=row["tenant_id"],
            task_id=row["task_id"],
            node_id=row["node_id"],
            attempt=row["attempt"],
            pool=row["pool"],
            node_type=row["type"],
            trace_id=row["trace_id"],
        )
        for row in rows
    ]


def ready_messages(rows: Sequence[Row]) -> list[Message]:
    return [messages.ready(**row) for row in rows]


def token_answers(rows: Sequence[Row]) -> list[Message]:
    return [
        messages.answer_token(
            tenant_id=row["tenant_id"],
            token_id=row["token_id"],
            node_id=row["node_id"],
            token=row["token"],
            status=row["status"],
        )
        for row in rows
    ]


def _card(card: WorkerCard) -> dict[str, Any]:
    return {**asdict(card), "types": list(card.types), "neural": list(card.neural)}


def _task(row: Row) -> Task:
    on_failure = OnFailure(row["on_failure"]) if "on_failure" in row else OnFailure.CONTINUE
    known = {"status": TaskStatus(row["status"]), "priority": Priority(row["priority"]), "on_failure": on_failure}
    return Task(**{**row, **known})


def _node(row: Row) -> Node:
    return Node(**{**row, "status": NodeStatus(row["status"])})


def _held(row: Row) -> Held:
    return Held(**{**row, "outputs": row["outputs"] or {}})


def _jsonb(value: Mapping[str, Any] | None) -> Jsonb | None:
    return None if value is None else Jsonb(dict(value))


class PostgresTaskSearch:
    """Tasks of all tenants, as `artiway_service`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def search(self, wanted: TaskSearch, *, before: UUID | None, limit: int) -> Sequence[TaskOfTenant]:
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["search_tasks"], {**asdict(wanted), "before": before, "limit": limit})
        return [TaskOfTenant(**row | {"status": TaskStatus(row["status"])}) for row in rows]

    def nodes(self, task_id: UUID) -> Sequence[Row]:
        with self._database.service_transaction() as tx:
            return tx.all(SQL["nodes_for_operators"], {"task_id": task_id})

    def steps(self, task_id: UUID, *, limit: int) -> Sequence[Row]:
        with self._database.service_transaction() as tx:
            return tx.all(SQL["steps_of_task"], {"task_id": task_id, "limit": limit})
