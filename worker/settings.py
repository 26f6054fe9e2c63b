"""The worker's settings, read once from the environment. Every number is bounded."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from worker.pictures import Limits
from worker.steps import NodeType

EngineName = Literal["preview", "onnx", "diffusers"]


class ModelSpec(BaseModel):
    """The weights of a model in S3 and the shape of its input. The checksum identifies the model."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    key: str = Field(min_length=1, max_length=1024)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    steps: list[str] = Field(min_length=1)
    kind: Literal["matting", "image_to_image", "diffusers"] = "matting"
    bucket: str = ""  # empty: the artefact bucket
    memory_mb: int = Field(default=1024, ge=1, le=512 * 1024)
    side: int = Field(default=512, ge=8, le=4096)
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)


class WorkerSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="ARTIWAY_", frozen=True, extra="ignore")

    internal_function: str = Field(min_length=1)
    work_queue_urls: dict[NodeType, str] = Field(min_length=1)
    progress_queue_url: str = Field(min_length=1)
    artefact_bucket: str = Field(min_length=1)

    worker_pool: str = Field(default="gpu", pattern=r"^[a-z]{1,32}$")
    worker_types: Annotated[list[NodeType], NoDecode] = []
    worker_slots: int = Field(default=1, ge=1, le=64)
    engines: dict[NodeType, EngineName] = {}
    models: dict[str, ModelSpec] = {}
    model_folder: str = "/tmp/artiway-models"  # noqa: S108 (checked by checksum at each use)
    model_memory_mb: int = Field(default=8_192, ge=64, le=512 * 1024)

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

    def engine_of(self, node_type: str) -> EngineName:
        return self.engines.get(node_type, "preview")

    @property
    def engine_names(self) -> str:
        return ",".join(sorted({self.engine_of(node_type) for node_type in self.types}))
