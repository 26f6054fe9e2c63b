"""Texts through the whole stack: API, lanes, worker, stand-in provider, settlement."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.e2e.conftest import Platform, wait_for
from tests.e2e.people import Client

ENDS = {"COMPLETED", "FAILED", "CANCELLED"}


class Writer:
    """A user of the stack who asks for texts."""

    def __init__(self, platform: Platform, *, points: int) -> None:
        self.client = Client(platform.facts["apiUrl"])
        self.token = self.client.register()["token"]
        admin = platform.facts["admin"]
        login = self.client.call("POST", "/auth/login", {"login": admin["login"], "password": admin["password"]})
        self._admin = login.body["accessToken"]
        if points:
            user_id = self.call("GET", "/me")["userId"]
            grant = {"userId": user_id, "amount": points, "reason": "test"}
            self.operate("POST", "/points/grants", grant, headers={"idempotency-key": uuid4().hex})

    def call(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """As every client does, again when the rate of a free tenant allows it."""
        answer = self.client.call(method, path, body, token=self.token, **more)
        while answer.status == 429 and answer.body["code"] == "RATE_429_LIMITED":
            time.sleep(float(answer.headers["retry-after"]))
            answer = self.client.call(method, path, body, token=self.token, **more)
        assert answer.status < 300, answer
        return answer.body

    def operate(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        answer = self.client.call(method, path, body, token=self._admin, **more)
        assert answer.status < 300, answer
        return answer.body

    def submit(self, scene: str, *, words: int = 10, **more: Any) -> str:
        body = {"service": "copywriting", "input": {"text": f"a dress scene={scene}"}, "maxTokens": words, **more}
        made = self.call("POST", "/generations", body, headers={"idempotency-key": uuid4().hex})
        return str(made["generationId"])

    def get(self, generation_id: str) -> Any:
        return self.call("GET", f"/generations/{generation_id}")

    def ended(self, generation_id: str) -> Any:
        def poll() -> Any:
            time.sleep(0.25)  # below the rate of a free tenant
            found = self.get(generation_id)
            return found if found["status"] in ENDS else None

        return wait_for(poll, seconds=90)

    def lane(self, name: str) -> Any:
        return next(one for one in self.operate("GET", "/ops/lanes")["items"] if one["lane"] == name)

    def points(self) -> tuple[int, int]:
        found = self.call("GET", "/points")
        return found["balance"], found["frozen"]


@pytest.fixture
def writer(platform: Platform) -> Iterator[Writer]:
    made = Writer(platform, points=100)
    with contextlib.closing(made.client):
        yield made


def test_structured_service_answers_with_its_result(writer: Writer) -> None:
    body = {"service": "title", "input": {"text": "a red cotton dress"}}
    made = writer.call("POST", "/generations", body, headers={"idempotency-key": uuid4().hex})
    assert made["queueId"] == "paid_batch"
    ended = writer.ended(made["generationId"])
    assert ended["status"] == "COMPLETED", ended
    assert ended["result"].keys() == {"title", "keywords"}
    assert json.loads(ended["text"]) == ended["result"]
    assert writer.points() == (100 - ended["chargedPoints"], 0)


def test_margin_report_has_what_the_ledger_has(writer: Writer) -> None:
    """A whole text, a cancelled and a failed one: what was charged, and what the provider counted."""
    whole = writer.ended(writer.submit("healthy"))
    cancelled = writer.submit("steady-5", words=100)
    wait_for(lambda: writer.get(cancelled)["text"], seconds=30)
    writer.call("POST", f"/generations/{cancelled}/cancel")
    stopped, failed = writer.ended(cancelled), writer.ended(writer.submit("status_400"))
    assert failed["status"] == "FAILED"
    tenant_id = writer.call("GET", "/me")["tenantId"]
    found = writer.operate("GET", f"/ops/margins?groupBy=user,model&tenantId={tenant_id}")
    (line,) = found["items"]
    assert (line["completed"], line["cancelled"], line["failed"], line["calls"]) == (1, 1, 1, 3)
    assert line["model"] == f"{whole['provider']}/{whole['modelId']}"
    entries = writer.call("GET", "/points/ledger?kind=CONFIRM")["items"]
    assert (
        line["chargedPoints"]
        == -sum(one["balanceDelta"] + one["frozenDelta"] for one in entries)
        == 100 - writer.points()[0]
    )
    for name in ("inputTokens", "outputTokens"):
        assert line[name] == whole["usage"][name] + stopped["usage"][name]
    assert line["estimatedTokens"] == sum(stopped["usage"].values())
    assert found["total"]["chargedPoints"] == line["chargedPoints"]
    refused = writer.client.call("GET", "/ops/margins", token=writer.token)
    assert (refused.status, refused.body["code"]) == (403, "AUTH_403_FORBIDDEN")


def test_text_models_are_limited_by_operators(writer: Writer) -> None:
    writer.ended(writer.submit("healthy"))
    models = {one["model"]: one for one in writer.operate("GET", "/ops/models")["items"]}
    name = next(name for name in models if ":" in name)
    assert "copywriting" in models[name]["services"]
    writer.operate("PUT", f"/ops/models/{name}", {"limit": 0})
    try:
        waiting = writer.submit("healthy")
        wait_for(lambda: writer.lane("paid_stream")["depth"] >= 1, seconds=30)
        assert writer.get(waiting)["status"] == "QUEUED"
    finally:
        writer.operate("PUT", f"/ops/models/{name}", {"limit": None})
    assert writer.ended(waiting)["status"] == "COMPLETED"


def test_texts_with_parallelism_one_run_in_turn(writer: Writer) -> None:
    writer.operate("PATCH", "/ops/lanes/paid_stream", {"parallelism": 1})
    try:
        made = [writer.submit("steady-20") for _ in range(3)]
        found = sorted((writer.ended(one) for one in made), key=lambda one: one["startedAt"])
    finally:
        writer.operate("PATCH", "/ops/lanes/paid_stream", {"parallelism": None})
    assert {one["status"] for one in found} == {"COMPLETED"}
    for before, after in itertools.pairwise(found):
        assert before["endedAt"] <= after["startedAt"]
    lane = writer.lane("paid_stream")
    assert (lane["depth"], lane["running"]) == (0, 0)


def test_texts_with_parallelism_two_overlap(writer: Writer) -> None:
    writer.operate("PATCH", "/ops/lanes/paid_stream", {"parallelism": 2})
    try:
        made = [writer.submit("steady-20", words=160) for _ in range(2)]
        first, second = (writer.ended(one) for one in made)
    finally:
        writer.operate("PATCH", "/ops/lanes/paid_stream", {"parallelism": None})
    assert max(first["startedAt"], second["startedAt"]) < min(first["endedAt"], second["endedAt"])
    lane = writer.lane("paid_stream")
    assert (lane["depth"], lane["running"]) == (0, 0)


def test_paid_and_free_texts_use_their_lanes(platform: Platform, writer: Writer) -> None:
    free = Writer(platform, points=0)
    with contextlib.closing(free.client):
        for who, lane in ((writer, "paid_stream"), (free, "free_stream")):
            made = who.submit("healthy")
            done = who.ended(made)
            assert (done["status"], done["queueId"], done["isFree"]) == ("COMPLETED", lane, lane == "free_stream")
            answer = who.client.call("GET", f"/generations/{made}/events", token=who.token)
            assert f'"queueId":"{lane}"' in answer.body
            assert answer.body.count("event: done") == 1


def test_points_are_held_then_charged_for_use(writer: Writer) -> None:
    writer.operate("POST", "/ops/lanes/paid_stream/pause")
    try:
        made = writer.submit("healthy", words=2_000)
        balance, frozen = writer.points()
        assert (balance + frozen, frozen) == (100, writer.get(made)["pricePoints"])
        assert writer.get(made)["status"] == "QUEUED"
        assert writer.lane("paid_stream")["depth"] >= 1
    finally:
        writer.operate("POST", "/ops/lanes/paid_stream/resume")
    done = writer.ended(made)
    assert done["usageSource"] == "provider"
    assert 0 < done["chargedPoints"] <= done["pricePoints"]
    assert writer.points() == (100 - done["chargedPoints"], 0)


@pytest.mark.parametrize(("scene", "code"), [("status_401", "GEN_401_PROVIDER_KEY")])
def test_refused_key_fails_and_releases_points(writer: Writer, scene: str, code: str) -> None:
    made = writer.submit(scene)
    failed = writer.ended(made)
    assert (failed["status"], failed["error"]["code"], failed["chargedPoints"]) == ("FAILED", code, 0)
    assert writer.points() == (100, 0)
    answer = writer.client.call("GET", f"/generations/{made}/events", token=writer.token)
    assert answer.body.count("event: error") == 1


def test_cancel_stops_the_provider_and_charges_delivery(writer: Writer) -> None:
    made = writer.submit("steady-10", words=1_000)
    wait_for(lambda: writer.get(made)["status"] == "RUNNING", seconds=60)
    time.sleep(1)
    writer.call("POST", f"/generations/{made}/cancel")
    stopped = writer.ended(made)
    assert (stopped["status"], stopped["usageSource"]) == ("CANCELLED", "estimated")
    assert len(stopped["text"]) > 0
    assert writer.points() == (100 - stopped["chargedPoints"], 0)


def test_operators_find_cancel_and_retry_texts(writer: Writer) -> None:
    failed = writer.submit("status_401")
    writer.ended(failed)
    listed = writer.operate("GET", "/ops/generations?status=FAILED")["items"]
    assert failed in {one["generationId"] for one in listed}
    unknown = f"gen_{uuid4().hex}"
    retried = writer.operate("POST", "/ops/generations/retry", {"ids": [failed, unknown]})["results"]
    assert [one["errorCode"] for one in retried] == [None, "GEN_404_UNKNOWN"]
    assert retried[0]["generationId"] != failed
    cancelled = writer.operate("POST", "/ops/generations/cancel", {"ids": [failed]})["results"]
    assert cancelled[0]["errorCode"] == "GEN_409_ENDED"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"service": "poetry", "input": {"text": "x"}}, 404),
        ({"service": "copywriting", "input": {}}, 422),
        ({"service": "copywriting", "input": {"text": "x" * 100_000}}, 422),
        ({"service": "copywriting", "input": {"text": "x"}, "maxTokens": 100_000}, 422),
        ({"service": "copywriting", "input": {"text": "x"}, "lane": "paid_batch"}, 422),
        ({"service": "copywriting", "input": {"text": "x"}, "colour": 1}, 422),
    ],
)
def test_bad_requests_are_refused(writer: Writer, body: Any, status: int) -> None:
    headers = {"idempotency-key": uuid4().hex}
    answer = writer.client.call("POST", "/generations", body, token=writer.token, headers=headers)
    assert answer.status == status, answer
    assert writer.points() == (100, 0)


def test_full_lane_is_429_without_a_hold(writer: Writer) -> None:
    writer.operate("PATCH", "/ops/lanes/paid_stream", {"limit": 0})
    try:
        body = {"service": "copywriting", "input": {"text": "x"}}
        headers = {"idempotency-key": uuid4().hex}
        answer = writer.client.call("POST", "/generations", body, token=writer.token, headers=headers)
    finally:
        writer.operate("PATCH", "/ops/lanes/paid_stream", {"limit": None})
    assert (answer.status, answer.body["code"]) == (429, "GEN_429_LANE_FULL")
    assert int(answer.headers["retry-after"]) > 0
    assert writer.points() == (100, 0)
