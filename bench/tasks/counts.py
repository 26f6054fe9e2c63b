"""What a task costs, counted: statements and transactions from PostgreSQL's log, WAL, messages, calls, transitions."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg

from local import lambdas

# The functions in the order in which a node meets them. A statement belongs to the function whose connection ran it.
PHASES = {
    "TasksFunction": "submit",
    "GateFunction": "dependency wait",
    "SchedulerFunction": "ready, dispatch",
    "InternalFunction": "claim",
    "ProgressFunction": "report, end",
    "SettleFunction": "settle",
    "PushFunction": "push",
}
_LINE = re.compile(r"^@(?P<name>[^@]*)@(?P<pid>\d+)@LOG:  (?:statement|execute [^:]*): (?P<text>.*)$")
# Autovacuum and whole pages after a checkpoint come by the clock, not by the node: the WAL is counted without them.
_SETTINGS = {"log_statement": "all", "log_line_prefix": "@%a@%p@", "autovacuum": "off"}


@dataclass
class Counts:
    """A statement is one request to PostgreSQL, COMMIT included. BEGIN and its two SET LOCAL are one request."""

    statements: Counter[str] = field(default_factory=Counter)
    transactions: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)
    wal_bytes: int = 0
    texts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def per(self, nodes: int) -> dict[str, Any]:
        phases = list(dict.fromkeys([*PHASES, *self.statements, *self.calls]))
        rows = {
            PHASES.get(name, name): {
                "statements": round(self.statements[name] / nodes, 1),
                "transactions": round(self.transactions[name] / nodes, 2),
                "calls": round(self.calls[name] / nodes, 2),
            }
            for name in phases
            if self.statements[name] or self.calls[name]
        }
        return {
            "phases": rows,
            "statements": round(sum(self.statements.values()) / nodes, 1),
            "transactions": round(sum(self.transactions.values()) / nodes, 2),
            "calls": round(sum(self.calls.values()) / nodes, 2),
            "messages": {name: round(count / nodes, 2) for name, count in self.messages.most_common()},
            "walBytes": round(self.wal_bytes / nodes),
        }


@contextmanager
def counted(facts: dict[str, Any], log: Path) -> Iterator[Counts]:
    """Count what happens inside the block. The logging slows PostgreSQL, so no time is measured here."""
    found = Counts()
    with psycopg.connect(facts["databaseUrl"], autocommit=True, application_name="probe") as probe, _calls(found):
        for name, value in _SETTINGS.items():
            probe.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        probe.execute("SELECT pg_reload_conf()")
        time.sleep(0.3)  # the backends read the new settings before their next statement
        start, wal, outbox = log.stat().st_size, _wal(probe), _last_outbox(probe)
        try:
            yield found
        finally:
            found.wal_bytes = _wal(probe) - wal
            for name in _SETTINGS:
                probe.execute(f"ALTER SYSTEM RESET {name}")
            probe.execute("SELECT pg_reload_conf()")
        found.messages.update(_messages(probe, outbox))
    _read_log(found, log.read_bytes()[start:].decode(errors="replace"))


def _read_log(found: Counts, text: str) -> None:
    in_transaction: dict[str, bool] = {}
    for line in text.splitlines():
        if not (match := _LINE.match(line)) or match["name"] not in PHASES:
            continue
        name = match["name"]
        found.statements[name] += 1
        found.texts[name, " ".join(match["text"].split())[:70]] += 1
        if match["text"].startswith("BEGIN"):
            in_transaction[match["pid"]] = True
        elif match["text"] in ("COMMIT", "ROLLBACK") or not in_transaction.get(match["pid"]):
            found.transactions[name] += 1  # a statement outside of BEGIN and COMMIT is a transaction by itself
            in_transaction[match["pid"]] = False


@contextmanager
def _calls(found: Counts) -> Iterator[None]:
    original = lambdas.Pool.invoke

    async def invoke(pool: lambdas.Pool, *arguments: Any) -> lambdas.Outcome:
        found.calls[pool.function.name] += 1
        return await original(pool, *arguments)

    with mock.patch.object(lambdas.Pool, "invoke", invoke):
        yield


def _wal(probe: psycopg.Connection[Any]) -> int:
    row = probe.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()
    assert row is not None
    return int(row[0])


def _last_outbox(probe: psycopg.Connection[Any]) -> int:
    row = probe.execute("SELECT coalesce(max(outbox_id), 0) FROM outbox").fetchone()
    assert row is not None
    return int(row[0])


def _messages(probe: psycopg.Connection[Any], after: int) -> dict[str, int]:
    """Rows of the outbox: events are stored, other messages leave when they are sent."""
    query = "SELECT max(outbox_id) - %s, count(*) FROM outbox WHERE outbox_id > %s"
    row = probe.execute(query, (after, after)).fetchone()
    assert row is not None
    return {"written": int(row[0] or 0), "kept": int(row[1])}


def show(found: dict[str, Any]) -> None:
    print(f"  {'per node, by phase':24} {'statements':>10} {'transactions':>13} {'calls':>7}")
    for name, row in [*found["phases"].items(), ("all", found)]:
        print(f"  {name:24} {row['statements']:10.1f} {row['transactions']:13.2f} {row['calls']:7.2f}")
    print(f"  WAL bytes {found['walBytes']}, outbox rows {found['messages']}")
