"""Overdue rows, results of invariant checks, and dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True)
class Overdue:
    """An attempt at a node that is too old; `overdue_s` is the age of the timestamp that the sweep checked."""

    node_id: UUID
    tenant_id: UUID
    task_id: UUID
    attempt: int
    tool: str
    overdue_s: float


@dataclass(frozen=True)
class Artefact:
    kind: str
    tenant_id: UUID
    item_id: UUID
    key: str


@dataclass(frozen=True)
class Scope:
    """The rows that a check covers: those with these ids, of these tenants.

    The last four belong together: of a user's ledger, the entries from one version to another.
    """

    tenant_ids: Sequence[UUID] = ()
    user_ids: Sequence[UUID] = ()
    hold_ids: Sequence[UUID] = ()
    order_ids: Sequence[UUID] = ()
    node_ids: Sequence[UUID] = ()
    task_ids: Sequence[UUID] = ()
    ledger_tenant_ids: Sequence[UUID] = ()
    ledger_user_ids: Sequence[UUID] = ()
    ledger_first: Sequence[int] = ()
    ledger_last: Sequence[int] = ()

    @property
    def is_empty(self) -> bool:
        return not self.tenant_ids

    def __or__(self, other: Scope) -> Scope:
        return Scope(*([*getattr(self, one.name), *getattr(other, one.name)] for one in fields(Scope)))


@dataclass(frozen=True)
class Check:
    """The result for one invariant: the number of checked rows, and the rows that break it. `since` is when a check
    first found such rows."""

    name: str
    checked: int
    violations: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    since: datetime | None = None

    @property
    def is_ok(self) -> bool:
        return not self.violations

    def __or__(self, other: Check) -> Check:
        return Check(self.name, self.checked + other.checked, (*self.violations, *other.violations))


@dataclass(frozen=True)
class Health:
    checks: Sequence[Check]

    @property
    def is_ok(self) -> bool:
        return all(check.is_ok for check in self.checks)


@dataclass(frozen=True)
class DeadLetter:
    message_id: str
    body: str
    sent_at_ms: int
    receive_count: int
    receipt: str
    source_arn: str = ""
    group: str = ""
