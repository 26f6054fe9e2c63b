"""Chooses the main input of a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from worker.errors import InputMissing
from worker.steps import Step

T = TypeVar("T")


def main_input(step: Step, inputs: Mapping[str, T]) -> T:
    for name in step.main:
        if name in inputs:
            return inputs[name]
    raise InputMissing(f"the step {step.name} needs an input named {' or '.join(step.main)}")
