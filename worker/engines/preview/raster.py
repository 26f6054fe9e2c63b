"""Small operations on pixels that several steps share. Float layers are 0..1 or 0..255 in float32, as named."""

from __future__ import annotations

import hashlib
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from worker.pictures import Picture, Pixels

Layer = NDArray[np.float32]


def rng_of(*parts: object) -> np.random.Generator:
    """The same parts give the same numbers, in every process and on every machine."""
    digest = hashlib.sha256("|".join(map(str, parts)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def layer(array: Any) -> Layer:
    return np.asarray(array, dtype=np.float32)


def to_pixels(array: Any) -> Pixels:
    return np.clip(np.asarray(array) + 0.5, 0, 255).astype(np.uint8)


def blur(array: Any, sigma: float, sigma_y: float | None = None) -> Layer:
    """Gaussian. A wide one is computed small: its cost would grow with sigma, its result has nothing fine in it."""
    if sigma <= 0:
        return layer(array)
    down = sigma if sigma_y is None else sigma_y
    height, width = array.shape[:2]
    step_x, step_y = max(1, min(int(sigma / 5), width // 8)), max(1, min(int(down / 5), height // 8))
    if step_x * step_y == 1:
        return layer(cv2.GaussianBlur(layer(array), (0, 0), sigma, sigmaY=down))
    small = cv2.resize(layer(array), (width // step_x, height // step_y), interpolation=cv2.INTER_AREA)
    small = cv2.GaussianBlur(small, (0, 0), sigma / step_x, sigmaY=down / step_y)
    return layer(cv2.resize(small, (width, height), interpolation=cv2.INTER_LINEAR))


def resize(array: Any, width: int, height: int) -> Any:
    """Area when it shrinks, Lanczos when it grows: neither aliases nor blurs."""
    shrinks = width * height < array.shape[0] * array.shape[1]
    return cv2.resize(array, (width, height), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LANCZOS4)


def shrink_factor(width: int, height: int, max_side: int) -> float:
    return min(1.0, max_side / max(width, height))


def shrink(array: Any, max_side: int) -> Any:
    height, width = array.shape[:2]
    factor = shrink_factor(width, height, max_side)
    if factor == 1.0:
        return array
    return resize(array, max(1, round(width * factor)), max(1, round(height * factor)))


def lab(rgb: Any) -> Layer:
    """CIE Lab with L in 0..100."""
    return layer(cv2.cvtColor(layer(rgb) / 255, cv2.COLOR_RGB2Lab))


def from_lab(values: Layer) -> Layer:
    return layer(np.clip(cv2.cvtColor(values, cv2.COLOR_Lab2RGB), 0, 1) * 255)


def over(top: Any, alpha: Any, bottom: Any) -> Layer:
    """`top` over `bottom`; alpha 0..1, one plane."""
    weight = layer(alpha)[:, :, None]
    return layer(layer(top) * weight + layer(bottom) * (1 - weight))


def disc(radius: float) -> Pixels:
    size = max(1, round(radius) * 2 + 1)
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size)), np.uint8)


def dilate(mask: Any, radius: float) -> Pixels:
    return np.asarray(cv2.dilate(mask, disc(radius)), np.uint8)


def erode(mask: Any, radius: float) -> Pixels:
    return np.asarray(cv2.erode(mask, disc(radius)), np.uint8)


def box_of(mask: Any, threshold: float = 0) -> tuple[int, int, int, int] | None:
    """x0, y0, x1, y1 (open) of what is above the threshold."""
    rows, columns = np.flatnonzero((mask > threshold).any(axis=1)), np.flatnonzero((mask > threshold).any(axis=0))
    if rows.size == 0:
        return None
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def hex_color(text: str) -> tuple[int, int, int]:
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


def fractal(rng: np.random.Generator, width: int, height: int, scales: tuple[float, ...]) -> Layer:
    """Noise of several sizes, about -1..1: clouds, plaster, sand."""
    total = np.zeros((height, width), np.float32)
    for scale in scales:
        cells = (max(2, round(height / scale) + 2), max(2, round(width / scale) + 2))
        coarse = layer(rng.normal(0, 0.5, cells))
        total += cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    return layer(total / np.sqrt(len(scales)))


def crop_to(picture: Picture, box: tuple[int, int, int, int]) -> Picture:
    x0, y0, x1, y1 = box
    alpha = None if picture.alpha is None else np.ascontiguousarray(picture.alpha[y0:y1, x0:x1])
    return Picture(np.ascontiguousarray(picture.rgb[y0:y1, x0:x1]), alpha)


def resized(picture: Picture, width: int, height: int) -> Picture:
    """Colours are weighted by alpha while they are mixed, so that nothing hidden bleeds into an edge."""
    if picture.alpha is None:
        return Picture(to_pixels(resize(layer(picture.rgb), width, height)))
    weight = layer(picture.alpha) / 255
    mixed = resize(layer(picture.rgb) * weight[:, :, None], width, height)
    alpha = np.clip(resize(weight, width, height), 0, 1)
    rgb = mixed / np.maximum(alpha, 1e-3)[:, :, None]
    return Picture(to_pixels(rgb), to_pixels(alpha * 255))
