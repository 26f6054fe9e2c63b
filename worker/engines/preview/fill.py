"""Fills a hole with patches from the rest of the picture, found by PatchMatch from coarse to fine."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray

from worker.engines.preview.raster import Layer, blur, dilate, layer, resize, rng_of, to_pixels
from worker.pictures import Pixels

WORK_SIDE = 220
PATCH = 2  # radius
ROUNDS = 4
ROW_WEIGHT = 90_000.0  # of a squared share of the height: shelves and horizons continue in their own row

Mask = NDArray[np.bool_]
Index = NDArray[np.int32]
Cost = Callable[[Index, Index], Layer]


def fill(rgb: Pixels, hole: Mask, *, seed: int = 0, barred: Mask | None = None) -> Pixels:
    """`rgb` with the hole filled; what is outside the hole is returned untouched. Barred pixels are not copied."""
    if not hole.any() or hole.all():
        return rgb
    height, width = hole.shape
    factor = min(1.0, WORK_SIDE / max(height, width))
    size = max(16, round(width * factor)), max(16, round(height * factor))
    small_hole = cv2.resize(hole.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST) > 0
    small_hole = dilate(small_hole.astype(np.uint8), 1) > 0
    if small_hole.mean() > 0.85 or not (~small_hole).any():
        return smooth_fill(rgb, hole)
    small = layer(resize(layer(rgb), *size)) if factor < 1 else layer(rgb)
    closed = np.zeros(small_hole.shape, bool)
    if barred is not None:
        closed = cv2.resize(barred.astype(np.uint8), size, interpolation=cv2.INTER_AREA) > 0
        closed = closed if (~(closed | small_hole)).mean() > 0.05 else np.zeros_like(closed)
    source = pyramid(small, small_hole, closed, seed)
    return transfer(rgb, hole, source, size)


def smooth_fill(rgb: Pixels, hole: Mask) -> Pixels:
    """Each row goes on from its left rim to its right one; columns stand in where a row has no rim."""
    mixed = bridge_rows(layer(rgb), hole)
    lost = np.asarray(hole.all(axis=1))
    if lost.any() and not lost.all():
        gap = np.broadcast_to(lost[:, None], hole.shape)
        mixed = bridge_rows(mixed.transpose(1, 0, 2), gap.T).transpose(1, 0, 2)
    soft = blur(mixed, max(1.0, max(hole.shape) / 150), max(0.8, max(hole.shape) / 400))
    filled = to_pixels(soft)
    filled[~hole] = rgb[~hole]
    return filled


def bridge_rows(image: Layer, hole: Mask) -> Layer:
    result = image.copy()
    fallback = image[~hole].mean(axis=0)
    places = np.arange(hole.shape[1])
    for row in np.flatnonzero(hole.any(axis=1)):
        gap = hole[row]
        if gap.all():
            result[row] = fallback
            continue
        for channel in range(3):
            result[row, gap, channel] = np.interp(places[gap], places[~gap], image[row, ~gap, channel])
    return result


def spread(values: Layer, weight: Layer) -> Layer:
    """Values where they are known (weight 1), and between and beyond them a smooth continuation."""
    height, width = weight.shape
    if min(height, width) <= 2:
        mean = (values * weight[:, :, None]).sum(axis=(0, 1)) / max(1e-6, float(weight.sum()))
        return layer(np.broadcast_to(mean, values.shape))
    half = (width + 1) // 2, (height + 1) // 2
    mass = layer(cv2.resize(weight, half, interpolation=cv2.INTER_AREA))
    mixed = layer(cv2.resize(values * weight[:, :, None], half, interpolation=cv2.INTER_AREA))
    mixed = mixed.reshape(half[1], half[0], -1)
    coarse = spread(layer(mixed / np.maximum(mass, 1e-6)[:, :, None]), layer(np.minimum(mass * 4, 1)))
    grown = layer(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_LINEAR)).reshape(values.shape)
    return layer(values * weight[:, :, None] + grown * (1 - weight[:, :, None]))


def pyramid(image: Layer, hole: Mask, barred: Mask, seed: int) -> Index:
    """For each pixel of the hole, the pixel outside it that belongs there (row, column)."""
    levels = [(image, hole, barred)]
    while min(levels[-1][1].shape) > 40 and thickness(levels[-1][1]) > PATCH:
        height, width = levels[-1][1].shape
        half = (max(8, width // 2), max(8, height // 2))
        smaller = cv2.resize(levels[-1][1].astype(np.uint8), half, interpolation=cv2.INTER_AREA) > 0
        if smaller.mean() > 0.9:
            break
        closed = cv2.resize(levels[-1][2].astype(np.uint8), half, interpolation=cv2.INTER_AREA) > 0
        levels.append((layer(resize(levels[-1][0], *half)), smaller, closed))
    rng = rng_of("fill", seed)
    current = layer(smooth_fill(to_pixels(levels[-1][0]), levels[-1][1]))
    source: Index | None = None
    for picture, gap, closed in reversed(levels):
        height, width = gap.shape
        if source is not None:
            grown = cv2.resize(source.astype(np.float32), (width, height), interpolation=cv2.INTER_NEAREST) * 2
            grown += places(height, width) % 2
            source = np.clip(grown, 0, [height - 1, width - 1]).astype(np.int32)
            current = layer(resize(current, width, height))
        current = np.where(gap[:, :, None], current, picture)
        source, current = match(current, gap, closed, source, rng)
    assert source is not None
    return source


def places(height: int, width: int) -> Index:
    """Each pixel's own (row, column)."""
    return np.moveaxis(np.mgrid[0:height, 0:width], 0, -1).astype(np.int32)


def thickness(hole: Mask) -> float:
    return float(cv2.distanceTransform(hole.astype(np.uint8), cv2.DIST_L2, 3).max())


def match(image: Layer, hole: Mask, barred: Mask, start: Index | None, rng: np.random.Generator) -> tuple[Index, Layer]:
    height, width = hole.shape
    # A patch may be copied only if all of it is known and none of it barred.
    usable = dilate((hole | barred).astype(np.uint8), PATCH) == 0
    usable[:PATCH], usable[-PATCH:], usable[:, :PATCH], usable[:, -PATCH:] = False, False, False, False
    if not usable.any():
        usable = ~hole
    choices = np.argwhere(usable).astype(np.int32)
    rows, columns = np.nonzero(hole)

    def near(count: int) -> Index:
        return np.asarray(choices[rng.integers(0, len(choices), count)], np.int32)

    source = places(height, width)
    guess = np.stack([rows, near(len(rows))[:, 1]], axis=-1).astype(np.int32) if start is None else start[rows, columns]
    bad = ~usable[guess[:, 0], guess[:, 1]]
    guess[bad] = near(int(bad.sum()))
    source[rows, columns] = guess
    offsets = [(dy, dx) for dy in range(-PATCH, PATCH + 1) for dx in range(-PATCH, PATCH + 1)]
    for turn in range(ROUNDS):
        patches = patches_of(image)
        wanted = patches[rows * width + columns]

        def cost(candidate: Index, of: Index, patches: Layer = patches, wanted: Layer = wanted) -> Layer:
            """How badly each candidate fits the pixel of the hole with the number in `of`."""
            away = patches[candidate[:, 0] * width + candidate[:, 1]] - wanted[of]
            total = np.einsum("ij,ij->i", away, away)
            return layer(total + ROW_WEIGHT * layer((candidate[:, 0] - rows[of]) / height) ** 2)

        best = source[rows, columns]
        best_cost = cost(best, np.arange(len(rows), dtype=np.int32))
        step = (1, 1, 2, 1)[turn % 4]
        for dy, dx in ((0, -step), (-step, 0), (0, step), (step, 0)):
            from_row, from_column = np.clip(rows + dy, 0, height - 1), np.clip(columns + dx, 0, width - 1)
            candidate = source[from_row, from_column] - np.array([dy, dx], np.int32)
            better(candidate, best, best_cost, usable, cost)
            source[rows, columns] = best
        radius = max(height, width) // 2
        while radius >= 2:
            candidate = best + rng.integers(-radius, radius + 1, best.shape, dtype=np.int32)
            better(candidate, best, best_cost, usable, cost)
            radius //= 3
        source[rows, columns] = best
        image = vote(image, hole, source, offsets)
    return source, image


def patches_of(image: Layer) -> Layer:
    """One row per pixel: the colours of the patch around it, side by side in memory."""
    side = 2 * PATCH + 1
    padded = cv2.copyMakeBorder(image, PATCH, PATCH, PATCH, PATCH, cv2.BORDER_REFLECT_101)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side), axis=(0, 1))
    return layer(windows.reshape(image.shape[0] * image.shape[1], -1))


def better(candidate: Index, best: Index, best_cost: Layer, usable: Mask, cost: Cost) -> None:
    """Take each candidate that may be copied and fits better than the best so far."""
    height, width = usable.shape
    candidate = np.clip(candidate, 0, np.array([height - 1, width - 1], np.int32))
    is_new = usable[candidate[:, 0], candidate[:, 1]] & (candidate != best).any(axis=1)
    of = np.flatnonzero(is_new).astype(np.int32)
    price = cost(candidate[of], of)
    improved = price < best_cost[of]
    best[of[improved]] = candidate[of[improved]]
    best_cost[of[improved]] = price[improved]


def vote(image: Layer, hole: Mask, source: Index, offsets: list[tuple[int, int]]) -> Layer:
    """The mean over all patches that cover a pixel, which hides the seams between patches."""
    height, width = hole.shape
    rows, columns = np.nonzero(hole)
    total, weight = np.zeros((len(rows), 3), np.float32), np.zeros(len(rows), np.float32)
    for dy, dx in offsets:
        from_row, from_column = rows + dy, columns + dx
        inside = (from_row >= 0) & (from_row < height) & (from_column >= 0) & (from_column < width)
        r, c = np.clip(from_row, 0, height - 1), np.clip(from_column, 0, width - 1)
        taken = source[r, c] - np.array([dy, dx], np.int32)
        inside &= (taken >= 0).all(axis=1) & (taken[:, 0] < height) & (taken[:, 1] < width)
        taken = np.clip(taken, 0, [height - 1, width - 1])
        inside &= ~hole[taken[:, 0], taken[:, 1]]
        share = inside.astype(np.float32)
        total += image[taken[:, 0], taken[:, 1]] * share[:, None]
        weight += share
    result = image.copy()
    voted = weight > 0
    result[rows[voted], columns[voted]] = total[voted] / weight[voted, None]
    return result


def transfer(rgb: Pixels, hole: Mask, source: Index, size: tuple[int, int]) -> Pixels:
    """The small map of sources copies full-size pixels, so that the fill has the picture's own detail and grain."""
    height, width = hole.shape
    scale = width / size[0], height / size[1]
    rows, columns = np.nonzero(hole)
    small_row = np.minimum((rows / scale[1]).astype(np.int32), size[1] - 1)
    small_column = np.minimum((columns / scale[0]).astype(np.int32), size[0] - 1)
    shift = source[small_row, small_column] - np.stack([small_row, small_column], axis=-1)
    take_row = np.clip(rows + np.round(shift[:, 0] * scale[1]).astype(np.int32), 0, height - 1)
    take_column = np.clip(columns + np.round(shift[:, 1] * scale[0]).astype(np.int32), 0, width - 1)
    still_hole = hole[take_row, take_column]
    filled = layer(rgb)
    base = layer(smooth_fill(np.asarray(resize(rgb, *size)), small_hole_of(hole, size)))
    rough = layer(resize(base, width, height))
    copied = layer(rgb)[take_row, take_column]
    filled[rows, columns] = np.where(still_hole[:, None], rough[rows, columns], copied)
    return level(rgb, filled, hole)


def small_hole_of(hole: Mask, size: tuple[int, int]) -> Mask:
    return dilate((cv2.resize(hole.astype(np.uint8), size, interpolation=cv2.INTER_AREA) > 0).astype(np.uint8), 1) > 0


def level(rgb: Pixels, filled: Layer, hole: Mask) -> Pixels:
    """Light differs across a picture: the fill takes the tone of what surrounds it, from each part of its rim.

    What differs much at the rim is another thing and not another light; it has no say.
    """
    sigma = max(2.0, max(hole.shape) / 120)
    inside = hole.astype(np.float32)
    mass_in, mass_out = blur(inside, sigma), blur(1 - inside, sigma)
    within = blur(filled * inside[:, :, None], sigma) / np.maximum(mass_in, 1e-3)[:, :, None]
    around = blur(layer(rgb) * (1 - inside)[:, :, None], sigma) / np.maximum(mass_out, 1e-3)[:, :, None]
    reach = cv2.distanceTransform(hole.astype(np.uint8), cv2.DIST_L2, 3)
    gap = layer(around - within)
    weight = ((reach > 0) & (reach <= sigma)) * np.exp(-((np.abs(gap).max(axis=2) / 22) ** 2))
    corrected = filled + np.clip(spread(gap, layer(weight)), -24, 24) * inside[:, :, None]
    soft = blur(corrected, 0.8)
    seam = np.exp(-((reach / 2.0) ** 2)) * inside
    corrected = corrected * (1 - seam[:, :, None]) + soft * seam[:, :, None]
    result = to_pixels(corrected)
    result[~hole] = rgb[~hole]
    return result
