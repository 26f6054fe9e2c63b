"""Procedural backdrops. In every one of them the line at BASE of the height lies on ground, board or podium."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np

from worker.engines.preview.palette import color_named
from worker.engines.preview.raster import Layer, blur, fractal, hex_color, layer, rng_of, to_pixels
from worker.pictures import Picture
from worker.steps import Params

BASE = 0.86  # where a product stands, as a share of the height
WORDS: dict[str, tuple[str, ...]] = {
    "beach": ("beach", "sea", "summer", "sand", "海", "沙滩", "夏"),
    "night": ("night", "neon", "city", "cyber", "夜", "霓虹", "城市"),
    "outdoor": (
        "outdoor",
        "garden",
        "forest",
        "park",
        "nature",
        "grass",
        "street",
        "户外",
        "花园",
        "森林",
        "公园",
        "街",
    ),
    "table": ("table", "wood", "kitchen", "desk", "breakfast", "桌", "木", "厨房"),
    "shelf": ("shelf", "shop", "store", "room", "home", "living", "架", "店", "家", "客厅"),
    "podium": ("podium", "stage", "luxury", "pastel", "minimal", "展台", "高级", "极简"),
    "studio": ("studio", "plain", "white", "clean", "gradient", "影棚", "纯", "白底"),
}
SOFT = ((226, 222, 216), (214, 222, 230), (232, 220, 214), (220, 228, 218), (228, 224, 234), (236, 230, 218))
Painter = Callable[[int, int, np.random.Generator, "tuple[int, int, int]"], Layer]


def make_scene(params: Params, width: int, height: int, product: Picture | None = None, base: float = BASE) -> Picture:
    """A backdrop on whose ground the line `base` lies."""
    preset = preset_of(params, default="studio")
    # The same seed and preset give the same backdrop at every size, so a small preview matches the result.
    rng = rng_of("scene", preset, params.seed, params.variant)
    color = wanted_color(params, product, rng)
    canvas = moved(PAINTERS[preset](width, height, rng, color), base)
    grain = rng.normal(0, 1.1, (height, width, 1))
    return Picture(to_pixels(vignette(canvas) + grain))


def moved(canvas: Layer, base: float) -> Layer:
    """What lies at BASE is brought to `base`; the parts above and below are stretched to fit."""
    height, width = canvas.shape[:2]
    target = min(max(base, 0.3), 0.98)
    if abs(target - BASE) < 0.004:
        return canvas
    rows = np.interp(np.linspace(0, 1, height), [0, target, 1], [0, BASE, 1]) * (height - 1)
    columns = np.broadcast_to(np.arange(width, dtype=np.float32), (height, width))
    places = np.ascontiguousarray(np.broadcast_to(layer(rows)[:, None], (height, width)))
    return layer(cv2.remap(canvas, np.ascontiguousarray(columns), places, cv2.INTER_LINEAR))


def preset_of(params: Params, default: str) -> str:
    if params.preset != "auto":
        return str(params.preset)
    text = params.prompt.lower()
    return next((preset for preset, words in WORDS.items() if any(word in text for word in words)), default)


def wanted_color(params: Params, product: Picture | None, rng: np.random.Generator) -> tuple[int, int, int]:
    """The requested colour, a pale complement of the product's colour, or a soft colour by seed."""
    named = hex_color(params.color) if params.color else color_named(params.prompt)
    if named:
        return named
    if product is not None:
        cover = product.alpha if product.alpha is not None else np.full(product.rgb.shape[:2], 255, np.uint8)
        mean = product.rgb[cover > 200].mean(axis=0) if (cover > 200).any() else np.array([128.0, 128.0, 128.0])
        pale = 226 + (mean.mean() - mean) * 0.12
        return (int(pale[0]), int(pale[1]), int(pale[2]))
    return SOFT[int(rng.integers(0, len(SOFT)))]


def plain(width: int, height: int, color: tuple[int, int, int]) -> Layer:
    return np.full((height, width, 3), color, np.float32)


def vignette(canvas: Layer) -> Layer:
    height, width = canvas.shape[:2]
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    away = ((x / width - 0.5) ** 2 + (y / height - 0.45) ** 2) * 0.35
    return layer(canvas * (1 - away)[:, :, None])


def studio(width: int, height: int, rng: np.random.Generator, color: tuple[int, int, int]) -> Layer:
    """A paper roll: wall and floor in one sheet, lit from one side, a soft bend between them."""
    canvas = plain(width, height, color)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    side = float(rng.uniform(0.25, 0.75))
    glow = np.exp(-(((x / width - side) / 0.55) ** 2 + ((y / height - 0.38) / 0.55) ** 2))
    bend = 1 / (1 + np.exp(-(y / height - 0.70) / 0.035))
    light = 0.90 + 0.13 * glow + 0.03 * bend - 0.025 * np.exp(-(((y / height - 0.70) / 0.08) ** 2))
    return layer(canvas * light[:, :, None])


def table(width: int, height: int, rng: np.random.Generator, color: tuple[int, int, int]) -> Layer:
    """A board in front of a wall out of focus, with window light falling across."""
    canvas = studio(width, height, rng, color)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    stripes = np.clip(np.sin((x * 0.8 + y * 0.5) / width * np.pi * float(rng.uniform(3, 5))) * 3, 0, 1)
    window = blur(stripes * ((x / width > 0.1) & (y / height < 0.6)), width / 40)
    canvas = canvas * (1 + 0.10 * window)[:, :, None]
    horizon = round(height * 0.70)
    tone = layer(((148, 104, 66), (176, 138, 98), (108, 76, 52), (196, 168, 132))[int(rng.integers(0, 4))])
    rows = height - horizon
    depth = np.linspace(0, 1, rows, dtype=np.float32)[:, None]
    grain = blur(rng.normal(0, 1, (rows, width)), width / 22, 1.0)
    grain = grain / (np.abs(grain).max() + 1e-6) * 26 * (0.35 + 0.65 * depth)
    planks = np.ones((rows, width), np.float32)
    edges = np.linspace(-0.6, 1.6, 9)
    for edge in edges:  # seams run to a vanishing point behind the horizon
        line = (edge - 0.5) * (0.55 + 1.1 * depth) + 0.5
        planks *= 1 - 0.30 * np.exp(-(((x[:rows] / width - line) / 0.0022) ** 2))
    board = (tone + grain[:, :, None]) * (planks * (0.82 + 0.28 * depth))[:, :, None]
    canvas[horizon:] = board
    edge_shade = np.exp(-(((np.arange(height)[:, None] - horizon) / (height * 0.012)) ** 2))
    return layer(canvas * (1 - 0.18 * edge_shade)[:, :, None])


def bokeh(canvas: Layer, rng: np.random.Generator, count: int, top: float, tints: list[tuple[int, int, int]]) -> Layer:
    """Lights out of focus: discs that add to what is behind them, slightly brighter at the rim."""
    height, width = canvas.shape[:2]
    canvas = canvas.copy()
    for _ in range(count):
        tint = layer(tints[int(rng.integers(0, len(tints)))])
        radius = int(float(rng.uniform(0.015, 0.06)) * width) + 2
        x, y = int(rng.uniform(0, width)), int(rng.uniform(0, height * top))
        strength = float(rng.uniform(0.14, 0.40))
        reach = radius + 6
        disc, rim = np.zeros((2 * reach, 2 * reach), np.float32), np.zeros((2 * reach, 2 * reach), np.float32)
        cv2.circle(disc, (reach, reach), radius, 1.0, -1, cv2.LINE_AA)
        cv2.circle(rim, (reach, reach), radius, 1.0, max(1, radius // 10), cv2.LINE_AA)
        glow = blur(disc, radius * 0.06 + 0.5) * strength + blur(rim, 1.0) * 0.06
        x0, y0, x1, y1 = max(0, x - reach), max(0, y - reach), min(width, x + reach), min(height, y + reach)
        part = canvas[y0:y1, x0:x1]
        light = glow[y0 - y + reach : y1 - y + reach, x0 - x + reach : x1 - x + reach, None]
        canvas[y0:y1, x0:x1] = part + (tint - part * 0.55) * light
    return canvas


def outdoor(width: int, height: int, rng: np.random.Generator, _color: tuple[int, int, int]) -> Layer:
    """Foliage far out of focus, light through leaves, a stone path to stand on."""
    y = np.linspace(0, 1, height, dtype=np.float32)[:, None, None]
    canvas = layer((1 - y) * layer((206, 222, 190)) + y * layer((112, 142, 92))) * np.ones((1, width, 1), np.float32)
    leaves = blur(fractal(rng, width, height, (width / 5, width / 11, width / 22)), width / 70)
    canvas = canvas + leaves[:, :, None] * layer((44, 42, 30))
    canvas = bokeh(canvas, rng, 34, 0.68, [(250, 250, 214), (222, 240, 180), (255, 246, 226)])
    canvas = blur(canvas, width / 160)
    horizon = round(height * 0.70)
    rows = height - horizon
    depth = np.linspace(0, 1, rows, dtype=np.float32)[:, None]
    stone = layer((176, 170, 158)) + (fractal(rng, width, rows, (width / 14, width / 40, 5.0)) * 12)[:, :, None]
    ground = stone * (0.88 + 0.16 * depth)[:, :, None]
    dapple = np.clip(blur(fractal(rng, width, rows, (width / 8,)), width / 60), -0.4, 0.5)
    ground = ground * (1 + 0.22 * dapple)[:, :, None]
    sharpness = np.clip((depth - 0.05) * 4, 0, 1)[:, :, None]
    canvas[horizon:] = blur(ground, 3.0) * (1 - sharpness) + ground * sharpness
    return blend_line(canvas, horizon, height * 0.012)


def beach(width: int, height: int, rng: np.random.Generator, _color: tuple[int, int, int]) -> Layer:
    y = np.linspace(0, 1, height, dtype=np.float32)[:, None, None]
    sky = layer((118, 178, 226)) * (1 - y * 1.6).clip(0, 1) + layer((222, 236, 242)) * (y * 1.6).clip(0, 1)
    canvas = layer(sky * np.ones((1, width, 1), np.float32))
    clouds = np.clip(fractal(rng, width, height, (width / 3, width / 8, width / 20)) - 0.15, 0, 1)
    canvas += (255 - canvas) * (blur(clouds, width / 120) * 0.8)[:, :, None]
    sea, shore = round(height * 0.46), round(height * 0.66)
    rows = shore - sea
    depth = np.linspace(0, 1, rows, dtype=np.float32)[:, None]
    waves = blur(rng.normal(0, 1, (rows, width)), width / 30, 1.2)
    waves = waves / (np.abs(waves).max() + 1e-6)
    water = layer((44, 124, 158)) * (1 - depth)[:, :, None] + layer((122, 196, 200)) * depth[:, :, None]
    canvas[sea:shore] = water + (waves * 26 * (0.3 + depth))[:, :, None]
    rows = height - shore
    depth = np.linspace(0, 1, rows, dtype=np.float32)[:, None]
    sand = layer((228, 208, 170)) * (0.90 + 0.10 * depth)[:, :, None]
    canvas[shore:] = sand + (fractal(rng, width, rows, (width / 9, width / 30, 3.0)) * 9)[:, :, None]
    x = np.arange(width)
    foam = shore + np.sin(x / width * 9 + float(rng.uniform(0, 6))) * height * 0.008
    line = np.exp(-(((np.arange(height)[:, None] - foam[None, :]) / (height * 0.008)) ** 2)).astype(np.float32)
    canvas += (250 - canvas) * (line * 0.75)[:, :, None]
    soft = blur(canvas, width / 260)
    far = np.clip((0.70 - y) * 8, 0, 1)
    return layer(canvas * (1 - far) + soft * far)


def night(width: int, height: int, rng: np.random.Generator, _color: tuple[int, int, int]) -> Layer:
    """A street after rain: lights out of focus above, their reflections below."""
    y = np.linspace(0, 1, height, dtype=np.float32)[:, None, None]
    canvas = layer(layer((28, 30, 56)) * (1 - y) + layer((62, 48, 84)) * y) * np.ones((1, width, 1), np.float32)
    tints = [(255, 92, 160), (84, 196, 255), (255, 196, 92), (150, 110, 255), (90, 255, 210)]
    canvas = bokeh(layer(canvas), rng, 46, 0.66, tints)
    horizon = round(height * 0.68)
    rows = height - horizon
    mirrored = cv2.resize(canvas[:horizon][::-1], (width, rows), interpolation=cv2.INTER_AREA)
    streaks = blur(mirrored, width / 90, height / 26)
    canvas[horizon:] = streaks * 1.05 + 14 + (fractal(rng, width, rows, (width / 20, 4.0)) * 3)[:, :, None]
    return blend_line(canvas, horizon, height * 0.01)


def shelf(width: int, height: int, rng: np.random.Generator, color: tuple[int, int, int]) -> Layer:
    """A wall with panels, a board to stand on, a plant and books out of focus behind."""
    canvas = studio(width, height, rng, color)
    for panel in range(1, 5):
        at = round(width * panel / 5)
        canvas[:, at : at + max(2, width // 300)] *= 0.93
    props = canvas.copy()
    board = round(height * 0.80)
    x = round(width * 0.05)
    for _ in range(5):
        thick, tall = round(width * float(rng.uniform(0.018, 0.034))), round(height * float(rng.uniform(0.15, 0.24)))
        tint = layer(SOFT[int(rng.integers(0, len(SOFT)))]) * float(rng.uniform(0.5, 0.85))
        props[board - tall : board, x : x + thick] = tint
        x += thick + 2
    stem = (round(width * 0.90), board)
    for _ in range(16):
        angle, size = float(rng.uniform(-150, -30)), float(rng.uniform(0.06, 0.13)) * width
        middle = (
            int(stem[0] + np.cos(np.deg2rad(angle)) * size),
            int(stem[1] - height * 0.06 + np.sin(np.deg2rad(angle)) * size),
        )
        green = (int(rng.integers(70, 110)), int(rng.integers(118, 150)), int(rng.integers(76, 104)))
        cv2.ellipse(props, middle, (int(size * 0.5), int(size * 0.16)), angle, 0, 360, green, -1, cv2.LINE_AA)
    cv2.rectangle(
        props, (stem[0] - width // 26, stem[1] - height // 12), (stem[0] + width // 26, stem[1]), (222, 214, 202), -1
    )
    canvas = blur(props, width / 150)
    rows = height - board
    grain = blur(rng.normal(0, 1, (rows, width)), width / 25, 1.0)
    grain = grain / (np.abs(grain).max() + 1e-6) * 14
    top = round(height * 0.13)
    wood = layer((198, 172, 138)) + grain[:, :, None]
    wood[top:] *= 0.80  # the front edge of the board
    canvas[board:] = wood
    return blend_line(canvas, board, height * 0.004)


def podium(width: int, height: int, rng: np.random.Generator, color: tuple[int, int, int]) -> Layer:
    """A round stand before an arch, all in one tint."""
    canvas = studio(width, height, rng, color)
    arch = np.zeros((height, width), np.float32)
    radius, middle = round(width * 0.30), round(width * (0.5 + float(rng.uniform(-0.08, 0.08))))
    cv2.circle(arch, (middle, round(height * 0.42)), radius, 1.0, -1, cv2.LINE_AA)
    cv2.rectangle(arch, (middle - radius, round(height * 0.42)), (middle + radius, round(height * 0.72)), 1.0, -1)
    canvas *= (1 - 0.10 * blur(arch, 1.5))[:, :, None]
    center, axes = (width // 2, round(height * BASE)), (round(width * 0.40), round(height * 0.055))
    body, lid = np.zeros((height, width), np.float32), np.zeros((height, width), np.float32)
    cv2.rectangle(body, (center[0] - axes[0], center[1]), (center[0] + axes[0], height), 1.0, -1)
    cv2.ellipse(lid, center, axes, 0, 0, 360, 1.0, -1, cv2.LINE_AA)
    across = (np.arange(width, dtype=np.float32) - center[0]) / axes[0]
    round_light = 0.74 + 0.20 * np.exp(-(((across + 0.4) / 0.5) ** 2))
    tint = layer(color)
    body_paint = tint * round_light[None, :, None] * np.ones((height, 1, 1), np.float32)
    body, lid = blur(body, 0.8)[:, :, None], blur(lid, 0.8)[:, :, None]
    canvas = layer(canvas * (1 - body) + body_paint * body)
    return layer(canvas * (1 - lid) + np.minimum(tint * 1.04 + 6, 252) * lid)


def blend_line(canvas: Layer, line: int, sigma: float) -> Layer:
    """Two surfaces meet softly, as they do outside the plane of focus."""
    near = np.exp(-(((np.arange(canvas.shape[0]) - line) / (2 * sigma)) ** 2)).astype(np.float32)[:, None, None]
    return layer(canvas * (1 - near) + blur(canvas, max(0.5, sigma / 2), max(0.5, sigma)) * near)


PAINTERS: dict[str, Painter] = {
    "studio": studio, "table": table, "outdoor": outdoor, "beach": beach,
    "night": night, "shelf": shelf, "podium": podium,
}  # fmt: skip
