"""Product photos drawn by program, each with the exact mask of its product, to measure engines."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from worker.pictures import Picture

SUPER = 3  # drawn larger and averaged down, for soft edges


@dataclass(frozen=True)
class Photo:
    picture: Picture
    truth: np.ndarray  # 0..255


def photo(product: str, ground: str, *, width: int = 900, height: int = 900, seed: int = 1) -> Photo:
    noise = np.random.default_rng(seed)
    backdrop = GROUNDS[ground](width, height, noise)
    rgb, mask = PRODUCTS[product](width, height)
    cover = mask[:, :, None].astype(np.float32) / 255
    shadow = _contact_shadow(mask)
    picture = backdrop * (1 - 0.45 * shadow[:, :, None])
    picture = picture * (1 - cover) + rgb * cover
    picture = cv2.GaussianBlur(picture.astype(np.float32), (0, 0), 0.7) + noise.normal(0, 2.0, picture.shape)
    return Photo(Picture(np.clip(picture, 0, 255).astype(np.uint8)), mask)


def _contact_shadow(mask: np.ndarray) -> np.ndarray:
    height, width = mask.shape
    columns = np.flatnonzero(mask.any(axis=0))
    base = int(np.flatnonzero(mask.any(axis=1))[-1])
    shadow = np.zeros((height, width), np.float32)
    centre = (int(columns.mean()), base)
    cv2.ellipse(shadow, centre, (int(len(columns) * 0.5), max(6, height // 60)), 0, 0, 360, 1.0, -1)
    return cv2.GaussianBlur(shadow, (0, 0), width / 90)


def _plain(width: int, height: int, noise: np.random.Generator) -> np.ndarray:
    rows = np.linspace(236, 214, height)[:, None, None]
    return np.broadcast_to(rows + np.array([2.0, 0.0, -3.0]), (height, width, 3)).astype(np.float32)


def _table(width: int, height: int, noise: np.random.Generator) -> np.ndarray:
    picture = np.empty((height, width, 3), np.float32)
    horizon = int(height * 0.62)
    picture[:horizon] = (206, 214, 220)
    grain = cv2.GaussianBlur(noise.normal(0, 60, (height - horizon, width)).astype(np.float32), (0, 0), 30, sigmaY=1)
    picture[horizon:] = np.array([150.0, 108.0, 70.0]) + grain[:, :, None] * 4
    return picture


def _cluttered(width: int, height: int, noise: np.random.Generator) -> np.ndarray:
    """A shop wall: shelves, boxes and leaves in muted colours, a little out of focus."""
    picture = np.full((height, width, 3), (196, 190, 178), np.float32)
    for row in range(0, height, height // 4):
        cv2.rectangle(picture, (0, row), (width, row + height // 45), (139, 115, 90), -1)
    palette = [(168, 176, 160), (150, 160, 172), (205, 196, 170), (176, 158, 140), (120, 140, 118), (214, 210, 204)]
    for _ in range(70):
        x, y = int(noise.integers(0, width)), int(noise.integers(0, height))
        w, h = int(noise.integers(width // 25, width // 8)), int(noise.integers(height // 25, height // 7))
        color = palette[int(noise.integers(0, len(palette)))]
        if noise.random() < 0.6:
            cv2.rectangle(picture, (x, y), (x + w, y + h), color, -1)
        else:
            cv2.ellipse(picture, (x, y), (w // 2, h // 3), float(noise.integers(0, 180)), 0, 360, color, -1)
    return cv2.GaussianBlur(picture, (0, 0), width / 220)


def _canvas(width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((height * SUPER, width * SUPER, 3), np.float32), np.zeros((height * SUPER, width * SUPER), np.uint8)


def _points(pairs: list[tuple[float, float]], width: int, height: int) -> np.ndarray:
    return np.array([[(x * width * SUPER, y * height * SUPER)] for x, y in pairs]).astype(np.int32)


def _down(layer: np.ndarray, width: int, height: int) -> np.ndarray:
    return cv2.resize(layer, (width, height), interpolation=cv2.INTER_AREA)


def _shirt(width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    rgb, mask = _canvas(width, height)
    half = [(0.405, 0.20), (0.30, 0.245), (0.135, 0.42), (0.235, 0.50), (0.315, 0.42), (0.31, 0.85)]
    collar = [(0.595, 0.20), (0.55, 0.245), (0.50, 0.262), (0.45, 0.245)]
    outline = half + [(1 - x, y) for x, y in reversed(half)] + collar[1:]
    cv2.fillPoly(mask, [_points(outline, width, height)], 255)
    across = np.linspace(-1, 1, rgb.shape[1])[None, :, None]
    down = np.linspace(0, 1, rgb.shape[0])[:, None, None]
    folds = 7 * np.sin(across * 22 + down * 5) * (down > 0.3)
    rgb[:] = np.array([38.0, 84.0, 152.0]) * (1.06 - 0.25 * across**2) + folds
    for stripe in (0.55, 0.60):
        cv2.line(rgb, *[tuple(p[0].tolist()) for p in _points([(0.3, stripe), (0.7, stripe)], width, height)],
                 (236, 226, 196), int(height * SUPER * 0.018))  # fmt: skip
    rib = _points([(0.40, 0.205), (0.45, 0.25), (0.50, 0.268), (0.55, 0.25), (0.60, 0.205)], width, height)
    cv2.polylines(rgb, [rib], False, (24, 58, 112), int(height * SUPER * 0.014))
    return _down(rgb, width, height), _down(mask, width, height)


def _mug(width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    rgb, mask = _canvas(width, height)
    w, h = width * SUPER, height * SUPER
    left, right, top, base = int(w * 0.30), int(w * 0.62), int(h * 0.34), int(h * 0.74)
    middle, radius, tilt = (left + right) // 2, (right - left) // 2, int(h * 0.035)
    cv2.ellipse(mask, (right, int(h * 0.53)), (int(w * 0.10), int(h * 0.115)), 0, -100, 100, 255, int(w * 0.04))
    cv2.rectangle(mask, (left, top), (right, base), 255, -1)
    cv2.ellipse(mask, (middle, base), (radius, tilt), 0, 0, 360, 255, -1)
    cv2.ellipse(mask, (middle, top), (radius, tilt), 0, 0, 360, 255, -1)
    across = np.clip((np.arange(w) - middle) / radius, -1.3, 1.3)[None, :, None]
    rgb[:] = np.array([196.0, 62.0, 48.0]) * (0.72 + 0.38 * np.exp(-((across + 0.35) ** 2) * 3))
    cv2.circle(rgb, (middle, int(h * 0.54)), int(w * 0.07), (244, 232, 208), -1)
    cv2.ellipse(rgb, (middle, top), (radius, tilt), 0, 0, 360, (122, 34, 28), -1)
    cv2.ellipse(rgb, (middle, top), (radius, tilt), 0, 0, 360, (226, 106, 90), int(w * 0.006))
    return _down(rgb, width, height), _down(mask, width, height)


def _shoe(width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    rgb, mask = _canvas(width, height)
    w, h = width * SUPER, height * SUPER
    body = [(0.15, 0.66), (0.16, 0.50), (0.19, 0.43), (0.30, 0.42), (0.36, 0.45), (0.46, 0.47), (0.57, 0.53),
            (0.70, 0.565), (0.80, 0.59), (0.85, 0.63), (0.86, 0.67)]  # fmt: skip
    sole = [(0.14, 0.655), (0.87, 0.655), (0.875, 0.70), (0.85, 0.725), (0.16, 0.725), (0.135, 0.70)]
    for part, color in ((body, (46, 128, 104)), (sole, (240, 236, 226))):
        cv2.fillPoly(mask, [_points(part, width, height)], 255)
        cv2.fillPoly(rgb, [_points(part, width, height)], color)
    light = np.linspace(1.15, 0.82, h)[:, None, None]
    rgb *= light
    cv2.fillPoly(
        rgb, [_points([(0.68, 0.57), (0.80, 0.60), (0.85, 0.655), (0.64, 0.655)], width, height)], (30, 92, 76)
    )
    for step in range(5):
        x = 0.42 + step * 0.045
        ends = _points([(x, 0.485 + step * 0.017), (x - 0.035, 0.55 + step * 0.012)], width, height)
        cv2.line(rgb, tuple(ends[0][0].tolist()), tuple(ends[1][0].tolist()), (246, 244, 238), int(w * 0.008))
    return _down(rgb, width, height), _down(mask, width, height)


GROUNDS = {"plain": _plain, "table": _table, "cluttered": _cluttered}
PRODUCTS = {"shirt": _shirt, "mug": _mug, "shoe": _shoe}
