"""Steps on the whole picture: styles, img2img, variations, repair, enlargement, conversion."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np

from worker.engines.preview.palette import color_named
from worker.engines.preview.raster import (
    Layer,
    blur,
    crop_to,
    fractal,
    from_lab,
    hex_color,
    lab,
    layer,
    resize,
    resized,
    rng_of,
    to_pixels,
)
from worker.errors import InputTooManyPixels
from worker.pictures import Picture, Pixels, flatten
from worker.steps import Params

MAX_OUTPUT_PIXELS = 64_000_000
Painter = Callable[[Pixels, np.random.Generator], Layer]


def style(picture: Picture, params: Params) -> Picture:
    painted = STYLES[params.style](picture.rgb, rng_of("style", params.seed, params.variant))
    return mixed(picture, painted, params.strength)


def mixed(picture: Picture, painted: Layer, strength: float) -> Picture:
    return Picture(to_pixels(layer(picture.rgb) * (1 - strength) + painted * strength), picture.alpha)


def smoothed(rgb: Pixels, rounds: int, color: float = 40, space: float = 7) -> Pixels:
    result = rgb
    for _ in range(rounds):
        result = np.asarray(cv2.bilateralFilter(result, 7, color, space), np.uint8)
    return result


def outlines(rgb: Pixels, width: float) -> Layer:
    """0..1, one where an edge is; width in pixels."""
    gray = layer(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY))
    edge = blur(gray, width) - blur(gray, width * 1.8)
    return layer(np.clip(-edge / 7 - 0.15, 0, 1))


def paper(rng: np.random.Generator, width: int, height: int) -> Layer:
    return layer(1 + 0.05 * fractal(rng, width, height, (2.5, 6.0)))


def watercolor(rgb: Pixels, rng: np.random.Generator) -> Layer:
    height, width = rgb.shape[:2]
    unit = max(height, width) / 900
    wash = layer(smoothed(rgb, 4, 55))
    # Paint runs: places are shifted by slow noise, pigment gathers at the rims.
    dx, dy = (fractal(rng, width, height, (18 * unit + 2, 45 * unit + 2)) * 4 * unit for _ in range(2))
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    wash = layer(cv2.remap(wash, x + dx, y + dy, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT))
    light = (
        255 - (255 - wash) * (0.82 + 0.12 * fractal(rng, width, height, (60 * unit + 2, 140 * unit + 2)))[:, :, None]
    )
    rim = outlines(to_pixels(wash), 1.4 * unit)
    return layer(light * (1 - 0.28 * rim)[:, :, None] * paper(rng, width, height)[:, :, None])


def pencil(rgb: Pixels, rng: np.random.Generator) -> Layer:
    height, width = rgb.shape[:2]
    gray = layer(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY))
    unit = max(height, width) / 900
    dodge = np.clip(gray / np.maximum(blur(gray, 5 * unit), 1) * 250, 0, 255)
    hatch = blur(rng.normal(0, 1, (height, width)), 5 * unit, 0.5)
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), 42, 1.5)
    hatch = layer(cv2.warpAffine(hatch, turn, (width, height), borderMode=cv2.BORDER_REFLECT))
    shade = np.clip((165 - gray) / 165, 0, 1) * np.clip(hatch / (np.std(hatch) + 1e-6) * 0.5 + 0.55, 0, 1)
    sheet = dodge * (1 - 0.62 * shade) * paper(rng, width, height)
    return layer(np.dstack([sheet, sheet * 0.992, sheet * 0.97]))


def oil(rgb: Pixels, rng: np.random.Generator) -> Layer:
    """Strokes along the picture's own edges: noise drawn out in the direction of least change."""
    height, width = rgb.shape[:2]
    base = layer(np.asarray(cv2.medianBlur(smoothed(rgb, 2, 60), 7)))
    gray = blur(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), 3)
    gx, gy = cv2.Sobel(gray, cv2.CV_32F, 1, 0), cv2.Sobel(gray, cv2.CV_32F, 0, 1)
    angle = 0.5 * np.arctan2(blur(2 * gx * gy, 6), blur(gx * gx - gy * gy, 6) + 1e-3) + np.pi / 2
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    grain, bristle = layer(rng.normal(0, 1, (height, width))), np.zeros((height, width), np.float32)
    color = np.zeros_like(base)
    reach = range(-6, 7, 2)
    for step in reach:
        px, py = layer(x + np.cos(angle) * step), layer(y + np.sin(angle) * step)
        bristle += cv2.remap(grain, px, py, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
        color += cv2.remap(base, px, py, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    relief = bristle / len(reach)
    return layer(np.clip(color / len(reach) * 1.03 + relief[:, :, None] * 16, 0, 255))


def poster(rgb: Pixels, rng: np.random.Generator) -> Layer:
    flat = lab(smoothed(rgb, 3, 60))
    flat[:, :, 0] = np.round(flat[:, :, 0] / 16) * 16
    flat[:, :, 1:] = np.round(flat[:, :, 1:] * 1.25 / 10) * 10
    return from_lab(flat)


def cartoon(rgb: Pixels, rng: np.random.Generator) -> Layer:
    unit = max(rgb.shape) / 900
    flat = lab(smoothed(rgb, 5, 55))
    flat[:, :, 0] = np.round(flat[:, :, 0] / 9) * 9
    flat[:, :, 1:] *= 1.2
    return layer(from_lab(flat) * (1 - 0.85 * outlines(smoothed(rgb, 2), 1.3 * unit))[:, :, None])


def vintage(rgb: Pixels, rng: np.random.Generator) -> Layer:
    height, width = rgb.shape[:2]
    faded = layer(rgb) * 0.80 + 30
    sepia = faded @ layer([[0.62, 0.32, 0.25], [0.32, 0.55, 0.33], [0.12, 0.10, 0.30]])
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    dark = 1 - 0.5 * ((x / width - 0.5) ** 2 + (y / height - 0.5) ** 2)
    return layer(sepia * dark[:, :, None] + rng.normal(0, 6, (height, width, 1)))


def neon(rgb: Pixels, rng: np.random.Generator) -> Layer:
    height, width = rgb.shape[:2]
    unit = max(height, width) / 900
    gray = blur(cv2.cvtColor(smoothed(rgb, 2), cv2.COLOR_RGB2GRAY), 1.2 * unit)
    edge = np.hypot(cv2.Sobel(gray, cv2.CV_32F, 1, 0), cv2.Sobel(gray, cv2.CV_32F, 0, 1))
    line = np.clip(edge / (np.percentile(edge, 99) + 1e-3), 0, 1) ** 0.8
    hue = (np.linspace(0, 1, width)[None, :] * 70 + float(rng.uniform(0, 180))) % 180
    full = np.dstack(
        [np.broadcast_to(hue, (height, width)), np.full((height, width), 190), np.full((height, width), 255)]
    )
    glow = layer(cv2.cvtColor(full.astype(np.uint8), cv2.COLOR_HSV2RGB))
    light = (line + blur(line, 6 * unit) * 1.6)[:, :, None]
    return layer(np.clip(layer(rgb) * 0.22 * layer((0.8, 0.8, 1.3)) + glow * light, 0, 255))


STYLES: dict[str, Painter] = {
    "watercolor": watercolor, "pencil": pencil, "oil": oil, "poster": poster,
    "cartoon": cartoon, "vintage": vintage, "neon": neon,
}  # fmt: skip

GRADES: dict[tuple[str, ...], tuple[float, float, float, float]] = {
    # words: lightness, green-red, blue-yellow, chroma
    ("warm", "sunset", "autumn", "golden", "暖", "日落", "秋"): (0, 7, 16, 1.12),
    ("cool", "cold", "winter", "snow", "ice", "冷", "冬", "雪"): (4, -3, -14, 0.92),
    ("night", "dark", "moody", "夜", "暗"): (-22, 2, -12, 0.9),
    ("bright", "fresh", "clean", "spring", "亮", "清新", "春"): (9, -2, 4, 1.1),
    ("vintage", "retro", "film", "复古", "胶片"): (2, 4, 12, 0.72),
    ("vivid", "pop", "colorful", "鲜艳"): (2, 0, 2, 1.45),
    ("mono", "black and white", "黑白"): (0, 0, 0, 0.0),
}


def img2img(picture: Picture, params: Params) -> Picture:
    """Restyle the picture by the prompt: its words set colours and light, the strength sets the brush effect."""
    rng = rng_of("img2img", params.seed, params.variant)
    text = params.prompt.lower()
    grade = next((grade for words, grade in GRADES.items() if any(word in text for word in words)), None)
    if grade is None:
        grade = (
            float(rng.uniform(-4, 6)),
            float(rng.uniform(-6, 6)),
            float(rng.uniform(-10, 12)),
            float(rng.uniform(0.95, 1.2)),
        )
    style_named = next((name for name in STYLES if name in text), None)
    base = STYLES[style_named](picture.rgb, rng) if style_named else layer(smoothed(picture.rgb, 2, 30))
    values = lab(np.clip(base, 0, 255))
    lightness, red, yellow, chroma = grade
    values[:, :, 1:] = values[:, :, 1:] * chroma + layer([red, yellow]) * (chroma > 0)
    values[:, :, 0] = np.clip(values[:, :, 0] + lightness, 0, 100)
    if (tint := color_named(params.prompt)) is not None:
        values[:, :, 1:] += lab(np.full((1, 1, 3), tint, np.uint8))[0, 0, 1:] * 0.25
    painted = relit(from_lab(values), float(rng.uniform(-0.12, 0.12)), float(rng.uniform(-0.08, 0.08)))
    return mixed(picture, painted, 0.25 + 0.75 * params.strength)


def relit(rgb: Layer, across: float, down: float) -> Layer:
    height, width = rgb.shape[:2]
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    return layer(
        np.clip(rgb * (1 + across * (x / width - 0.5) * 2 + down * (y / height - 0.5) * 2)[:, :, None], 0, 255)
    )


def derive(picture: Picture, params: Params) -> Picture:
    """A variation of the picture with another frame, light and temperature for each variant."""
    rng = rng_of("derive", params.seed, params.variant)
    amount = 0.3 + params.strength
    height, width = picture.height, picture.width
    zoom = 1.03 + float(rng.uniform(0, 0.09)) * amount
    turn = float(rng.uniform(-2.5, 2.5)) * amount
    matrix = np.asarray(cv2.getRotationMatrix2D((width / 2, height / 2), turn, zoom), np.float64)
    room = (zoom - 1) * 0.35
    matrix[:, 2] += [float(rng.uniform(-room, room)) * width, float(rng.uniform(-room, room)) * height]
    if rng.random() < 0.5 and params.variant % 2:
        flip = np.array([[-1, 0, width - 1], [0, 1, 0], [0, 0, 1]], np.float64)
        matrix = (np.vstack([matrix, [0, 0, 1]]) @ flip)[:2]
    turned = cv2.warpAffine(
        layer(picture.rgb), matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT
    )
    alpha = None
    if picture.alpha is not None:
        alpha = np.asarray(cv2.warpAffine(picture.alpha, matrix, (width, height)), np.uint8)
    values = lab(np.clip(turned, 0, 255))
    values[:, :, 0] = np.clip(values[:, :, 0] + float(rng.uniform(-5, 5)) * amount, 0, 100)
    values[:, :, 1:] += layer([rng.uniform(-4, 4) * amount, rng.uniform(-10, 10) * amount])
    light = relit(from_lab(values), float(rng.uniform(-0.2, 0.2)) * amount, float(rng.uniform(-0.12, 0.12)) * amount)
    return Picture(to_pixels(light), alpha)


def hd_fix(picture: Picture, params: Params) -> Picture:
    """Less noise and blocking, more local contrast and crisp edges; colours stay."""
    if params.scale > 1.01:
        picture = enlarged(picture, params.scale, params.strength * 0.5)
    calm = layer(cv2.bilateralFilter(picture.rgb, 5, 12 + 16 * params.strength, 3))
    values = lab(calm)
    light = values[:, :, 0]
    unit = max(picture.width, picture.height) / 900
    local = light + (light - blur(light, 12 * unit)) * 0.22 * params.strength
    values[:, :, 0] = np.clip(crisp(local, 1.0 * unit, 1.4 * params.strength), 0, 100)
    return Picture(to_pixels(from_lab(values)), picture.alpha)


def crisp(plane: Layer, sigma: float, amount: float) -> Layer:
    """Sharpened, but no brighter or darker than its neighbours were: no halos."""
    sharp = plane + (plane - blur(plane, sigma)) * amount
    window = np.ones((3, 3), np.uint8)
    slack = 1.5
    return layer(np.clip(sharp, cv2.erode(plane, window) - slack, cv2.dilate(plane, window) + slack))


def upscale(picture: Picture, params: Params) -> Picture:
    return enlarged(picture, params.scale, params.strength)


def enlarged(picture: Picture, scale: float, strength: float) -> Picture:
    """Lanczos, then back-projection: shrunk again the result must be the input, so lost detail is put back."""
    width, height = round(picture.width * scale), round(picture.height * scale)
    if width * height > MAX_OUTPUT_PIXELS:
        raise InputTooManyPixels(f"{width} x {height} pixels; at most {MAX_OUTPUT_PIXELS} are made")
    source = layer(picture.rgb)
    large = layer(cv2.resize(source, (width, height), interpolation=cv2.INTER_LANCZOS4))
    for _ in range(2):
        missing = source - cv2.resize(large, (picture.width, picture.height), interpolation=cv2.INTER_AREA)
        large += cv2.resize(layer(missing), (width, height), interpolation=cv2.INTER_CUBIC)
    values = lab(np.clip(large, 0, 255))
    values[:, :, 0] = np.clip(crisp(layer(values[:, :, 0]), scale * 0.6, 0.4 + strength * 1.2), 0, 100)
    alpha = None if picture.alpha is None else to_pixels(resize(layer(picture.alpha), width, height))
    return Picture(to_pixels(from_lab(values)), alpha)


def convert(picture: Picture, params: Params) -> Picture:
    """Another size: whole on a ground (contain), filling and cut (cover), or stretched. One side keeps the shape."""
    if params.background != "transparent":
        picture = flatten(picture, hex_color(params.background))
    if params.width is None and params.height is None:
        return picture
    ratio = picture.width / picture.height
    width = params.width or max(1, round((params.height or 1) * ratio))
    height = params.height or max(1, round(width / ratio))
    if params.fit == "stretch" or params.width is None or params.height is None:
        return resized(picture, width, height)
    pick = min if params.fit == "contain" else max
    factor = pick(width / picture.width, height / picture.height)
    scaled = resized(picture, max(1, round(picture.width * factor)), max(1, round(picture.height * factor)))
    if params.fit == "cover":
        left, top = (scaled.width - width) // 2, (scaled.height - height) // 2
        return crop_to(scaled, (left, top, left + width, top + height))
    return padded(scaled, width, height, params.background)


def padded(picture: Picture, width: int, height: int, background: str) -> Picture:
    left, top = (width - picture.width) // 2, (height - picture.height) // 2
    inner = (slice(top, top + picture.height), slice(left, left + picture.width))
    rgb = np.zeros((height, width, 3), np.uint8)
    if background != "transparent":
        rgb[:] = hex_color(background)
        rgb[inner] = picture.rgb
        return Picture(rgb)
    alpha = np.zeros((height, width), np.uint8)
    rgb[inner] = picture.rgb
    alpha[inner] = 255 if picture.alpha is None else picture.alpha
    return Picture(rgb, alpha)
