"""Every key of the fair queue. All of a pool's keys share one hash tag, so that a cluster keeps them together."""

from __future__ import annotations

from dataclasses import dataclass

from artiway.platform import redis_keys
from artiway.scheduling.model import named


@dataclass(frozen=True)
class Keys:
    """Key names of one pool. The queue itself lives in the memory of the functions (lua/library.lua)."""

    pool: str

    def __post_init__(self) -> None:
        named("pool", self.pool)

    @property
    def tag(self) -> str:
        return redis_keys.queue_tag(self.pool)

    @property
    def epoch(self) -> str:
        return redis_keys.queue_epoch(self.pool)

    @property
    def loading(self) -> str:
        return redis_keys.queue_loading(self.pool)

    def log(self, epoch: str) -> str:
        return redis_keys.queue_log(self.pool, epoch)

    def places(self, epoch: str) -> str:
        return redis_keys.queue_places(self.pool, epoch)

    def of(self, epoch: str) -> list[str]:
        """In the order in which lua/library.lua names them."""
        return [self.epoch, self.loading, self.log(epoch), self.places(epoch)]
