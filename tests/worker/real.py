"""Photographs that packages carry, products with alpha among them, and these products before ten real grounds."""

from __future__ import annotations

import os
import tomllib
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import skimage.data
import sklearn.datasets
from PIL import Image

from tests.worker.photos import Photo
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
# Fetched by `make test-worker`: products of a sample shop, photographed, with the alpha of their maker.
PRODUCT_FILES = {
    row["key"]: row["sha256"]
    for row in tomllib.loads(Path(__file__).with_name("photographs.toml").read_text())["files"]
}
PRODUCTS_FOLDER = Path(
    os.environ.get("ARTIWAY_PHOTOGRAPHS") or Path(__file__).resolve().parents[2] / ".tools/photographs"
)
SUBJECTS = (
    *("flower", "hoodie", "tee", "polo", "cushion"),
    *("sneakers", "white_hoodie", "red_tee", "sneaker", "bus_tee"),
)


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


@cache
def product(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Colours and alpha of a product, with the soft shadow that its maker painted."""
    with Image.open(PRODUCTS_FOLDER / PRODUCT_FILES[name]) as image:
        whole = np.asarray(image.convert("RGBA"))
    return np.ascontiguousarray(whole[:, :, :3]), np.ascontiguousarray(whole[:, :, 3])


def is_product(alpha: np.ndarray) -> np.ndarray:
    """Alpha of the product without its shadow, which is at most three quarters dense."""
    return np.clip((alpha.astype(np.float32) - 192) * (255 / 58), 0, 255).astype(np.uint8)


def shop_photo(name: str, ground: tuple[int, int, int] = (246, 246, 244)) -> Picture:
    """A product as a shop photographs it: on a plain ground, with its shadow."""
    rgb, alpha = product(name)
    cover = alpha[:, :, None].astype(np.float32) / 255
    return Picture((rgb * cover + np.array(ground) * (1 - cover)).round().astype(np.uint8))


def striped_photo(name: str) -> Picture:
    """The same photograph with stripes printed on the cloth. No package carries a striped long sleeve."""
    shot = shop_photo(name)
    rgb = shot.rgb.astype(np.float32)
    rows = (np.arange(shot.height) // 26 % 2 == 1)[:, None] * (is_product(product(name)[1]).astype(np.float32) / 255)
    rgb *= 1 - rows[:, :, None] * np.array([0.78, 0.74, 0.58])
    return Picture(rgb.round().astype(np.uint8))


def subject(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Colours and alpha of a subject in the middle of a square of SIDE."""
    colors, cover = flower() if name == "flower" else product(name)
    factor = SIDE * (0.55 if name == "flower" else 0.9) / max(cover.shape)
    wide, tall = round(colors.shape[1] * factor), round(colors.shape[0] * factor)
    rgb, mask = np.zeros((SIDE, SIDE, 3), np.uint8), np.zeros((SIDE, SIDE), np.uint8)
    y, x = (SIDE - tall) // 2, (SIDE - wide) // 2
    how = cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR
    rgb[y : y + tall, x : x + wide] = cv2.resize(colors, (wide, tall), interpolation=how)
    mask[y : y + tall, x : x + wide] = cv2.resize(cover, (wide, tall), interpolation=how)
    return rgb, mask


@cache
def before(name: str, ground: str) -> Photo:
    """A subject before a ground that lies behind it: a little out of focus, and darker where the subject stands."""
    rgb, mask = subject(name)
    behind = cv2.resize(GROUNDS[ground](), (SIDE, SIDE), interpolation=cv2.INTER_AREA).astype(np.float32)
    behind = cv2.GaussianBlur(behind, (0, 0), 2.0)
    truth = mask if name == "flower" else is_product(mask)
    if name == "flower":  # the products bring a shadow of their own
        shade = np.roll(mask, (SIDE // 40, SIDE // 60), (0, 1)).astype(np.float32) / 255
        behind *= 1 - 0.35 * cv2.GaussianBlur(shade, (0, 0), SIDE / 50)[:, :, None]
    cover = mask[:, :, None].astype(np.float32) / 255
    picture = behind * (1 - cover) + rgb * cover
    grain = np.random.default_rng(5).normal(0, 1.5, picture.shape)
    return Photo(Picture(np.clip(picture + grain, 0, 255).astype(np.uint8)), truth)
