"""Classifies a product by its outline (a top, a dress, a shoe or a thing to hold) and finds a top's sleeves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from worker.engines.preview.raster import blur, layer, to_pixels
from worker.pictures import Picture

Wear = Literal["torso", "hold", "feet"]


@dataclass(frozen=True)
class Sleeve:
    """A sleeve that may be turned about its pivot, in the garment's pixels; `angle` is the way it points."""

    picture: Picture
    pivot: tuple[float, float]
    angle: float
    length: float


@dataclass(frozen=True)
class Garment:
    picture: Picture
    wear: Wear
    body: Picture
    center_x: float
    shoulder_width: float
    left_sleeve: Sleeve | None
    right_sleeve: Sleeve | None


@dataclass(frozen=True)
class Outline:
    """Per row: the outermost edges, and those of the run that holds the middle (sleeves may hang beside it)."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    body_left: NDArray[np.int64]
    body_right: NDArray[np.int64]

    def body_width(self, start: float, end: float) -> float:
        rows = slice(round(start * len(self.left)), max(round(end * len(self.left)), round(start * len(self.left)) + 1))
        return float(np.median(self.body_right[rows] - self.body_left[rows])) + 1


def read_garment(picture: Picture) -> Garment:
    """`picture` is trimmed to its outline."""
    assert picture.alpha is not None
    mask = picture.alpha > 127
    outline = outline_of(mask)
    height, width = mask.shape
    low = outline.body_width(0.6, 0.92)
    middle = slice(round(height * 0.15), max(round(height * 0.85), 1))
    outer = float((outline.right[middle] - outline.left[middle]).max(initial=0))
    has_sleeves = outer > 1.25 * low
    wear = kind_of(mask, outline, has_sleeves=has_sleeves)
    rows = slice(round(height * 0.6), round(height * 0.92))
    body_left, body_right = float(np.median(outline.body_left[rows])), float(np.median(outline.body_right[rows]))
    if not has_sleeves:
        # Without sleeves it hangs from the shoulders, however wide its skirt is.
        shoulders = min(outline.body_width(0.08, 0.2) * 1.05, low * 1.05)
        return Garment(picture, wear, picture, (width - 1) / 2, max(4.0, shoulders), None, None)
    body, left, right = split(picture, body_left, body_right)
    return Garment(picture, wear, body, (body_left + body_right) / 2, max(4.0, low * 0.98), left, right)


def outline_of(mask: NDArray[np.bool_]) -> Outline:
    height, width = mask.shape
    left, right = np.argmax(mask, axis=1), width - 1 - np.argmax(mask[:, ::-1], axis=1)
    body_left, body_right = left.copy(), right.copy()
    center = round(float(np.median((left + right) / 2)))
    for row in range(height):
        line = mask[row]
        if line[center]:
            gaps = np.flatnonzero(~line)
            before, after = gaps[gaps < center], gaps[gaps > center]
            body_left[row] = int(before[-1]) + 1 if before.size else 0
            body_right[row] = int(after[0]) - 1 if after.size else width - 1
    return Outline(left, right, body_left, body_right)


def kind_of(mask: NDArray[np.bool_], outline: Outline, *, has_sleeves: bool) -> Wear:
    """Tops are symmetric with sleeves, dresses symmetric with a neckline; a shoe is long and low; all else is held."""
    height, width = mask.shape
    mirrored = mask[:, ::-1]
    symmetry = float((mask & mirrored).sum() / max(1, (mask | mirrored).sum()))
    ratio = width / height
    tops = np.where(mask.any(axis=0), np.argmax(mask, axis=0), height)
    beside = min(int(tops[: width // 2].min()), int(tops[width // 2 :].min()))
    has_neckline = int(tops[width // 2]) - beside > 0.015 * height
    if symmetry > 0.86 and (has_sleeves or (has_neckline and height > 1.1 * width)) and 0.35 < ratio < 1.8:
        return "torso"
    if ratio > 1.7 and symmetry < 0.86:
        return "feet"
    return "hold"


def split(picture: Picture, body_left: float, body_right: float) -> tuple[Picture, Sleeve | None, Sleeve | None]:
    """The garment's body with soft armholes, and each sleeve with enough of the shoulder to turn about it."""
    assert picture.alpha is not None
    height, width = picture.alpha.shape
    x = np.arange(width, dtype=np.float32)[None, :]
    soft = max(1.0, width * 0.004)
    inside = np.clip((x - body_left) / soft + 0.5, 0, 1) * np.clip((body_right - x) / soft + 0.5, 0, 1)
    body = Picture(picture.rgb, to_pixels(layer(picture.alpha) * inside * np.ones((height, 1), np.float32)))
    return body, sleeve_of(picture, body_left, -1), sleeve_of(picture, body_right, 1)


def sleeve_of(picture: Picture, edge: float, side: int) -> Sleeve | None:
    assert picture.alpha is not None
    height, width = picture.alpha.shape
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    outside = ((x - edge) * side > 0) & (picture.alpha > 127)
    count, labels, stats, centers = cv2.connectedComponentsWithStats(outside.astype(np.uint8))
    if count < 2:
        return None
    best = 1 + int(stats[1:, cv2.CC_STAT_AREA].argmax())
    if stats[best, cv2.CC_STAT_AREA] < 0.01 * picture.alpha.size:
        return None
    region = labels == best
    at_seam = region & (np.abs(x - edge) < max(3.0, width * 0.02))
    seam_rows = np.flatnonzero(at_seam.any(axis=1))
    if seam_rows.size == 0:
        return None
    top, armpit = float(seam_rows[0]), float(min(seam_rows[-1], seam_rows[0] + 0.34 * height))
    pivot = (edge, top + (armpit - top) * 0.42)
    cx, cy = centers[best]
    angle = float(np.arctan2(cy - pivot[1], cx - pivot[0]))
    # A round cap about the pivot hides the joint however far the arm is turned.
    cap = np.clip((armpit - top) * 0.46 - np.hypot(x - pivot[0], y - pivot[1]), -1, 1) * 0.5 + 0.5
    cover = np.maximum(blur(region.astype(np.float32), 0.7), cap)
    piece = Picture(picture.rgb, to_pixels(layer(picture.alpha) * np.clip(cover, 0, 1)))
    along = (x[region] - pivot[0]) * np.cos(angle) + (y[region] - pivot[1]) * np.sin(angle)
    return Sleeve(piece, pivot, angle, float(along.max()))


def bent(sleeve: Sleeve, upper: float) -> tuple[Sleeve, Sleeve | None]:
    """A long sleeve in two at the elbow, `upper` along it, each with a round end there; a short one as it is."""
    if sleeve.length < 1.15 * upper:
        return sleeve, None
    assert sleeve.picture.alpha is not None
    height, width = sleeve.picture.alpha.shape
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    cosine, sine = float(np.cos(sleeve.angle)), float(np.sin(sleeve.angle))
    along = (x - sleeve.pivot[0]) * cosine + (y - sleeve.pivot[1]) * sine
    elbow = (sleeve.pivot[0] + cosine * upper, sleeve.pivot[1] + sine * upper)
    thick = float(((np.abs(along - upper) < 1) & (sleeve.picture.alpha > 127)).sum()) / 2
    cap = np.clip(thick * 0.5 - np.hypot(x - elbow[0], y - elbow[1]) + 0.5, 0, 1)
    alpha = layer(sleeve.picture.alpha)
    above, below = (
        np.maximum(np.clip(upper - along + 0.5, 0, 1), cap),
        np.maximum(np.clip(along - upper + 0.5, 0, 1), cap),
    )
    first = Sleeve(Picture(sleeve.picture.rgb, to_pixels(alpha * above)), sleeve.pivot, sleeve.angle, upper)
    second = Sleeve(Picture(sleeve.picture.rgb, to_pixels(alpha * below)), elbow, sleeve.angle, sleeve.length - upper)
    return first, second
