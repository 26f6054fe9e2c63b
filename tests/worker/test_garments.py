"""Real garments on a figure: worn and not held, sleeves along the arms, the print free, no pale line at an edge."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from tests.worker.real import is_product, product, shop_photo, striped_photo
from worker.engines.preview.figure import figure
from worker.engines.preview.garment import Garment, read_garment
from worker.engines.preview.raster import box_of, crop_to
from worker.pictures import Picture
from worker.steps import read_params, step_of

FIGURE = step_of("model", {"step": "figure"})
SIZE = {"width": 480, "height": 640}


def cut(name: str, *, stripes: bool = False) -> Picture:
    shot = striped_photo(name) if stripes else shop_photo(name)
    return Picture(shot.rgb, is_product(product(name)[1]))


def read(picture: Picture) -> Garment:
    box = box_of(picture.alpha, 8)
    assert box is not None
    return read_garment(crop_to(picture, box))


def worn(picture: Picture, pose: str, **params: object) -> Picture:
    return figure(picture, read_params(FIGURE, {"pose": pose, "skin": 4, **SIZE, **params}))


def navy(made: Picture) -> np.ndarray:
    rgb = made.rgb.astype(int)
    return (made.alpha > 200) & (rgb[:, :, 2] > rgb[:, :, 0] + 15) & (rgb.max(axis=2) < 150)


@pytest.mark.parametrize("name", ["hoodie", "white_hoodie", "tee", "red_tee", "bus_tee", "polo"])
def test_tops_are_worn_with_both_sleeves(name):
    garment = read(cut(name))
    assert garment.wear == "torso"
    assert garment.left_sleeve is not None
    assert garment.right_sleeve is not None
    assert garment.left_sleeve.is_long == garment.right_sleeve.is_long == ("hoodie" in name)


@pytest.mark.parametrize("name", ["cushion", "bucket", "juice"])
def test_things_without_sleeves_are_held(name):
    assert read(cut(name)).wear == "hold"


def test_uneven_striped_long_sleeve_is_still_worn():
    picture = cut("white_hoodie", stripes=True)
    turn = cv2.getRotationMatrix2D((512, 512), 4, 1)
    tilted = Picture(cv2.warpAffine(picture.rgb, turn, (1024, 1024)), cv2.warpAffine(picture.alpha, turn, (1024, 1024)))
    assert read(tilted).wear == "torso"


def test_long_sleeve_covers_a_raised_arm():
    made = worn(cut("white_hoodie", stripes=True), "wave")
    head_row = int(np.flatnonzero((made.alpha > 200).any(axis=1))[0])
    beside = navy(made)[head_row : head_row + 150, 290:]  # beside the head, where the forearm is
    stripes = np.flatnonzero(beside.any(axis=1))
    assert beside.sum() > 300
    assert len(stripes) > 40


def test_sleeves_leave_the_print_free():
    for pose in ("stand", "walk", "hip"):
        made = worn(cut("white_hoodie"), pose).rgb.astype(int)
        red = (made[:, :, 0] > 170) & (made[:, :, 1] < 70) & (made[:, :, 2] < 70)
        _, _, stats, _ = cv2.connectedComponentsWithStats(red.astype(np.uint8))
        _, _, width, height, area = stats[1 + int(stats[1:, cv2.CC_STAT_AREA].argmax())]
        # The logo is a red bar of 3.4 to 1 with a white word: nothing of it is hidden.
        assert 2.8 < width / height < 4.2, pose
        assert area > 0.5 * width * height, pose


def test_hems_have_no_pale_fringe():
    picture = cut("hoodie")
    loose = Picture(picture.rgb, cv2.dilate(picture.alpha, np.ones((5, 5), np.uint8)))  # with a rim of the white ground
    made = worn(loose, "stand")
    pale = (made.rgb.min(axis=2) > 150) & (made.alpha > 100)
    rows = np.flatnonzero((made.alpha > 200).any(axis=1))
    middle = slice(int(rows[0] + 0.3 * len(rows)), int(rows[0] + 0.6 * len(rows)))
    assert pale[middle].sum() == 0
