"""Sends a step to a server with the OpenAI images API: `POST /images/edits`, a form with picture, mask and prompt."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from artiway.platform.outbound import Answer
from worker.engines.ask import ANSWER_BYTES, Ask, ServerEngine, checked, multipart, png, received
from worker.engines.base import Report
from worker.errors import EngineFailed
from worker.pictures import Picture
from worker.steps import IMAGES_API_STEPS, Step

CALL_S, CONNECT_S, WATCH_S = 600.0, 10.0, 0.25
SIZES = ((1024, 1024), (1536, 1024), (1024, 1536))


@dataclass(frozen=True)
class ImagesSettings:
    """`url` ends before `/images/edits`, as in `https://api.example/v1`."""

    url: str = ""
    key: str = field(default="", repr=False)
    model: str = "gpt-image-1"


class ImagesEngine(ServerEngine):
    name = "images_api"
    address_variable = "ARTIWAY_IMAGES_API_URL"
    steps = frozenset(IMAGES_API_STEPS)

    def __init__(self, settings: ImagesSettings) -> None:
        super().__init__(settings.url)
        self._settings = settings

    def _make(self, step: Step, ask: Ask, report: Report) -> tuple[Picture, str]:
        kind, body = form_of(ask, self._settings.model)
        headers = {"Content-Type": kind}
        if self._settings.key:
            headers["Authorization"] = f"Bearer {self._settings.key}"
        answer = self._post(body, headers, report)
        made = picture_of(checked(answer, "/images/edits").body)
        report(92)
        return made, f"model {self._settings.model} of the operator's images API"

    def _post(self, body: bytes, headers: Mapping[str, str], report: Report) -> Answer:
        with self._client.exchange(
            "POST",
            f"{self._url}/images/edits",
            deadline_s=CALL_S,
            connect_s=CONNECT_S,
            headers=headers,
            body=body,
            answer_bytes=ANSWER_BYTES,
        ) as exchange:
            percent = 8.0
            while not exchange.has_begun(WATCH_S):
                percent += (85 - percent) * 0.02
                report(percent)  # raises when the attempt is to stop, which closes the connection
            response = exchange.response()
            return Answer(response.status, response.headers, response.read())


def form_of(ask: Ask, model: str) -> tuple[str, bytes]:
    """In this API a mask is transparent where the picture changes."""
    assert ask.picture is not None
    picture, mask = ask.picture, ask.mask
    if any(ask.sides):
        left, right, top, bottom = ask.sides
        room = ((top, bottom), (left, right))
        kept = np.pad(np.full(picture.rgb.shape[:2], 255, np.uint8), room)
        picture = Picture(np.pad(picture.rgb, (*room, (0, 0)), mode="edge"))
        mask = np.asarray(255 - kept, np.uint8)
    ratio = picture.width / picture.height
    width, height = min(SIZES, key=lambda size: abs(np.log(size[0] / size[1] / ratio)))
    files = {"image": ("image.png", png(picture))}
    if mask is not None:
        files["mask"] = ("mask.png", png(Picture(picture.rgb, np.asarray(255 - mask, np.uint8))))
    fields = {"model": model, "prompt": ask.prompt[:1_000], "n": "1", "size": f"{width}x{height}"}
    return multipart(fields, files)


def picture_of(body: bytes) -> Picture:
    try:
        text = json.loads(body)["data"][0]["b64_json"]
        data = base64.b64decode(text, validate=True)
    except (ValueError, KeyError, IndexError, TypeError, binascii.Error) as error:
        raise EngineFailed("the images API's answer has no picture") from error
    return received(data)
