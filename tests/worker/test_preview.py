"""The preview engine: each step's picture has the property that the step promises."""

from __future__ import annotations

import itertools
from functools import cache

import cv2
import numpy as np
import pytest

from tests.worker.photos import Photo, photo
from worker.engines.preview.engine import STEPS as FUNCTIONS
from worker.engines.preview.engine import PreviewEngine
from worker.engines.preview.garment import read_garment
from worker.engines.preview.poses import NAMES
from worker.engines.preview.raster import box_of, crop_to
from worker.errors import InputEmptySubject, InputMissing, InputTooManyPixels, StepBadParams
from worker.pictures import Picture
from worker.steps import STEPS, read_params, step_of

SIDE = 500  # large enough for every property, small enough for one core


@cache
def shot(product: str, ground: str, seed: int = 1) -> Photo:
    return photo(product, ground, width=SIDE, height=SIDE, seed=seed)


@cache
def cut(product: str) -> Picture:
    return run("cutout", "cutout", {"product": shot(product, "plain").picture})


def run(node_type: str, step: str, inputs: dict[str, Picture], **params: object) -> Picture:
    wanted = step_of(node_type, {"step": step})
    seen: list[float] = []
    made, info = PreviewEngine().run(wanted, None, inputs, read_params(wanted, params), seen.append)
    assert (info.name, info.is_neural) == ("preview", False)
    assert seen == sorted(seen)
    assert made.rgb.dtype == np.uint8
    return made


def iou(alpha: np.ndarray, truth: np.ndarray) -> float:
    found, wanted = alpha > 127, truth > 127
    return float((found & wanted).sum() / (found | wanted).sum())


def mask_of(plane: np.ndarray) -> Picture:
    return Picture(np.dstack([plane] * 3))


def difference(a: Picture, b: Picture) -> float:
    return float(np.abs(a.rgb.astype(int) - b.rgb).mean())


def sharpness(rgb: np.ndarray) -> float:
    return float(cv2.Laplacian(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), cv2.CV_64F).var())


def test_every_step_of_the_catalogue_has_a_function():
    assert set(FUNCTIONS) | {"scene"} == {name for _, name in STEPS}


@pytest.mark.parametrize(
    ("product", "ground"),
    [(product, ground) for product in ("shirt", "mug", "shoe") for ground in ("plain", "table")]
    + [("shirt", "cluttered"), ("mug", "cluttered")],
)
def test_a_cutout_finds_the_true_outline(product, ground):
    seed = 2 if ground == "cluttered" else 1
    made = run("cutout", "cutout", {"product": shot(product, ground, seed).picture})
    assert made.alpha is not None
    assert iou(made.alpha, shot(product, ground, seed).truth) >= 0.95


def test_cutout_has_soft_edge_without_background_colour():
    made = cut("mug")
    assert made.alpha is not None
    soft = (made.alpha > 20) & (made.alpha < 235)
    rim = soft.sum() / cv2.Canny((made.alpha > 127).astype(np.uint8) * 255, 50, 150).astype(bool).sum()
    assert 0.3 < rim < 4  # a pixel or two, no hard steps, no veil
    redness = made.rgb[soft].astype(int)
    assert np.median(redness[:, 0] - redness[:, 2]) > 60  # the paper behind is grey


def test_notch_is_cut_to_its_tip_without_specks():
    outline = np.array([(150, 100), (350, 100), (450, 300), (380, 350), (310, 220), (310, 430), (190, 430), (190, 220),
                        (120, 350), (50, 300)])  # fmt: skip
    truth = np.zeros((SIDE, SIDE), np.uint8)
    cv2.fillPoly(truth, [outline], 255, cv2.LINE_AA)
    grain = np.random.default_rng(3).normal(0, 1, (SIDE, SIDE, 1))
    share = truth[:, :, None] / 255
    rgb = (np.array([38, 84, 152]) * share + (np.array([230, 228, 224]) + grain) * (1 - share)).astype(np.uint8)
    made = run("cutout", "cutout", {"product": Picture(rgb)})
    assert made.alpha is not None
    assert (np.abs(made.alpha.astype(int) - truth) > 127).mean() < 0.002
    for tip in ((313, 232), (187, 232)):
        assert made.alpha[tip[1], tip[0]] < 30
    assert (made.rgb[made.alpha > 60][:, 0] > 120).sum() < 10  # a product has corners too


def test_the_handle_of_a_mug_stays_open():
    made = cut("mug")
    assert made.alpha is not None
    assert made.alpha[int(SIDE * 0.53), int(SIDE * 0.66)] == 0


def test_mask_selects_the_part_that_cutout_keeps():
    hint = np.zeros((SIDE, SIDE), np.uint8)
    hint[:, : SIDE // 2] = shot("mug", "plain").truth[:, : SIDE // 2]
    made = run("cutout", "cutout", {"product": shot("mug", "plain").picture, "mask": mask_of(hint)})
    assert made.alpha is not None
    assert made.alpha[:, int(SIDE * 0.6) :].max() == 0
    assert iou(made.alpha, hint) > 0.85


def test_picture_without_a_product_is_refused():
    empty = Picture(np.full((200, 200, 3), 230, np.uint8))
    with pytest.raises(InputEmptySubject):
        run("cutout", "cutout", {"product": empty})


def test_cutout_can_be_trimmed_and_made_white():
    made = run("cutout", "cutout", {"product": shot("shoe", "plain").picture}, trim=True, background="white")
    assert made.alpha is None
    assert made.width < SIDE * 0.85
    assert (made.rgb[0, 0] > 250).all()


@pytest.mark.parametrize("aspect", ["1:1", "4:5", "16:9", "original"])
def test_crop_keeps_product_in_the_requested_shape(aspect):
    source = shot("mug", "table")
    made = run("cutout", "crop", {"product": source.picture}, aspect=aspect, margin=0.02)
    ratio = 1.0 if aspect == "original" else int(aspect.split(":")[0]) / int(aspect.split(":")[1])
    assert made.width / made.height == pytest.approx(ratio, rel=0.03)
    assert made.width * made.height < SIDE * SIDE
    red = (made.rgb[:, :, 0].astype(int) - made.rgb[:, :, 2] > 90).sum()
    whole = (source.picture.rgb[:, :, 0].astype(int) - source.picture.rgb[:, :, 2] > 90).sum()
    assert red > 0.97 * whole


def test_extending_keeps_the_picture_and_continues_its_edge():
    source = shot("mug", "table").picture
    made = run("extend", "extend", {"product": source}, left=0.3, right=0.2, top=0.1, bottom=0.2)
    left, top = round(0.3 * SIDE), round(0.1 * SIDE)
    assert (made.width, made.height) == (SIDE + left + round(0.2 * SIDE), SIDE + top + round(0.2 * SIDE))
    assert np.array_equal(made.rgb[top : top + SIDE, left : left + SIDE], source.rgb)
    inside = np.abs(source.rgb[:, 1].astype(int) - source.rgb[:, 0]).mean()
    across = np.abs(made.rgb[top : top + SIDE, left - 1].astype(int) - source.rgb[:, 0]).mean()
    assert across < 2 * inside + 2


def test_extending_does_not_repeat_the_product():
    made = run("extend", "extend", {"product": shot("mug", "table").picture}, left=1, right=1, top=0, bottom=0)
    beside = np.concatenate([made.rgb[:, :SIDE], made.rgb[:, 2 * SIDE :]], axis=1).astype(int)
    red = (beside[:, :, 0] - beside[:, :, 2] > 110) & (beside[:, :, 1] < 90)
    assert red.mean() < 0.004


def test_extending_to_a_shape_gives_that_shape():
    made = run("extend", "extend", {"product": shot("shoe", "plain").picture}, aspect="16:9")
    assert (made.width / made.height, made.height) == (pytest.approx(16 / 9, rel=0.01), SIDE)


def test_erasing_changes_only_the_product():
    source = shot("mug", "table")
    hole = cv2.dilate(source.truth, np.ones((17, 17), np.uint8))
    made = run("extend", "erase", {"product": source.picture, "mask": mask_of(hole)})
    assert np.array_equal(made.rgb[hole <= 127], source.picture.rgb[hole <= 127])
    wall = made.rgb[int(SIDE * 0.40) : int(SIDE * 0.55), int(SIDE * 0.35) : int(SIDE * 0.55)].reshape(-1, 3)
    assert np.abs(wall.mean(axis=0) - (206, 214, 220)).max() < 10


def test_repainting_colours_only_the_marked_part():
    source = shot("shirt", "plain")
    made = run("extend", "repaint", {"product": source.picture, "mask": mask_of(source.truth)}, prompt="red dots")
    inside, outside = source.truth > 200, source.truth <= 127
    assert np.array_equal(made.rgb[outside], source.picture.rgb[outside])
    mean = made.rgb[inside].mean(axis=0)
    assert mean[0] > mean[2] + 40
    assert np.abs(made.rgb[inside].astype(int) - source.picture.rgb[inside]).mean() > 40


def test_old_print_does_not_show_through_paint():
    rgb = np.full((300, 300, 3), 190, np.uint8)
    cv2.putText(rgb, "LOGO", (90, 165), cv2.FONT_HERSHEY_SIMPLEX, 1.6, (20, 20, 20), 6)
    made = run("extend", "repaint", {"product": Picture(rgb)}, regions=[[0.2, 0.3, 0.6, 0.4]], color="#cc2020")
    inside = (slice(100, 200), slice(70, 230))
    print_mask = (rgb[inside][:, :, 0] < 100).astype(np.uint8)
    rim = cv2.dilate(print_mask, np.ones((15, 15), np.uint8)) - cv2.dilate(print_mask, np.ones((5, 5), np.uint8))
    painted = made.rgb[inside].astype(float).mean(axis=2)
    assert abs(painted[print_mask > 0].mean() - painted[rim > 0].mean()) < 12  # 170 in the input


def test_regions_stand_in_for_a_mask():
    source = shot("mug", "plain").picture
    made = run("extend", "repaint", {"product": source}, regions=[[0.0, 0.0, 0.2, 0.2]], color="#00ff00")
    changed = np.abs(made.rgb.astype(int) - source.rgb).max(axis=2) > 0
    assert changed[: SIDE // 5, : SIDE // 5].mean() > 0.9
    assert not changed[SIDE // 5 + 1 :].any()


@pytest.mark.parametrize("step", ["erase", "repaint"])
def test_erasing_without_mask_or_regions_is_refused(step):
    with pytest.raises(InputEmptySubject):
        run("extend", step, {"product": shot("mug", "plain").picture})


@cache
def figure(pose: str, product: str = "shirt", look: str = "virtual") -> Picture:
    return run("model", "figure", {"cutout": cut(product)}, pose=pose, look=look, width=360, height=480)


@pytest.mark.parametrize("pose", NAMES)
def test_whole_figure_in_canvas_wears_the_shirt(pose):
    made = figure(pose)
    assert made.alpha is not None
    rows, columns = np.flatnonzero(made.alpha.any(axis=1)), np.flatnonzero(made.alpha.any(axis=0))
    assert rows[0] > 4  # the head and the hands
    assert rows[-1] < 475  # the feet
    assert columns[0] > 4
    assert columns[-1] < 355
    assert rows[-1] - rows[0] > 0.6 * 480
    body = made.rgb[made.alpha > 200].astype(int)
    blue = (body[:, 2] - body[:, 0] > 60).mean()
    assert blue > 0.12
    head = made.rgb[rows[0] : rows[0] + 30][made.alpha[rows[0] : rows[0] + 30] > 200].astype(int)
    assert (head[:, 2] - head[:, 0] > 60).mean() < 0.05  # no cloth over the face


def test_a_figure_has_no_dark_line_around_it():
    made = run("model", "figure", {"cutout": cut("shirt")}, pose="stand")
    assert made.alpha is not None
    head = slice(0, round(made.height * 0.17))
    alpha, light = made.alpha[head], made.rgb[head].mean(axis=2)
    rim = (alpha > 60) & (alpha < 200)
    assert np.median(light[rim]) > 0.9 * np.median(light[alpha == 255])


def test_poses_differ_pairwise():
    assert len(NAMES) >= 6
    for one, other in itertools.combinations(NAMES, 2):
        a, b = figure(one).alpha, figure(other).alpha
        assert a is not None
        assert b is not None
        assert iou(a, b) < 0.93, (one, other)


def test_variants_of_one_seed_are_different_poses():
    made = [
        run("model", "figure", {"cutout": cut("shirt")}, variant=variant, seed=11, width=180, height=240)
        for variant in range(8)
    ]
    for one, other in itertools.combinations(made, 2):
        assert one.alpha is not None
        assert other.alpha is not None
        assert iou(one.alpha, other.alpha) < 0.95


def test_mug_is_held_and_shoes_are_worn():
    holds, wears = figure("stand", "mug"), figure("stand", "shoe")
    red = (holds.rgb[:, :, 0].astype(int) - holds.rgb[:, :, 2] > 90) & (holds.alpha > 200)
    rows = np.flatnonzero(red.any(axis=1))
    assert red.sum() > 500
    assert rows.mean() < 0.5 * 480  # at the chest
    green = (wears.rgb[:, :, 1].astype(int) - wears.rgb[:, :, 0] > 40) & (wears.alpha > 200)
    assert green.sum() > 200
    assert np.flatnonzero(green.any(axis=1)).min() > 0.85 * 480


def flat(outline: list[tuple[float, float]], color: tuple[int, int, int]) -> Picture:
    """A garment laid flat, as an outline in one colour."""
    alpha = np.zeros((SIDE, SIDE), np.uint8)
    cv2.fillPoly(alpha, [(np.array(outline) * SIDE).astype(np.int32)], 255, cv2.LINE_AA)
    return Picture(np.full((SIDE, SIDE, 3), color, np.uint8), alpha)


DRESS = [
    (0.42, 0.08),
    (0.36, 0.10),
    (0.40, 0.40),
    (0.25, 0.92),
    (0.75, 0.92),
    (0.60, 0.40),
    (0.64, 0.10),
    (0.58, 0.08),
    (0.5, 0.14),
]
LONG = [(0.4, 0.18), (0.3, 0.23), (0.16, 0.72), (0.25, 0.75), (0.33, 0.45), (0.32, 0.85), (0.68, 0.85), (0.67, 0.45),
        (0.75, 0.75), (0.84, 0.72), (0.7, 0.23), (0.6, 0.18), (0.5, 0.24)]  # fmt: skip
BOTTLE = [(0.46, 0.1), (0.46, 0.28), (0.38, 0.38), (0.38, 0.9), (0.62, 0.9), (0.62, 0.38), (0.54, 0.28), (0.54, 0.1)]
BAG = [(0.25, 0.45), (0.75, 0.45), (0.8, 0.88), (0.2, 0.88)]


@pytest.mark.parametrize(
    ("outline", "wear"),
    [(DRESS, "torso"), (LONG, "torso"), (BOTTLE, "hold"), (BAG, "hold")],
    ids=["dress", "long", "bottle", "bag"],
)
def test_outline_decides_how_a_product_is_worn(outline, wear):
    product = flat(outline, (200, 30, 40))
    box = box_of(product.alpha)
    assert box is not None
    assert read_garment(crop_to(product, box)).wear == wear


def test_long_sleeve_follows_bent_arm_to_hand():
    made = run("model", "figure", {"cutout": flat(LONG, (200, 30, 40))}, pose="wave", width=360, height=480)
    red = (made.rgb[:, :, 0].astype(int) - made.rgb[:, :, 2] > 90) & (made.alpha > 200)
    head_row = 0.25 * 480
    assert red[: int(head_row), 200:].sum() > 50  # the raised forearm is clothed above the shoulder


def test_dress_reaches_below_knees_with_bare_arms():
    made = run(
        "model",
        "figure",
        {"cutout": flat(DRESS, (200, 30, 40))},
        pose="stand",
        look="real",
        skin=2,
        width=360,
        height=480,
    )
    red = (made.rgb[:, :, 0].astype(int) - made.rgb[:, :, 1] > 110) & (made.alpha > 200)
    rows = np.flatnonzero(red.any(axis=1))
    assert rows[-1] > 0.72 * 480
    assert rows[-1] < 0.92 * 480


def test_real_look_has_skin_and_hair_unlike_mannequin():
    assert difference(figure("stand", look="real"), figure("stand")) > 3


@pytest.mark.parametrize("preset", ["studio", "table", "outdoor", "beach", "night", "shelf", "podium"])
def test_a_composed_product_has_its_shadow_below_it(preset):
    params = {"preset": preset, "width": 400, "height": 400, "seed": 3}
    lit = run("compose", "compose", {"cutout": cut("mug")}, shadow=False, **params)
    made = run("compose", "compose", {"cutout": cut("mug")}, **params)
    darker = lit.rgb.astype(int).mean(axis=2) - made.rgb.astype(int).mean(axis=2)
    assert darker.min() > -2
    base = round(0.86 * 400)
    below, above = darker[base : base + 12, 120:280].mean(), darker[:80].mean()
    assert below > 3 * max(above, 0.05)
    assert below > 1.5 if preset == "night" else below > 6


def test_a_composed_figure_is_not_cut_off():
    made = run(
        "compose", "compose", {"model": figure("arms_up")}, width=360, height=480, color="#00ff00", preset="studio"
    )
    green = (made.rgb[:, :, 1].astype(int) - made.rgb[:, :, 0] > 25) & (
        made.rgb[:, :, 1].astype(int) > made.rgb[:, :, 2]
    )
    assert green[:3].all()
    assert green[:, :3].mean() > 0.95
    assert green[:, -3:].mean() > 0.95


def test_presets_follow_the_words_of_the_prompt():
    asked = run("model", "scene", {}, prompt="a mug on the beach in summer", width=128, height=128)
    meant = run("model", "scene", {}, preset="beach", width=128, height=128)
    assert np.array_equal(asked.rgb, meant.rgb)
    chinese = run("model", "scene", {}, prompt="夏天的沙滩", width=128, height=128)
    assert np.array_equal(chinese.rgb, meant.rgb)


def test_replaced_background_keeps_the_products_position():
    made = run("compose", "background", {"cutout": cut("mug")}, color="#3060ff", shadow=False, preset="studio")
    inside = cv2.erode(shot("mug", "plain").truth, np.ones((9, 9), np.uint8)) > 127
    assert np.abs(made.rgb[inside].astype(int) - shot("mug", "plain").picture.rgb[inside]).mean() < 12
    corner = made.rgb[5:40, 5:40].reshape(-1, 3).mean(axis=0)
    assert corner[2] > corner[0] + 50


def test_a_scene_of_the_callers_own_is_used():
    scene = Picture(np.full((300, 300, 3), (10, 200, 30), np.uint8))
    made = run("compose", "background", {"cutout": cut("mug"), "scene": scene})
    assert np.abs(made.rgb[10, 10].astype(int) - (10, 200, 30)).max() < 6


@pytest.mark.parametrize("style", ["watercolor", "pencil", "oil", "poster", "cartoon", "vintage", "neon"])
def test_style_changes_colours_and_keeps_the_motif(style):
    source = shot("mug", "table").picture
    made = run("model", "style", {"product": source}, style=style, strength=1)
    assert difference(made, source) > 3
    outline = lambda picture: cv2.dilate(cv2.Canny(cv2.GaussianBlur(picture.rgb, (0, 0), 2), 40, 120), np.ones((9, 9)))  # noqa: E731
    wanted, found = outline(source) > 0, outline(made) > 0
    assert (wanted & found).sum() / wanted.sum() > 0.5


def test_styles_differ_from_each_other():
    made = [
        run("model", "style", {"product": shot("mug", "table").picture}, style=name)
        for name in ("oil", "pencil", "neon")
    ]
    assert all(difference(a, b) > 8 for a, b in itertools.combinations(made, 2))


def test_img2img_follows_the_mood_of_its_prompt():
    source = shot("mug", "plain").picture
    warm = run("model", "img2img", {"product": source}, prompt="warm sunset", strength=1)
    cold = run("model", "img2img", {"product": source}, prompt="cold winter", strength=1)
    blue_of = lambda picture: picture.rgb[:, :, 2].mean() - picture.rgb[:, :, 0].mean()  # noqa: E731
    assert blue_of(cold) > blue_of(source) > blue_of(warm)


def test_variations_differ_from_source_and_each_other():
    source = shot("mug", "table").picture
    made = [run("model", "derive", {"product": source}, variant=variant) for variant in range(4)]
    assert all(difference(picture, source) > 2 for picture in made)
    assert all(difference(a, b) > 2 for a, b in itertools.combinations(made, 2))


def test_upscaling_enlarges_more_sharply_than_interpolation():
    small = Picture(cv2.resize(shot("shoe", "cluttered").picture.rgb, (200, 200), interpolation=cv2.INTER_AREA))
    made = run("hd_fix", "upscale", {"product": small}, scale=2.5)
    assert (made.width, made.height) == (500, 500)
    plain = cv2.resize(small.rgb, (500, 500), interpolation=cv2.INTER_CUBIC)
    assert sharpness(made.rgb) > 1.3 * sharpness(plain)
    back = cv2.resize(made.rgb, (200, 200), interpolation=cv2.INTER_AREA)
    assert np.abs(back.astype(int) - small.rgb).mean() < 3


def test_enlargement_beyond_the_limit_is_refused_early():
    with pytest.raises(InputTooManyPixels):
        run("hd_fix", "upscale", {"product": Picture(np.zeros((3000, 3000, 3), np.uint8))}, scale=4)


def test_hd_fix_removes_noise_and_sharpens_edges():
    clean = shot("mug", "plain").picture
    noisy = np.clip(clean.rgb + np.random.default_rng(5).normal(0, 9, clean.rgb.shape), 0, 255).astype(np.uint8)
    soft = Picture(cv2.GaussianBlur(noisy, (0, 0), 1.2))
    made = run("hd_fix", "hd_fix", {"product": soft}, strength=1)
    wall = (slice(10, 120), slice(10, 120))
    assert made.rgb[wall].std(axis=(0, 1)).mean() < soft.rgb[wall].std(axis=(0, 1)).mean() + 0.5
    edge = lambda rgb: np.abs(np.diff(rgb[int(SIDE * 0.6)].astype(int), axis=0)).max()  # noqa: E731
    assert edge(made.rgb) > 1.15 * edge(soft.rgb)


@pytest.mark.parametrize("fit", ["contain", "cover", "stretch"])
def test_conversion_gives_the_wanted_size(fit):
    made = run("compose", "convert", {"product": shot("shoe", "plain").picture}, width=320, height=160, fit=fit)
    assert (made.width, made.height, made.alpha) == (320, 160, None)
    if fit == "contain":
        assert (made.rgb[:, 0] == 255).all()


def test_conversion_by_one_side_keeps_the_shape():
    made = run("compose", "convert", {"product": shot("shoe", "plain").picture}, width=250)
    assert (made.width, made.height) == (250, 250)


def test_step_without_input_names_the_missing_picture():
    with pytest.raises(InputMissing, match="product or picture"):
        run("extend", "extend", {})


def test_growth_without_measure_is_refused():
    with pytest.raises(StepBadParams):
        run("extend", "extend", {"product": shot("shoe", "plain").picture}, aspect="100:1")


@pytest.mark.parametrize("key", list(STEPS))
def test_the_same_seed_gives_the_same_picture(key):
    small = Picture(cv2.resize(shot("mug", "table").picture.rgb, (160, 160), interpolation=cv2.INTER_AREA))
    inputs = (
        {"product": small, "cutout": cut("shirt")}
        if key[1] in ("figure", "compose", "background")
        else {"product": small}
    )
    if key[1] == "crop":
        inputs = {"product": small}
    params: dict[str, object] = {"seed": 5, "width": 160, "height": 160}
    if key[1] in ("erase", "repaint"):
        params["regions"] = [[0.3, 0.3, 0.3, 0.3]]
    once, twice = run(*key, inputs, **params), run(*key, inputs, **params)
    assert np.array_equal(once.rgb, twice.rgb)
    if key[1] in ("scene", "derive", "img2img", "repaint", "figure"):
        assert difference(run(*key, inputs, **{**params, "seed": 6}), once) > 0.2
