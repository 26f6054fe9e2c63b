"""Engines by name, created on first use, so that a worker imports only the engines that it runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worker.engines.base import Engine
from worker.errors import EngineNotInstalled
from worker.settings import ModelSpec


class Engines:
    def __init__(self, model_memory_mb: int, threads: int = 1, servers: Mapping[str, Any] | None = None) -> None:
        """`servers` has the operator's image servers, `comfyui` and `imagesApi`."""
        self._memory_mb, self._threads, self._servers = model_memory_mb, threads, servers or {}
        self._engines: dict[str, Engine] = {}
        self._files: dict[str, tuple[ModelSpec, Path]] = {}

    def register(self, model: str, spec: ModelSpec, path: Path) -> None:
        self._files[model] = (spec, path)

    def get(self, name: str) -> Engine:
        if name not in self._engines:
            self._engines[name] = self._make(name)
        return self._engines[name]

    def _make(self, name: str) -> Engine:
        if name == "preview":
            from worker.engines.preview.engine import PreviewEngine

            return PreviewEngine()
        if name == "onnx":
            from worker.engines.onnx import OnnxEngine

            return OnnxEngine(self._files, self._memory_mb, self._threads)
        if name == "ncnn":
            from worker.engines.ncnn import NcnnEngine

            return NcnnEngine(self._files, self._memory_mb, self._threads)
        if name == "diffusers":
            from worker.engines.diffusion import DiffusersEngine

            return DiffusersEngine(self._files, self._memory_mb)
        if name == "comfyui":
            from worker.engines.comfyui import ComfyEngine, ComfySettings

            return ComfyEngine(ComfySettings(**self._servers.get("comfyui", {})))
        if name == "images_api":
            from worker.engines.images_api import ImagesEngine, ImagesSettings

            return ImagesEngine(ImagesSettings(**self._servers.get("imagesApi", {})))
        raise EngineNotInstalled(f"there is no engine {name!r}")
