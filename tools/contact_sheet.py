"""Every tool on real photographs, as one picture to be looked at: `make sheet` writes docs/tools.jpg.

The nodes of a tool come from the catalogue and run in this process, each with the engine that a worker on one machine
uses. Runs in the worker's environment, with the weights and the photographs of its tests.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "layers/core")]

import cv2  # noqa: E402
import numpy as np  # noqa: E402
from PIL import Image, ImageDraw  # noqa: E402

from tests.worker.real import photograph, shop_photo, striped_photo  # noqa: E402
from worker.engines.ncnn import NcnnEngine  # noqa: E402
from worker.engines.onnx import OnnxEngine  # noqa: E402
from worker.engines.preview.engine import PreviewEngine  # noqa: E402
from worker.pictures import Picture  # noqa: E402
from worker.settings import shipped_models  # noqa: E402
from worker.steps import read_params, step_of  # noqa: E402

TARGET = ROOT / "docs/tools.jpg"
CELL, LABEL, GAP = 176, 104, 6
QUALITY, MAX_BYTES = 74, 600_000
GROUND = (238, 238, 236)
WEIGHTS = ROOT / ".tools/weights"


@dataclass(frozen=True)
class Example:
    tool: str
    picture: Picture
    params: Mapping[str, Any] = field(default_factory=dict)


def part(name: str, x0: int, y0: int, x1: int, y1: int) -> Picture:
    return Picture(np.ascontiguousarray(photograph(name)[y0:y1, x0:x1]))


def examples() -> list[Example]:
    coffee, cat, flower = (Picture(photograph(name)) for name in ("coffee", "cat", "flower"))
    china, astronaut = Picture(photograph("china")), Picture(photograph("astronaut"))
    stripes = striped_photo("white_hoodie")
    return [
        Example("model_photo", stripes, {"pose": "stand"}),
        Example("model_photo", shop_photo("bus_tee"), {"pose": "hip"}),
        Example("outfit_poses", stripes, {"pose": "akimbo"}),
        Example("outfit_poses", stripes, {"pose": "wave"}),
        Example("real_model", shop_photo("polo"), {"pose": "walk"}),
        Example("real_model", shop_photo("hoodie"), {"pose": "lean"}),
        Example("scene", shop_photo("sneakers"), {"prompt": "a beach in the sun"}),
        Example("scene", shop_photo("cushion"), {"prompt": "a wooden shelf"}),
        Example("background", coffee, {"preset": "studio"}),
        Example("background", shop_photo("juice"), {"preset": "table"}),
        Example("style", china, {"style": "watercolor"}),
        Example("style", cat, {"style": "oil"}),
        Example("crop", flower, {"aspect": "1:1"}),
        Example("crop", coffee, {"aspect": "4:5"}),
        Example("cutout", coffee),
        Example("cutout", astronaut),
        Example("batch_cutout", cat),
        Example("batch_cutout", flower),
        Example("erase", china, {"regions": [[0.27, 0.0, 0.14, 0.24]]}),
        Example("erase", shop_photo("bus_tee"), {"regions": [[0.28, 0.21, 0.4, 0.26]]}),
        Example("extend", coffee),
        Example("extend", shop_photo("hoodie"), {"aspect": "16:9"}),
        Example("derive", flower),
        Example("derive", shop_photo("sneaker")),
        Example("repaint", shop_photo("red_tee"), {"regions": [[0.36, 0.3, 0.3, 0.25]], "prompt": "a white star"}),
        Example("repaint", shop_photo("cushion"), {"regions": [[0.2, 0.3, 0.55, 0.5]], "prompt": "green"}),
        Example("img2img", coffee, {"prompt": "a blue porcelain tea cup"}),
        Example("img2img", china, {"prompt": "sunset"}),
        Example("hd_fix", part("cat", 60, 60, 260, 260)),
        Example("hd_fix", part("astronaut", 150, 0, 350, 200)),
        Example("upscale", part("cat", 120, 90, 200, 170), {"scale": 4}),
        Example("upscale", part("astronaut", 180, 60, 280, 160), {"scale": 4}),
        Example("batch_convert", shop_photo("sneaker"), {"width": 800, "height": 400}),
        Example("batch_convert", shop_photo("tee"), {"width": 400, "height": 600, "background": "#dfe8f2"}),
    ]


class Studio:
    """Runs the nodes of a tool one after the other."""

    def __init__(self) -> None:
        cv2.setNumThreads(1)
        files = {name: (spec, WEIGHTS / spec.sha256) for name, spec in shipped_models().items()}
        self._onnx, self._ncnn = OnnxEngine(files, 2_000, threads=2), NcnnEngine(files, 2_000, threads=2)
        self._preview = PreviewEngine()
        self._cuts: dict[bytes, Picture] = {}

    def result(self, example: Example) -> tuple[Picture, bool]:
        """The picture of the tool, and whether a network made it."""
        made: dict[str, Picture] = {}
        picture, is_neural = example.picture, False
        for node in TOOLS[example.tool]["nodes"]:
            inputs = {
                name: example.picture if source.startswith("@product") else made[source]
                for name, source in node["inputs"].items()
                if source.startswith("@product") or source in made
            }
            params = {**example.params, **node.get("params", {})}
            picture, is_neural = self.run(node["step"], inputs, params)
            made[node["name"]] = picture
        return picture, is_neural

    def run(self, name: str, inputs: Mapping[str, Picture], params: Mapping[str, Any]) -> tuple[Picture, bool]:
        node_type = STEPS[name]["type"]
        step = step_of(node_type, {"step": name})
        values = read_params(step, {"step": name, **params})
        if name == "cutout":
            key = inputs["product"].rgb.tobytes()
            if key not in self._cuts:
                self._cuts[key], _ = self._onnx.run(step, "isnet", inputs, values, quiet)
            return self._cuts[key], True
        if name == "crop":
            return self._onnx.run(step, "isnet", inputs, values, quiet)[0], True
        if node_type == "hd_fix":
            return self._ncnn.run(step, "realesrgan", inputs, values, quiet)[0], True
        return self._preview.run(step, None, inputs, values, quiet)[0], False


def quiet(_percent: float) -> None:
    pass


def cell(picture: Picture) -> Image.Image:
    """The picture in a square; what is transparent shows squares of two greys."""
    height, width = picture.rgb.shape[:2]
    y, x = np.mgrid[0:height, 0:width]
    size = max(4, max(width, height) // 24)
    squares = np.where((x // size + y // size) % 2, 205, 245)[:, :, None]
    alpha = np.ones((height, width, 1)) if picture.alpha is None else picture.alpha[:, :, None] / 255
    image = Image.fromarray((picture.rgb * alpha + squares * (1 - alpha)).astype(np.uint8))
    image.thumbnail((CELL, CELL), Image.Resampling.LANCZOS)
    if max(image.size) < CELL:  # a small input is shown as large as its result, with its own pixels
        factor = CELL / max(image.size)
        image = image.resize((round(image.width * factor), round(image.height * factor)), Image.Resampling.NEAREST)
    target = Image.new("RGB", (CELL, CELL), GROUND)
    target.paste(image, ((CELL - image.width) // 2, (CELL - image.height) // 2))
    return target


def rows(studio: Studio) -> Iterator[tuple[str, bool, list[Image.Image]]]:
    """Per tool: its name, whether it is a draft, and input and result of each example."""
    by_tool: dict[str, list[Example]] = {}
    for example in examples():
        by_tool.setdefault(example.tool, []).append(example)
    missing = set(TOOLS) - set(by_tool)
    if missing:
        raise SystemExit(f"no example for {', '.join(sorted(missing))}")
    for tool in TOOLS:
        cells: list[Image.Image] = []
        for example in by_tool[tool]:
            made, _ = studio.result(example)
            cells += [cell(example.picture), cell(made)]
        needs = [STEPS[node["step"]].get("needs_network", False) for node in TOOLS[tool]["nodes"]]
        served = {"cutout", "crop", "hd_fix", "upscale"}
        is_draft = any(n and node["step"] not in served for n, node in zip(needs, TOOLS[tool]["nodes"], strict=True))
        print(f"{tool}{' (draft)' if is_draft else ''}", flush=True)
        yield tool, is_draft, cells


def sheet(studio: Studio) -> Image.Image:
    found = list(rows(studio))
    width = LABEL + 4 * (CELL + GAP)
    whole = Image.new("RGB", (width, GAP + len(found) * (CELL + GAP)), "white")
    draw = ImageDraw.Draw(whole)
    for number, (tool, is_draft, cells) in enumerate(found):
        top = GAP + number * (CELL + GAP)
        draw.text((8, top + CELL // 2 - 14), f"{tool}\n{'draft' if is_draft else ''}", fill="black", font_size=14)
        for place, one in enumerate(cells):
            whole.paste(one, (LABEL + place * (CELL + GAP), top))
    return whole


DATA = tomllib.loads((ROOT / "layers/core/artiway/tasks/catalogue.toml").read_text("utf-8"))
TOOLS: Mapping[str, Any] = DATA["tools"]
STEPS: Mapping[str, Any] = DATA["steps"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.contact_sheet", description=__doc__)
    parser.add_argument("--target", type=Path, default=TARGET)
    target = parser.parse_args().target
    made = sheet(Studio())
    options = {} if target.suffix == ".png" else {"quality": QUALITY, "optimize": True, "progressive": True}
    made.save(target, **options)
    size = target.stat().st_size
    print(f"written: {target} ({made.width} x {made.height}, {size // 1000} KB)")
    return 0 if size <= MAX_BYTES or target.suffix == ".png" else 1


if __name__ == "__main__":
    sys.exit(main())
