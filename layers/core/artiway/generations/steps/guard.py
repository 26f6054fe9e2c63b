"""Step 3: take the guards of user, model + tier and lane, all or none, for the text whose turn it is."""

from __future__ import annotations

from artiway.generations.model import Generation, Refusal
from artiway.generations.ports import Decision, WorkerStore
from artiway.platform import metrics

FIRST_DELAY_S = 2
LONGEST_DELAY_S = 60


def take(store: WorkerStore, decision: Decision, *, worker_id: str, lease_s: int) -> Generation | Refusal | None:
    """A guard is the claimed row with its lease: the end of either frees it, so a crash leaks nothing."""
    found = store.claim(decision, worker_id=worker_id, lease_s=lease_s)
    if isinstance(found, Refusal):
        metrics.emit("GuardRefusals", 1, lane=decision.lane, scope=found.scope)
    return found


def delay_s(receive_count: int, jitter: float) -> int:
    """When a refused message comes again: it doubles with each return. `jitter` is from 0 to 1."""
    doubled: float = min(FIRST_DELAY_S * 2.0 ** min(max(0, receive_count - 1), 10), LONGEST_DELAY_S)
    return max(1, round(doubled * (0.75 + jitter / 2)))
