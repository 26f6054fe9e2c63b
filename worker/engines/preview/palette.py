"""Words of a prompt that mean a colour or a pattern. English and Chinese, as shop owners write."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from worker.engines.preview.raster import Layer, blur, fractal, layer

Color = tuple[int, int, int]

COLORS: dict[tuple[str, ...], Color] = {
    ("red", "红"): (196, 44, 42),
    ("orange", "橙"): (232, 126, 38),
    ("yellow", "gold", "黄", "金"): (234, 194, 62),
    ("green", "绿"): (62, 138, 78),
    ("teal", "cyan", "青"): (52, 150, 152),
    ("blue", "蓝"): (48, 96, 178),
    ("purple", "violet", "紫"): (122, 78, 160),
    ("pink", "粉"): (236, 158, 178),
    ("brown", "coffee", "棕", "咖啡"): (126, 86, 58),
    ("beige", "cream", "米"): (232, 220, 196),
    ("black", "黑"): (34, 34, 38),
    ("white", "白"): (246, 246, 244),
    ("gray", "grey", "silver", "灰", "银"): (150, 152, 156),
}


def color_named(prompt: str) -> Color | None:
    text = prompt.lower()
    return next((color for words, color in COLORS.items() if any(word in text for word in words)), None)


def pattern_named(prompt: str, ground: Layer, rng: np.random.Generator) -> Layer:
    """`ground` with the pattern the prompt asks for, or as it is."""
    text = prompt.lower()
    height, width = ground.shape[:2]
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    unit = max(height, width) / 26
    light = ground + (255 - ground) * 0.72
    if any(word in text for word in ("stripe", "条纹")):
        angle = float(rng.uniform(-0.5, 0.5))
        plane = np.clip(np.sin((x * np.cos(angle) + y * np.sin(angle)) / unit * np.pi) * 4, -1, 1) / 2 + 0.5
    elif any(word in text for word in ("check", "plaid", "格")):
        plane = (np.clip(np.sin(x / unit * np.pi) * 4, -1, 1) + np.clip(np.sin(y / unit * np.pi) * 4, -1, 1)) / 4 + 0.5
    elif any(word in text for word in ("dot", "波点", "圆点")):
        odd = np.floor(y / unit) % 2 * 0.5
        away = np.hypot((x / unit + odd) % 1 - 0.5, (y / unit) % 1 - 0.5)
        plane = np.clip((0.28 - away) * unit / 1.5, 0, 1)
    elif any(word in text for word in ("flower", "floral", "花")):
        plane = flowers(width, height, unit, rng)
    elif any(word in text for word in ("wood", "木")):
        plane = np.clip(blur(fractal(rng, width, height, (6.0, 3.0)), unit, 0.6) * 2 + 0.4, 0, 1) * 0.5
    elif any(word in text for word in ("marble", "大理石")):
        veins = np.abs(np.sin((x + y * 0.6) / unit / 2 + 3 * fractal(rng, width, height, (unit * 4, unit))))
        plane = np.clip(veins * 3, 0, 1) * 0.8
    else:
        return ground
    return layer(ground * (1 - plane[:, :, None]) + light * plane[:, :, None])


def motif_named(prompt: str, hole: NDArray[np.bool_]) -> Layer | None:
    """The shape that a prompt names, 0..1, as large as the hole's box allows; None if it names no shape."""
    text = prompt.lower()
    shape = next((draw for words, draw in MOTIFS.items() if any(word in text for word in words)), None)
    if shape is None:
        return None
    rows, columns = np.flatnonzero(hole.any(axis=1)), np.flatnonzero(hole.any(axis=0))
    size = 0.42 * min(len(rows), len(columns))
    center = np.array([columns.mean(), rows.mean()])
    points = (center + shape * size) * 16
    plane = np.zeros(hole.shape, np.uint8)
    cv2.fillPoly(plane, [points.astype(np.int32)], 255, cv2.LINE_AA, 4)
    return layer(plane) / np.float32(255)


def _heart() -> NDArray[np.float64]:
    t = np.linspace(0, 2 * np.pi, 90)
    x = 16 * np.sin(t) ** 3
    y = -(13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t))
    return np.stack([x, y], axis=1) / 17


def _polygon(count: int, inner: float = 1.0) -> NDArray[np.float64]:
    angle = np.linspace(0, 2 * np.pi, count, endpoint=False) - np.pi / 2
    radius = np.where(np.arange(count) % 2 == 0, 1.0, inner)
    return np.stack([np.cos(angle) * radius, np.sin(angle) * radius], axis=1)


# Outlines about the origin, in -1..1.
MOTIFS: dict[tuple[str, ...], NDArray[np.float64]] = {
    ("heart", "爱心", "心形"): _heart(),
    ("star", "星"): _polygon(10, 0.42),
    ("triangle", "三角"): _polygon(3),
    ("diamond", "菱形"): _polygon(4),
    ("circle", "round", "圆形"): _polygon(96),
}


def flowers(width: int, height: int, unit: float, rng: np.random.Generator) -> Layer:
    plane = np.zeros((height, width), np.float32)
    for _ in range(int(width * height / (unit * unit * 6)) + 1):
        cx, cy, turn = rng.uniform(0, width), rng.uniform(0, height), rng.uniform(0, 72)
        size = unit * rng.uniform(0.3, 0.55)
        for petal in range(5):
            angle = np.deg2rad(turn + petal * 72)
            center = (int(cx + np.cos(angle) * size), int(cy + np.sin(angle) * size))
            axes = (max(1, int(size)), max(1, int(size * 0.5)))
            cv2.ellipse(plane, center, axes, float(np.rad2deg(angle)), 0, 360, 1.0, -1, cv2.LINE_AA)
    return plane
