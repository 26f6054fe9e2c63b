"""Puts a subject on a backdrop so that it stands there: size, place, light, contact and cast shadow."""

from __future__ import annotations

import cv2
import numpy as np

from worker.engines.preview.cutout import cut_out
from worker.engines.preview.raster import Layer, blur, box_of, crop_to, lab, layer, over, resized, to_pixels
from worker.engines.preview.raster import from_lab as rgb_of
from worker.engines.preview.scene import BASE, make_scene
from worker.errors import InputEmptySubject
from worker.pictures import Picture
from worker.steps import Params

FIGURE_BASE = 0.955  # a person stands nearer to the lower edge than a cup does
FIGURE_SCALE, PRODUCT_SCALE = 0.92, 0.6  # of the height, where nothing was asked for
SIDE_ROOM = 0.04


def subject_of(picture: Picture) -> Picture:
    return picture if picture.alpha is not None else cut_out(picture)


def compose(subject: Picture, scene: Picture | None, params: Params, *, is_figure: bool) -> Picture:
    subject = subject_of(subject)
    box = box_of(subject.alpha, 8)
    if box is None:
        raise InputEmptySubject("the subject is fully transparent")
    subject = crop_to(subject, box)
    width = params.width or (scene.width if scene else 960 if is_figure else 1024)
    height = params.height or (scene.height if scene else 1280 if is_figure else 1024)
    base = FIGURE_BASE if is_figure and scene is None else BASE
    palette = None if is_figure else subject
    backdrop = fitted(scene, width, height) if scene else make_scene(params, width, height, palette, base=base)
    scale = params.scale or (FIGURE_SCALE if is_figure else PRODUCT_SCALE)
    room_h, room_w = min(scale, base - 0.03) * height, (1 - 2 * SIDE_ROOM) * width * min(1.0, scale * 1.2)
    factor = min(room_h / subject.height, room_w / subject.width)
    subject = resized(subject, max(1, round(subject.width * factor)), max(1, round(subject.height * factor)))
    free = width - subject.width
    left = round(min(max(params.x * width - subject.width / 2, free * 0.04), max(free * 0.96, 0)))
    top = round(base * height) - subject.height
    return place(subject, backdrop, left, max(top, round(height * 0.02)), shadow=params.shadow)


def replace_background(subject: Picture, scene: Picture | None, params: Params) -> Picture:
    """Another backdrop behind the product, which keeps its place and size: a set of photos stays aligned."""
    subject = subject_of(subject)
    box = box_of(subject.alpha, 8)
    if box is None:
        raise InputEmptySubject("the subject is fully transparent")
    width, height = subject.width, subject.height
    if scene is None:
        scene = make_scene(params, width, height, subject, base=box[3] / height)
    return place(crop_to(subject, box), fitted(scene, width, height), box[0], box[1], shadow=params.shadow)


def fitted(scene: Picture, width: int, height: int) -> Picture:
    """The scene in the wanted shape: scaled to cover, cut at the sides and at the top, for it stands on its ground."""
    factor = max(width / scene.width, height / scene.height)
    grown = resized(
        Picture(scene.rgb), max(width, round(scene.width * factor)), max(height, round(scene.height * factor))
    )
    left, top = (grown.width - width) // 2, grown.height - height
    return crop_to(grown, (left, top, left + width, top + height))


def place(subject: Picture, backdrop: Picture, left: int, top: int, *, shadow: bool) -> Picture:
    assert subject.alpha is not None
    height, width = backdrop.rgb.shape[:2]
    alpha = np.zeros((height, width), np.float32)
    paint = np.zeros((height, width, 3), np.float32)
    x0, y0, x1, y1 = max(left, 0), max(top, 0), min(left + subject.width, width), min(top + subject.height, height)
    inner = (slice(y0 - top, y1 - top), slice(x0 - left, x1 - left))
    alpha[y0:y1, x0:x1] = layer(subject.alpha[inner]) / 255
    paint[y0:y1, x0:x1] = subject.rgb[inner]
    canvas = layer(backdrop.rgb)
    if shadow:
        canvas = canvas * (1 - shadow_of(alpha))[:, :, None]
    return Picture(to_pixels(over(harmonised(paint, alpha, canvas), alpha, canvas)))


def shadow_of(alpha: Layer) -> Layer:
    """Dark where the subject touches the ground, a wider and fainter pool around, a soft one cast to the right."""
    height = alpha.shape[0]
    box = box_of(alpha, 0.3)
    if box is None:
        return np.zeros_like(alpha)
    x0, y0, x1, y1 = box
    tall, wide = y1 - y0, x1 - x0
    foot = alpha.copy()
    foot[: max(0, y1 - max(3, round(tall * 0.05)))] = 0
    flat = flattened(foot, y1, max(0.12, min(0.5, 10 / max(3, tall * 0.05))))
    contact = blur(flat, max(1.5, wide * 0.012), max(1.0, wide * 0.006))
    pool = np.zeros_like(alpha)
    feet = np.flatnonzero(foot.max(axis=0) > 0.3)
    if feet.size:
        middle, reach = (int(feet[0]) + int(feet[-1])) // 2, max(4, (int(feet[-1]) - int(feet[0])) // 2)
        cv2.ellipse(pool, (middle, y1), (round(reach * 1.08), max(3, round(reach * 0.10))), 0, 0, 360, 1.0, -1)
    pool = blur(pool, max(3.0, wide * 0.05), max(2.0, wide * 0.022))
    cast = blur(slanted(alpha, y1), max(3.0, wide * 0.035), max(2.0, wide * 0.02))
    fade = np.clip(1 - (y1 - np.arange(height)) / max(1.0, tall * 0.3), 0, 1).astype(np.float32)[:, None]
    total = 1 - (1 - 0.62 * np.clip(contact, 0, 1)) * (1 - 0.36 * np.clip(pool, 0, 1)) * (1 - 0.20 * cast * fade)
    return layer(np.clip(total, 0, 0.8))


def flattened(plane: Layer, base: int, squeeze: float) -> Layer:
    """The plane pressed down towards the line `base`, centred a little below it."""
    matrix = np.array([[1, 0, 0], [0, squeeze, base * (1 - squeeze)]], np.float32)
    return layer(cv2.warpAffine(plane, matrix, (plane.shape[1], plane.shape[0])))


def slanted(plane: Layer, base: int) -> Layer:
    squeeze, lean = 0.22, 0.55
    matrix = np.array([[1, -lean * squeeze, lean * squeeze * base], [0, squeeze, base * (1 - squeeze)]], np.float32)
    return layer(cv2.warpAffine(plane, matrix, (plane.shape[1], plane.shape[0])))


def harmonised(paint: Layer, alpha: Layer, canvas: Layer) -> Layer:
    """A little of the scene's light on the subject; its own colours are what is sold, so only a little."""
    ground, own = lab(np.clip(canvas, 0, 255)), lab(paint)
    mean = ground.reshape(-1, 3).mean(axis=0)
    own[:, :, 0] += np.clip((mean[0] - 78) * 0.10, -6, 2)
    own[:, :, 1:] += np.clip(mean[1:] * 0.10, -3, 3)
    rows = np.linspace(1.02, 0.97, paint.shape[0], dtype=np.float32)[:, None, None]
    return layer(rgb_of(own) * rows)
