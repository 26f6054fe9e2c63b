"""Pictures through the whole stack: upload, lane, real recognition, schema, chain, settlement."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest
from PIL import Image

from local.stack import Stack
from local.text_model import PICTURES, TextModel
from tests.e2e.conftest import PICTURE_PORT, Platform, wait_for
from tests.e2e.people import Answer
from tests.e2e.test_generations import Writer
from tests.labels import LINES, broken, photograph

ROUNDS = 6


class Seller(Writer):
    """A user who uploads pictures, and who waits as the tenant's rate limit asks for."""

    def __init__(self, platform: Platform, *, points: int) -> None:
        super().__init__(platform, points=points)
        send = self.client.call

        def patient(*args: Any, **more: Any) -> Answer:
            def answered() -> Answer | None:
                answer = send(*args, **more)
                is_limited = answer.status == 429 and answer.body["code"] == "RATE_429_LIMITED"
                if is_limited:
                    time.sleep(0.5)
                return None if is_limited else answer

            return wait_for(answered, seconds=60)

        self.client.call = patient  # type: ignore[method-assign]

    def upload(self, picture: bytes, kind: str = "image/jpeg") -> str:
        ticket = self.call("POST", "/uploads", {"contentType": kind, "bytes": len(picture)})
        headers = dict(ticket["headers"])
        with urlopen(Request(ticket["url"], picture, headers, method=ticket["method"]), timeout=30) as answer:
            assert answer.status == 200
        return str(ticket["inputId"])

    def ask(self, service: str, input_id: str, **more: Any) -> Answer:
        body = {"service": service, "input": {"inputId": input_id}, **more}
        headers = {"idempotency-key": uuid4().hex}
        return self.client.call("POST", "/generations", body, token=self.token, headers=headers)

    def asked(self, service: str, input_id: str, **more: Any) -> dict[str, Any]:
        answer = self.ask(service, input_id, **more)
        assert answer.status == 202, answer
        return dict(answer.body)


@pytest.fixture(scope="module")
def reader(stack: Stack) -> Iterator[TextModel]:
    model = TextModel(stack.home, PICTURES)
    model.start(PICTURE_PORT)
    try:
        assert model.wait_until_ready(180)
        yield model
    finally:
        model.stop()


@pytest.fixture
def seller(platform: Platform, reader: TextModel) -> Iterator[Seller]:
    made = Seller(platform, points=100)
    with contextlib.closing(made.client):
        yield made


def test_printed_label_is_given_back(seller: Seller) -> None:
    made = seller.asked("image_tags", seller.upload(photograph()))
    assert (made["queueId"], made["status"], made["hint"]) == ("paid_vision", "QUEUED", None)
    ended = seller.ended(made["generationId"])
    assert ended["status"] == "COMPLETED", ended
    assert ended["result"]["text"].splitlines() == list(LINES)
    assert "white" in ended["result"]["colours"]
    assert {"square", "organic", "plain white background"} <= set(ended["result"]["tags"])
    assert (ended["modelId"], ended["usageSource"]) == ("ppocr-v6", "provider")
    assert 0 < ended["chargedPoints"] <= ended["pricePoints"]
    assert seller.points() == (100 - ended["chargedPoints"], 0)


def test_picture_without_text_has_none(seller: Seller) -> None:
    large = Image.open(io.BytesIO(photograph((), name="shirt"))).resize((2_600, 2_600))
    output = io.BytesIO()
    large.save(output, "PNG")
    ended = seller.ended(seller.asked("image_tags", seller.upload(output.getvalue(), "image/png"))["generationId"])
    assert (ended["status"], ended["result"]["text"]) == ("COMPLETED", "")
    assert "no text" in ended["result"]["tags"]


def test_chain_reads_then_writes_with_one_bill(seller: Seller) -> None:
    made = seller.asked("listing", seller.upload(photograph()), maxTokens=20)
    assert made["status"] == "PENDING_OCR"
    assert made["hint"] == {"dependency": "image_tags", "next": ["STREAMING", "COMPLETED"]}
    ended = seller.ended(made["generationId"])
    assert (ended["status"], ended["queueId"]) == ("COMPLETED", "paid_stream"), ended
    first, second = ended["stages"]
    assert (first["service"], first["status"], second["status"]) == ("image_tags", "COMPLETED", "COMPLETED")
    assert first["result"]["text"].splitlines() == list(LINES)
    assert ended["usage"]["inputTokens"] > first["usage"]["inputTokens"]
    assert ended["usage"]["outputTokens"] == first["usage"]["outputTokens"] + 20
    assert seller.points() == (100 - ended["chargedPoints"], 0)
    answer = seller.client.call("GET", f"/generations/{made['generationId']}/events", token=seller.token)
    assert answer.body.count("event: done") == 1


def test_unreadable_picture_fails_the_chain_unpaid(seller: Seller) -> None:
    made = seller.asked("listing", seller.upload(broken()))
    ended = seller.ended(made["generationId"])
    assert (ended["status"], ended["error"]["code"]) == ("FAILED", "GEN_422_PICTURE")
    assert ended["error"]["message"] == "image_tags failed: the picture cannot be read: it is broken or incomplete"
    assert [(one["service"], one["status"]) for one in ended["stages"]] == [
        ("image_tags", "FAILED"),
        ("listing", "FAILED"),
    ]
    assert {one["error"]["code"] for one in ended["stages"]} == {"GEN_422_PICTURE"}
    assert (ended["chargedPoints"], seller.points()) == (0, (100, 0))
    answer = seller.client.call("GET", f"/generations/{made['generationId']}/events", token=seller.token)
    assert answer.body.count("event: error") == 1


def test_wrong_pictures_are_refused(platform: Platform, seller: Seller) -> None:
    with contextlib.closing((other := Seller(platform, points=0)).client):
        foreign = other.upload(photograph())
    huge = io.BytesIO()
    Image.new("1", (12_001, 10)).save(huge, "PNG")
    cases = {
        foreign: (404, "UPLOAD_404_NO_INPUT"),
        f"inp_{uuid4().hex}": (404, "UPLOAD_404_NO_INPUT"),
        "not-an-id": (404, "UPLOAD_404_NO_INPUT"),
        seller.upload(huge.getvalue(), "image/png"): (422, "UPLOAD_422_NOT_A_PICTURE"),
        seller.upload(b"GIF89a" + b"0" * 100): (422, "UPLOAD_422_NOT_A_PICTURE"),
    }
    for service in ("image_tags", "listing"):
        for input_id, expected in cases.items():
            answer = seller.ask(service, input_id)
            assert (answer.status, answer.body["code"]) == expected
    assert seller.points() == (100, 0)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_pictures_are_read_at_once_by_parallelism(seller: Seller, parallelism: int) -> None:
    """By the recorded times. One pair may miss each other while a second function starts, several pairs do not."""
    picture = seller.upload(photograph())
    seller.operate("PATCH", "/ops/lanes/paid_vision", {"parallelism": parallelism})
    overlaps = 0
    try:
        for _ in range(ROUNDS if parallelism == 2 else 1):
            made = [seller.asked("image_tags", picture)["generationId"] for _ in range(2)]
            first, second = (seller.ended(one) for one in made)
            assert {first["status"], second["status"]} == {"COMPLETED"}
            overlaps += max(first["startedAt"], second["startedAt"]) < min(first["endedAt"], second["endedAt"])
            if overlaps:
                break
    finally:
        seller.operate("PATCH", "/ops/lanes/paid_vision", {"parallelism": None})
    assert (overlaps > 0) == (parallelism == 2)
