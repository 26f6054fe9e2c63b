"""What an engine is. It runs in a child process of its own, so it may be slow, crash, or be stopped at any point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from worker.pictures import Picture
from worker.steps import Params, Step

Report = Callable[[float], None]  # progress in percent; raises when the attempt is to stop


@dataclass(frozen=True)
class EngineInfo:
    """Goes with every result: what made this picture, and whether a neural model took part."""

    name: str
    version: str
    is_neural: bool
    detail: str


class Engine(Protocol):
    def load(self, step: Step, model: str | None) -> None:
        """Make ready whatever the step needs; cheap when it is ready already."""

    def run(
        self, step: Step, model: str | None, inputs: Mapping[str, Picture], params: Params, report: Report
    ) -> tuple[Picture, EngineInfo]:
        """The step's one picture."""
