"""Poses as joints. Unit: the figure's height; origin between the feet, x to the right of the picture, y upwards."""

from __future__ import annotations

from dataclasses import dataclass, replace

Point = tuple[float, float]

SHOULDER_HALF, HIP_HALF = 0.098, 0.060
SHOULDER_Y, HIP_Y, NECK_Y, HEAD_Y = 0.805, 0.515, 0.840, 0.925
UPPER_ARM, FOREARM, THIGH, SHIN = 0.165, 0.150, 0.235, 0.235


@dataclass(frozen=True)
class Pose:
    """Angles in degrees from straight down, positive outwards from the body, as the limb hangs from its joint."""

    name: str
    left_arm: tuple[float, float]  # upper arm, forearm; left is the picture's left
    right_arm: tuple[float, float]
    left_leg: tuple[float, float] = (4, 2)
    right_leg: tuple[float, float] = (4, 2)
    lean: float = 0.0  # of the shoulders over the hips, share of the height, to the right
    tilt: float = 0.0  # of the head, degrees clockwise
    turn: float = 1.0  # 1 faces the camera; narrower as the body turns away


POSES: dict[str, Pose] = {
    pose.name: pose
    for pose in (
        Pose("stand", (14, 8), (14, 8)),
        Pose("hip", (14, 6), (44, -37), left_leg=(3, 1), right_leg=(11, 5), lean=-0.012, tilt=-5),
        Pose("wave", (13, 7), (112, 158), left_leg=(4, 2), right_leg=(7, 4), tilt=6),
        Pose("walk", (24, 4), (20, 32), left_leg=(15, 4), right_leg=(12, 20), lean=0.008, turn=0.93),
        Pose("akimbo", (45, -37), (45, -37), left_leg=(10, 8), right_leg=(10, 8)),
        Pose("lean", (10, -6), (30, 58), left_leg=(1, 0), right_leg=(16, 6), lean=0.030, tilt=8),
        Pose("arms_up", (150, 172), (150, 172), left_leg=(6, 4), right_leg=(6, 4)),
        Pose("turn", (8, -22), (34, 44), left_leg=(9, 7), right_leg=(3, 0), lean=-0.014, tilt=-8, turn=0.84),
    )
}
NAMES = tuple(POSES)


def pose_for(name: str | None, *, start: int, variant: int) -> Pose:
    """A named pose, or for each variant another one until all have been used."""
    return POSES[name] if name else POSES[NAMES[(start + variant) % len(NAMES)]]


def holding(pose: Pose) -> Pose:
    """The same stance with the right hand brought up before the chest, where a product is shown."""
    return replace(pose, right_arm=(26, 128))
