"""The preview engine: one function per step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import cv2

from worker import VERSION
from worker.engines.base import EngineInfo, Report
from worker.engines.inputs import main_input
from worker.engines.preview import compose, cutout, effects, figure, reshape, scene
from worker.engines.preview.raster import blur, box_of, crop_to, hex_color, layer, resized, to_pixels
from worker.pictures import Picture, flatten
from worker.steps import Params, Step

Inputs = Mapping[str, Picture]
WORK_PIXELS = 12_000_000
INFO = EngineInfo("preview", VERSION, is_neural=False, detail="OpenCV on the CPU; no neural model was used")


def reduced(picture: Picture) -> Picture:
    """Refuse a size that takes this engine too long or too much memory."""
    factor = (WORK_PIXELS / picture.pixels) ** 0.5
    return picture if factor >= 1 else resized(picture, int(picture.width * factor), int(picture.height * factor))


def cut(main: Picture, inputs: Inputs, params: Params) -> Picture:
    mask = inputs.get("mask")
    result = cutout.cut_out(main, None if mask is None else mask.rgb.max(axis=2))
    assert result.alpha is not None
    if params.feather_px > 1:
        result = Picture(result.rgb, to_pixels(blur(layer(result.alpha), params.feather_px / 2)))
    if params.trim and (box := box_of(result.alpha, 4)) is not None:
        result = crop_to(result, box)
    if params.background == "transparent":
        return result
    return flatten(result, (255, 255, 255) if params.background == "white" else hex_color(params.background))


def compose_subject(main: Picture, inputs: Inputs, params: Any) -> Picture:
    return compose.compose(main, inputs.get("scene"), params, is_figure="model" in inputs)


STEPS: dict[str, Callable[[Picture, Inputs, Any], Picture]] = {
    "cutout": cut,
    "crop": lambda main, _inputs, params: reshape.crop(main, params),
    "figure": lambda main, _inputs, params: figure.figure(main, params),
    "style": lambda main, _inputs, params: effects.style(main, params),
    "img2img": lambda main, _inputs, params: effects.img2img(main, params),
    "derive": lambda main, _inputs, params: effects.derive(main, params),
    "compose": compose_subject,
    "background": lambda main, inputs, params: compose.replace_background(main, inputs.get("scene"), params),
    "convert": lambda main, _inputs, params: effects.convert(main, params),
    "extend": lambda main, _inputs, params: reshape.extend(main, params),
    "erase": lambda main, inputs, params: reshape.erase(main, inputs.get("mask"), params),
    "repaint": lambda main, inputs, params: reshape.repaint(main, inputs.get("mask"), params),
    "hd_fix": lambda main, _inputs, params: effects.hd_fix(main, params),
    "upscale": lambda main, _inputs, params: effects.upscale(main, params),
}


class PreviewEngine:
    """Runs every step without weights and without a GPU."""

    def load(self, step: Step, model: str | None) -> None:
        cv2.setNumThreads(1)  # slots are the unit of parallelism; more threads would compete for the same cores

    def run(
        self, step: Step, model: str | None, inputs: Inputs, params: Params, report: Report
    ) -> tuple[Picture, EngineInfo]:
        report(5)
        detail = INFO
        if max((picture.pixels for picture in inputs.values()), default=0) > WORK_PIXELS:
            inputs = {name: reduced(picture) for name, picture in inputs.items()}
            detail = replace(
                INFO, detail=f"{INFO.detail}; inputs were reduced to {WORK_PIXELS // 1_000_000} megapixels"
            )
        if step.name == "scene":
            product = inputs.get("product")
            result = scene.make_scene(params, params.width, params.height, product)
        else:
            result = STEPS[step.name](main_input(step, inputs), inputs, params)
        report(95)
        return result, detail
