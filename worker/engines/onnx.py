"""ONNX models: matting models for cut-outs, image-to-image models for other steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engines.base import EngineInfo, Report
from worker.engines.cache import ModelCache
from worker.engines.inputs import main_input
from worker.engines.preview.cutout import clean_edge_colors, guided
from worker.engines.preview.raster import box_of, crop_to, hex_color, layer, resize, to_pixels
from worker.errors import EngineBusy, EngineNotInstalled, InputEmptySubject, ModelUnknown
from worker.pictures import Picture, flatten
from worker.settings import ModelSpec
from worker.steps import Params, Step

Tensor = NDArray[np.float32]


class OnnxEngine:
    def __init__(self, files: Mapping[str, tuple[ModelSpec, Path]], memory_mb: int) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise EngineNotInstalled("the onnx engine needs the package onnxruntime (or onnxruntime-gpu)") from error
        self._runtime: Any = onnxruntime
        self._files = files
        self.cache: ModelCache[Any] = ModelCache(memory_mb)

    def load(self, step: Step, model: str | None) -> None:
        spec, path = self._file(step, model)
        with self.cache.use(spec.sha256, spec.memory_mb, lambda: self._session(path)):
            pass

    def run(
        self, step: Step, model: str | None, inputs: Mapping[str, Picture], params: Params, report: Report
    ) -> tuple[Picture, EngineInfo]:
        spec, path = self._file(step, model)
        main = main_input(step, inputs)
        report(10)
        with self.cache.use(spec.sha256, spec.memory_mb, lambda: self._session(path)) as session:
            output = self._infer(session, to_tensor(main, spec))
            report(80)
            providers = ", ".join(session.get_providers())
        made = apply_matte(main, output, params) if spec.kind == "matting" else to_picture(main, output, params)
        detail = f"model {model} ({spec.sha256[:12]}) on {providers}"
        return made, EngineInfo("onnx", self._runtime.__version__, is_neural=True, detail=detail)

    def _file(self, step: Step, model: str | None) -> tuple[ModelSpec, Path]:
        if model is None or model not in self._files:
            raise ModelUnknown(f"the step {step.name} needs a model that is configured")
        spec, path = self._files[model]
        if step.name not in spec.steps:
            raise ModelUnknown(f"the model {model} does not do the step {step.name}")
        return spec, path

    def _session(self, path: Path) -> Any:
        options = self._runtime.SessionOptions()
        options.log_severity_level = 3
        wanted = ("CUDAExecutionProvider", "CPUExecutionProvider")
        providers = [name for name in wanted if name in self._runtime.get_available_providers()]
        try:
            return self._runtime.InferenceSession(str(path), options, providers=providers)
        except Exception as error:
            raise translated(error) from error

    def _infer(self, session: Any, tensor: Tensor) -> Tensor:
        try:
            (output, *_) = session.run(None, {session.get_inputs()[0].name: tensor})
        except Exception as error:
            raise translated(error) from error
        return np.asarray(output, np.float32)


def translated(error: Exception) -> Exception:
    """onnxruntime raises one type of exception for all errors. Only a lack of memory is worth a retry."""
    text = str(error).lower()
    if "memory" in text or "alloc" in text:
        return EngineBusy("the model ran out of memory")
    return error


def to_tensor(picture: Picture, spec: ModelSpec) -> Tensor:
    """The model's input: square, normalised, channels first, a batch of one."""
    ground = flatten(picture, (255, 255, 255)).rgb
    square = layer(resize(layer(ground), spec.side, spec.side)) / 255
    normal = (square - layer(spec.mean)) / layer(spec.std)
    return np.ascontiguousarray(normal.transpose(2, 0, 1)[None], dtype=np.float32)


def apply_matte(picture: Picture, output: Tensor, params: Params) -> Picture:
    """Apply the model's mask, scaled to the picture's size, with its edge fitted to the picture."""
    plane = output.reshape(-1, *output.shape[-2:])[0]
    if plane.min() < -0.01 or plane.max() > 1.01:  # logits
        plane = 1 / (1 + np.exp(-plane))
    large = np.clip(resize(layer(plane), picture.width, picture.height), 0, 1)
    radius = max(2, max(picture.width, picture.height) // 220)
    edge = np.clip(guided(layer(layer(picture.rgb) / 255), layer(large), radius=radius, epsilon=1e-4), 0, 1)
    is_sure = (large < 0.02) | (large > 0.98)
    alpha = layer(np.where(is_sure, large, edge))
    if alpha.max(initial=0) < 0.5:
        raise InputEmptySubject("no product stands out from the background of this picture")
    cut = Picture(clean_edge_colors(picture.rgb, alpha), to_pixels(alpha * 255))
    assert cut.alpha is not None
    if params.get("trim") and (box := box_of(cut.alpha, 4)) is not None:
        cut = crop_to(cut, box)
    background = params.get("background", "transparent")
    if background == "transparent":
        return cut
    return flatten(cut, (255, 255, 255) if background == "white" else hex_color(background))


def to_picture(picture: Picture, output: Tensor, params: Params) -> Picture:
    """The model's output (0..1) at the input's size, times the scale of an enlarging step."""
    made = output.reshape(-1, *output.shape[-3:])[0].transpose(1, 2, 0)
    rgb = to_pixels(np.clip(made[:, :, :3], 0, 1) * 255)
    scale = params.get("scale") or 1.0
    width, height = round(picture.width * scale), round(picture.height * scale)
    alpha = None if picture.alpha is None else to_pixels(resize(layer(picture.alpha), width, height))
    return Picture(to_pixels(resize(layer(rgb), width, height)), alpha)
