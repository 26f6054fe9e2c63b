"""Diffusion pipelines of the package `diffusers`, which only the GPU image installs (worker/gpu.in)."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from worker.engines.base import EngineInfo, Report
from worker.engines.cache import ModelCache
from worker.engines.inputs import main_input
from worker.engines.preview.raster import layer, resized, to_pixels
from worker.errors import EngineBusy, EngineNotInstalled, ModelUnknown, StepBadParams
from worker.pictures import Picture, flatten
from worker.settings import ModelSpec
from worker.steps import Params, Step

STEPS_PER_PICTURE = 28
GUIDANCE = 6.5
ALIGN = 8  # latent pixels
PIPELINES = {
    "scene": "AutoPipelineForText2Image",
    "img2img": "AutoPipelineForImage2Image",
    "style": "AutoPipelineForImage2Image",
    "derive": "AutoPipelineForImage2Image",
    "repaint": "AutoPipelineForInpainting",
    "erase": "AutoPipelineForInpainting",
}


class DiffusersEngine:
    def __init__(self, files: Mapping[str, tuple[ModelSpec, Path]], memory_mb: int) -> None:
        try:
            import diffusers
            import torch
        except ImportError as error:
            raise EngineNotInstalled(
                "the diffusers engine is an optional extra: install worker/gpu.in (diffusers, torch, transformers)"
            ) from error
        self._diffusers: Any = diffusers
        self._torch: Any = torch
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._files = files
        self.cache: ModelCache[Any] = ModelCache(memory_mb, self._unload)

    def load(self, step: Step, model: str | None) -> None:
        spec, path = self._file(step, model)
        with self.cache.use(self._name(spec, step), spec.memory_mb, lambda: self._pipeline(step, path)):
            pass

    def run(
        self, step: Step, model: str | None, inputs: Mapping[str, Picture], params: Params, report: Report
    ) -> tuple[Picture, EngineInfo]:
        spec, path = self._file(step, model)
        request = self._request(step, inputs, params)

        def tick(_pipeline: Any, index: int, _time: Any, values: dict[str, Any]) -> dict[str, Any]:
            report(5 + 88 * (index + 1) / STEPS_PER_PICTURE)  # raises if the attempt is stopped
            return values

        seed = self._torch.Generator(self._device).manual_seed((params.seed * 1_000_003 + params.variant) % 2**63)
        with self.cache.use(self._name(spec, step), spec.memory_mb, lambda: self._pipeline(step, path)) as pipeline:
            try:
                made = pipeline(
                    **request,
                    num_inference_steps=STEPS_PER_PICTURE,
                    guidance_scale=GUIDANCE,
                    generator=seed,
                    callback_on_step_end=tick,
                ).images[0]
            except self._torch.cuda.OutOfMemoryError as error:
                raise EngineBusy("the GPU is out of memory") from error
        picture = self._finish(step, Picture(np.array(made.convert("RGB"), dtype=np.uint8)), inputs)
        detail = f"model {model} ({spec.sha256[:12]}) on {self._device}"
        return picture, EngineInfo("diffusers", self._diffusers.__version__, is_neural=True, detail=detail)

    def _request(self, step: Step, inputs: Mapping[str, Picture], params: Params) -> dict[str, Any]:
        from PIL import Image

        prompt = getattr(params, "prompt", "") or "product photograph, soft light, sharp focus"
        if step.name == "scene":
            width, height = getattr(params, "width", 1024), getattr(params, "height", 1024)
            return {"prompt": prompt, "width": width // ALIGN * ALIGN, "height": height // ALIGN * ALIGN}
        picture = aligned(flatten(main_input(step, inputs), (255, 255, 255)))
        request: dict[str, Any] = {"prompt": prompt, "image": Image.fromarray(picture.rgb)}
        if step.name in ("repaint", "erase"):
            mask = inputs.get("mask")
            if mask is None:
                raise StepBadParams("this engine needs a mask")
            plane = resized(Picture(mask.rgb), picture.width, picture.height).rgb.max(axis=2)
            request["mask_image"] = Image.fromarray(plane)
        else:
            request["strength"] = max(0.05, float(getattr(params, "strength", 0.5)))
        return request

    def _finish(self, step: Step, made: Picture, inputs: Mapping[str, Picture]) -> Picture:
        """Resize to the input's size. Outside a mask the input's pixels are kept."""
        if step.name == "scene":
            return made
        source = main_input(step, inputs)
        made = resized(made, source.width, source.height)
        mask = inputs.get("mask")
        if step.name not in ("repaint", "erase") or mask is None:
            return Picture(made.rgb, source.alpha)
        plane = resized(Picture(mask.rgb), source.width, source.height).rgb.max(axis=2) > 127
        kept = np.where(plane[:, :, None], layer(made.rgb), layer(source.rgb))
        return Picture(to_pixels(kept), source.alpha)

    def _file(self, step: Step, model: str | None) -> tuple[ModelSpec, Path]:
        if model is None or model not in self._files or step.name not in PIPELINES:
            raise ModelUnknown(f"the step {step.name} has no diffusion model configured")
        return self._files[model]

    def _name(self, spec: ModelSpec, step: Step) -> str:
        return f"{spec.sha256}/{PIPELINES[step.name]}"

    def _pipeline(self, step: Step, archive: Path) -> Any:
        folder = unpacked(archive)
        kind = getattr(self._diffusers, PIPELINES[step.name])
        dtype = self._torch.float16 if self._device == "cuda" else self._torch.float32
        # Local files and safetensors only, so a pipeline can neither run code nor download files.
        pipeline = kind.from_pretrained(folder, torch_dtype=dtype, use_safetensors=True, local_files_only=True)
        pipeline.set_progress_bar_config(disable=True)
        return pipeline.to(self._device)

    def _unload(self, pipeline: Any) -> None:
        pipeline.to("cpu")
        if self._device == "cuda":
            self._torch.cuda.empty_cache()


def aligned(picture: Picture) -> Picture:
    return resized(picture, max(ALIGN, picture.width // ALIGN * ALIGN), max(ALIGN, picture.height // ALIGN * ALIGN))


def unpacked(archive: Path) -> Path:
    """Unpack the pipeline beside its archive. The filter `data` refuses links and paths outside the folder."""
    folder = archive.with_suffix(".pipeline")
    if not folder.exists():
        # In a folder of its own: the children of two slots may unpack at the same time.
        with tempfile.TemporaryDirectory(dir=archive.parent, ignore_cleanup_errors=True) as place:
            part = Path(place) / "pipeline"
            with tarfile.open(archive) as tar:
                tar.extractall(part, filter="data")
            try:
                part.rename(folder)
            except OSError:
                if not folder.exists():  # otherwise the other child was first
                    raise
    return folder
