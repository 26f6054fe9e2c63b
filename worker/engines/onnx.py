"""ONNX models: matting models for cut-outs, image-to-image models for other steps."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engines.base import EngineInfo, Report
from worker.engines.cache import ModelCache
from worker.engines.inputs import main_input
from worker.engines.matte import cut_by_mask, finished
from worker.engines.preview import reshape
from worker.engines.preview.engine import WORK_PIXELS, reduced
from worker.engines.preview.raster import Layer, box_of, layer, resize, to_pixels
from worker.errors import EngineBusy, EngineNotInstalled, ModelUnknown
from worker.pictures import Picture, flatten
from worker.settings import ModelSpec
from worker.steps import Params, Step

Tensor = NDArray[np.float32]
WATCH_S = 0.25


class OnnxEngine:
    def __init__(self, files: Mapping[str, tuple[ModelSpec, Path]], memory_mb: int, threads: int = 1) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise EngineNotInstalled("the onnx engine needs the package onnxruntime (or onnxruntime-gpu)") from error
        self._runtime: Any = onnxruntime
        self._files, self._threads = files, threads
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
        reduced_from = main.pixels if main.pixels > WORK_PIXELS else 0
        main = reduced(main)
        if step.name == "cutout" and main.alpha is not None and "mask" not in inputs:
            info = EngineInfo("onnx", self._runtime.__version__, is_neural=True, detail="the input is cut out already")
            return finished(main, params), info
        report(10)
        with self.cache.use(spec.sha256, spec.memory_mb, lambda: self._session(path)) as session:
            output = self._infer(session, to_tensor(main, spec), report)
            report(80)
            providers = ", ".join(session.get_providers())
        detail = f"model {model} ({spec.sha256[:12]}) on {providers}"
        if reduced_from:
            detail += f"; the input was reduced to {WORK_PIXELS // 1_000_000} megapixels"
        made = (
            matted(step, main, output, inputs, params) if spec.kind == "matting" else to_picture(main, output, params)
        )
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
        options.intra_op_num_threads = self._threads
        # Without the arena memory goes back to the system after each picture, for a few percent of the time.
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        wanted = ("CUDAExecutionProvider", "CPUExecutionProvider")
        providers = [name for name in wanted if name in self._runtime.get_available_providers()]
        try:
            return self._runtime.InferenceSession(str(path), options, providers=providers)
        except Exception as error:
            raise translated(error) from error

    def _infer(self, session: Any, tensor: Tensor, report: Report) -> Tensor:
        """Run the network. A watcher stops it between two of its layers when the attempt is to stop."""
        options = self._runtime.RunOptions()
        with Watcher(report, options) as watcher:
            try:
                wanted = [session.get_outputs()[0].name]
                (output,) = session.run(wanted, {session.get_inputs()[0].name: tensor}, options)
            except Exception as error:
                watcher.raise_stop()
                raise translated(error) from error
        watcher.raise_stop()
        return np.asarray(output, np.float32)


class Watcher:
    """Reports progress while a network runs. `report` raises when the attempt is to stop; then the run is ended."""

    def __init__(self, report: Report, options: Any) -> None:
        self._report, self._options = report, options
        self._end = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def raise_stop(self) -> None:
        if self._error is not None:
            raise self._error

    def _watch(self) -> None:
        percent = 10.0
        while not self._end.wait(WATCH_S):
            percent += (75 - percent) * 0.06
            try:
                self._report(round(percent, 1))
            except BaseException as error:  # noqa: BLE001 (raised again by the thread that runs the network)
                self._error = error
                self._options.terminate = True
                return


def matted(step: Step, main: Picture, output: Tensor, inputs: Mapping[str, Picture], params: Params) -> Picture:
    mask = mask_of(output)
    if step.name == "crop":
        return cropped(main, mask, params)
    hint = inputs.get("mask")
    return cut_by_mask(main, mask, params, None if hint is None else hint.rgb.max(axis=2))


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


def mask_of(output: Tensor) -> Layer:
    """The model's first mask as 0..1: logits by their sigmoid, other values by their range."""
    plane = layer(output.reshape(-1, *output.shape[-2:])[0])
    if plane.min() < -0.01 or plane.max() > 1.01:
        return layer(1 / (1 + np.exp(-plane)))
    low, high = float(plane.min()), float(plane.max())
    # A picture without a subject gives a mask that is dark everywhere; its range is left as it is.
    return layer((plane - low) / (high - low)) if high > 0.3 else plane


def cropped(picture: Picture, mask: Layer, params: Params) -> Picture:
    found = box_of(resize(mask, picture.width, picture.height), 0.5)
    return reshape.crop(picture, params, found or (0, 0, picture.width, picture.height))


def to_picture(picture: Picture, output: Tensor, params: Params) -> Picture:
    """The model's output (0..1) at the input's size, times the scale of an enlarging step."""
    made = output.reshape(-1, *output.shape[-3:])[0].transpose(1, 2, 0)
    rgb = to_pixels(np.clip(made[:, :, :3], 0, 1) * 255)
    scale = params.get("scale") or 1.0
    width, height = round(picture.width * scale), round(picture.height * scale)
    alpha = None if picture.alpha is None else to_pixels(resize(layer(picture.alpha), width, height))
    return Picture(to_pixels(resize(layer(rgb), width, height)), alpha)
