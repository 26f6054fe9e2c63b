"""Every key of the fair queue. All of a pool's keys share one hash tag, so that a cluster keeps them together."""

from __future__ import annotations

from dataclasses import dataclass

from artiway.scheduling.model import named

# In the order in which lua/includes/pool.lua names them, after the epoch. A trailing | awaits an id.
_STATE = (
    "pool",
    "nodes",
    "leases",
    "log",
    "tenants",
    "heads|",
    "crowd|",
    "roll|",
    "fifo|",
    "tenant_slots|",
    "user_slots|",
    "track_slots|",
    "user_caps",
    "service|",
)


@dataclass(frozen=True)
class Keys:
    """Key names of one pool. State lives under its epoch: a rebuild fills a new one and then switches over."""

    pool: str

    def __post_init__(self) -> None:
        named("pool", self.pool)

    @property
    def tag(self) -> str:
        return f"{{artiway:wfq:{self.pool}}}"

    @property
    def epoch(self) -> str:
        return f"{self.tag}:epoch"

    @property
    def loading(self) -> str:
        return f"{self.tag}:loading"

    def name(self, epoch: str, what: str) -> str:
        return f"{self.tag}:{epoch}:{what}"

    def state(self, epoch: str) -> list[str]:
        return [self.name(epoch, what) for what in _STATE]

    def all_of(self, epoch: str) -> str:
        """A pattern for SCAN."""
        return f"{self.tag}:{epoch}:*"
