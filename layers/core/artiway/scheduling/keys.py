"""Every key of the fair queue. All of a pool's keys share one hash tag, so that a cluster keeps them together."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from artiway.platform import redis_keys
from artiway.scheduling.model import named

# The version of what the keys hold. Raise it with any change that an older release could not read or write correctly.
LAYOUT = 2


def new_epoch(layout: int = LAYOUT) -> str:
    return f"{layout}-{secrets.token_hex(8)}"


def layout_of(epoch: str) -> int:
    """0 for no epoch, and for one that was written before epochs named their layout."""
    number, dash, _ = epoch.partition("-")
    return int(number) if dash and number.isdigit() else 0


@dataclass(frozen=True)
class Keys:
    """Key names of one pool. lua/includes/keys.lua adds those that end with a track, a tenant or a user."""

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

    def part(self, epoch: str, name: str) -> str:
        return redis_keys.queue_part(self.pool, epoch, name)

    def work(self, epoch: str, index: int) -> str:
        return self.part(epoch, f"work:{index}")

    def service(self, epoch: str, minute: int) -> str:
        return self.part(epoch, f"service:{minute}")

    def of(self, epoch: str) -> list[str]:
        """In the order in which lua/includes/keys.lua names them."""
        return [self.epoch, self.loading, *(self.part(epoch, name) for name in redis_keys.QUEUE_PARTS)]

    def epoch_in(self, key: str) -> str | None:
        """The epoch that a key belongs to. None: it belongs to the pool, or to another pool."""
        rest = key.removeprefix(f"{self.tag}:")
        epoch, colon, _ = rest.partition(":")
        return epoch if colon and rest != key else None
