"""Steps that add, remove or repaint a part of a picture: extend, erase, repaint; and crop, which finds what matters."""

from __future__ import annotations

import cv2
import numpy as np

from worker.engines.preview.cutout import find_alpha, saliency
from worker.engines.preview.effects import MAX_OUTPUT_PIXELS
from worker.engines.preview.fill import Mask, fill, spread
from worker.engines.preview.palette import color_named, motif_named, pattern_named
from worker.engines.preview.raster import (
    Layer,
    blur,
    box_of,
    crop_to,
    dilate,
    disc,
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

EDGE = 0.12  # of the shorter side
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
    """More room around the picture. The ground goes on from the edge; nothing is mirrored and no subject repeated."""
    left, right, top, bottom = margins(picture, params)
    if left + right + top + bottom == 0:
        return picture
    grown = np.asarray(cv2.copyMakeBorder(picture.rgb, top, bottom, left, right, cv2.BORDER_REPLICATE), np.uint8)
    hole = np.ones(grown.shape[:2], bool)
    hole[top : top + picture.height, left : left + picture.width] = False
    subject = subject_of(picture.rgb)
    room = np.pad(subject, ((top, bottom), (left, right)))
    seed = params.seed + params.variant
    if is_plain(picture.rgb, subject):
        result = continued(grown, hole, room, seed)
    else:
        # What stands out near the border is the place rather than a subject, and may go on.
        room &= cv2.distanceTransform((~hole).astype(np.uint8), cv2.DIST_L2, 3) > EDGE * min(picture.rgb.shape[:2])
        result = faded(grown, fill(grown, hole, seed=seed, barred=room), hole)
    alpha = None
    if picture.alpha is not None:
        alpha = np.pad(picture.alpha, ((top, bottom), (left, right)))
    return Picture(result, alpha)


def faded(grown: Pixels, filled: Pixels, hole: Mask) -> Pixels:
    """Where the fill does not go on with what stands at the picture's edge, that fades out instead of ending in a line.

    `grown` has the edge's own pixels drawn out over the hole.
    """
    size = max(hole.shape)
    edge = layer(cv2.medianBlur(grown, 9))
    differs = np.clip((np.abs(blur(layer(filled), size / 60) - blur(edge, size / 60)).max(axis=2) - 25) / 35, 0, 1)
    reach = cv2.distanceTransform(hole.astype(np.uint8), cv2.DIST_L2, 5)
    # Further out it is the mean of more of the edge, as a shadow is softer further away.
    soft = np.clip(reach / (0.03 * size), 0, 1)[:, :, None]
    edge = edge * (1 - soft) + blur(edge, size / 25) * soft
    share = blur(cv2.dilate(differs, disc(size / 60)), size / 90) * np.exp(-((reach / (0.09 * size)) ** 2)) * hole
    result = to_pixels(layer(filled) * (1 - share[:, :, None]) + edge * share[:, :, None])
    result[~hole] = filled[~hole]
    return result


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


def subject_of(rgb: Pixels) -> Mask:
    """Where the subject is, with its shadow; nowhere if the picture has none that stands out."""
    small = shrink(rgb, 640)
    alpha = find_alpha(small)
    if alpha.mean() < 0.002 or alpha.mean() > 0.7:
        return np.zeros(rgb.shape[:2], bool)
    found = dilate((alpha > 0.05).astype(np.uint8), max(3, max(alpha.shape) * 0.035)) > 0
    box = box_of(alpha, 0.3)
    if box is not None:  # the pool of shadow around its foot
        wide, tall = box[2] - box[0], box[3] - box[1]
        left, right = max(0, round(box[0] - 0.15 * wide)), round(box[2] + 0.2 * wide)
        found[round(box[3] - 0.08 * tall) : round(box[3] + 0.08 * tall), left:right] = True
    size = (rgb.shape[1], rgb.shape[0])
    return np.asarray(cv2.resize(found.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST) > 0)


def ring_of(shape: tuple[int, ...], subject: Mask) -> Mask:
    """The picture's border without the subject."""
    depth = max(3, round(min(shape[:2]) * 0.03))
    ring = np.ones(shape[:2], bool)
    ring[depth:-depth, depth:-depth] = False
    return ring & ~subject


def is_plain(rgb: Pixels, subject: Mask) -> bool:
    """A wall, a sky or a paper roll: along the border there is light and grain, and no thing."""
    ring = ring_of(rgb.shape, subject)
    if ring.mean() < 0.5 * ring_of(rgb.shape, np.zeros_like(subject)).mean():
        return False
    smooth = blur(layer(rgb), max(2.0, min(rgb.shape[:2]) / 60))
    wide = spread(layer(shrink(smooth, 160)), layer(resize(layer(ring), *shrink(smooth, 160).shape[1::-1]) > 0.9))
    away = np.abs(smooth - resize(blur(wide, 8), rgb.shape[1], rgb.shape[0]))[ring].max(axis=1)
    return bool(np.percentile(away, 95) < 7)


def continued(grown: Pixels, hole: Mask, subject: Mask, seed: int) -> Pixels:
    """The light of the border goes on smoothly, with the picture's own grain on it."""
    height, width = hole.shape
    known = ~hole & ~subject
    sigma = max(1.5, min(height, width) / 150)
    # At the border the mean of what is known near it, so that grain is not drawn out into streaks.
    mass = blur(known.astype(np.float32), sigma)
    near = blur(layer(grown) * known[:, :, None], sigma) / np.maximum(mass, 1e-3)[:, :, None]
    light = spread(layer(near), (known & (mass > 0.3)).astype(np.float32))
    light = blur(light, sigma)
    grain = layer(grown) - blur(layer(grown), 1.5)
    amount = float(np.percentile(np.abs(grain[known]), 68)) if known.any() else 0.0
    noise = rng_of("grain", seed).standard_normal((height, width, 1), np.float32) * np.float32(amount)
    # From the edge itself to the light at large within a few pixels: no line shows where the picture ends.
    reach = cv2.distanceTransform(hole.astype(np.uint8), cv2.DIST_L2, 3)
    step = np.exp(-reach / (2 * sigma))[:, :, None]
    edge = blur(layer(grown), 0.6)
    result = to_pixels(edge * step + light * (1 - step) + noise * (1 - step))
    result[~hole] = grown[~hole]
    return result


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
    """A motif, a colour or a pattern inside the mask, lit as the cloth there; outside not one pixel changes.

    What was printed there is removed first, so that nothing of it shows through.
    """
    hole = region_mask(picture, mask, list(params.regions))
    rng = rng_of("repaint", params.seed, params.variant)
    seed = params.seed + params.variant
    named = hex_color(params.color) if params.color else color_named(params.prompt)
    color = named or tuple(int(value) for value in rng.integers(40, 216, 3))
    flat = np.empty_like(picture.rgb)
    flat[:] = color
    paint = lab(pattern_named(params.prompt, layer(flat), rng))
    # Without a mask a box was drawn around the place: its own rim is not part of the painting.
    soft = rim_of(hole, 2.0 if mask is not None else max(2.0, 0.02 * min(picture.width, picture.height)))
    motif = motif_named(params.prompt, hole)
    ground = fill(picture.rgb, hole, seed=seed) if motif is not None else picture.rgb
    light = blur(lab(ground)[:, :, 0], max(picture.width, picture.height) * (0.006 if motif is not None else 0.03))
    shading = (light - float(np.median(light[hole]))) * 0.75
    weave = 3 * fractal(rng, picture.width, picture.height, (40.0, 9.0))
    paint[:, :, 0] = np.clip(paint[:, :, 0] * 0.9 + shading + weave, 2, 98)
    cover = soft if motif is None else motif * soft
    mixed = from_lab(paint) * cover[:, :, None] + layer(ground) * (1 - cover[:, :, None])
    result = to_pixels(mixed)
    result[~hole] = picture.rgb[~hole]
    return Picture(result, picture.alpha)


def rim_of(hole: Mask, width: float) -> Layer:
    """1 inside the hole, falling to 0 over `width` towards its rim."""
    reach = cv2.distanceTransform(np.pad(hole.astype(np.uint8), 1, mode="edge"), cv2.DIST_L2, 3)[1:-1, 1:-1]
    return layer(np.clip(reach / width, 0, 1))
