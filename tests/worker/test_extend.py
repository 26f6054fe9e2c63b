"""Extend, erase and repaint on photographs: nothing mirrored, no ghosts on plain grounds, paint that is no box."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from tests.worker.real import photograph, shop_photo
from worker.engines.preview import reshape
from worker.pictures import Picture
from worker.steps import read_params, step_of

STEPS = {name: step_of("extend", {"step": name}) for name in ("extend", "erase", "repaint")}


def small(name: str) -> Picture:
    rgb = photograph(name)
    factor = 320 / max(rgb.shape)
    return Picture(cv2.resize(rgb, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA))


def run(step: str, picture: Picture, **params: object) -> Picture:
    return getattr(reshape, step)(picture, *(() if step == "extend" else (None,)), read_params(STEPS[step], params))


def likeness(one: np.ndarray, other: np.ndarray) -> float:
    """Correlation of the detail of two pictures."""
    details = [part.astype(float) - cv2.GaussianBlur(part.astype(float), (0, 0), 6) for part in (one, other)]
    return float(np.corrcoef(details[0].ravel(), details[1].ravel())[0, 1])


@pytest.mark.parametrize("name", ["coffee", "china", "motorcycle", "flower"])
def test_extension_is_no_mirror_image_of_the_edge(name):
    source = small(name)
    side = round(0.25 * source.width)
    made = run("extend", source, left=0.25, right=0, top=0, bottom=0).rgb
    assert np.array_equal(made[:, side:], source.rgb)
    mirrored = source.rgb[:, 1 : side + 1][:, ::-1]
    assert likeness(mirrored, mirrored) > 0.99
    assert likeness(made[:, :side], mirrored) < 0.5


@pytest.mark.parametrize("name", ["hoodie", "sneaker", "polo"])
def test_plain_ground_goes_on_without_ghosts(name):
    source = shop_photo(name)
    made = run("extend", source, aspect="16:9").rgb.astype(int)
    side = (made.shape[1] - source.width) // 2
    added = np.concatenate([made[:, : side - 2], made[:, side + source.width + 2 :]], axis=1)
    assert np.abs(added - np.array([246, 246, 244])).max() < 10


def test_added_ground_joins_without_a_step():
    source = small("coffee")
    side = round(0.25 * source.width)
    made = run("extend", source, left=0.25, right=0, top=0, bottom=0).rgb.astype(float)
    across = np.abs(made[:, side].mean(axis=1) - made[:, side - 1].mean(axis=1)).mean()
    inside = np.abs(np.diff(made[:, side : side + 30].mean(axis=2), axis=1)).mean()
    assert across < 2.5 * inside + 2


def test_dark_corner_fades_out_beyond_the_edge():
    """The fill goes on with the wood; the dark place behind the table may not end in a line."""
    source = Picture(photograph("coffee"))
    side, rows = round(0.25 * source.width), slice(110, 170)  # the corner's rows, 100 of them are new above
    made = run("extend", source).rgb.astype(float).mean(axis=2)
    assert made[rows, side + 5].mean() < 40  # the corner
    line = cv2.GaussianBlur(made[rows, : side + 5].mean(axis=0)[None], (0, 0), 2)[0]
    assert np.abs(np.diff(line)).max() < 5
    assert line[:20].mean() > 60


def test_erased_sky_has_the_tone_of_its_surroundings():
    source = Picture(photograph("china")[:220, 260:560])
    made = run("erase", source, regions=[[0.4, 0.3, 0.2, 0.3]]).rgb.astype(float)
    height, width = made.shape[:2]
    box = (slice(int(0.3 * height), int(0.6 * height)), slice(int(0.4 * width), int(0.6 * width)))
    assert np.abs(made[box] - source.rgb[box]).mean() < 6  # sky was erased from sky


def test_named_motif_is_painted_as_a_shape():
    source = shop_photo("bus_tee")
    made = run("repaint", source, regions=[[0.36, 0.22, 0.32, 0.24]], prompt="a red heart logo").rgb.astype(int)
    box = made[int(0.22 * 1024) : int(0.46 * 1024), int(0.36 * 1024) : int(0.68 * 1024)]
    red = (box[:, :, 0] - box[:, :, 1] > 90) & (box[:, :, 0] - box[:, :, 2] > 90)
    assert 0.15 < red.mean() < 0.55  # a shape, and not the box
    assert not red[:8].any()
    assert not red[-8:].any()
    rest = box[~cv2.dilate(red.astype(np.uint8), np.ones((9, 9), np.uint8)).astype(bool)]
    assert (rest[:, 1] > rest[:, 0]).mean() > 0.85  # around it the turquoise cloth, and little of the old print
