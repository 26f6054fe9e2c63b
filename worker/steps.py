"""The steps that engines run, with their inputs, parameters and outputs.

The catalogue (`artiway/tasks/catalogue.toml`) is the only list of node types, steps and parameters. The worker's image
contains it, so a new step in the catalogue needs only an engine here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Any

from pydantic import AfterValidator

from artiway.tasks import parameters
from worker.errors import StepBadParams, StepUnknown

CATALOGUE = tomllib.loads((files("artiway.tasks") / "catalogue.toml").read_text("utf-8"))
NODE_TYPES = tuple(CATALOGUE["types"])
MAX_INPUTS = 8  # pictures of a node


def _known_type(name: str) -> str:
    if name not in NODE_TYPES:
        raise ValueError(f"no node type {name!r}; known are {', '.join(NODE_TYPES)}")
    return name


NodeType = Annotated[str, AfterValidator(_known_type)]


class Params:
    """A step's parameters: `featherPx` is `params.feather_px`. A missing one has its default, or None."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = {_python_name(name): value for name, value in values.items()}

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"this step has no parameter {name}") from None

    def get(self, name: str, default: Any = None) -> Any:
        return self._values.get(name, default)


@dataclass(frozen=True)
class Step:
    """`main` lists the accepted names of the main input, preferred first. It is empty if a step needs no input."""

    node_type: str
    name: str
    params: Mapping[str, parameters.Schema]
    output: str
    main: tuple[str, ...]
    refuses: tuple[Mapping[str, Any], ...] = ()


def _step(name: str, row: Mapping[str, Any]) -> Step:
    return Step(
        node_type=row["type"],
        name=name,
        params={**CATALOGUE["common"], **CATALOGUE["planned"], **row["params"]},
        output=row["output"],
        main=tuple(row["main"]),
        refuses=tuple(row.get("refuses", ())),
    )


STEPS = {(row["type"], name): _step(name, row) for name, row in CATALOGUE["steps"].items()}

# The steps that the operator's servers can do.
COMFYUI_STEPS = frozenset(("img2img", "derive", "erase", "repaint", "extend", "scene", "figure"))
IMAGES_API_STEPS = frozenset(("img2img", "derive", "erase", "repaint", "extend", "figure"))


def step_of(node_type: str, params: Mapping[str, Any]) -> Step:
    """The step in a node's parameters; without one, the first step of its node type."""
    name = params.get("step", next((known for kind, known in STEPS if kind == node_type), None))
    step = STEPS.get((node_type, str(name)))
    if step is None:
        raise StepUnknown(f"there is no step {name!r} of type {node_type!r}")
    return step


def read_params(step: Step, params: Mapping[str, Any]) -> Params:
    """Check a step's parameters. A node may carry those of its whole tool: unknown ones are ignored."""
    given = {name: value for name, value in params.items() if name in step.params}
    for name, value in given.items():
        if reason := parameters.fault(step.params[name], value):
            raise StepBadParams(f"{name}: {reason}")
    for refusal in step.refuses:
        if parameters.is_refused(refusal["params"], given, step.params):
            raise StepBadParams(refusal["reason"])
    defaults = {name: schema.get("default") for name, schema in step.params.items()}
    return Params({**defaults, "seed": 0, **given})


def _python_name(name: str) -> str:
    return re.sub(r"[A-Z]", lambda capital: f"_{capital[0].lower()}", name)
