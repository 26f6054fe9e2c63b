"""Finds the product and cuts it out: a colour model of the border, GrabCut, then a soft edge at full size."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from worker.engines.preview.raster import (
    Layer,
    blur,
    box_of,
    dilate,
    disc,
    erode,
    lab,
    layer,
    resize,
    shrink,
    to_pixels,
)
from worker.errors import InputEmptySubject
from worker.pictures import Picture, Pixels

WORK_SIDE = 420  # GrabCut's cost grows with pixels, its masks hardly improve
CLUSTERS = 8
MIN_SHARE, MAX_SHARE = 0.004, 0.97
MIN_THICKNESS = 2.0  # pixels of the small picture, from the middle to the rim
ALIKE = 5.0  # of Lab: noise of one backdrop, not yet another colour
NOTCH = 40.0  # pixels of the small picture: the deepest that is still one
PLAIN_NOISE = 3.0  # of Lab, at the 90th percentile of the border: paper and walls are below, shelves far above

Mask = NDArray[np.bool_]


def cut_out(picture: Picture, hint: Pixels | None = None) -> Picture:
    """The product with soft alpha, its edge colours freed of the background. A hint (255 = keep) leads the search."""
    if picture.alpha is not None and hint is None:
        return picture
    alpha = find_alpha(picture.rgb, hint)
    if alpha.max(initial=0) < 0.5:
        raise InputEmptySubject("no product stands out from the background of this picture")
    return Picture(clean_edge_colors(picture.rgb, alpha), to_pixels(alpha * 255))


def find_alpha(rgb: Pixels, hint: Pixels | None = None) -> Layer:
    small = shrink(rgb, WORK_SIDE)
    # A light blur removes sensor noise, which GrabCut would take for texture.
    smooth = to_pixels(blur(small, 0.8))
    if hint is not None:
        return refine(rgb, grab(smooth, seeds_from_hint(hint, small.shape[1], small.shape[0])))
    found = before_plain_backdrop(smooth)
    return refine(rgb, found if found is not None else before_any_backdrop(smooth))


def before_plain_backdrop(small: Pixels) -> Pixels | None:
    """On an even sheet of paper or a wall a fitted surface finds more than GrabCut; None if the border is uneven."""
    colors = lab(small)
    height, width = colors.shape[:2]
    surface, noise = fit_surface(colors, border(height, width))
    if noise.max() > PLAIN_NOISE:
        return None
    delta = colors - surface
    # Chroma is smooth in the small, so its noise can be averaged away; a pale product shows in little else.
    tint = blur(delta[:, :, 1:], 1.0)
    chroma = np.hypot(tint[:, :, 0], tint[:, :, 1])
    light = delta[:, :, 0]
    differs = (chroma > max(2.5, 2.5 * noise[1:].max())) | (light > max(4.0, 4 * noise[0])) | (light < -38)
    # A shadow fades in, a product begins: background reaches every place without crossing a steep edge.
    steep = np.hypot(cv2.Sobel(colors[:, :, 0], cv2.CV_32F, 1, 0), cv2.Sobel(colors[:, :, 0], cv2.CV_32F, 0, 1)) / 8
    passable = (~differs & (steep < 3.2)).astype(np.uint8)
    _, labels = cv2.connectedComponents(passable, connectivity=4)
    ring = border(height, width)
    reached = np.isin(labels, np.setdiff1d(np.unique(labels[ring]), [0]))
    like_backdrop = (passable > 0) & (light > -max(6.0, 4 * noise[0]))  # seen through a handle
    found = (~(reached | like_backdrop)).astype(np.uint8)
    found = np.asarray(cv2.morphologyEx(found, cv2.MORPH_OPEN, disc(1)), np.uint8)
    found = bridge(keep_main(found, layer(chroma + np.abs(light))))
    share = float(found.mean())
    if share > MAX_SHARE:
        return None
    # Blur and a low threshold put the outline a pixel outside.
    return erode(fill_specks(found), 1) if share > MIN_SHARE else np.zeros_like(found)


def fit_surface(colors: Layer, ring: Mask) -> tuple[Layer, Layer]:
    """A quadratic of place for each channel through the border, and the noise around it; outliers are left out."""
    height, width = colors.shape[:2]
    y, x = (plane / (side - 1) - 0.5 for plane, side in zip(np.mgrid[0:height, 0:width], (height, width), strict=True))
    terms = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=-1)
    basis, values = terms[ring], colors[ring]
    used = np.ones(len(values), bool)
    weights = np.zeros((6, 3))
    for _ in range(4):
        weights, *_ = np.linalg.lstsq(basis[used], values[used], rcond=None)
        off = np.abs(values - basis @ weights).max(axis=1)
        used = off <= max(1.0, 3 * float(np.median(off)))
    noise = np.percentile(np.abs(values - basis @ weights), 90, axis=0)
    return layer(terms @ weights), layer(noise)


def before_any_backdrop(small: Pixels) -> Pixels:
    heat = saliency(small)
    found = bridge(grab(small, seeds(heat)))
    sturdy = np.asarray(cv2.morphologyEx(found, cv2.MORPH_OPEN, disc(WORK_SIDE * 0.01)), np.uint8)
    main = keep_main(sturdy if sturdy.any() else found, heat)
    near = dilate(main, WORK_SIDE * 0.01 + 1) & found
    # Straps and handles come back if they stand out as the body does; bits of a busy background do not.
    return fill_specks(bridge(with_alike(near, found, heat)))


def with_alike(main: Pixels, found: Pixels, heat: Layer) -> Pixels:
    """`main` and those other pieces of `found` next to it that stand out from the border as much."""
    if not main.any():
        return found
    usual = float(heat[main > 0].mean())
    count, labels = cv2.connectedComponents(found & (1 - main), connectivity=8)
    close = dilate(main, WORK_SIDE * 0.03)
    result = main.copy()
    for index in range(1, count):
        piece = labels == index
        # A line one pixel wide is a horizon or an edge behind, not a strap.
        is_thick = float(cv2.distanceTransform(piece.astype(np.uint8), cv2.DIST_L2, 3).max()) >= MIN_THICKNESS
        if is_thick and (close[piece] > 0).any() and float(heat[piece].mean()) > 0.75 * usual:
            result[piece] = 1
    return result


def bridge(mask: Pixels) -> Pixels:
    """A band in the backdrop's colour may cut a product in two: gaps with product on both sides are closed."""
    closed = np.asarray(cv2.morphologyEx(mask, cv2.MORPH_CLOSE, disc(WORK_SIDE * 0.016)), np.uint8)
    count, labels = cv2.connectedComponents(closed & (1 - mask), connectivity=4)
    result = mask.copy()
    for index in range(1, count):
        gap = (labels == index).astype(np.uint8)
        rim = dilate(gap, 1) & (1 - gap)
        if gap.sum() > 0.002 * mask.sum() and float(mask[rim > 0].mean()) > 0.6:
            result[gap > 0] = 1
    return result


def saliency(small: Pixels) -> Layer:
    """How far each pixel is from what the border is made of, about 0..1. A soft shadow of the border counts little."""
    colors = lab(small)
    height, width = colors.shape[:2]
    ring = border(height, width)
    samples = colors[ring]
    clusters = cluster(samples)
    distance = np.full((height, width), np.inf, np.float32)
    for center, spread in clusters:
        delta = colors - center
        lightness = np.abs(delta[:, :, 0]) * np.where(delta[:, :, 0] < 0, 0.45, 0.8)
        chroma = np.hypot(delta[:, :, 1], delta[:, :, 2])
        distance = np.minimum(distance, np.hypot(lightness, chroma) / (6 + spread))
    y, x = np.mgrid[0:height, 0:width]
    central = np.exp(-(((x / width - 0.5) / 0.42) ** 2 + ((y / height - 0.52) / 0.42) ** 2))
    return layer(blur(1 - np.exp(-distance / 2.2), 1.2) * (0.35 + 0.65 * central))


def border(height: int, width: int) -> Mask:
    depth = max(3, round(min(height, width) * 0.045))
    ring = np.ones((height, width), bool)
    ring[depth:-depth, depth:-depth] = False
    return ring


def cluster(samples: Layer) -> list[tuple[Layer, float]]:
    cv2.setRNGSeed(7)
    count = min(CLUSTERS, len(samples))
    criteria = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 20, 0.5)
    _, labels, centers = cv2.kmeans(layer(samples), count, None, criteria, 2, cv2.KMEANS_PP_CENTERS)  # type: ignore[call-overload]
    found = []
    for index in range(count):
        members = samples[labels[:, 0] == index]
        # A cluster of a handful of pixels is where the product touches the border, not background.
        if len(members) >= 0.015 * len(samples):
            found.append((layer(centers[index]), float(members.std(axis=0).mean())))
    return found or [(layer(samples.mean(axis=0)), float(samples.std()))]


def seeds(heat: Layer) -> Pixels:
    """GrabCut's first guess, from saliency: what surely stands out, what surely does not, and the doubt between."""
    level, _ = cv2.threshold(to_pixels(heat * 255), 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    likely = keep_main(bridge((heat * 255 > level).astype(np.uint8)), heat)
    height, width = likely.shape
    if not MIN_SHARE * likely.size < likely.sum() < MAX_SHARE * likely.size:
        likely[:] = 0
        likely[round(height * 0.15) : round(height * 0.9), round(width * 0.15) : round(width * 0.85)] = 1
    reach = max(3, round(min(height, width) * 0.03))
    mask = np.full((height, width), cv2.GC_PR_BGD, np.uint8)
    mask[dilate(likely, reach * 3) == 0] = cv2.GC_BGD
    mask[likely > 0] = cv2.GC_PR_FGD
    sure = erode(likely, reach) > 0
    mask[sure & (heat * 255 > level * 1.25)] = cv2.GC_FGD
    ring = border(height, width)
    mask[ring & (likely == 0)] = cv2.GC_BGD
    return mask


def seeds_from_hint(hint: Pixels, width: int, height: int) -> Pixels:
    wanted = (resize(hint, width, height) > 127).astype(np.uint8)
    if not wanted.any():
        raise InputEmptySubject("the mask marks nothing to keep")
    reach = max(2, round(min(height, width) * 0.02))
    mask = np.full((height, width), cv2.GC_PR_BGD, np.uint8)
    mask[dilate(wanted, reach * 2) == 0] = cv2.GC_BGD
    mask[wanted > 0] = cv2.GC_PR_FGD
    mask[erode(wanted, reach) > 0] = cv2.GC_FGD
    return mask


def grab(small: Pixels, seed: Pixels) -> Pixels:
    has_both = np.isin(seed, (cv2.GC_FGD, cv2.GC_PR_FGD)).any() and np.isin(seed, (cv2.GC_BGD, cv2.GC_PR_BGD)).any()
    if not has_both:
        return (np.isin(seed, (cv2.GC_FGD, cv2.GC_PR_FGD))).astype(np.uint8)
    mask, behind, front = seed.copy(), np.zeros((1, 65)), np.zeros((1, 65))
    cv2.setRNGSeed(7)
    cv2.grabCut(cv2.cvtColor(small, cv2.COLOR_RGB2Lab), mask, None, behind, front, 5, cv2.GC_INIT_WITH_MASK)  # type: ignore[call-overload]
    found = np.isin(mask, (cv2.GC_FGD, cv2.GC_PR_FGD)).astype(np.uint8)
    return np.asarray(cv2.morphologyEx(found, cv2.MORPH_OPEN, disc(1)), np.uint8)


def keep_main(mask: Pixels, heat: Layer) -> Pixels:
    """The main piece, and large ones close to it that stand out as much; the rest is background."""
    count, labels, stats, centers = cv2.connectedComponentsWithStats(mask, connectivity=8)
    if count <= 2:
        return mask
    height, width = mask.shape
    areas = stats[1:, cv2.CC_STAT_AREA].astype(np.float64)
    off_center = np.hypot(centers[1:, 0] / width - 0.5, centers[1:, 1] / height - 0.5)
    best = int((areas * np.exp(-((off_center / 0.35) ** 2))).argmax())
    kept: Pixels = (labels == best + 1).astype(np.uint8)
    usual, close = float(heat[kept > 0].mean()), dilate(kept, WORK_SIDE * 0.03)
    for index in np.flatnonzero(areas > 0.08 * areas[best]):
        piece = labels == index + 1
        if (close[piece] > 0).any() and float(heat[piece].mean()) > 0.6 * usual:
            kept[piece] = 1
    return kept


def fill_specks(mask: Pixels) -> Pixels:
    """Pin holes are noise and are filled; a real opening, such as a handle's, stays open."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(1 - mask, connectivity=4)
    limit = 0.006 * float(mask.sum())
    filled = mask.copy()
    for index in range(1, count):
        if stats[index, cv2.CC_STAT_AREA] < limit:
            filled[labels == index] = 1
    return filled


def refine(rgb: Pixels, found: Pixels) -> Layer:
    """The small mask at full size: sure inside and outside, and between them an edge that follows the picture's."""
    height, width = rgb.shape[:2]
    scale = max(height, width) / max(found.shape)
    rough = np.clip(blur(cv2.resize(layer(found), (width, height), interpolation=cv2.INTER_LINEAR), 0.6 * scale), 0, 1)
    alpha = guided(layer(layer(rgb) / 255), layer(rough > 0.5), radius=max(2, round(2.2 * scale)), epsilon=2e-4)
    # The filter leaves a faint veil either side; a steeper ramp brings the edge down to a pixel or two.
    alpha = np.clip((alpha - 0.55) * 2.0 + 0.5, 0, 1)
    reach = 2.6 * scale
    inside, outside = erode((rough > 0.5).astype(np.uint8), reach), dilate((rough > 0.5).astype(np.uint8), reach)
    alpha[inside > 0] = 1
    alpha[outside == 0] = 0
    return opened(rgb, layer(alpha), scale)


def opened(rgb: Pixels, alpha: Layer, scale: float) -> Layer:
    """Opens notches, as under an arm, which the small mask closed: the backdrop reaches as far in as it shows."""
    box = box_of(alpha, 0.004)
    if box is None:
        return alpha
    reach = 6 * scale
    margin = round(reach) + 2
    window = (slice(max(0, box[1] - margin), box[3] + margin), slice(max(0, box[0] - margin), box[2] + margin))
    colors, cover = lab(rgb[window]), alpha[window]
    is_outside = cover < 0.02
    inside = cv2.distanceTransform((cover > 0.5).astype(np.uint8), cv2.DIST_L2, 5)
    behind, front = around(colors, layer(is_outside), reach), around(colors, layer(inside > reach * 0.6), reach)
    apart = np.linalg.norm(front - behind, axis=2)
    is_alike = ~is_outside & (np.linalg.norm(colors - behind, axis=2) < ALIKE) & (apart > 4 * ALIKE)
    count, labels = cv2.connectedComponents(is_alike.astype(np.uint8), connectivity=4)
    # A notch comes from outside and ends soon; what goes on is a band of the product in the backdrop's colour.
    depth = np.zeros(count, np.float32)
    np.maximum.at(depth, labels.ravel(), inside.ravel())
    touching = np.unique(labels[dilate(is_outside.astype(np.uint8), 1) > 0])
    free = np.isin(labels, np.setdiff1d(touching[depth[touching] < NOTCH * scale], [0]))
    # Its rim is a mix of both colours, in the shares that the pixel shows.
    share = np.clip(((colors - behind) * (front - behind)).sum(axis=2) / np.maximum(apart, 1) ** 2, 0, 1)
    result = alpha.copy()
    near = dilate(free.astype(np.uint8), 1) > 0
    result[window] = np.where(free, 0, np.where(near, np.minimum(cover, share), cover))
    return result


def around(colors: Layer, known: Layer, reach: float) -> Layer:
    """The mean of the known colours near each pixel; where there are none, those further away."""
    mean = layer(np.broadcast_to(colors[known > 0].mean(axis=0) if (known > 0).any() else 0, colors.shape))
    for sigma in (4 * reach, reach):
        mass = blur(known, sigma)[:, :, None]
        mean = np.where(mass > 0.02, blur(colors * known[:, :, None], sigma) / np.maximum(mass, 0.02), mean)
    return layer(mean)


def guided(guide: Layer, source: Layer, *, radius: int, epsilon: float) -> Layer:
    """He's guided filter with a colour guide, computed small and applied large (its fast form)."""
    step = max(2, radius // 3)
    height, width = source.shape
    size = (max(1, width // step), max(1, height // step))
    small_guide = layer(cv2.resize(guide, size, interpolation=cv2.INTER_AREA))
    small_source = layer(cv2.resize(source, size, interpolation=cv2.INTER_AREA))
    window = (2 * max(1, radius // step) + 1,) * 2

    def mean(values: Layer) -> Layer:
        return layer(cv2.blur(values, window))

    mean_guide, mean_source = mean(small_guide), mean(small_source)
    covariance = mean(small_guide * small_source[:, :, None]) - mean_guide * mean_source[:, :, None]
    products = np.einsum("hwi,hwj->hwij", small_guide, small_guide).reshape(*small_source.shape, 9)
    second = np.dstack([mean(np.ascontiguousarray(products[:, :, index])) for index in range(9)])
    spread = second.reshape(*small_source.shape, 3, 3) - np.einsum("hwi,hwj->hwij", mean_guide, mean_guide)
    slope = np.linalg.solve(spread + epsilon * np.eye(3), covariance[..., None])[..., 0]
    offset = mean_source - (slope * mean_guide).sum(axis=2)
    slope = cv2.resize(mean(layer(slope)), (width, height), interpolation=cv2.INTER_LINEAR)
    offset = cv2.resize(mean(layer(offset)), (width, height), interpolation=cv2.INTER_LINEAR)
    return layer((slope * guide).sum(axis=2) + offset)


def clean_edge_colors(rgb: Pixels, alpha: Layer) -> Pixels:
    """Edge pixels are a mix of product and background. They take the colour of the product just inside."""
    box = box_of(alpha, 0.004)
    if box is None:
        return rgb
    result = rgb.copy()
    margin = 8
    x0, y0 = max(0, box[0] - margin), max(0, box[1] - margin)
    x1, y1 = min(rgb.shape[1], box[2] + margin), min(rgb.shape[0], box[3] + margin)
    part, cover = layer(rgb[y0:y1, x0:x1]), alpha[y0:y1, x0:x1]
    solid = layer(erode((cover > 0.97).astype(np.uint8), max(1.0, max(rgb.shape) / 420)))
    spread, weight = part * solid[:, :, None], solid
    colors = np.zeros_like(part)
    known = np.zeros_like(solid)
    for sigma in (1.5, 4.0, 10.0):
        near, mass = blur(spread, sigma), blur(weight, sigma)
        usable = layer((mass > 0.02) & (known == 0))
        colors += near / np.maximum(mass, 1e-3)[:, :, None] * usable[:, :, None]
        known = np.maximum(known, usable)
    mix = blur((known > 0) & (solid == 0), 0.6) * (1 - solid)
    result[y0:y1, x0:x1] = to_pixels(colors * mix[:, :, None] + part * (1 - mix[:, :, None]))
    return result
