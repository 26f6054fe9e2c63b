"""Whatever a client sends, on the running stack: a right picture or a documented refusal, never a hold left behind."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from local import photos
from local.shop import Person, Refused
from local.workers import PYTHON, ROOT
from tests.e2e.conftest import folder
from tests.e2e.studio import POINTS, Studio, ended, ledger

CONTENT_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp"}
PHOTO = photos.shirt(photos.BLUE, side=64)
RED, BLUE = (200, 30, 30), (30, 30, 200)
DEEP = 20_000

GOOD = ["plain.png", "palette.png", "deep.png", "polyglot.png", "turned.jpg", "print.jpg", "progressive.jpg",
        "profile.jpg", "lossless.webp", "lossy.webp"]  # fmt: skip
REFUSED = ["vector.png", "page.png", "loop.png", "bitmap.png", "scan.png", "paper.png", "zeros.png", "byte.png",
           "magic.png", "wide.png", "flat.png", "none.png", "huge.jpg", "long.jpg", "magic.jpg", "headless.jpg",
           "huge.webp", "chunkless.webp", "actually-jpeg.png", "actually-png.webp"]  # fmt: skip
FAILING = {
    "torn.png": "INPUT_UNDECODABLE",
    "torn.jpg": "INPUT_UNDECODABLE",
    "torn.webp": "INPUT_UNDECODABLE",
    "noise.png": "INPUT_UNDECODABLE",
    "bomb.png": "INPUT_UNDECODABLE",
    "text-bomb.png": "INPUT_UNDECODABLE",
    "dot.png": "INPUT_UNDECODABLE",
    "film.png": "INPUT_ANIMATED",
    "film.webp": "INPUT_ANIMATED",
}


def odd_pictures(*arguments: str) -> str:
    """Asks the worker's environment, which can draw and look."""
    command = [str(PYTHON), "-m", "tests.worker.odd_pictures", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


class Shelf:
    """Every odd picture, sent in once, and what became of it."""

    def __init__(self, place: Path, studio: Studio) -> None:
        self._place = place
        self.refusals: dict[str, Refused] = {}
        self.views: dict[str, dict[str, Any]] = {}
        self.seen: dict[str, dict[str, Any]] = {}
        self.points: dict[str, int] = {}
        self.ledger: list[tuple[str, int, int]] = []
        odd_pictures("make", str(place / "in"))
        self.names = {kind.name: {file.name for file in kind.iterdir()} for kind in (place / "in").iterdir()}
        studio.run(self._send_all)

    async def _send_all(self, person: Person) -> None:
        tasks: dict[str, str] = {}
        for file in sorted((self._place / "in").rglob("*.*")):
            try:
                product = await person.upload(file.read_bytes(), content_type=CONTENT_TYPES[file.suffix])
                tasks[file.name] = (await person.submit("batch_convert", {"product_1": product}))["taskId"]
            except Refused as refusal:
                self.refusals[file.name] = refusal
        for name, task_id in tasks.items():
            self.views[name] = await ended(person, task_id)
            for result in self.views[name]["results"]:
                (self._place / f"{name}.out").write_bytes(await person.fetch(result["url"]))
        made = sorted(self._place.glob("*.out"))
        looks = json.loads(odd_pictures("look", *map(str, made)))
        self.seen = {file.stem: look for file, look in zip(made, looks, strict=True)}
        self.points, self.ledger = await person.call("GET", "/points"), await ledger(person)


@pytest.fixture(scope="module")
def shelf(studio: Studio) -> Iterator[Shelf]:
    with folder() as place:
        yield Shelf(place, studio)


def near(color: list[int], wanted: tuple[int, int, int]) -> bool:
    return all(abs(found - value) < 12 for found, value in zip(color, wanted, strict=True))


def test_every_odd_picture_is_in_a_test(shelf: Shelf) -> None:
    assert shelf.names == {"good": set(GOOD), "refused": set(REFUSED), "failing": set(FAILING)}


@pytest.mark.parametrize("name", GOOD)
def test_unusual_picture_keeps_orientation_and_colours(shelf: Shelf, name: str) -> None:
    assert shelf.views[name]["status"] == "COMPLETED"
    seen = shelf.seen[name]
    assert seen["size"] == [96, 64]
    assert near(seen["topLeft"], RED)
    assert near(seen["bottomRight"], BLUE)


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_file_type_is_refused_before_the_hold(shelf: Shelf, name: str) -> None:
    refusal = shelf.refusals[name]
    assert (refusal.status, refusal.body["code"]) == (422, "UPLOAD_422_NOT_A_PICTURE")


@pytest.mark.parametrize("name", FAILING)
def test_undecodable_file_fails_its_task_without_charge(shelf: Shelf, name: str) -> None:
    view = shelf.views[name]
    (node,) = view["nodes"]
    assert (view["status"], node["status"], node["attempt"]) == ("FAILED", "FAILED", 1)
    assert (view["error"]["code"], view["error"]) == (FAILING[name], node["error"])
    assert (view["results"], view["chargedPoints"]) == ([], 0)


def test_only_delivered_pictures_are_charged(shelf: Shelf) -> None:
    assert shelf.points == {"balance": POINTS - len(GOOD), "frozen": 0}
    kinds = [kind for kind, _, _ in shelf.ledger]
    counts = {kind: kinds.count(kind) for kind in kinds}
    assert counts == {
        "GIFT": 1,
        "FREEZE": len(GOOD) + len(FAILING),
        "CONFIRM": len(GOOD),
        "CANCEL": len(FAILING),
    }


def test_impossible_request_is_refused_before_the_hold(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        product = await person.upload(PHOTO)
        administrator = await person.platform.administrator()
        other = await administrator.open_shop("other", points=1, tier="free")
        foreign = await other.upload(PHOTO)
        short = await person.call("POST", "/uploads", {"contentType": "image/png", "bytes": 1_000})

        def task(**body: Any) -> tuple[str, dict[str, Any]]:
            return "/tasks", {"tool": "cutout", "inputs": {"product": product}, **body}

        def flow(*nodes: dict[str, Any]) -> tuple[str, dict[str, Any]]:
            return "/flows", {"name": "mine", "nodes": nodes}

        def node(name: str, *after: str, **more: Any) -> dict[str, Any]:
            return {"name": name, "type": "cutout", "inputs": {"product": product}, "dependsOn": after, **more}

        invalid = (422, "REQUEST_422_INVALID")
        cases: list[tuple[tuple[str, Any], tuple[int, str]]] = [
            (("/uploads", {"contentType": "image/gif", "bytes": 1_000}), invalid),
            (("/uploads", {"contentType": "image/svg+xml", "bytes": 1_000}), invalid),
            (("/uploads", {"contentType": "image/png", "bytes": 0}), invalid),
            (("/uploads", {"contentType": "image/png", "bytes": 20_000_001}), (422, "UPLOAD_422_NOT_A_PICTURE")),
            (task(inputs={"product": short["inputId"]}), (422, "UPLOAD_422_NOT_UPLOADED")),
            (task(inputs={"product": foreign}), (404, "UPLOAD_404_NO_INPUT")),
            (task(inputs={"product": f"inp_{uuid4().hex}"}), (404, "UPLOAD_404_NO_INPUT")),
            (task(inputs={"product": "../" * 5}), (404, "REQUEST_404_NOT_FOUND")),
            (task(inputs={}), invalid),
            (task(inputs={"product": product, "scene": product}), invalid),
            (task(tool="teleport"), invalid),
            (task(tool="cut\0out"), invalid),
            (task(params={"colour": "red"}), invalid),
            (task(params={"featherPx": 900}), invalid),
            (task(params={"featherPx": float("nan")}), invalid),
            (task(params={"background": "#ffffff\n"}), invalid),
            (task(params={"format": "jpeg"}), invalid),
            (task(params={"format": "jpeg", "background": "transparent"}), invalid),
            (task(tool="scene", params={"prompt": "a\0b"}), invalid),
            (task(tool="scene", params={"prompt": "a\ud800b"}), invalid),
            (task(tool="erase", params={"regions": []}), invalid),
            (task(tool="erase", params={"regions": json.loads("[" * 500 + "]" * 500)}), invalid),
            (task(count=2), invalid),
            (task(webhookUrl="javascript:alert(1)"), invalid),
            (flow(), invalid),
            (flow(node("a", "b"), node("b", "c"), node("c", "a")), (422, "DAG_422_CYCLE")),
            (flow(node("a", inputs={"product": "a.cutout"})), (422, "DAG_422_CYCLE")),
            (flow(node("a"), node("a")), invalid),
            (flow(node("a", "nobody")), invalid),
            (flow(node("a", type="teleport")), invalid),
            (flow(node("a", params={"format": "jpeg"})), invalid),
            (flow(node("a", params={"step": "crop"})), invalid),
            (flow(*(node(f"n{number}") for number in range(501))), invalid),
        ]
        for (path, body), (status, code) in cases:
            with pytest.raises(Refused) as refusal:
                await person.call("POST", path, body, key=uuid4().hex)
            found = (refusal.value.status, refusal.value.body["code"])
            assert found == (status, code), (path, str(body)[:300], refusal.value.body)
        await person.call("POST", *task(params={"format": "jpeg", "background": "white"}), key=uuid4().hex)
        (accepted,) = await person.all_of("/tasks")
        assert (await ended(person, accepted["taskId"]))["status"] == "COMPLETED"
        assert await ledger(person) == [("GIFT", POINTS, 0), ("FREEZE", -2, 2), ("CONFIRM", 0, -2)]

    studio.run(scenario)


def test_malformed_body_is_refused_with_a_message(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        url, session = f"{person.platform.facts['apiUrl']}/tasks", person.platform.session
        bodies = [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe{}", b"[" * DEEP + b"]" * DEEP, b'{"tool": NaN}']
        for body in bodies:
            headers = {
                "authorization": f"Bearer {person.token}",
                "idempotency-key": uuid4().hex,
                "content-type": "application/json",
            }
            async with session.post(url, data=body, headers=headers) as answer:
                assert (answer.status, (await answer.json())["code"]) == (422, "REQUEST_422_INVALID"), body[:40]
        assert await ledger(person) == [("GIFT", POINTS, 0)]

    studio.run(scenario)


def test_upload_of_another_size_than_declared_is_refused(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        ticket = await person.call("POST", "/uploads", {"contentType": "image/png", "bytes": len(PHOTO) + 1})
        headers = {"content-type": "image/png"}
        async with person.platform.session.put(ticket["url"], data=PHOTO, headers=headers) as answer:
            await answer.read()  # AWS refuses it here already, by its signature
        with pytest.raises(Refused) as refusal:
            await person.submit("cutout", {"product": ticket["inputId"]})
        assert refusal.value.status == 422
        assert refusal.value.body["code"] in {"UPLOAD_422_NOT_A_PICTURE", "UPLOAD_422_NOT_UPLOADED"}
        assert await ledger(person) == [("GIFT", POINTS, 0)]

    studio.run(scenario)
