"""Steps that add, remove or repaint a part of a picture: extend, erase, repaint; and crop, which finds what matters."""

from __future__ import annotations

import cv2
import numpy as np

from worker.engines.preview.cutout import find_alpha, saliency
from worker.engines.preview.effects import MAX_OUTPUT_PIXELS
from worker.engines.preview.fill import Mask, fill
from worker.engines.preview.palette import color_named, pattern_named
from worker.engines.preview.raster import (
    Layer,
    blur,
    box_of,
    crop_to,
    dilate,
    fractal,
    from_lab,
    hex_color,
    lab,
    layer,
    resize,
    rng_of,
    shrink,
    to_pixels,
)
from worker.errors import InputEmptySubject, InputTooManyPixels, StepBadParams
from worker.pictures import Picture, Pixels
from worker.steps import Params

MAX_GROWTH = 4.0  # of the area; beyond it little of the result would be the picture


def crop(picture: Picture, params: Params, found: tuple[int, int, int, int] | None = None) -> Picture:
    """The frame of the wanted shape around the subject, as tight as margin and picture allow."""
    box = subject_box(picture) if found is None else found
    width, height = picture.width, picture.height
    ratio = width / height if params.aspect == "original" else aspect_of(params.aspect)
    x0, y0, x1, y1 = box
    wanted_w, wanted_h = (x1 - x0) * (1 + 2 * params.margin), (y1 - y0) * (1 + 2 * params.margin)
    frame_w, frame_h = max(wanted_w, wanted_h * ratio), max(wanted_h, wanted_w / ratio)
    shrinkage = min(1.0, width / frame_w, height / frame_h)
    frame_w, frame_h = max(1, round(frame_w * shrinkage)), max(1, round(frame_h * shrinkage))
    left = round(min(max((x0 + x1 - frame_w) / 2, 0), width - frame_w))
    top = round(min(max((y0 + y1 - frame_h) / 2, 0), height - frame_h))
    return crop_to(picture, (left, top, left + frame_w, top + frame_h))


def subject_box(picture: Picture) -> tuple[int, int, int, int]:
    if picture.alpha is not None:
        box = box_of(picture.alpha, 8)
    else:
        box = box_of(find_alpha(picture.rgb), 0.5)
        if box is None:
            small = saliency(shrink(picture.rgb, 320))
            heat = resize(layer(small), picture.width, picture.height)
            box = box_of(heat, float(np.percentile(heat, 90)))
    return box or (0, 0, picture.width, picture.height)


def aspect_of(text: str) -> float:
    width, height = text.split(":")
    return int(width) / int(height)


def extend(picture: Picture, params: Params) -> Picture:
    """More room around the picture. The background goes on from the edge; the subject is never mirrored."""
    left, right, top, bottom = margins(picture, params)
    if left + right + top + bottom == 0:
        return picture
    plate = background_plate(picture.rgb, params.seed)
    grown = cv2.copyMakeBorder(plate, top, bottom, left, right, cv2.BORDER_REFLECT_101)
    result = soften_outwards(layer(grown), (left, right, top, bottom), params.seed + params.variant)
    y, x = slice(top, top + picture.height), slice(left, left + picture.width)
    result[y, x] = picture.rgb
    alpha = None
    if picture.alpha is not None:
        alpha = np.pad(picture.alpha, ((top, bottom), (left, right)))
    return Picture(to_pixels(result), alpha)


def margins(picture: Picture, params: Params) -> tuple[int, int, int, int]:
    width, height = picture.width, picture.height
    if params.aspect is None:
        left, right = round(params.left * width), round(params.right * width)
        top, bottom = round(params.top * height), round(params.bottom * height)
    else:
        ratio = aspect_of(params.aspect)
        across, down = max(0, round(height * ratio) - width), max(0, round(width / ratio) - height)
        left, right, top, bottom = across // 2, across - across // 2, down // 2, down - down // 2
    grown = (width + left + right) * (height + top + bottom) / (width * height)
    if grown * width * height > MAX_OUTPUT_PIXELS:
        raise InputTooManyPixels(f"the result would have more than {MAX_OUTPUT_PIXELS} pixels")
    if grown > MAX_GROWTH + 5 or max(left, right) > width * 2 or max(top, bottom) > height * 2:
        raise StepBadParams(f"this would make the picture {grown:.1f} times as large")
    return left, right, top, bottom


def background_plate(rgb: Pixels, seed: int) -> Pixels:
    """The picture without its subject, equal to it along the edge, so that what is grown from the edge fits on."""
    small = shrink(rgb, 640)
    alpha = find_alpha(small)
    if alpha.mean() < 0.002 or alpha.mean() > 0.7:
        return rgb
    # Wide enough to take the subject's shadow along.
    hole = dilate((alpha > 0.05).astype(np.uint8), max(3, max(alpha.shape) * 0.035)) > 0
    box = box_of(alpha, 0.3)
    if box is not None:  # and the pool of shadow around its foot
        wide, tall = box[2] - box[0], box[3] - box[1]
        left, right = max(0, round(box[0] - 0.15 * wide)), round(box[2] + 0.2 * wide)
        hole[round(box[3] - 0.08 * tall) : round(box[3] + 0.08 * tall), left:right] = True
    hole[:2], hole[-2:], hole[:, :2], hole[:, -2:] = False, False, False, False
    plate = layer(resize(layer(fill(small, hole, seed=seed)), rgb.shape[1], rgb.shape[0]))
    cover = np.clip(blur(resize(layer(hole), rgb.shape[1], rgb.shape[0]), rgb.shape[1] / 200), 0, 1)
    depth = max(2, round(min(rgb.shape[:2]) * 0.004))
    cover[:depth], cover[-depth:], cover[:, :depth], cover[:, -depth:] = 0, 0, 0, 0
    return to_pixels(layer(rgb) * (1 - cover[:, :, None]) + plate * cover[:, :, None])


def soften_outwards(grown: Layer, sides: tuple[int, int, int, int], seed: int) -> Layer:
    """Mirrored detail far from the edge would be recognised: it is drawn out along the edge's own direction."""
    left, right, top, bottom = sides
    height, width = grown.shape[:2]
    x, y = np.arange(width), np.arange(height)
    beside = np.maximum(left - x, x - (width - right - 1)).clip(0) / max(left, right, 1)
    above = np.maximum(top - y, y - (height - bottom - 1)).clip(0) / max(top, bottom, 1)
    # Sideways only: a horizon, a table edge and the grain of wood run that way, and stay sharp.
    drawn_out = blur(grown, max(left, right, 1) / 16, 0.6)
    across = (np.clip((beside - 0.05) / 0.6, 0, 1) * 0.8)[None, :, None]
    result = grown * (1 - across) + drawn_out * across
    faded = blur(result, max(top, bottom, 1) / 90)
    down = (np.clip((above - 0.1) / 0.8, 0, 1) * 0.7)[:, None, None]
    result = result * (1 - down) + faded * down
    grain = np.abs(grown - blur(grown, 1.2))[top : height - bottom, left : width - right]
    noise = rng_of("grain", seed).standard_normal((height, width, 1), np.float32)
    amount = layer(np.maximum(across, down)) * np.float32(max(float(np.percentile(grain[::4, ::4], 50)), 0.1))
    return layer(result + noise * amount)


def region_mask(picture: Picture, mask: Picture | None, regions: list[tuple[float, float, float, float]]) -> Mask:
    height, width = picture.height, picture.width
    marked = np.zeros((height, width), bool)
    if mask is not None:
        plane = mask.alpha if mask.alpha is not None and np.ptp(mask.rgb) < 8 else mask.rgb.max(axis=2)
        marked |= cv2.resize(plane, (width, height), interpolation=cv2.INTER_LINEAR) > 127
    for x, y, w, h in regions:
        x0, y0 = int(x * width), int(y * height)
        marked[y0 : max(y0 + 1, round((y + h) * height)), x0 : max(x0 + 1, round((x + w) * width))] = True
    if not marked.any():
        raise InputEmptySubject("nothing is marked: give a mask with white where the picture may change, or regions")
    if marked.all():
        raise InputEmptySubject("everything is marked: nothing of the picture would be left")
    return marked


def erase(picture: Picture, mask: Picture | None, params: Params) -> Picture:
    hole = region_mask(picture, mask, list(params.regions))
    return Picture(fill(picture.rgb, hole, seed=params.seed + params.variant), picture.alpha)


def repaint(picture: Picture, mask: Picture | None, params: Params) -> Picture:
    """New colour or pattern inside the mask, lit as what was there; outside not one pixel changes."""
    hole = region_mask(picture, mask, list(params.regions))
    rng = rng_of("repaint", params.seed, params.variant)
    old = lab(picture.rgb)
    named = hex_color(params.color) if params.color else color_named(params.prompt)
    color = named or tuple(int(value) for value in rng.integers(40, 216, 3))
    flat = np.empty_like(picture.rgb)
    flat[:] = color
    new = lab(pattern_named(params.prompt, layer(flat), rng))
    inside = old[hole]
    # Shading is the light at large: it keeps roundness under the new paint, and no print or outline shows through.
    light = blur(old[:, :, 0], max(picture.width, picture.height) * 0.03)
    shading = (light - float(np.median(inside[:, 0]))) * 0.75
    new[:, :, 0] = np.clip(
        new[:, :, 0] * 0.9 + shading + 3 * fractal(rng, picture.width, picture.height, (40.0, 9.0)), 2, 98
    )
    soft = np.clip(cv2.distanceTransform(hole.astype(np.uint8), cv2.DIST_L2, 3) / 2, 0, 1)
    mixed = from_lab(new) * soft[:, :, None] + layer(picture.rgb) * (1 - soft[:, :, None])
    result = to_pixels(mixed)
    result[~hole] = picture.rgb[~hole]
    return Picture(result, picture.alpha)
