"""The steps that engines understand: what each takes, what it makes. `python -m worker.steps` prints them as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from worker.errors import StepBadParams, StepUnknown

Color = Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$")]
Aspect = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,2}:[1-9][0-9]{0,2}$")]
Fraction = Annotated[float, Field(ge=0, le=1)]
Side = Annotated[int, Field(ge=64, le=2048)]
Region = tuple[Fraction, Fraction, Fraction, Fraction]
Prompt = Annotated[str, Field(max_length=500)]
Preset = Literal["auto", "studio", "table", "outdoor", "beach", "night", "shelf", "podium"]
Style = Literal["watercolor", "pencil", "oil", "poster", "cartoon", "vintage", "neon"]
Pose = Literal["stand", "hip", "wave", "walk", "akimbo", "lean", "arms_up", "turn"]


class NodeType(StrEnum):
    CUTOUT = "cutout"
    MODEL = "model"
    COMPOSE = "compose"
    EXTEND = "extend"
    HD_FIX = "hd_fix"


class Params(BaseModel):
    """What every step takes. A node may carry its whole tool's parameters, so unknown ones are not an error."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, allow_inf_nan=False)

    seed: int = Field(default=0, ge=0, lt=2**63)
    variant: int = Field(default=0, ge=0, lt=500)
    format: Literal["png", "jpeg", "webp"] = "png"
    quality: int = Field(default=90, ge=1, le=100)


class SubjectParams(Params):
    """The output keeps its transparency, which JPEG has not."""

    format: Literal["png", "webp"] = "png"


class CutoutParams(Params):
    # For readers of the schema; keeps_transparency is what enforces it.
    model_config = ConfigDict(
        json_schema_extra={
            "not": {
                "properties": {"format": {"const": "jpeg"}, "background": {"const": "transparent"}},
                "required": ["format"],
            }
        }
    )

    background: Literal["transparent", "white"] | Color = "transparent"
    feather_px: float = Field(default=1, ge=0, le=8)
    trim: bool = False

    @model_validator(mode="after")
    def keeps_transparency(self) -> Self:
        if self.background == "transparent" and self.format == "jpeg":
            raise ValueError("JPEG has no transparency: choose a background, or png or webp")
        return self


class CropParams(Params):
    aspect: Literal["original"] | Aspect = "1:1"
    margin: float = Field(default=0.08, ge=0, le=0.5)


class FigureParams(SubjectParams):
    pose: Pose | None = None
    look: Literal["virtual", "real"] = "virtual"
    wear: Literal["auto", "torso", "hold", "feet"] = "auto"
    skin: int | None = Field(default=None, ge=0, le=5)
    width: Side = 960
    height: Side = 1280


class BackdropParams(Params):
    prompt: Prompt = ""
    preset: Preset = "auto"
    color: Color | None = None


class SceneParams(BackdropParams):
    width: Side = 1024
    height: Side = 1024


class StyleParams(Params):
    style: Style = "watercolor"
    strength: Fraction = 0.8


class Img2ImgParams(Params):
    prompt: Prompt = ""
    strength: Fraction = 0.5


class DeriveParams(Params):
    strength: Fraction = 0.5


class ComposeParams(BackdropParams):
    scale: float | None = Field(default=None, ge=0.2, le=1)
    x: Fraction = 0.5
    shadow: bool = True
    width: Side | None = None
    height: Side | None = None


class BackgroundParams(BackdropParams):
    shadow: bool = True


class ConvertParams(Params):
    width: int | None = Field(default=None, ge=16, le=4096)
    height: int | None = Field(default=None, ge=16, le=4096)
    fit: Literal["contain", "cover", "stretch"] = "contain"
    background: Literal["transparent"] | Color = "#ffffff"


class ExtendParams(Params):
    left: Fraction = 0.25
    right: Fraction = 0.25
    top: Fraction = 0.25
    bottom: Fraction = 0.25
    aspect: Aspect | None = None


class EraseParams(Params):
    regions: list[Region] = Field(default=[], max_length=32)


class RepaintParams(EraseParams):
    prompt: Prompt = ""
    color: Color | None = None


class HdFixParams(Params):
    strength: Fraction = 0.6
    scale: float = Field(default=1, ge=1, le=2)


class UpscaleParams(Params):
    scale: float = Field(default=2, ge=2, le=4)
    strength: Fraction = 0.5


@dataclass(frozen=True)
class Step:
    """`main` names the accepted main input, best first; empty where a step needs none."""

    node_type: NodeType
    name: str
    params: type[Params]
    output: str
    main: tuple[str, ...]
    optional: tuple[str, ...] = ()


PICTURE = ("product", "picture")
STEPS: dict[tuple[str, str], Step] = {
    (step.node_type, step.name): step
    for step in (
        Step(NodeType.CUTOUT, "cutout", CutoutParams, "cutout", PICTURE, ("mask",)),
        Step(NodeType.CUTOUT, "crop", CropParams, "picture", (*PICTURE, "cutout")),
        Step(NodeType.MODEL, "figure", FigureParams, "model", ("cutout", "product")),
        Step(NodeType.MODEL, "scene", SceneParams, "scene", (), ("product",)),
        Step(NodeType.MODEL, "style", StyleParams, "picture", PICTURE),
        Step(NodeType.MODEL, "img2img", Img2ImgParams, "picture", PICTURE),
        Step(NodeType.MODEL, "derive", DeriveParams, "picture", PICTURE),
        Step(NodeType.COMPOSE, "compose", ComposeParams, "picture", ("model", "cutout", "product"), ("scene",)),
        Step(NodeType.COMPOSE, "background", BackgroundParams, "picture", ("cutout", "product"), ("scene",)),
        Step(NodeType.COMPOSE, "convert", ConvertParams, "picture", PICTURE),
        Step(NodeType.EXTEND, "extend", ExtendParams, "picture", PICTURE),
        Step(NodeType.EXTEND, "erase", EraseParams, "picture", PICTURE, ("mask",)),
        Step(NodeType.EXTEND, "repaint", RepaintParams, "picture", PICTURE, ("mask",)),
        Step(NodeType.HD_FIX, "hd_fix", HdFixParams, "picture", PICTURE),
        Step(NodeType.HD_FIX, "upscale", UpscaleParams, "picture", PICTURE),
    )
}


def step_of(node_type: str, params: Mapping[str, Any]) -> Step:
    """The step a node asks for; a flow that names only a node type means the type's first."""
    name = params.get("step", next((known for kind, known in STEPS if kind == node_type), None))
    step = STEPS.get((node_type, str(name)))
    if step is None:
        raise StepUnknown(f"there is no step {name!r} of type {node_type!r}")
    return step


def read_params(step: Step, params: Mapping[str, Any]) -> Params:
    try:
        return step.params.model_validate(dict(params))
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()[:5])
        raise StepBadParams(faults) from error


def as_json() -> str:
    steps = [
        {
            "type": step.node_type,
            "step": step.name,
            "mainInput": step.main,
            "optionalInputs": step.optional,
            "output": step.output,
            "params": step.params.model_json_schema(by_alias=True),
        }
        for step in STEPS.values()
    ]
    return json.dumps(steps, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    print(as_json(), end="")
