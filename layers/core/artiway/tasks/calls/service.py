"""Starts HTTP nodes within the limits of their tenants, and hands their calls over to the caller.

Two steps, as for a node of a worker: `place` dispatches an attempt and sends a message, `hand_over` claims it. A lost
message is sent again by the sweep of unclaimed nodes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from artiway.events import Event
from artiway.jobs import messages
from artiway.jobs.definitions.model import CALL_TIMEOUT_S
from artiway.jobs.definitions.validation import secrets_in
from artiway.jobs.limits import limits_of
from artiway.jobs.messages import CALL_BYTES
from artiway.jobs.model import CallKeys
from artiway.platform import metrics
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger
from artiway.settings.model import SettingValues
from artiway.tasks.calls.model import DueCall, Share
from artiway.tasks.calls.nodes import call_of
from artiway.tasks.calls.settings import CAPACITY
from artiway.tasks.lifecycle import NodeService, about
from artiway.tasks.model import CALLER, Claimed, Failure, InvalidRequest, NodeStatus, Plan, Report, ReportKind
from artiway.tasks.transaction import TaskStore

logger = Logger("tasks")
# A call may wait in its queue, then it has its time limit, then its result may wait.
LEASE_S = CALL_TIMEOUT_S + messages.QUEUE_S
BATCH = 100
TOO_LARGE = Failure("CALL_TOO_LARGE", "with the answers that its body names the call is too large")


class TenantKeys(Protocol):
    """The secrets of a tenant, and the key that signs its calls."""

    def unknown(self, tenant_id: UUID, names: Collection[str]) -> Sequence[str]: ...

    def ensure_signing_key(self, tenant_id: UUID) -> None: ...


class CallCheck:
    """What the document of a flow does not show: whether its targets may be called, and whether its secrets exist."""

    def __init__(self, keys: TenantKeys, *, refusal_of: Callable[[str], str | None]) -> None:
        """`refusal_of` returns the reason why a URL can never be called, or None."""
        self._keys, self._refusal_of = keys, refusal_of

    def check(self, tenant_id: UUID, plan: Plan) -> None:
        """Raises InvalidRequest. The tenant of a valid plan with calls has a signing key."""
        calls = [node for node in plan.nodes if node.is_http]
        for node in calls:
            if (reason := self._refusal_of(str(node.params["url"]))) is not None:
                raise InvalidRequest(f"nodes.{node.name}.params.url", reason)
            if unknown := self._keys.unknown(tenant_id, secrets_in(node.params)):
                raise InvalidRequest(f"nodes.{node.name}.params", f"there is no secret {min(unknown)}")
        if calls:
            self._keys.ensure_signing_key(tenant_id)


class PlacementTransaction(Protocol):
    def lock(self) -> int:
        """Until the commit no other transaction starts HTTP nodes. Returns how many run."""

    def waiting_tenants(self) -> Sequence[Mapping[str, Any]]:
        """The policies of tenants with a node that waits, each with its number of `running` nodes."""

    def dispatch(self, shares: Sequence[Share], *, limit: int) -> int: ...


class PlacementStore(Protocol):
    def open(self) -> AbstractContextManager[PlacementTransaction]: ...


class CallPlacement:
    """HTTP nodes are in no fair queue of a pool: a tenant has as many at once as it has runs of jobs. Where all places
    are taken, the next one goes to the tenant that has the fewest for its weight."""

    def __init__(self, store: PlacementStore, values: SettingValues) -> None:
        self._store, self._values = store, values

    def place(self) -> int:
        """Dispatch the HTTP nodes for which there is room. Returns how many."""
        with self._store.open() as tx:
            room = self._values.get(CAPACITY) - tx.lock()
            shares = [share for row in tx.waiting_tenants() if (share := self._share(row)).room > 0]
            if room <= 0 or not shares:
                return 0
            return tx.dispatch(shares, limit=min(room, BATCH))

    def _share(self, policy: Mapping[str, Any]) -> Share:
        limits = limits_of(policy, self._values)
        most = limits.runs_at_once if limits.is_active else 0
        return Share(policy["tenant_id"], policy["running"], most - policy["running"], limits.weight)


class Keys(Protocol):
    def of(self, tenant_id: UUID, names: Iterable[str], now: datetime) -> CallKeys:
        """The secrets of these names and the keys that sign, as ciphertexts."""


class CallHandOver:
    def __init__(
        self, store: TaskStore, nodes: NodeService, keys: Keys, clock: Clock, *, address: Callable[[str], str]
    ) -> None:
        """`address` returns where a stored picture can be read for a while."""
        self._store, self._nodes, self._keys, self._clock, self._address = store, nodes, keys, clock, address

    def hand_over(self, due: DueCall) -> bool:
        """Claim the attempt and send its call, in one transaction. False: it was claimed before, or is over."""
        with self._store.open(due.tenant_id) as tx:
            task = tx.lock_task(due.task_id)
            if task is None:
                return False
            claim = tx.claim(due.node_id, due.attempt, CALLER, lease_s=LEASE_S)
            node = claim.node
            if claim.claimed is not Claimed.NOW or node is None or node.task_id != task.task_id:
                return False
            tx.publish(task, about(Event.TASK_STARTED, node, status=NodeStatus.PROCESSING, attempt=due.attempt))
            now = self._clock.now()
            keys = self._keys.of(due.tenant_id, secrets_in(node.params), now)
            call = call_of(task, node, claim.outputs, keys, address=self._address, now=now)
            is_small = len(json.dumps(call.as_data(), ensure_ascii=False).encode()) <= CALL_BYTES
            if is_small:
                tx.send(messages.calls([call], tenant_id=due.tenant_id))
        if not is_small:
            self._nodes.settle_report(_refused(due))
        metrics.emit("NodeCalls", 1)
        logger.info("call handed over", task_id=str(due.task_id), node_id=str(due.node_id), attempt=due.attempt)
        return is_small


def _refused(due: DueCall) -> Report:
    return Report(
        kind=ReportKind.FAILURE,
        tenant_id=due.tenant_id,
        task_id=due.task_id,
        node_id=due.node_id,
        attempt=due.attempt,
        worker_id=CALLER,
        sequence=0,
        failure=TOO_LARGE,
    )
