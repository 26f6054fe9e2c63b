"""Classifies a product by its outline (a top, a dress, a shoe or a thing to hold) and finds a top's sleeves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from worker.engines.preview.raster import Layer, blur, dilate, erode, layer, to_pixels
from worker.pictures import Picture, Pixels

Wear = Literal["torso", "hold", "feet"]
Mask = NDArray[np.bool_]
WORK_SIDE = 240  # sleeves are followed at this size
LONG_SLEEVE = 0.5  # of the length from shoulder to hem
SQRT_2 = np.float32(np.sqrt(2))
BESIDE = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], np.uint8)  # a pixel's neighbours
CORNERS = np.array([[1, 0, 1], [0, 0, 0], [1, 0, 1]], np.uint8)


@dataclass(frozen=True)
class Seam:
    """Where a sleeve joins the body, in the garment's pixels: a vertical line at x from the shoulder to the armpit."""

    x: float
    top: float
    armpit: float


@dataclass(frozen=True)
class Sleeve:
    """A sleeve as a strip: evenly spaced points from its seam to its cuff, and how far it reaches to both sides."""

    line: Layer
    sides: Layer  # per point: to the left (negative) and to the right of the way to the cuff
    length: float
    is_long: bool


@dataclass(frozen=True)
class Garment:
    """`shoulder_y` is the row of the shoulders: a collar or a hood lies above it."""

    picture: Picture
    wear: Wear
    body: Picture
    center_x: float
    shoulder_y: float
    shoulder_width: float
    left_sleeve: Sleeve | None
    right_sleeve: Sleeve | None

    @property
    def has_sleeves(self) -> bool:
        return self.left_sleeve is not None or self.right_sleeve is not None


@dataclass(frozen=True)
class Outline:
    """Per row: the outermost edges, and those of the run that holds the middle (sleeves may hang beside it)."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    body_left: NDArray[np.int64]
    body_right: NDArray[np.int64]

    def rows(self, start: float, end: float) -> slice:
        first = round(start * len(self.left))
        return slice(first, max(round(end * len(self.left)), first + 1))

    def body_width(self, start: float, end: float) -> float:
        rows = self.rows(start, end)
        return float(np.median(self.body_right[rows] - self.body_left[rows])) + 1


def read_garment(picture: Picture) -> Garment:
    """`picture` is trimmed to its outline."""
    assert picture.alpha is not None
    mask = picture.alpha > 127
    outline = outline_of(mask)
    width = mask.shape[1]
    # Sleeves that lie against the body hide its sides; the hem is below their cuffs.
    low = min(outline.body_width(0.6, 0.92), 1.15 * outline.body_width(0.93, 0.985))
    middle = outline.rows(0.15, 0.85)
    outer = float((outline.right[middle] - outline.left[middle]).max(initial=0))
    has_sleeves = outer > 1.25 * low
    wear = kind_of(mask, outline, has_sleeves=has_sleeves)
    if has_sleeves:
        left, right = seam_of(mask, outline, low, -1), seam_of(mask, outline, low, 1)
        if right.x - left.x > 0.2 * width:
            return with_sleeves(picture, wear, left, right)
    # Without sleeves it hangs from the shoulders, however wide its skirt is.
    shoulders = min(outline.body_width(0.08, 0.2) * 1.05, low * 1.05)
    return Garment(picture, wear, picture, (width - 1) / 2, 0, max(4.0, shoulders), None, None)


def with_sleeves(picture: Picture, wear: Wear, left: Seam, right: Seam) -> Garment:
    assert picture.alpha is not None
    height, width = picture.alpha.shape
    shoulder_y = (left.top + right.top) / 2
    long_from = LONG_SLEEVE * (height - shoulder_y)
    sleeves = [sleeve_of(picture.alpha, seam, side, long_from) for seam, side in ((left, -1), (right, 1))]
    x = np.arange(width, dtype=np.float32)[None, :]
    soft = max(1.0, width * 0.004)
    inside = np.clip((x - left.x) / soft + 0.5, 0, 1) * np.clip((right.x - x) / soft + 0.5, 0, 1)
    # Below an armpit the garment's own edge counts, which may lie outside the seam; a sleeve beside it does not.
    kept = own_body(picture.alpha > 127, left, right)
    cover = np.where(np.arange(height)[:, None] < max(left.armpit, right.armpit), inside, kept)
    body = Picture(picture.rgb, to_pixels(layer(picture.alpha) * cover))
    middle = (left.x + right.x) / 2
    return Garment(picture, wear, body, middle, shoulder_y, max(4.0, right.x - left.x), *sleeves)


def own_body(mask: Mask, left: Seam, right: Seam) -> Layer:
    """1 for the run of each row that holds the middle, cut a little outside the seams."""
    width = mask.shape[1]
    outline = outline_of(mask)
    slack = 0.05 * (right.x - left.x)
    x = np.arange(width)[None, :]
    from_x = np.maximum(outline.body_left, left.x - slack)[:, None]
    to_x = np.minimum(outline.body_right, right.x + slack)[:, None]
    return blur(((x >= from_x - 1) & (x <= to_x + 1)).astype(np.float32), 0.7)


def outline_of(mask: Mask) -> Outline:
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


def kind_of(mask: Mask, outline: Outline, *, has_sleeves: bool) -> Wear:
    """Tops are symmetric with sleeves, dresses symmetric with a neckline; a shoe is long and low; all else is held."""
    height, width = mask.shape
    ratio = width / height
    tops = np.where(mask.any(axis=0), np.argmax(mask, axis=0), height)
    beside = min(int(tops[: width // 2].min()), int(tops[width // 2 :].min()))
    has_neckline = int(tops[width // 2]) - beside > 0.015 * height
    # A top laid by hand is less even than one on a form, so less symmetry is asked for where sleeves are seen.
    wanted = 0.76 if has_sleeves and has_both_sleeves(outline, width) else 0.86
    is_even = symmetry(mask) > wanted
    if is_even and (has_sleeves or (has_neckline and height > 1.1 * width)) and 0.35 < ratio < 1.8:
        return "torso"
    if ratio > 1.7 and symmetry(mask) < 0.86:
        return "feet"
    return "hold"


def has_both_sleeves(outline: Outline, width: int) -> bool:
    """The outline leaves the body on both sides by about as much."""
    low, high = outline.rows(0.6, 0.985), outline.rows(0.1, 0.85)
    left = float(np.median(outline.body_left[low]) - outline.left[high].min())
    right = float(outline.right[high].max() - np.median(outline.body_right[low]))
    return min(left, right) > 0.06 * width and min(left, right) > 0.45 * max(left, right)


def symmetry(mask: Mask) -> float:
    """How much of the shape is its own mirror image, about the best axis near the middle."""
    small = cv2.resize(mask.astype(np.uint8), (120, 120), interpolation=cv2.INTER_AREA) > 0
    best = 0.0
    for shift in range(-8, 9):
        mirrored = np.roll(small[:, ::-1], shift, axis=1)
        best = max(best, float((small & mirrored).sum() / max(1, (small | mirrored).sum())))
    return best


def seam_of(mask: Mask, outline: Outline, low: float, side: int) -> Seam:
    """The armpit is where the body's own edge begins; the seam goes straight up from there."""
    height, width = mask.shape
    rows = outline.rows(0.6, 0.985)
    center = float(np.median((outline.body_left[rows] + outline.body_right[rows]) / 2))
    edges = outline.body_left if side < 0 else outline.body_right
    edge = center + side * low / 2
    below = outline.rows(0.25, 0.985)
    is_body = ((edges[below] - edge) * side < 0.06 * width).astype(np.uint8)
    # A cuff that touches the body for a few rows does not end its edge.
    is_body = cv2.morphologyEx(is_body[:, None], cv2.MORPH_CLOSE, np.ones((2 * (height // 24) + 1, 1), np.uint8))[:, 0]
    armpit = below.start + longest_run(is_body > 0)
    near = slice(armpit, min(height, armpit + max(2, height // 30)))
    x = float(np.clip(np.median(edges[near]), *sorted((edge, edge + side * 0.06 * width))))
    column = mask[: armpit + 1, int(np.clip(round(x), 0, width - 1))]
    top = float(np.argmax(column)) if column.any() else 0.15 * height
    return Seam(x, top, max(float(armpit), top + 0.06 * height))


def longest_run(is_true: Mask) -> int:
    """The first index of the longest run."""
    ends = np.flatnonzero(np.diff(np.concatenate([[0], is_true.astype(np.int8), [0]])))
    starts, lengths = ends[::2], ends[1::2] - ends[::2]
    return int(starts[lengths.argmax()]) if len(starts) else 0


def sleeve_of(alpha: Pixels, seam: Seam, side: int, long_from: float) -> Sleeve | None:
    """Follow the sleeve from its seam: the points at the same way from the seam lie across the sleeve."""
    factor = min(1.0, WORK_SIDE / max(alpha.shape))
    size = max(2, round(alpha.shape[1] * factor)), max(2, round(alpha.shape[0] * factor))
    mask = cv2.resize(alpha, size, interpolation=cv2.INTER_AREA) > 127
    x = np.arange(size[0])[None, :] * np.ones((size[1], 1))
    outside = (mask & ((x - seam.x * factor) * side > 0)).astype(np.uint8)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(outside)
    if count < 2:
        return None
    best = 1 + int(stats[1:, cv2.CC_STAT_AREA].argmax())
    if stats[best, cv2.CC_STAT_AREA] < 0.01 * mask.size:
        return None
    region = labels == best
    y = np.arange(size[1])[:, None]
    start = region & (np.abs(x - seam.x * factor) < 2.5) & (y >= seam.top * factor) & (y <= seam.armpit * factor)
    if not start.any():
        return None
    way = ways(region, start)
    longest = float(np.percentile(way[np.isfinite(way)], 99.5))
    count = 24
    step = longest / count
    points = [(seam.x * factor, (seam.top + seam.armpit) / 2 * factor)]
    for number in range(1, count):
        rows, columns = np.nonzero((way >= (number - 0.5) * step) & (way < (number + 0.5) * step))
        if rows.size:
            points.append((float(columns.mean()), float(rows.mean())))
    line = layer(points)
    line = even(smoothed(np.vstack([line, (2 * line[-1] - line[-2])[None]])), 64)
    sides = reaches(region | start, line)
    length = float(np.hypot(*np.diff(line, axis=0).T).sum()) / factor
    return Sleeve(line / np.float32(factor), sides / np.float32(factor), length, is_long=length > long_from)


def across(line: Layer) -> Layer:
    """The direction to the right of the way at each point of a line."""
    slope = np.gradient(line, axis=0)
    slope = slope / np.maximum(np.hypot(slope[:, 0], slope[:, 1]), 1e-6)[:, None]
    return layer(np.stack([-slope[:, 1], slope[:, 0]], axis=1))


def reaches(region: Mask, line: Layer) -> Layer:
    """How far the region goes to both sides of each point, along the direction across the line."""
    offsets = np.arange(-WORK_SIDE // 3, WORK_SIDE // 3 + 1, dtype=np.float32)
    normals = across(line)
    found = np.zeros((len(line), 2), np.float32)
    for number, (point, normal) in enumerate(zip(line, normals, strict=True)):
        x = np.clip(np.round(point[0] + normal[0] * offsets), 0, region.shape[1] - 1).astype(int)
        y = np.clip(np.round(point[1] + normal[1] * offsets), 0, region.shape[0] - 1).astype(int)
        hit = region[y, x]
        ends = np.flatnonzero(np.diff(np.concatenate([[0], hit.astype(np.int8), [0]])))
        if len(ends) == 0:
            found[number] = found[number - 1] if number else (-1, 1)
            continue
        nearest = int(
            np.argmin([max(offsets[a], -offsets[b - 1], 0) for a, b in zip(ends[::2], ends[1::2], strict=True)])
        )
        found[number] = offsets[ends[2 * nearest]], offsets[ends[2 * nearest + 1] - 1]
    # The seam's own points see the body behind it, the last ones a slanted cuff, and at a fold a line sees too much.
    found[:6], found[-3:] = found[6], found[-4]
    usual = float(np.median(found[:, 1] - found[:, 0])) / 2
    middle = np.clip(found.mean(axis=1), -0.5 * usual, 0.5 * usual)
    half = np.clip((found[:, 1] - found[:, 0]) / 2, 0.6 * usual, 1.4 * usual)
    return smoothed(smoothed(layer(np.stack([middle - half, middle + half], axis=1))))


def ways(region: Mask, start: Mask) -> Layer:
    """For each pixel of the region the length of the shortest way to the start inside it; infinite elsewhere."""
    found = np.where(start, np.float32(0), np.float32(np.inf))
    for _ in range(sum(region.shape) * 2):
        # All in float32: a sum in float64 never equals the rounded one, and the loop would run to its limit.
        near, far = cv2.erode(found, BESIDE) + np.float32(1), cv2.erode(found, CORNERS) + SQRT_2
        nearer = np.where(region, np.minimum(found, np.minimum(near, far)), np.float32(np.inf))
        if np.array_equal(nearer, found):
            break
        found = layer(nearer)
    return layer(found)


def smoothed(values: Layer) -> Layer:
    """A mean over three neighbours, three times; the ends stay."""
    for _ in range(3):
        inner = (values[:-2] + values[1:-1] + values[2:]) / 3
        values = layer(np.vstack([values[:1], inner, values[-1:]]))
    return values


def even(line: Layer, count: int) -> Layer:
    """The line with points at equal distances."""
    steps = np.hypot(*np.diff(line, axis=0).T)
    reached = np.concatenate([[0], np.cumsum(steps)])
    wanted = np.linspace(0, reached[-1], count)
    return layer(np.stack([np.interp(wanted, reached, line[:, axis]) for axis in (0, 1)], axis=1))


def without_scraps(picture: Picture) -> Picture:
    """Without slivers that a cut-out left beside the product: they would hang in the air below a hem."""
    assert picture.alpha is not None
    count, labels, stats, _ = cv2.connectedComponentsWithStats((picture.alpha > 127).astype(np.uint8))
    if count <= 2:
        return picture
    areas = stats[1:, cv2.CC_STAT_AREA]
    scraps = np.isin(labels, 1 + np.flatnonzero(areas < 0.01 * areas.max()))
    return Picture(picture.rgb, np.where(dilate(scraps.astype(np.uint8), 2) > 0, 0, picture.alpha).astype(np.uint8))


def defringed(picture: Picture) -> Picture:
    """Edge colours come from inside the cloth, so that the ground it was photographed on leaves no pale line."""
    assert picture.alpha is not None
    reach = max(1.5, max(picture.alpha.shape) / 300)
    inside = erode((picture.alpha > 200).astype(np.uint8), reach)
    near = (dilate(inside, 3 * reach) > 0) & (inside == 0) & (picture.alpha > 0)
    if not near.any():
        return picture
    weight = layer(inside)
    mass = blur(weight, reach * 1.2)
    color = blur(layer(picture.rgb) * weight[:, :, None], reach * 1.2) / np.maximum(mass, 1e-4)[:, :, None]
    rgb = np.where((near & (mass > 1e-3))[:, :, None], to_pixels(color), picture.rgb)
    # Half a pixel narrower: the outermost line of an edge is mostly ground.
    alpha = np.clip((layer(picture.alpha) - 64) * (255 / 191), 0, 255)
    return Picture(np.ascontiguousarray(rgb), to_pixels(alpha))
