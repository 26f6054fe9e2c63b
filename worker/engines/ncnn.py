"""Super-resolution networks on ncnn, on the CPU: a picture four times as large, made in tiles that overlap."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from worker.engines.base import EngineInfo, Report
from worker.engines.cache import ModelCache
from worker.engines.inputs import main_input
from worker.engines.preview.effects import MAX_OUTPUT_PIXELS
from worker.engines.preview.engine import WORK_PIXELS, reduced
from worker.engines.preview.raster import Layer, layer, resize, to_pixels
from worker.errors import EngineBusy, EngineNotInstalled, InputTooManyPixels, ModelUnknown
from worker.pictures import Picture, Pixels
from worker.settings import ModelSpec
from worker.steps import Params, Step

FACTOR = 4  # of every network here
# Small enough that a tile ends within a fraction of a second, so that a cancel acts soon.
TILE, MARGIN = 160, 10
LARGE_TILE = 64
RESTORE_FROM = 1.5  # an enlargement below this has no detail to restore
BAND, BAND_MARGIN = 512, 16
SHIFT_PX = 1.2  # the furthest that a pixel is moved towards its edge


class NcnnEngine:
    def __init__(self, files: Mapping[str, tuple[ModelSpec, Path]], memory_mb: int, threads: int = 1) -> None:
        try:
            import ncnn
        except ImportError as error:
            raise EngineNotInstalled("the ncnn engine needs the package ncnn") from error
        self._ncnn: Any = ncnn
        self._files, self._threads = files, threads
        self.cache: ModelCache[Any] = ModelCache(memory_mb)

    def load(self, step: Step, model: str | None) -> None:
        spec, path = self._file(step, model)
        with self.cache.use(spec.sha256, spec.memory_mb, lambda: self._net(spec, path)):
            pass

    def run(
        self, step: Step, model: str | None, inputs: Mapping[str, Picture], params: Params, report: Report
    ) -> tuple[Picture, EngineInfo]:
        spec, path = self._file(step, model)
        given = main_input(step, inputs)
        picture = reduced(given)
        width, height = round(picture.width * params.scale), round(picture.height * params.scale)
        if width * height > MAX_OUTPUT_PIXELS:
            raise InputTooManyPixels(f"{width} x {height} pixels; at most {MAX_OUTPUT_PIXELS} are made")
        with self.cache.use(spec.sha256, spec.memory_mb, lambda: self._net(spec, path)) as net:
            tile = LARGE_TILE if spec.max_pixels else TILE
            rgb = self._enlarged(net, picture.rgb, (width, height), tile, report)
        rgb = mixed(rgb, picture.rgb, (width, height), share_of(spec, params))
        if params.scale >= RESTORE_FROM:
            rgb = restored(rgb, picture.rgb, float(params.strength), report)
        alpha = None
        if picture.alpha is not None:
            alpha = to_pixels(resize(layer(picture.alpha), width, height))
        detail = f"model {model} ({spec.sha256[:12]}) on the CPU"
        if picture is not given:
            detail += f"; the input was reduced to {WORK_PIXELS // 1_000_000} megapixels"
        return Picture(rgb, alpha), EngineInfo("ncnn", str(self._ncnn.__version__), is_neural=True, detail=detail)

    def _file(self, step: Step, model: str | None) -> tuple[ModelSpec, Path]:
        if model is None or model not in self._files:
            raise ModelUnknown(f"the step {step.name} needs a model that is configured")
        spec, path = self._files[model]
        if step.name not in spec.steps or spec.kind != "super_resolution":
            raise ModelUnknown(f"the model {model} does not do the step {step.name}")
        return spec, path

    def _net(self, spec: ModelSpec, path: Path) -> Any:
        net = self._ncnn.Net()
        net.opt.use_vulkan_compute = False
        net.opt.num_threads = self._threads
        net.opt.lightmode = True  # frees what a layer made as soon as the next has read it
        if net.load_param(str(path.with_name(spec.graph_sha256))) or net.load_model(str(path)):
            raise ModelUnknown("ncnn cannot read the weights of this model")
        return net

    def _enlarged(self, net: Any, rgb: Pixels, size: tuple[int, int], tile: int, report: Report) -> Pixels:
        """Each tile has a margin of its neighbours, which is cut off again, so that no seam is seen."""
        height, width = rgb.shape[:2]
        padded = np.pad(rgb, ((MARGIN, MARGIN), (MARGIN, MARGIN), (0, 0)), mode="edge")
        result = np.empty((size[1], size[0], 3), np.uint8)
        places = [(top, left) for top in range(0, height, tile) for left in range(0, width, tile)]
        for number, (top, left) in enumerate(places):
            report(5 + 88 * number / len(places))
            bottom, right = min(top + tile, height), min(left + tile, width)
            made = self._infer(net, padded[top : bottom + 2 * MARGIN, left : right + 2 * MARGIN])
            # The tile's place in the result, by the same rounding for neighbours: no gap and no overlap.
            y0, y1 = round(top * size[1] / height), round(bottom * size[1] / height)
            x0, x1 = round(left * size[0] / width), round(right * size[0] / width)
            if y1 > y0 and x1 > x0:
                result[y0:y1, x0:x1] = fitted(made, (x1 - x0, y1 - y0))
        return result

    def _infer(self, net: Any, tile: Pixels) -> Layer:
        ncnn = self._ncnn
        part = np.ascontiguousarray(tile)
        pixels = ncnn.Mat.from_pixels(part, ncnn.Mat.PixelType.PIXEL_RGB, part.shape[1], part.shape[0])
        pixels.substract_mean_normalize([], [1 / 255] * 3)
        extractor = net.create_extractor()
        extractor.input("data", pixels)
        status, made = extractor.extract("output")
        if status != 0:
            raise EngineBusy("the network ran out of memory")
        return layer(np.array(made)).transpose(1, 2, 0) * 255


def fitted(made: Layer, size: tuple[int, int]) -> Pixels:
    """The tile without its margin, at the wanted scale."""
    inner = made[MARGIN * FACTOR : -MARGIN * FACTOR, MARGIN * FACTOR : -MARGIN * FACTOR]
    if (inner.shape[1], inner.shape[0]) != size:
        inner = layer(cv2.resize(inner, size, interpolation=cv2.INTER_AREA))
    return to_pixels(inner)


def share_of(spec: ModelSpec, params: Params) -> float:
    """How much of the result is the network's. The rest is the input, which keeps texture that a network smooths.

    The large network invents more, so less of it is taken: at half strength both stay as near to the truth as Lanczos.
    """
    return float((0.3 if spec.max_pixels else 0.45) + 0.5 * params.strength)


def mixed(made: Pixels, rgb: Pixels, size: tuple[int, int], share: float) -> Pixels:
    if share >= 1:
        return made
    plain = rgb if (rgb.shape[1], rgb.shape[0]) == size else cv2.resize(rgb, size, interpolation=cv2.INTER_LANCZOS4)
    return np.asarray(cv2.addWeighted(made, share, np.asarray(plain, np.uint8), 1 - share, 0), np.uint8)


def restored(made: Pixels, rgb: Pixels, strength: float, report: Report) -> Pixels:
    """Narrower edges, and no colour that the input does not have: made small again, the result is the input.

    Pixels beside an edge are moved towards it, which shortens the way from one side to the other without a halo. What
    is lost of the input is added back twice. In bands, so that memory does not grow with the picture.
    """
    result = made.copy()
    for top, bottom, y0, y1 in bands(made.shape[0]):
        report(93)
        result[top:bottom] = narrowed(made[y0:y1], strength)[top - y0 : bottom - y0]
    size = (rgb.shape[1], rgb.shape[0])
    scale = made.shape[1] / size[0], made.shape[0] / size[1]
    for _ in range(2):
        lost = layer(rgb) - layer(cv2.resize(result, size, interpolation=cv2.INTER_AREA))
        for top, bottom, _, _ in bands(made.shape[0]):
            report(95)
            y, x = np.mgrid[top:bottom, 0 : made.shape[1]].astype(np.float32)
            where = (layer((x + 0.5) / scale[0] - 0.5), layer((y + 0.5) / scale[1] - 0.5))
            added = cv2.remap(lost, *where, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
            result[top:bottom] = to_pixels(layer(result[top:bottom]) + added)
    return result


def bands(height: int) -> list[tuple[int, int, int, int]]:
    """(top, bottom, and both with a margin) of each band."""
    tops = range(0, height, BAND)
    ends = [(top, min(top + BAND, height)) for top in tops]
    return [(top, end, max(0, top - BAND_MARGIN), min(height, end + BAND_MARGIN)) for top, end in ends]


def narrowed(rgb: Pixels, strength: float) -> Pixels:
    """Each pixel takes the colour a little further from its edge."""
    grey = cv2.GaussianBlur(layer(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)), (0, 0), 0.7)
    steep = np.hypot(cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1)) / 4
    edges = cv2.GaussianBlur(np.minimum(steep, 40), (0, 0), 1.2)
    dx, dy = cv2.Sobel(edges, cv2.CV_32F, 1, 0) / 8, cv2.Sobel(edges, cv2.CV_32F, 0, 1) / 8
    wanted = np.hypot(dx, dy) * (0.6 * strength)
    factor = 0.6 * strength * np.minimum(1, SHIFT_PX / np.maximum(wanted, 1e-6))
    y, x = np.mgrid[0 : rgb.shape[0], 0 : rgb.shape[1]].astype(np.float32)
    where = (layer(x - dx * factor), layer(y - dy * factor))
    return np.asarray(cv2.remap(rgb, *where, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE), np.uint8)
