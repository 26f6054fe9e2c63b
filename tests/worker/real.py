"""Photographs that test packages carry, and subjects of known alpha before ten of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import cv2
import numpy as np
import skimage.data
import sklearn.datasets
from PIL import Image

from tests.worker.photos import PRODUCTS, Photo
from worker.pictures import Picture

SCIKIT_IMAGE = Path(skimage.data.__file__).parent
SCIKIT_LEARN = Path(sklearn.datasets.__file__).parent / "images"
FILES = {
    "coffee": SCIKIT_IMAGE / "coffee.png",
    "astronaut": SCIKIT_IMAGE / "astronaut.png",
    "cat": SCIKIT_IMAGE / "chelsea.png",
    "motorcycle": SCIKIT_IMAGE / "motorcycle_left.png",
    "rocket": SCIKIT_IMAGE / "rocket.jpg",
    "brick": SCIKIT_IMAGE / "brick.png",
    "grass": SCIKIT_IMAGE / "grass.png",
    "gravel": SCIKIT_IMAGE / "gravel.png",
    "hubble": SCIKIT_IMAGE / "hubble_deep_field.jpg",
    "moon": SCIKIT_IMAGE / "moon.png",
    "flower": SCIKIT_LEARN / "flower.jpg",
    "china": SCIKIT_LEARN / "china.jpg",
}
SIDE = 640


@cache
def photograph(name: str) -> np.ndarray:
    with Image.open(FILES[name]) as image:
        return np.asarray(image.convert("RGB"))


def part(name: str, x: float, y: float, width: float, height: float) -> np.ndarray:
    """A part of a photograph, given as shares of its sides."""
    whole = photograph(name)
    rows, columns = whole.shape[:2]
    return whole[int(y * rows) : int((y + height) * rows), int(x * columns) : int((x + width) * columns)]


# Ten grounds: walls, floors, sky, leaves, wood, workshop, a lake.
GROUNDS = {
    "brick": lambda: part("brick", 0, 0, 1, 1),
    "grass": lambda: part("grass", 0, 0, 1, 1),
    "gravel": lambda: part("gravel", 0, 0, 1, 1),
    "hubble": lambda: part("hubble", 0, 0, 1, 1),
    "moon": lambda: part("moon", 0, 0, 1, 1),
    "wood": lambda: part("coffee", 0, 0, 0.28, 0.3),
    "leaves": lambda: part("flower", 0, 0, 0.35, 0.5),
    "dusk": lambda: part("rocket", 0.1, 0, 0.5, 0.5),
    "workshop": lambda: part("motorcycle", 0, 0, 0.35, 0.45),
    "lake": lambda: part("china", 0.62, 0.3, 0.38, 0.5),
}


@cache
def flower() -> tuple[np.ndarray, np.ndarray]:
    """The flower on a canvas, with alpha by its colour: it is orange, and nothing else in the photograph is."""
    whole = photograph("flower")
    hue = cv2.cvtColor(cv2.GaussianBlur(whole, (0, 0), 1.2), cv2.COLOR_RGB2HSV)
    found = ((hue[:, :, 0] < 24) & (hue[:, :, 1] > 60) & (hue[:, :, 2] > 70)).astype(np.uint8)
    found = cv2.morphologyEx(found, cv2.MORPH_CLOSE, np.ones((9, 9), np.uint8))
    found = cv2.morphologyEx(found, cv2.MORPH_OPEN, np.ones((31, 31), np.uint8))  # without the flowers below
    _, labels, stats, _ = cv2.connectedComponentsWithStats(found)
    main = 1 + int(stats[1:, cv2.CC_STAT_AREA].argmax())
    outline, _ = cv2.findContours((labels == main).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    mask = cv2.drawContours(np.zeros_like(found), outline, -1, 255, -1)
    mask = cv2.GaussianBlur(cv2.erode(mask, np.ones((3, 3), np.uint8)), (0, 0), 0.8)
    x, y, width, height = cv2.boundingRect(mask)
    pad = 4
    window = (slice(y - pad, y + height + pad), slice(x - pad, x + width + pad))
    return whole[window], mask[window]


def subject(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Colours and alpha of a subject in the middle of a square of SIDE."""
    if name != "flower":
        rgb, mask = PRODUCTS[name](SIDE, SIDE)
        return rgb, mask
    colors, cover = flower()
    size = int(SIDE * 0.55)
    tall = round(size * colors.shape[0] / colors.shape[1])
    rgb, mask = np.zeros((SIDE, SIDE, 3), np.uint8), np.zeros((SIDE, SIDE), np.uint8)
    y, x = (SIDE - tall) // 2, (SIDE - size) // 2
    rgb[y : y + tall, x : x + size] = cv2.resize(colors, (size, tall), interpolation=cv2.INTER_CUBIC)
    mask[y : y + tall, x : x + size] = cv2.resize(cover, (size, tall), interpolation=cv2.INTER_LINEAR)
    return rgb, mask


@cache
def before(name: str, ground: str) -> Photo:
    """A subject before a ground that lies behind it: a little out of focus, and darker where the subject stands."""
    rgb, mask = subject(name)
    behind = cv2.resize(GROUNDS[ground](), (SIDE, SIDE), interpolation=cv2.INTER_AREA).astype(np.float32)
    behind = cv2.GaussianBlur(behind, (0, 0), 2.0)
    cover = mask[:, :, None].astype(np.float32) / 255
    shade = cv2.GaussianBlur(
        np.roll(mask, (SIDE // 40, SIDE // 60), (0, 1)).astype(np.float32) / 255, (0, 0), SIDE / 50
    )
    picture = behind * (1 - 0.35 * shade[:, :, None]) * (1 - cover) + rgb * cover
    grain = np.random.default_rng(5).normal(0, 1.5, picture.shape)
    return Photo(Picture(np.clip(picture + grain, 0, 255).astype(np.uint8)), mask)
