"""The interface of an engine. It runs in a child process, so it may be slow, crash or be stopped at any point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from worker.pictures import Picture
from worker.steps import Params, Step

Report = Callable[[float], None]  # progress in percent; raises when the attempt is to stop


@dataclass(frozen=True)
class EngineInfo:
    """The engine that made a picture, and whether a neural model was used. Every result carries it."""

    name: str
    version: str
    is_neural: bool
    detail: str


class Engine(Protocol):
    def load(self, step: Step, model: str | None) -> None:
        """Load the model of a step, if it is not loaded."""

    def run(
        self, step: Step, model: str | None, inputs: Mapping[str, Picture], params: Params, report: Report
    ) -> tuple[Picture, EngineInfo]:
        """Run the step and return its picture."""
