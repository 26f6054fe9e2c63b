"""Every key of the fair queue. All of a pool's keys share one hash tag, so that a cluster keeps them together."""

from __future__ import annotations

from dataclasses import dataclass

from artiway.scheduling.model import named


@dataclass(frozen=True)
class Keys:
    """Key names of one pool. The queue itself lives in the memory of the functions (lua/library.lua)."""

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

    def log(self, epoch: str) -> str:
        return f"{self.tag}:{epoch}:log"

    def places(self, epoch: str) -> str:
        return f"{self.tag}:{epoch}:places"

    def of(self, epoch: str) -> list[str]:
        """In the order in which lua/library.lua names them."""
        return [self.epoch, self.loading, self.log(epoch), self.places(epoch)]
