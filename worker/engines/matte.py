"""A network's small mask becomes alpha at full size: its edge follows the picture's, and edge colours are cleaned.

The work is done in tiles around the edge, so that memory does not grow with the picture.
"""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np
from numpy.typing import NDArray

from worker.engines.preview.cutout import fit_surface, guided
from worker.engines.preview.raster import (
    Layer,
    blur,
    box_of,
    crop_to,
    dilate,
    disc,
    erode,
    hex_color,
    lab,
    layer,
    to_pixels,
)
from worker.engines.preview.reshape import is_plain, ring_of
from worker.errors import InputEmptySubject
from worker.pictures import Picture, Pixels, flatten
from worker.steps import Params

TILE = 1024
SURE_OUT, SURE_IN = 6, 249  # of 255: beyond these the network's answer stands
EMPTY = 128
WHITE = 240.0
Box = tuple[slice, slice]
Mask = NDArray[np.bool_]


def cut_by_mask(picture: Picture, plane: Layer, params: Params, hint: Pixels | None = None) -> Picture:
    """`plane` is 0..1 at any size. A hint (255 = keep) limits the result and is kept inside."""
    size = (picture.width, picture.height)
    plane = whole(picture.rgb, plane)
    coarse = np.asarray(cv2.resize(to_pixels(plane * 255), size, interpolation=cv2.INTER_CUBIC), np.uint8)
    if hint is not None:
        coarse = led_by(coarse, hint)
    if coarse.max(initial=0) < EMPTY:
        raise InputEmptySubject("no product stands out from the background of this picture")
    alpha = refined(picture.rgb, coarse, scale=max(size) / max(plane.shape))
    cut = Picture(decontaminated(picture.rgb, alpha), alpha)
    return finished(cut, params)


def whole(rgb: Pixels, plane: Layer) -> Layer:
    """White cloth on a white ground: the network sees its outline and not its inside, which has folds and no light.

    On a plain ground what the outline encloses is kept if it has more detail than the ground. A hole through which the
    ground is seen has none, and stays.
    """
    small = np.asarray(cv2.resize(rgb, plane.shape[::-1], interpolation=cv2.INTER_AREA), np.uint8)
    found = (plane > 0.3).astype(np.uint8)
    reach = max(plane.shape) * 0.02
    if not found.any() or not is_plain(small, dilate((plane > 0.1).astype(np.uint8), 2 * reach) > 0):
        return plane
    closed = np.pad(found, round(2 * reach))
    closed = np.asarray(cv2.morphologyEx(closed, cv2.MORPH_CLOSE, disc(reach)), np.uint8)
    closed = np.ascontiguousarray(closed[round(2 * reach) : -round(2 * reach), round(2 * reach) : -round(2 * reach)])
    outlines, _ = cv2.findContours(closed, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    inside = cv2.drawContours(np.zeros_like(closed), outlines, -1, 1, -1)
    grey = layer(cv2.cvtColor(small, cv2.COLOR_RGB2GRAY))
    detail = cv2.blur(np.abs(grey - cv2.GaussianBlur(grey, (0, 0), 4)), (9, 9))
    ground = float(np.median(detail[ring_of(detail.shape, inside > 0)]))
    count, labels = cv2.connectedComponents(((inside > 0) & (found == 0)).astype(np.uint8))
    result, holes, cloth = plane.copy(), np.zeros(plane.shape, bool), np.zeros(plane.shape, bool)
    for number in range(1, count):
        part = labels == number
        deep = part & (erode(part.astype(np.uint8), 3) > 0)
        if deep.sum() > 30 and float(np.median(detail[deep])) > 2 * ground + 0.25:
            result[part] = 1
            cloth |= deep
        elif part.mean() > 0.002:
            holes |= part
    # A shadow between sleeve and body has detail too: only where much of the inside was missed is it cloth.
    if float((result - plane > 0.5).sum()) < 0.1 * float(inside.sum()):
        return plane
    # Then what the network doubted beside it is cloth as well.
    result[erode(((inside > 0) & ~holes).astype(np.uint8), 4) > 0] = 1
    return mended(small, layer(result), plane, cloth)


def mended(rgb: Pixels, plane: Layer, seen: Layer, cloth: Mask) -> Layer:
    """The outline of cloth of which a network saw parts only: gaps opened, the rim between stripes and the hem closed.

    White cloth is cream or blue beside white paper, and a shadow on paper has the paper's own tint. JPEG spreads the
    colour of a stripe over the paper beside it, so only what is wider than that is believed.
    """
    mask = (plane > 0.5).astype(np.uint8)
    planes = by_tint(rgb, cloth, mask > 0)
    if planes is None:
        return plane
    tinted, shadow = planes
    size = max(mask.shape)
    gaps = opened((mask > 0) & shadow & (seen < 0.95), size * 0.003)
    gaps = (dilate(gaps.astype(np.uint8), size * 0.004) > 0) & (mask > 0) & ~tinted & (seen < 0.95)
    gaps = believable(gaps.astype(np.uint8), mask, size * 0.023)
    hem = opened((dilate(mask, size * 0.03) > 0) & (mask == 0) & tinted, size * 0.006)
    whole_mask = ((mask > 0) | hem).astype(np.uint8)
    # Teeth between stripes are shallow: closed by a wide disc, and no deeper than a few pixels.
    room = round(size * 0.06)
    wide = cv2.morphologyEx(np.pad(whole_mask, room), cv2.MORPH_CLOSE, disc(size * 0.05))[room:-room, room:-room]
    rim = (wide > 0) & (dilate(whole_mask, size * 0.008) > 0) & ~shadow
    kept = ((whole_mask > 0) | rim) & ~gaps
    return layer(blur(blur(kept, 1.5) > 0.5, 0.8))


def by_tint(rgb: Pixels, cloth: Mask, inside: Mask) -> tuple[Mask, Mask] | None:
    """Where the picture has a tint that its plain ground has not, and where it is a shadow on that ground.

    None if cloth and ground have the same tint.
    """
    surface, _ = fit_surface(layer(rgb), ring_of(rgb.shape, inside))
    # Beside white paper in white light, a shadow is grey whatever colour the ground has.
    colors = lab(np.clip(layer(rgb) / np.maximum(surface, 1), 0, 1.06) * WHITE)
    light = blur(colors[:, :, 0], 1.0) - float(lab(np.full((1, 1, 3), WHITE))[0, 0, 0])
    outside = ~(dilate(inside.astype(np.uint8), max(rgb.shape) * 0.04) > 0)
    if not outside.any():
        return None
    tint = blur(colors[:, :, 1:], 1.5)
    chroma = np.hypot(tint[:, :, 0], tint[:, :, 1])
    usual, noise = float(np.median(chroma[cloth])), float(np.percentile(chroma[outside], 99))
    tinted = np.asarray(chroma > max(0.6, 0.2 * usual, 1.5 * noise))
    if float(tinted[cloth].mean()) < 0.85:
        return None
    dark = -max(3.0, 2 * float(np.percentile(np.abs(light[outside]), 95)))
    return tinted, np.asarray((chroma < max(0.6, 0.35 * usual)) & (light < dark))


def believable(gaps: Pixels, mask: Pixels, least: float) -> Mask:
    """The parts that reach the outside, or are so wide and so tall: a pale spot of one stripe is neither."""
    _, labels, stats, _ = cv2.connectedComponentsWithStats(gaps)
    sides = stats[1:, [cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT]].min(axis=1)
    reaching = np.setdiff1d(np.unique(labels[dilate(1 - mask, 2) > 0]), [0])
    return np.isin(labels, np.union1d(1 + np.flatnonzero(sides >= least), reaching))


def opened(mask: Mask, radius: float) -> Mask:
    """Without what is narrower than the disc."""
    return np.asarray(cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_OPEN, disc(max(1.0, radius))) > 0)


def finished(cut: Picture, params: Params) -> Picture:
    """Feather, trim and background, as the parameters of `cutout` say."""
    assert cut.alpha is not None
    feather = params.get("feather_px") or 0
    if feather > 1:
        cut = Picture(cut.rgb, np.asarray(cv2.GaussianBlur(cut.alpha, (0, 0), feather / 2), np.uint8))
    if params.get("trim") and (box := box_of(cut.alpha, 4)) is not None:
        cut = crop_to(cut, box)
    background = params.get("background") or "transparent"
    if background == "transparent":
        return cut
    return flatten(cut, (255, 255, 255) if background == "white" else hex_color(background))


def led_by(coarse: Pixels, hint: Pixels) -> Pixels:
    """What the hint marks is kept but for its rim, which the network decides; what it leaves out is dropped."""
    wanted = (cv2.resize(hint, coarse.shape[::-1], interpolation=cv2.INTER_LINEAR) > 127).astype(np.uint8)
    if not wanted.any():
        raise InputEmptySubject("the mask marks nothing to keep")
    reach = max(2.0, max(coarse.shape) * 0.012)
    kept = np.where(dilate(wanted, reach) > 0, coarse, 0).astype(np.uint8)
    kept[erode(wanted, reach) > 0] = 255
    return kept


def tiles(plane: Pixels, margin: int) -> Iterator[tuple[Box, Box, Box]]:
    """(outer, inner, inner within outer): the outer tile has the margin that a filter needs around the inner one."""
    height, width = plane.shape
    for top in range(0, height, TILE):
        for left in range(0, width, TILE):
            bottom, right = min(top + TILE, height), min(left + TILE, width)
            y0, x0 = max(0, top - margin), max(0, left - margin)
            outer = (slice(y0, min(bottom + margin, height)), slice(x0, min(right + margin, width)))
            within = (slice(top - y0, bottom - y0), slice(left - x0, right - x0))
            yield outer, (slice(top, bottom), slice(left, right)), within


def refined(rgb: Pixels, coarse: Pixels, scale: float) -> Pixels:
    """Where the network is unsure, alpha follows the picture: a guided filter with the picture as its guide."""
    radius = max(3, round(3 * scale))
    result = coarse.copy()
    for outer, inner, within in tiles(coarse, 4 * radius):
        part = coarse[outer]
        doubt = soft_band(part, radius)
        if not doubt[within].any():
            continue
        guide = layer(rgb[outer]) / 255
        edge = guided(layer(guide), layer(part / np.float32(255)), radius=radius, epsilon=1e-4)
        edge = np.clip((edge - 0.5) * 1.06 + 0.5, 0, 1)  # the filter leaves a faint veil
        # It decides only where the network doubts, and no further from its answer than a network's pixel explains.
        low = cv2.erode(part, np.ones((2 * radius + 1,) * 2, np.uint8))
        high = cv2.dilate(part, np.ones((2 * radius + 1,) * 2, np.uint8))
        bounded = np.clip(to_pixels(edge * 255), low, high)
        mixed = np.where(doubt, bounded, part)
        result[inner] = mixed[within]
    result[result <= SURE_OUT // 2] = 0
    result[result >= SURE_IN + 3] = 255
    return result


def soft_band(alpha: Pixels, radius: int) -> Mask:
    unsure = ((alpha > SURE_OUT) & (alpha < SURE_IN)).astype(np.uint8)
    return np.asarray(dilate(unsure, max(1, radius // 2)) > 0)


def decontaminated(rgb: Pixels, alpha: Pixels) -> Pixels:
    """The colours of the subject alone: at the edge a pixel is a mix of subject and ground, in the shares of alpha.

    Estimated as in "Approximate Fast Foreground Colour Estimation" (Forte, 2021): means of the colours inside and
    outside, weighted by alpha, then what the mix leaves over; first wide, then narrow.
    """
    wide = max(12, round(max(alpha.shape) / 60))
    narrow = max(3, round(max(alpha.shape) / 350))
    result = rgb.copy()
    for outer, inner, within in tiles(alpha, wide + narrow):
        part = alpha[outer]
        soft = (part > 0) & (part < 255)
        if not soft[within].any():
            continue
        picture, cover = layer(rgb[outer]), layer(part / np.float32(255))
        front, behind = foreground(picture, picture, picture, cover, wide)
        front, _ = foreground(picture, front, behind, cover, narrow)
        cleaned = np.where(soft[:, :, None], np.clip(front, 0, 255), picture)
        result[inner] = to_pixels(cleaned)[within]
    return result


def foreground(picture: Layer, front: Layer, behind: Layer, cover: Layer, radius: int) -> tuple[Layer, Layer]:
    window = (2 * radius + 1,) * 2
    weight = cover[:, :, None]
    mass = layer(cv2.blur(cover, window))[:, :, None]
    near_front = layer(cv2.blur(front * weight, window)) / (mass + 1e-4)
    near_behind = layer(cv2.blur(behind * (1 - weight), window)) / (1 - mass + 1e-4)
    rest = picture - weight * near_front - (1 - weight) * near_behind
    return layer(np.clip(near_front + weight * rest, 0, 255)), near_behind
