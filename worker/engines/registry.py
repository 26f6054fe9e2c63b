"""Engines by name, created on first use, so that a worker imports only the engines that it runs."""

from __future__ import annotations

from pathlib import Path

from worker.engines.base import Engine
from worker.errors import EngineNotInstalled
from worker.settings import ModelSpec


class Engines:
    def __init__(self, model_memory_mb: int) -> None:
        self._memory_mb = model_memory_mb
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

            return OnnxEngine(self._files, self._memory_mb)
        if name == "diffusers":
            from worker.engines.diffusion import DiffusersEngine

            return DiffusersEngine(self._files, self._memory_mb)
        raise EngineNotInstalled(f"there is no engine {name!r}")
