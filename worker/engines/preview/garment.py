"""Reads a product's outline: is it a top to wear, a shoe, or a thing to hold; and where a top's sleeves begin."""

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
    picture: Picture
    pivot: tuple[float, float]  # the shoulder point, in the garment's pixels
    angle: float  # the way the sleeve points, in the picture's plane


@dataclass(frozen=True)
class Garment:
    picture: Picture
    wear: Wear
    body: Picture
    center_x: float
    shoulder_y: float
    shoulder_width: float
    left_sleeve: Sleeve | None
    right_sleeve: Sleeve | None


def read_garment(picture: Picture) -> Garment:
    """`picture` is trimmed to its outline."""
    assert picture.alpha is not None
    mask = picture.alpha > 127
    height, width = mask.shape
    columns = np.arange(width)
    rows = np.maximum(mask.sum(axis=1), 1)
    center_x = float((mask.sum(axis=0) * columns).sum() / max(1, mask.sum()))
    lower = slice(round(height * 0.55), round(height * 0.92))
    left_edge, right_edge = edges(mask)
    body_left, body_right = float(np.median(left_edge[lower])), float(np.median(right_edge[lower]))
    body_width = max(4.0, body_right - body_left)
    has_sleeves = width > 1.25 * body_width
    shoulder_y = shoulder_row(mask, center_x, body_width)
    wear = kind_of(mask, rows)
    if not has_sleeves:
        return Garment(picture, wear, picture, center_x, 0.0, body_width, None, None)
    body, left, right = split(picture, body_left, body_right, shoulder_y)
    return Garment(picture, wear, body, (body_left + body_right) / 2, 0.0, body_width * 0.98, left, right)


def edges(mask: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    width = mask.shape[1]
    return np.argmax(mask, axis=1), width - 1 - np.argmax(mask[:, ::-1], axis=1)


def shoulder_row(mask: NDArray[np.bool_], center_x: float, body_width: float) -> float:
    """The first row as wide as the body: above it are collar and neck."""
    left, right = edges(mask)
    wide = np.flatnonzero((right - left) > 0.9 * body_width)
    return float(wide[0]) if wide.size else 0.0


def kind_of(mask: NDArray[np.bool_], rows: NDArray[np.int64]) -> Wear:
    """Tops and dresses are symmetric and widest above; a shoe is long and low; all else is held."""
    height, width = mask.shape
    mirrored = mask[:, ::-1]
    symmetry = float((mask & mirrored).sum() / max(1, (mask | mirrored).sum()))
    top_width, low_width = float(np.percentile(rows[: height // 2], 90)), float(np.median(rows[height // 2 :]))
    has_shoulders = top_width > 1.2 * low_width or (
        height / width > 1.25 and low_width > 1.15 * float(rows[: height // 5].mean())
    )
    ratio = width / height
    if symmetry > 0.86 and 0.35 < ratio < 1.7 and has_shoulders:
        return "torso"
    if ratio > 1.7 and symmetry < 0.86:
        return "feet"
    return "hold"


def split(
    picture: Picture, body_left: float, body_right: float, shoulder_y: float
) -> tuple[Picture, Sleeve | None, Sleeve | None]:
    """The garment's body with soft armholes, and each sleeve with enough of the shoulder to turn about it."""
    assert picture.alpha is not None
    height, width = picture.alpha.shape
    x = np.arange(width, dtype=np.float32)[None, :]
    alpha = layer(picture.alpha)
    soft = max(1.0, width * 0.004)
    inside = (np.clip((x - body_left) / soft + 0.5, 0, 1) * np.clip((body_right - x) / soft + 0.5, 0, 1)) * np.ones(
        (height, 1), np.float32
    )
    body = Picture(picture.rgb, to_pixels(alpha * inside))
    return body, sleeve_of(picture, body_left, shoulder_y, -1), sleeve_of(picture, body_right, shoulder_y, 1)


def sleeve_of(picture: Picture, edge: float, shoulder_y: float, side: int) -> Sleeve | None:
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
    top, armpit = float(seam_rows[0]), float(seam_rows[-1])
    pivot = (edge, top + (armpit - top) * 0.42)
    cx, cy = centers[best]
    # A round cap about the pivot hides the joint however far the arm is turned.
    cap = np.clip((armpit - top) * 0.46 - np.hypot(x - pivot[0], y - pivot[1]), -1, 1) * 0.5 + 0.5
    cover = np.maximum(blur(region.astype(np.float32), 0.7), cap)
    piece = Picture(picture.rgb, to_pixels(layer(picture.alpha) * np.clip(cover, 0, 1)))
    return Sleeve(piece, pivot, float(np.arctan2(cy - pivot[1], cx - pivot[0])))
