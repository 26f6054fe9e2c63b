"""Draws a figure in a pose and dresses it in the product, or puts the product in its hand or on its feet."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cv2
import numpy as np

from worker.engines.preview.cutout import cut_out
from worker.engines.preview.garment import Garment, Sleeve, across, defringed, even, read_garment, without_scraps
from worker.engines.preview.poses import (
    FOREARM,
    HEAD_Y,
    HIP_HALF,
    HIP_Y,
    NECK_Y,
    SHIN,
    SHOULDER_HALF,
    SHOULDER_Y,
    THIGH,
    UPPER_ARM,
    Point,
    Pose,
    holding,
    pose_for,
)
from worker.engines.preview.raster import Layer, blur, box_of, crop_to, layer, resized, rng_of, to_pixels
from worker.errors import InputEmptySubject
from worker.pictures import Picture
from worker.steps import Params

UNIT = 1180  # the figure's height in the pixels it is drawn with
PAD = 330  # room around it for arms and products; what is drawn is trimmed and fitted afterwards
MARGIN = 0.03
LIGHT = layer((-0.45, 0.55, 0.70)) / np.float32(np.sqrt(0.45**2 + 0.55**2 + 0.70**2))

SKINS = ((244, 212, 190), (230, 190, 160), (206, 160, 124), (170, 122, 88), (126, 86, 62), (92, 62, 48))
HAIRS = ((42, 32, 28), (78, 54, 38), (120, 84, 52), (30, 28, 32), (158, 120, 76))
TROUSERS = ((58, 64, 78), (196, 186, 168), (44, 46, 52), (96, 104, 116), (70, 84, 110))
MANNEQUIN = (226, 222, 216)
CUFF = 0.012  # trousers end this far below the ankle
DRESS_LENGTH = 0.66  # to below the knees
TOP_LENGTH = 0.365  # of the figure: from the shoulders to just below the hips
ARM_RADII = ((0.0, 0.037), (0.165, 0.029), (0.315, 0.020))  # along the arm, as it is drawn
EASE, LOOSE = 1.22, 1.65  # a sleeve is at least and at most so much wider than the arm in it
STRIP = 3.0  # pixels between two points of a sleeve's line on the canvas


@dataclass(frozen=True)
class Appearance:
    skin: tuple[int, int, int]
    hair: tuple[int, int, int] | None
    trousers: tuple[int, int, int]
    shoes: tuple[int, int, int]
    top: tuple[int, int, int]
    is_long_hair: bool = False


@dataclass(frozen=True)
class Arm:
    shoulder: Point
    elbow: Point
    hand: Point


class Canvas:
    """Colour and cover, painted back to front. All shapes are lit as if round, from the upper left."""

    def __init__(self) -> None:
        self.width, self.height = UNIT + 2 * PAD, round(UNIT * 1.06) + 2 * PAD
        self.rgb = np.zeros((self.height, self.width, 3), np.float32)
        self.alpha = np.zeros((self.height, self.width), np.float32)

    def at(self, point: Point) -> Point:
        return self.width / 2 + point[0] * UNIT, self.height - PAD - point[1] * UNIT

    def paint(self, color: Layer, cover: Layer, box: tuple[int, int, int, int]) -> None:
        x0, y0, x1, y1 = box
        part, weight = self.rgb[y0:y1, x0:x1], cover[:, :, None]
        self.rgb[y0:y1, x0:x1] = part * (1 - weight) + color * weight
        self.alpha[y0:y1, x0:x1] = self.alpha[y0:y1, x0:x1] * (1 - cover) + cover

    def box(self, points: list[Point], reach: float) -> tuple[int, int, int, int]:
        xs, ys = [point[0] for point in points], [point[1] for point in points]
        x0, y0 = max(0, int(min(xs) - reach) - 2), max(0, int(min(ys) - reach) - 2)
        return x0, y0, min(self.width, int(max(xs) + reach) + 3), min(self.height, int(max(ys) + reach) + 3)

    def limb(
        self,
        start: Point,
        end: Point,
        radii: tuple[float, float],
        color: tuple[int, int, int],
        *,
        is_lit: bool = True,
        is_cut: bool = False,
    ) -> None:
        """A rounded, tapered limb from joint to joint. One that is cut ends straight, as a trouser leg does."""
        (ax, ay), (bx, by) = self.at(start), self.at(end)
        ra, rb = radii[0] * UNIT, radii[1] * UNIT
        box = self.box([(ax, ay), (bx, by)], max(ra, rb))
        y, x = np.mgrid[box[1] : box[3], box[0] : box[2]].astype(np.float32)
        length = max(1.0, float(np.hypot(bx - ax, by - ay)))
        ux, uy = (bx - ax) / length, (by - ay) / length
        reached = (x - ax) * ux + (y - ay) * uy
        along = np.clip(reached / length, 0, 1)
        radius = ra + (rb - ra) * along
        dx, dy = x - (ax + ux * along * length), y - (ay + uy * along * length)
        away = np.hypot(dx, dy)
        # Lit across the limb only: the caps of two limbs that meet in a joint then show no seam.
        across = ((x - ax) * -uy + (y - ay) * ux) / radius
        cover = np.clip(radius - away + 0.5, 0, 1)
        if is_cut:
            cover = cover * np.clip(length - reached + 0.5, 0, 1)
        flat = layer(np.broadcast_to(layer(color), (*cover.shape, 3)))
        self.paint(self.lit(color, across * -uy, across * ux) if is_lit else flat, layer(cover), box)

    def lit(self, color: tuple[int, int, int], nx: Layer, ny: Layer) -> Layer:
        """Shade from the surface's slope: nx, ny in -1..1 are the outward normal in the picture's plane."""
        flat = np.minimum(np.hypot(nx, ny), 1)
        nz = np.sqrt(1 - flat**2 * 0.92)
        light = np.clip(nx * LIGHT[0] - ny * LIGHT[1] + nz * LIGHT[2], 0, 1)
        shade = 0.56 + 0.50 * light
        return layer(np.clip(layer(color) * shade[:, :, None], 0, 255))

    def solid(self, outline: list[Point], color: tuple[int, int, int], roundness: float = 0.055) -> None:
        """A closed smooth shape, round towards its rim."""
        points = [self.at(point) for point in smooth(outline)]
        box = self.box(points, 4)
        mask = np.zeros((box[3] - box[1], box[2] - box[0]), np.uint8)
        moved = np.array([[(x - box[0]) * 16, (y - box[1]) * 16] for x, y in points], np.int32)
        cv2.fillPoly(mask, [moved], 255, cv2.LINE_AA, 4)
        cover = layer(layer(mask) / 255)
        depth = blur(
            np.minimum(cv2.distanceTransform((mask > 127).astype(np.uint8), cv2.DIST_L2, 5), roundness * UNIT), 6
        )
        slope_x, slope_y = cv2.Sobel(depth, cv2.CV_32F, 1, 0) / 8, cv2.Sobel(depth, cv2.CV_32F, 0, 1) / 8
        rim = 1 - depth / max(1e-3, float(depth.max()))
        self.paint(self.lit(color, -layer(slope_x) * rim, -layer(slope_y) * rim), cover, box)

    def shade(self, cover: Layer, strength: float) -> None:
        """Darkens what is painted already: a shadow of one part on another."""
        self.rgb *= (1 - np.clip(cover, 0, 1) * strength)[:, :, None]

    def put(self, picture: Picture, matrix: Layer) -> None:
        """Another picture, through an affine map from its pixels to ours."""
        assert picture.alpha is not None
        size = (self.width, self.height)
        weight = layer(picture.alpha) / 255
        cover = cv2.warpAffine(weight, matrix, size, flags=cv2.INTER_LINEAR)
        box = box_of(cover, 0.002)
        if box is None:
            return
        color = cv2.warpAffine(layer(picture.rgb) * weight[:, :, None], matrix, size, flags=cv2.INTER_LINEAR)
        x0, y0, x1, y1 = box
        part = layer(cover[y0:y1, x0:x1])
        self.paint(layer(color[y0:y1, x0:x1] / np.maximum(part, 1e-3)[:, :, None]), part, box)


def smooth(outline: list[Point], steps: int = 8) -> list[Point]:
    """A closed Catmull-Rom curve through the points."""
    points = np.array(outline)
    before, after, beyond = np.roll(points, 1, 0), np.roll(points, -1, 0), np.roll(points, -2, 0)
    curve = [
        points
        + 0.5 * (after - before) * t
        + (before - 2.5 * points + 2 * after - 0.5 * beyond) * t**2
        + 0.5 * (3 * points - before - 3 * after + beyond) * t**3
        for t in np.arange(steps) / steps
    ]
    return [(float(x), float(y)) for x, y in np.stack(curve, axis=1).reshape(-1, 2)]


def reach(origin: Point, length: float, degrees: float, side: int) -> Point:
    angle = np.deg2rad(degrees)
    return origin[0] + side * length * float(np.sin(angle)), origin[1] - length * float(np.cos(angle))


def figure(product: Picture, params: Params) -> Picture:
    """The whole figure with the product, on a transparent ground, fitted into the canvas with nothing cut off."""
    product = product if product.alpha is not None else cut_out(product)
    box = box_of(product.alpha, 8)
    if box is None:
        raise InputEmptySubject("the product is fully transparent")
    product = crop_to(product, box)
    factor = min(1.0, 900 / max(product.width, product.height))
    product = resized(product, max(2, round(product.width * factor)), max(2, round(product.height * factor)))
    garment = read_garment(defringed(without_scraps(product)))
    wear = garment.wear if params.wear == "auto" else params.wear
    rng = rng_of("figure", params.seed)
    pose = pose_for(params.pose, start=int(rng.integers(0, 8)), variant=params.variant)
    if wear == "hold":
        pose = holding(pose)
    look = look_of(params, rng_of("look", params.seed, params.variant if params.look == "real" else 0))
    if wear == "torso":
        look = replace(look, top=mean_color(garment.picture))  # what shows at a seam is cloth
        if worn_length(garment) > 1.2 * TOP_LENGTH:
            look = replace(look, trousers=look.skin)  # a dress is worn without
    canvas = Canvas()
    draw(canvas, pose, look, garment, wear)
    return fit(canvas, params.width, params.height)


def worn_length(garment: Garment) -> float:
    """From the shoulders to the hem, of the figure. A top laid flat is longer than it hangs; none is drawn out."""
    length = (garment.picture.height - garment.shoulder_y) * garment_scale(garment) / UNIT
    return min(length, DRESS_LENGTH) if length > TOP_LENGTH * 1.45 else min(length, TOP_LENGTH)


def mean_color(picture: Picture) -> tuple[int, int, int]:
    assert picture.alpha is not None
    red, green, blue = (
        picture.rgb[picture.alpha > 200].reshape(-1, 3).mean(axis=0) if (picture.alpha > 200).any() else (200, 200, 200)
    )
    return int(red), int(green), int(blue)


def look_of(params: Params, rng: np.random.Generator) -> Appearance:
    hair = HAIRS[int(rng.integers(0, len(HAIRS)))]
    trousers = TROUSERS[int(rng.integers(0, len(TROUSERS)))]
    skin = SKINS[params.skin] if params.skin is not None else SKINS[int(rng.integers(0, len(SKINS)))]
    is_long = bool(rng.random() < 0.5)
    if params.look == "virtual":
        body = MANNEQUIN if params.skin is None else skin
        return Appearance(body, None, trousers, (236, 234, 230), (238, 236, 232))
    return Appearance(skin, hair, trousers, (238, 236, 232), (240, 238, 234), is_long)


def draw(canvas: Canvas, pose: Pose, look: Appearance, garment: Garment, wear: str) -> None:
    """Back to front: hair, trousers, torso, garment, arms with their sleeves, head, what is held."""
    half, hip = SHOULDER_HALF * pose.turn, HIP_HALF * pose.turn
    left = arm_of((pose.lean - half, SHOULDER_Y), pose.left_arm, -1)
    right = arm_of((pose.lean + half, SHOULDER_Y), pose.right_arm, 1)
    head = (pose.lean + 0.012 * float(np.sin(np.deg2rad(pose.tilt))), HEAD_Y)
    if look.hair and look.is_long_hair:
        hair_behind(canvas, head, look.hair)
    seat(canvas, pose, hip, look)
    for side, angles in ((-1, pose.left_leg), (1, pose.right_leg)):
        leg(canvas, (side * hip, HIP_Y), angles, side, look, garment if wear == "feet" else None)
    # Under cloth the body is a little smaller, so that it shows nowhere beside the garment.
    torso(canvas, pose, half - (0.024 if wear == "torso" and garment.has_sleeves else 0), hip, look)
    if wear == "torso":
        matrix = body_matrix(canvas, garment, pose)
        canvas.put(garment.body, matrix)
    for arm, side in ((left, -1), (right, 1)):
        if wear != "torso":
            draw_arm(canvas, arm, look.skin, look.top, 0.62)
            continue
        piece = garment.left_sleeve if side < 0 else garment.right_sleeve
        draw_arm(
            canvas, arm, look.skin, look.top, 0.0, bare_from=0.0 if piece is None else 1.8 if piece.is_long else 0.4
        )
        if piece is not None:
            wear_sleeve(canvas, garment, piece, arm, side)
    draw_head(canvas, head, pose.tilt, look)
    if wear == "hold":
        hold(canvas, garment.picture, right, look.skin)


def arm_of(shoulder: Point, angles: tuple[float, float], side: int) -> Arm:
    elbow = reach(shoulder, UPPER_ARM, angles[0], side)
    return Arm(shoulder, elbow, reach(elbow, FOREARM, angles[1], side))


def leg(
    canvas: Canvas, hip: Point, angles: tuple[float, float], side: int, look: Appearance, shoe: Garment | None
) -> None:
    knee = reach(hip, THIGH, angles[0], side)
    ankle = reach(knee, SHIN, angles[1], side)
    foot_y = min(ankle[1], 0.045)
    toe = (ankle[0] + side * 0.034, foot_y - 0.026)
    if shoe is None:
        canvas.limb(
            (ankle[0] - side * 0.004, foot_y - 0.040),
            (toe[0] + side * 0.006, toe[1] - 0.016),
            (0.014, 0.014),
            (158, 154, 148),
        )
        canvas.limb((ankle[0], foot_y - 0.012), toe, (0.031, 0.025), look.shoes)
    canvas.limb(hip, knee, (0.060, 0.047), look.trousers)
    cuff = (ankle[0], max(ankle[1], foot_y + 0.012) - CUFF)
    canvas.limb(knee, cuff, (0.047, 0.034), look.trousers, is_cut=look.trousers != look.skin)
    if shoe is not None:
        wear_shoe(canvas, shoe.picture, (ankle[0], foot_y), side)


def wear_shoe(canvas: Canvas, shoe: Picture, ankle: Point, side: int) -> None:
    """Toes point outwards; the picture's own direction is found from where its mass is low."""
    assert shoe.alpha is not None
    tops = np.argmax(shoe.alpha > 127, axis=0)
    quarter = max(1, shoe.width // 4)
    toe_right = float(tops[-quarter:].mean()) > float(tops[:quarter].mean())
    flip = 1 if toe_right == (side > 0) else -1
    scale = 0.185 * UNIT / shoe.width
    heel = canvas.at((ankle[0] - side * 0.045, ankle[1] - 0.052))
    matrix = layer([[flip * scale, 0, 0], [0, scale, 0]])
    span = shoe.width * scale
    left_edge = heel[0] if side > 0 else heel[0] - span
    matrix[0, 2] = left_edge if flip > 0 else left_edge + span
    matrix[1, 2] = heel[1] - shoe.height * scale
    canvas.put(shoe, matrix)


def seat(canvas: Canvas, pose: Pose, hip: float, look: Appearance) -> None:
    outline = [(-hip - 0.052, HIP_Y - 0.030), (-hip - 0.040, HIP_Y + 0.060), (pose.lean * 0.3, HIP_Y + 0.075),
               (hip + 0.040, HIP_Y + 0.060), (hip + 0.052, HIP_Y - 0.030), (0.0, HIP_Y - 0.048)]  # fmt: skip
    canvas.solid(outline, look.trousers)


def torso(canvas: Canvas, pose: Pose, half: float, hip: float, look: Appearance) -> None:
    lean, mid = pose.lean, pose.lean * 0.5
    canvas.limb((lean * 0.9, SHOULDER_Y - 0.01), (lean, HEAD_Y - 0.05), (0.036, 0.031), look.skin)
    body = [(lean - half - 0.006, SHOULDER_Y + 0.018), (lean - 0.045, NECK_Y), (lean + 0.045, NECK_Y),
            (lean + half + 0.006, SHOULDER_Y + 0.018), (lean + half - 0.006, SHOULDER_Y - 0.08),
            (mid + half - 0.024, SHOULDER_Y - 0.175), (hip + 0.040, HIP_Y + 0.045), (0.0, HIP_Y + 0.03),
            (-hip - 0.040, HIP_Y + 0.045), (mid - half + 0.024, SHOULDER_Y - 0.175),
            (lean - half + 0.006, SHOULDER_Y - 0.08)]  # fmt: skip
    canvas.solid(body, look.top)
    # Below the neck the skin shows, as in a shirt's opening.
    canvas.solid(
        [
            (lean - 0.040, NECK_Y + 0.004),
            (lean, NECK_Y + 0.012),
            (lean + 0.040, NECK_Y + 0.004),
            (lean, NECK_Y - 0.030),
        ],
        look.skin,
        0.02,
    )


def draw_arm(
    canvas: Canvas,
    arm: Arm,
    skin: tuple[int, int, int],
    sleeve_color: tuple[int, int, int],
    sleeve_share: float,
    bare_from: float = 0.0,
) -> None:
    """With a short sleeve of its own, if the product is not worn. What a sleeve hides is left out: 1 is the elbow."""
    if bare_from < 1:
        canvas.limb(between(arm.shoulder, arm.elbow, bare_from), arm.elbow, (0.037 - 0.008 * bare_from, 0.029), skin)
    start = max(0.0, bare_from - 1)
    canvas.limb(between(arm.elbow, arm.hand, start), arm.hand, (0.029 - 0.009 * start, 0.020), skin)
    hand(canvas, arm, skin)
    if sleeve_share > 0:
        canvas.limb(arm.shoulder, between(arm.shoulder, arm.elbow, sleeve_share), (0.041, 0.038), sleeve_color)


def between(a: Point, b: Point, share: float) -> Point:
    return a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share


def hand(canvas: Canvas, arm: Arm, skin: tuple[int, int, int]) -> None:
    length = float(np.hypot(arm.hand[0] - arm.elbow[0], arm.hand[1] - arm.elbow[1]))
    ux, uy = (arm.hand[0] - arm.elbow[0]) / length, (arm.hand[1] - arm.elbow[1]) / length
    palm = (arm.hand[0] + ux * 0.022, arm.hand[1] + uy * 0.022)
    canvas.limb(arm.hand, palm, (0.019, 0.022), skin)
    for spread in (-0.36, -0.12, 0.12, 0.36):
        fx, fy = ux - uy * spread, uy + ux * spread
        tip = (palm[0] + fx * 0.044, palm[1] + fy * 0.044)
        root = (palm[0] + (fx - ux) * 0.03 + ux * 0.008, palm[1] + (fy - uy) * 0.03 + uy * 0.008)
        canvas.limb(root, tip, (0.0075, 0.006), skin)
    inward = -1 if arm.shoulder[0] > 0 else 1
    thumb = (palm[0] - inward * uy * 0.028 + ux * 0.016, palm[1] + inward * ux * 0.028 + uy * 0.016)
    canvas.limb(arm.hand, thumb, (0.010, 0.0075), skin)


def hair_behind(canvas: Canvas, head: Point, color: tuple[int, int, int]) -> None:
    x, y = head
    outline = ((-0.060, 0.02), (0.0, 0.075), (0.060, 0.02), (0.068, -0.06), (0.058, -0.125), (0.0, -0.10),
               (-0.058, -0.125), (-0.068, -0.06))  # fmt: skip
    canvas.solid([(x + dx, y + dy) for dx, dy in outline], color, 0.03)


def draw_head(canvas: Canvas, head: Point, tilt: float, look: Appearance) -> None:
    """An egg with the narrow end down; a person gets hair and quiet features, a mannequin stays plain."""
    x, y = head
    turn = np.deg2rad(-tilt)

    def place(dx: float, dy: float) -> Point:
        return x + dx * float(np.cos(turn)) - dy * float(np.sin(turn)), y + dx * float(np.sin(turn)) + dy * float(
            np.cos(turn)
        )

    egg = [
        place(0.052 * np.sin(a) * (1.0 if np.cos(a) > 0 else 1 + 0.14 * np.cos(a)), 0.070 * np.cos(a))
        for a in np.linspace(0, 2 * np.pi, 20)[:-1]
    ]
    if look.hair is None:
        canvas.solid(egg, look.skin, 0.05)
        return
    for side in (-1, 1):
        canvas.limb(place(side * 0.050, 0.002), place(side * 0.049, -0.012), (0.010, 0.008), look.skin)
    canvas.solid(egg, look.skin, 0.05)
    features(canvas, place, look)
    cap = [(-0.056, 0.004), (-0.058, 0.040), (-0.036, 0.074), (0.0, 0.084), (0.036, 0.074), (0.058, 0.040),
           (0.056, 0.004), (0.048, 0.030), (0.024, 0.046), (-0.012, 0.050), (-0.040, 0.036),
           (-0.049, 0.020)]  # fmt: skip
    canvas.solid([place(*point) for point in cap], look.hair, 0.022)


def features(canvas: Canvas, place: object, look: Appearance) -> None:
    at = place
    assert callable(at)
    dark = tuple(int(channel * 0.55) for channel in look.skin)
    brow = tuple(int(channel * 0.9) for channel in look.hair or dark)
    lip = (int(look.skin[0] * 0.86), int(look.skin[1] * 0.62), int(look.skin[2] * 0.62))
    soft = tuple(int(channel * 0.86) for channel in look.skin)
    for side in (-1, 1):
        canvas.limb(at(side * 0.012, 0.0225), at(side * 0.030, 0.0215), (0.0024, 0.0016), (brow[0], brow[1], brow[2]))
        canvas.limb(at(side * 0.0155, 0.006), at(side * 0.0265, 0.006), (0.0042, 0.0036), (240, 236, 232))
        canvas.limb(at(side * 0.021, 0.006), at(side * 0.0212, 0.006), (0.0042, 0.0042), (58, 42, 34))
        canvas.limb(
            at(side * 0.0145, 0.0095),
            at(side * 0.028, 0.0092),
            (0.0014, 0.0012),
            (dark[0] // 2, dark[1] // 2, dark[2] // 2),
        )
    canvas.limb(at(0.003, 0.002), at(0.004, -0.016), (0.0028, 0.0050), (soft[0], soft[1], soft[2]))
    canvas.limb(at(-0.012, -0.034), at(0.012, -0.034), (0.0028, 0.0028), lip)
    canvas.limb(at(-0.007, -0.0375), at(0.007, -0.0375), (0.0030, 0.0030), lip)


def body_matrix(canvas: Canvas, garment: Garment, pose: Pose) -> Layer:
    """The garment's shoulders on ours, its hem where it hangs to, following the lean."""
    scale = garment_scale(garment)
    down = worn_length(garment) * UNIT / max(1.0, garment.picture.height - garment.shoulder_y)
    top = canvas.at((pose.lean, SHOULDER_Y + 0.030 if garment.has_sleeves else NECK_Y + 0.002))
    shear = -pose.lean / (NECK_Y - HIP_Y) * down  # over the hips it hangs straight down
    across = scale * pose.turn
    left = top[0] - across * garment.center_x - shear * garment.shoulder_y
    return layer([[across, shear, left], [0, down, top[1] - down * garment.shoulder_y]])


def garment_scale(garment: Garment) -> float:
    """Shoulder seam to shoulder seam, with a little ease: cloth is wider than the body in it."""
    ease = 0.016 if garment.has_sleeves else 0.028
    return 2 * (SHOULDER_HALF + ease) * UNIT / max(1.0, garment.shoulder_width)


def wear_sleeve(canvas: Canvas, garment: Garment, piece: Sleeve, arm: Arm, side: int) -> None:
    """The sleeve as a strip along the arm: it starts on the shoulder, bends with the elbow and ends at its cuff."""
    scale = garment_scale(garment)
    own = piece.length * scale / UNIT
    whole = UPPER_ARM + FOREARM
    length = whole * 0.985 if piece.is_long else min(max(own, 0.06), UPPER_ARM * 0.92)
    path, places = arm_path(canvas, arm, side, length)
    strip = along_sleeve(piece, places / (length * UNIT))
    half = (strip[:, 3] - strip[:, 2]) / 2 * scale
    radius = np.interp(places / UNIT, [way for way, _ in ARM_RADII], [radius for _, radius in ARM_RADII]) * UNIT
    share = np.clip(places / (0.10 * UNIT), 0, 1)
    # At the shoulder it is as deep as the shoulder is round, further down it follows the arm.
    loose = np.minimum(half, radius * LOOSE) * share + 0.043 * UNIT * (1 - share)
    width = layer(np.maximum(loose, radius * EASE))
    paint_strip(canvas, garment.picture, path, width, strip, places)


def arm_path(canvas: Canvas, arm: Arm, side: int, length: float) -> tuple[Layer, Layer]:
    """Points on the canvas from the shoulder's slope over the joint and down the arm, with round bends.

    The second value is the way of each point from the joint in pixels, negative on the shoulder.
    """
    lead = 0.045
    start = (arm.shoulder[0] - side * lead, arm.shoulder[1] - 0.006)
    beyond = between(arm.elbow, arm.hand, 1.3)
    corners = [layer(canvas.at(point)) for point in (start, arm.shoulder, arm.elbow, beyond)]
    pieces = [corners[0][None]]
    for number, bend in ((1, 0.040), (2, 0.045)):
        before, at, after = corners[number - 1 : number + 2]
        one, two = at + unit(before - at) * bend * UNIT, at + unit(after - at) * bend * UNIT
        t = np.linspace(0, 1, 12, dtype=np.float32)[:, None]
        pieces.append(layer((1 - t) ** 2 * one + 2 * t * (1 - t) * at + t**2 * two))
    line = np.vstack([*pieces, corners[3][None]])
    total = float(np.hypot(*np.diff(line, axis=0).T).sum())
    points = even(layer(line), max(8, round(total / STRIP)))
    places = np.linspace(-lead * UNIT, total - lead * UNIT, len(points))
    kept = places <= length * UNIT
    return points[kept], layer(places[kept])


def unit(vector: Layer) -> Layer:
    return layer(vector / max(1e-6, float(np.hypot(*vector))))


def along_sleeve(piece: Sleeve, places: Layer) -> Layer:
    """For each place (share of the sleeve, negative on the shoulder): x, y, the reach to both sides and its way."""
    count = len(piece.line)
    way = np.linspace(0, 1, count)
    ahead = unit(piece.line[min(4, count - 1)] - piece.line[0])
    inner = np.minimum(places, 0)[:, None] * piece.length * ahead[None]
    found = layer(np.stack([np.interp(places, way, piece.line[:, axis]) for axis in (0, 1)], axis=1) + inner)
    sides = np.stack([np.interp(places, way, piece.sides[:, side]) for side in (0, 1)], axis=1)
    return layer(np.column_stack([found, sides, across(found)]))


def paint_strip(canvas: Canvas, picture: Picture, path: Layer, width: Layer, strip: Layer, places: Layer) -> None:
    """Each pixel near the path takes the cloth at the same way along the sleeve and the same share across it."""
    assert picture.alpha is not None
    box = canvas.box([(float(x), float(y)) for x, y in path], float(width.max()) + 4)
    x0, y0, x1, y1 = box
    y, x = np.mgrid[y0:y1, x0:x1].astype(np.float32)
    nearest, away = np.zeros(x.shape, np.int32), np.full(x.shape, np.inf, np.float32)
    for number, (px, py) in enumerate(path):
        distance = (x - px) ** 2 + (y - py) ** 2
        closer = distance < away
        nearest[closer], away[closer] = number, distance[closer]
    normal = across(path)[nearest]
    dx, dy = x - path[nearest, 0], y - path[nearest, 1]
    beside = dx * normal[:, :, 0] + dy * normal[:, :, 1]
    beyond = dx * normal[:, :, 1] - dy * normal[:, :, 0]  # before the first and after the last point
    share = beside / width[nearest]
    # Between two points of the line, so that stripes run straight across.
    exact = np.clip(nearest + beyond / STRIP, 0, len(path) - 1)
    first = np.minimum(exact.astype(np.int32), len(path) - 2)
    rest = layer(exact - first)[:, :, None]
    own = strip[first] * (1 - rest) + strip[first + 1] * rest
    # A little inside its rim, where the cloth is whole.
    reach = own[:, :, 2] + (own[:, :, 3] - own[:, :, 2]) * (np.clip(share, -1, 1) * 0.94 + 1) / 2
    weight = layer(picture.alpha) / 255
    source_x, source_y = layer(own[:, :, 0] + own[:, :, 4] * reach), layer(own[:, :, 1] + own[:, :, 5] * reach)
    color = cv2.remap(layer(picture.rgb) * weight[:, :, None], source_x, source_y, cv2.INTER_LINEAR)
    mass = cv2.remap(weight, source_x, source_y, cv2.INTER_LINEAR)
    way = places[nearest]
    # On the shoulder it is laid over the garment's own cloth and fades into it; the joint itself is its own.
    lies_on = np.clip(
        (way + 0.034 * UNIT) / (0.014 * UNIT), covered(canvas, box) * np.clip(1 - way / places[0], 0, 1), 1
    )
    is_end = (nearest == 0) | (nearest == len(path) - 1)
    end = np.where(is_end, np.clip(1.5 - np.abs(beyond) / STRIP, 0, 1), 1)
    cover = layer(np.clip(width[nearest] - np.abs(beside) + 0.5, 0, 1) * end * lies_on)
    # Where the sleeve was folded the strip may miss it: the cloth beside it goes on.
    mean = layer(mean_color(picture))
    near_color = (blur(color, 5.0) + 0.01 * mean) / (blur(mass, 5.0) + 0.01)[:, :, None]
    cloth = np.where((mass > 0.6)[:, :, None], color / np.maximum(mass, 1e-3)[:, :, None], near_color)
    shadow = np.zeros((canvas.height, canvas.width), np.float32)
    shadow[y0:y1, x0:x1] = cover * np.clip(way / (0.07 * UNIT), 0, 1)
    canvas.shade(blur(shadow, 8), 0.25)
    round_light = 1 - 0.22 * np.clip(np.abs(share), 0, 1) ** 3 * np.clip(way / (0.05 * UNIT), 0, 1)
    canvas.paint(layer(cloth * round_light[:, :, None]), cover, box)


def covered(canvas: Canvas, box: tuple[int, int, int, int]) -> Layer:
    x0, y0, x1, y1 = box
    return canvas.alpha[y0:y1, x0:x1]


def hold(canvas: Canvas, product: Picture, arm: Arm, skin: tuple[int, int, int]) -> None:
    """The product in the raised hand, large enough to be seen, with the fingers in front of it."""
    size = 0.235 * UNIT
    scale = size / max(product.width, product.height)
    palm = canvas.at((arm.hand[0] - 0.004, arm.hand[1] + 0.030))
    matrix = layer(
        [[scale, 0, palm[0] - scale * product.width / 2], [0, scale, palm[1] - scale * product.height * 0.62]]
    )
    cover = cv2.warpAffine(
        layer(product.alpha) / 255, matrix + layer([[0, 0, 8], [0, 0, 12]]), (canvas.width, canvas.height)
    )
    canvas.shade(blur(layer(cover), 9), 0.30)
    canvas.put(product, matrix)
    for finger in range(4):
        y = arm.hand[1] + 0.052 - finger * 0.0155
        canvas.limb((arm.hand[0] + 0.048, y), (arm.hand[0] + 0.004, y + 0.003), (0.0085, 0.0075), skin)
    canvas.limb(
        (arm.hand[0] + 0.030, arm.hand[1] - 0.010), (arm.hand[0] + 0.047, arm.hand[1] + 0.050), (0.019, 0.014), skin
    )


def fit(canvas: Canvas, width: int, height: int) -> Picture:
    # Painted over black, so an edge holds its colour times its cover: taken as it is, it would show as a dark line.
    rgb = canvas.rgb / np.maximum(canvas.alpha, 1e-3)[:, :, None]
    drawn = Picture(to_pixels(rgb), to_pixels(canvas.alpha * 255))
    box = box_of(drawn.alpha, 8)
    assert box is not None
    drawn = crop_to(drawn, box)
    factor = min(width * (1 - 2 * MARGIN) / drawn.width, height * (1 - 2 * MARGIN) / drawn.height)
    drawn = resized(drawn, max(1, round(drawn.width * factor)), max(1, round(drawn.height * factor)))
    pixels, alpha = np.zeros((height, width, 3), np.uint8), np.zeros((height, width), np.uint8)
    left, top = (width - drawn.width) // 2, height - round(height * MARGIN) - drawn.height
    pixels[top : top + drawn.height, left : left + drawn.width] = drawn.rgb
    assert drawn.alpha is not None
    alpha[top : top + drawn.height, left : left + drawn.width] = drawn.alpha
    return Picture(pixels, alpha)
