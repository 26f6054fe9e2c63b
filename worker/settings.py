"""The worker's settings, read once from the environment. Every number is bounded."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic.alias_generators import to_camel
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from worker.pictures import Limits
from worker.steps import NODE_TYPES, STEPS, NodeType, Step

STEP_NAMES = frozenset(name for _, name in STEPS)

EngineName = Literal["preview", "onnx", "ncnn", "diffusers", "comfyui", "images_api"]
ENGINE_NAMES: tuple[str, ...] = EngineName.__args__  # type: ignore[attr-defined]
Kind = Literal["matting", "image_to_image", "super_resolution", "diffusers"]
ENGINE_OF_KIND: Mapping[Kind, EngineName] = {
    "matting": "onnx",
    "image_to_image": "onnx",
    "super_resolution": "ncnn",
    "diffusers": "diffusers",
}
# The engines of a node type that ARTIWAY_ENGINES does not name. The first that can serve the step is used.
DEFAULT_ENGINES: Mapping[str, str] = {"cutout": "onnx,preview", "hd_fix": "ncnn,preview"}


class ModelSpec(BaseModel):
    """The weights of a model in S3 and the shape of its input. The checksum identifies the model."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    key: str = Field(min_length=1, max_length=1024)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    steps: list[str] = Field(min_length=1)
    kind: Kind = "matting"
    bucket: str = ""  # empty: the artefact bucket
    # A super-resolution model has its graph in a second file.
    graph_key: str = Field(default="", max_length=1024)
    graph_sha256: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    memory_mb: int = Field(default=1024, ge=1, le=512 * 1024)
    max_pixels: int = Field(default=0, ge=0, le=200_000_000)  # of the main input; 0: any
    side: int = Field(default=512, ge=8, le=4096)
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)


def shipped_models() -> dict[str, ModelSpec]:
    """The models whose weights registries carry (models.toml)."""
    rows = tomllib.loads((files("worker") / "models.toml").read_text("utf-8"))["models"]
    return {name: ModelSpec(**row) for name, row in rows.items()}


class WorkerSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="ARTIWAY_", frozen=True, extra="ignore")

    internal_function: str = Field(min_length=1)
    work_queue_urls: dict[NodeType, str] = Field(min_length=1)
    progress_queue_url: str = Field(min_length=1)
    artefact_bucket: str = Field(min_length=1)

    worker_pool: str = Field(default="gpu", pattern=r"^[a-z]{1,32}$")
    worker_types: Annotated[list[NodeType], NoDecode] = []
    worker_slots: int = Field(default=1, ge=1, le=64)
    engines: dict[str, str] = {}
    models: dict[str, ModelSpec] = Field(default={}, validate_default=True)
    model_folder: str = "/tmp/artiway-models"  # noqa: S108 (checked by checksum at first use)
    model_memory_mb: int = Field(default=8_192, ge=64, le=512 * 1024)

    # Servers of the operator. The images API's address ends before /images/edits.
    comfyui_url: str = Field(default="", max_length=500)
    comfyui_checkpoint: str = Field(default="sd_xl_base_1.0.safetensors", max_length=200)
    comfyui_workflows: str = ""  # a folder whose workflows replace those of worker/workflows
    images_api_url: str = Field(default="", max_length=500)
    images_api_key: SecretStr = Field(default=SecretStr(""))
    images_api_model: str = Field(default="gpt-image-1", max_length=100)

    engine_threads: int = Field(default=0, ge=0, le=64)  # 0: the machine's cores, shared by the slots

    beat_file: str = ""  # touched after each answered heartbeat, for the container's health check
    poll_wait_s: int = Field(default=10, ge=0, le=20)
    progress_min_gap_s: float = Field(default=0.25, ge=0, le=10)
    drain_s: float = Field(default=20, ge=0, le=110)
    report_s: float = Field(default=120, ge=1, le=600)
    stop_grace_s: float = Field(default=1.0, ge=0, le=10)
    child_memory_mb: int = Field(default=6_144, ge=0, le=512 * 1024)  # 0: no limit, as CUDA needs
    time_limit_max_s: int = Field(default=3_600, ge=1, le=7_200)

    input_max_bytes: int = Field(default=25 * 1024 * 1024, ge=1024, le=200 * 1024 * 1024)
    input_max_pixels: int = Field(default=50_000_000, ge=10_000, le=200_000_000)
    input_max_side: int = Field(default=16_384, ge=64, le=65_535)

    @field_validator("worker_types", mode="before")
    @classmethod
    def parse_types(cls, value: Any) -> Any:
        """Accept `cutout,model` as well as `["cutout", "model"]`."""
        if isinstance(value, str):
            text = value.strip()
            return (
                json.loads(text) if text.startswith("[") else [part.strip() for part in text.split(",") if part.strip()]
            )
        return value

    @field_validator("engines")
    @classmethod
    def know_every_engine(cls, value: dict[str, str]) -> dict[str, str]:
        for place, names in value.items():
            if place not in NODE_TYPES and place not in STEP_NAMES:
                raise ValueError(f"engines: {place!r} is neither a node type nor a step")
            if not names or any(name not in ENGINE_NAMES for name in names.split(",")):
                raise ValueError(f"engines: {names!r} is not a list of {', '.join(ENGINE_NAMES)}")
        return value

    @field_validator("models", mode="after")
    @classmethod
    def add_shipped_models(cls, value: dict[str, ModelSpec]) -> dict[str, ModelSpec]:
        """The operator's models come first."""
        return {**value, **{name: spec for name, spec in shipped_models().items() if name not in value}}

    @model_validator(mode="after")
    def every_type_has_a_queue(self) -> Self:
        missing = [node_type for node_type in self.types if node_type not in self.work_queue_urls]
        if missing:
            raise ValueError(f"no work queue is given for {', '.join(missing)}")
        return self

    @property
    def types(self) -> list[NodeType]:
        return self.worker_types or list(self.work_queue_urls)

    @property
    def limits(self) -> Limits:
        return Limits(self.input_max_bytes, self.input_max_pixels, self.input_max_side)

    def engines_of(self, step: Step) -> tuple[str, ...]:
        """The engines of a step in the order in which they are tried."""
        default = DEFAULT_ENGINES.get(step.node_type, "preview")
        return tuple(self.engines.get(step.name, self.engines.get(step.node_type, default)).split(","))

    @property
    def steps(self) -> list[Step]:
        return [step for step in STEPS.values() if step.node_type in self.types]

    @property
    def engine_names(self) -> str:
        return ",".join(sorted({name for step in self.steps for name in self.engines_of(step)}))

    @property
    def threads(self) -> int:
        return self.engine_threads or max(1, (os.cpu_count() or 1) // self.worker_slots)
