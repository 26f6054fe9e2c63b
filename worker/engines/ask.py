"""A step as a request to the operator's image server: prompt, picture, mask; and its answer as the step's picture."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import uuid4

import cv2
import numpy as np

from artiway.platform.outbound import (
    Answer,
    Client,
    OutboundError,
    RequestRefused,
    TargetRefused,
    parse_targets,
)
from worker.engines.base import EngineInfo, Report
from worker.engines.inputs import main_input
from worker.engines.preview.raster import blur, layer, resize, to_pixels
from worker.engines.preview.reshape import margins, region_mask
from worker.errors import EngineBusy, EngineFailed, EngineNotInstalled
from worker.pictures import Limits, Picture, Pixels, decode, encode, flatten
from worker.steps import Params, Step

SIDE, ALIGN = 1536, 8  # what image models take: the longest side, and a multiple for each
ANSWER_BYTES = 64 * 1024 * 1024
STEP_PROMPTS: Mapping[str, str] = {
    "erase": "the plain background continues, nothing else",
    "extend": "the same photograph continues beyond its edges",
    "derive": "the same product, another photograph of it",
    "figure": "full-length studio photograph of a fashion model who wears this garment, plain background",
    "scene": "an empty scene for a product photograph, with room in the middle",
}


@dataclass(frozen=True)
class Ask:
    """`picture` is sized for the server. `mask` (255 = change) and `sides` belong to that size."""

    step: str
    prompt: str
    picture: Picture | None
    mask: Pixels | None
    sides: tuple[int, int, int, int]
    size: tuple[int, int]
    denoise: float
    seed: int
    original: Picture | None
    hole: Pixels | None


def ask_of(step: Step, inputs: Mapping[str, Picture], params: Params) -> Ask:
    original = main_input(step, inputs) if step.main else None
    prompt = str(params.get("prompt") or "") or STEP_PROMPTS.get(step.name, "a product photograph")
    if step.name == "figure":
        prompt = f"{STEP_PROMPTS['figure']}, pose: {params.get('pose') or 'standing'}"
    strength = float(params.get("strength") or 0.5)
    seed = int(params.seed) + int(params.variant)
    size = (int(params.get("width") or 1024), int(params.get("height") or 1024))
    if original is None:
        return Ask(step.name, prompt, None, None, (0, 0, 0, 0), aligned(*size), 1.0, seed, None, None)
    sent = fitted(flatten(original, (255, 255, 255)))
    hole = None
    if step.name in ("erase", "repaint"):
        hole = to_pixels(region_mask(original, inputs.get("mask"), list(params.regions)) * 255.0)
    mask = None if hole is None else np.asarray(cv2.resize(hole, (sent.width, sent.height)), np.uint8)
    sides = (0, 0, 0, 0)
    if step.name == "extend":
        factor = (sent.width / original.width, sent.height / original.height)
        left, right, top, bottom = margins(original, params)
        sides = (
            up(left * factor[0]),
            up(right * factor[0]),
            up(top * factor[1]),
            up(bottom * factor[1]),
        )
    denoise = {"img2img": 0.25 + 0.65 * strength, "derive": 0.2 + 0.4 * strength}.get(step.name, 1.0)
    whole = (sent.width + sides[0] + sides[1], sent.height + sides[2] + sides[3])
    wanted = aligned(*size) if step.name == "figure" else whole
    return Ask(step.name, prompt, sent, mask, sides, wanted, denoise, seed, original, hole)


def finished(ask: Ask, made: Picture, params: Params) -> Picture:
    """The server's picture at the size of the step. Outside a mask not one pixel of the input changes."""
    original = ask.original
    if original is None or ask.step == "figure":
        return made
    if ask.step == "extend":
        left, right, top, bottom = margins(original, params)
        size = (original.width + left + right, original.height + top + bottom)
        rgb = to_pixels(resize(layer(made.rgb), *size))
        rgb[top : top + original.height, left : left + original.width] = flatten(original, (255, 255, 255)).rgb
        return Picture(rgb)
    rgb = to_pixels(resize(layer(made.rgb), original.width, original.height))
    if ask.hole is not None:
        soft = np.clip(blur(layer(ask.hole) / 255, 2.0), 0, 1) * (ask.hole > 0)
        rgb = to_pixels(layer(rgb) * soft[:, :, None] + layer(original.rgb) * (1 - soft[:, :, None]))
    return Picture(rgb, original.alpha)


class ServerEngine(ABC):
    """An engine whose pictures are made by a server of the operator. Errors of the way there are those of a step."""

    name: str
    address_variable: str
    steps: frozenset[str]

    def __init__(self, url: str) -> None:
        if not url:
            raise EngineNotInstalled(f"the {self.name} engine needs {self.address_variable}")
        self._url = url.rstrip("/")
        with translated():
            self._client = client_of(self._url)

    def load(self, step: Step, model: str | None) -> None:
        if step.name not in self.steps:
            raise EngineNotInstalled(f"the {self.name} engine does not do the step {step.name}")

    def run(
        self, step: Step, model: str | None, inputs: Mapping[str, Picture], params: Params, report: Report
    ) -> tuple[Picture, EngineInfo]:
        self.load(step, model)
        ask = ask_of(step, inputs, params)
        report(3)
        with translated():
            made, detail = self._make(step, ask, report)
        return finished(ask, made, params), EngineInfo(self.name, "1", is_neural=True, detail=detail)

    @abstractmethod
    def _make(self, step: Step, ask: Ask, report: Report) -> tuple[Picture, str]:
        """The server's picture, and what made it."""


def up(value: float) -> int:
    return int(-(-value // ALIGN) * ALIGN)


def aligned(width: int, height: int) -> tuple[int, int]:
    return max(64, round(width / ALIGN) * ALIGN), max(64, round(height / ALIGN) * ALIGN)


def fitted(picture: Picture) -> Picture:
    factor = min(1.0, SIDE / max(picture.width, picture.height))
    width, height = aligned(round(picture.width * factor), round(picture.height * factor))
    return Picture(to_pixels(resize(layer(picture.rgb), width, height)))


def png(picture: Picture) -> bytes:
    return encode(picture, "png", 90)


def received(data: bytes) -> Picture:
    """A server's picture is decoded with the limits of an input."""
    try:
        return decode(data, Limits(max_bytes=ANSWER_BYTES))
    except Exception as error:
        raise EngineFailed("the image server's answer is not a picture") from error


def multipart(fields: Mapping[str, str], files: Mapping[str, tuple[str, bytes]]) -> tuple[str, bytes]:
    """The content type and the body of a form with files."""
    border = f"artiway-{uuid4().hex}"
    parts = []
    for name, value in fields.items():
        parts.append(f'--{border}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode())
    for name, (file_name, data) in files.items():
        head = f'--{border}\r\nContent-Disposition: form-data; name="{name}"; filename="{file_name}"\r\n'
        parts.append(f"{head}Content-Type: image/png\r\n\r\n".encode() + data + b"\r\n")
    parts.append(f"--{border}--\r\n".encode())
    return f"multipart/form-data; boundary={border}", b"".join(parts)


def client_of(url: str) -> Client:
    """The one outbound client; of private addresses it may call the operator's server alone."""
    scheme, _, rest = url.partition("://")
    authority = rest.partition("/")[0]
    if ":" not in authority.rpartition("]")[2]:
        authority += ":443" if scheme == "https" else ":80"
    found = Client(allowed=parse_targets(authority), ports=frozenset())
    found.check(url)
    return found


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """What the operator must repair is final; what may pass is tried again."""
    try:
        yield
    except (TargetRefused, RequestRefused) as error:
        raise EngineNotInstalled(f"the image server cannot be called: {error.reason}") from error
    except OutboundError as error:
        raise EngineBusy(f"the image server did not answer: {error.reason}") from error


def checked(answer: Answer, what: str) -> Answer:
    if answer.status in (408, 409, 425, 429) or answer.status >= 500:
        raise EngineBusy(f"the image server answered {answer.status} to {what}")
    if answer.status >= 300:
        raise EngineNotInstalled(f"the image server refused {what} ({answer.status}): {reason_of(answer)}")
    return answer


def reason_of(answer: Answer) -> str:
    return answer.body[:200].decode("utf-8", "replace")
