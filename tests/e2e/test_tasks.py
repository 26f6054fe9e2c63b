"""Tasks end to end: real workers on the running stack, and a client that uses the public API only."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import aiohttp
import boto3
import pytest
from botocore.exceptions import ClientError

from local import photos
from local.emulator import client
from local.lambdas import REGION
from local.shop import Person, Refused
from local.workers import physical_ids
from tests.e2e.studio import POINTS, Studio, ended, ledger, until

PHOTO = photos.shirt(photos.BLUE, side=240)
LARGE_PHOTO = photos.shirt(photos.RED, side=700)
CHANGES = {"queued", "started", "completed", "failed", "cancelled", "settled"}


class Events:
    """Follows a task as a client does that loses its connection after every few events, and sends the last event id."""

    def __init__(self, person: Person, task_id: str, *, events_per_answer: int = 4) -> None:
        self._person, self._task_id, self._most = person, task_id, events_per_answer
        self.last_id = ""
        self.answers = 0

    async def follow(self) -> AsyncIterator[tuple[str, str, dict[str, Any]]]:
        url = f"{self._person.platform.facts['apiUrl']}/tasks/{self._task_id}/events"
        while True:
            headers = {"authorization": f"Bearer {self._person.token}"}
            if self.last_id:
                headers["last-event-id"] = self.last_id
            async with self._person.platform.session.get(url, headers=headers) as answer:
                assert (answer.status, answer.content_type) == (200, "text/event-stream")
                self.answers += 1
                received = 0
                while received < self._most and (block := await answer.content.readuntil(b"\n\n")):
                    if not block.startswith(b"id:"):
                        continue
                    fields = dict(line.split(": ", 1) for line in block.decode().splitlines() if line)
                    self.last_id = fields["id"]
                    received += 1
                    yield fields["id"], fields["event"], json.loads(fields["data"])
                    if fields["event"] == "settled":
                        return


Change = tuple[int, str, str | None]


class SocketClient:
    """Receives events over a WebSocket. After a close it reconnects with the cursor of its last event."""

    def __init__(self, person: Person) -> None:
        self._person = person
        self._received: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._cursor = ""
        self.sockets = 0
        self.is_greeted = asyncio.Event()

    async def listen(self) -> None:
        while True:
            url = f"{self._person.platform.facts['wsUrl']}?token={self._person.token}"
            if self._cursor:
                url += f"&after={self._cursor}"
            async with self._person.platform.session.ws_connect(url) as socket:
                self._socket = socket
                self.sockets += 1
                async for message in socket:
                    body = message.json()
                    self._cursor = body.get("cursor", self._cursor)
                    if body["type"] == "connected":
                        self.is_greeted.set()
                    else:
                        self._received.put_nowait(body)

    async def disconnect(self) -> None:
        assert self._socket is not None
        await self._socket.close()

    async def change(self, task_id: str) -> Change:
        """The next change of state, in the form of the server-sent events."""
        async with asyncio.timeout(90):
            while (message := await self._received.get())["type"] == "task.progress":
                pass
        assert message["taskId"] == task_id
        return message["sequence"], message["type"].removeprefix("task."), message.get("node")

    async def is_quiet(self, person: Person) -> bool:
        """Whether no more events arrive: earlier events arrive before the next event of the same user."""
        last = await person.submit("cutout", {"product": await person.upload(PHOTO)})
        assert await self.change(last["taskId"]) == (1, "queued", None)
        return True


@contextlib.asynccontextmanager
async def connected(person: Person) -> AsyncIterator[SocketClient]:
    """A client whose socket is open."""
    client = SocketClient(person)
    listener = asyncio.create_task(client.listen())
    try:
        await asyncio.wait_for(client.is_greeted.wait(), 60)
        yield client
    finally:
        listener.cancel()


def test_task_delivers_pictures_and_charges_once(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        product = await person.upload(PHOTO)
        key, body = uuid4().hex, {"tool": "model_photo", "inputs": {"product": product}, "count": 2}
        task = await person.call("POST", "/tasks", body, key=key)
        assert task["pricePoints"] == 20
        assert await person.call("GET", "/points") == {"balance": POINTS - 20, "frozen": 20}
        assert await person.call("POST", "/tasks", body, key=key) == task

        view = await ended(person, task["taskId"])
        assert (view["status"], view["progress"], view["chargedPoints"]) == ("COMPLETED", 100, 20)
        assert {node["name"]: node["dependsOn"] for node in view["nodes"]} == {
            "cutout": [],
            "model_1": ["cutout"],
            "model_2": ["cutout"],
            "compose_1": ["model_1"],
            "compose_2": ["model_2"],
        }
        assert {(node["status"], node["engine"]["isNeural"]) for node in view["nodes"]} == {("COMPLETED", False)}
        pictures = [await person.fetch(result["url"]) for result in view["results"]]
        sizes = [struct.unpack(">II", picture[16:24]) for picture in pictures]
        assert sizes == [(result["width"], result["height"]) for result in view["results"]] == [(960, 1280)] * 2
        assert pictures[0] != pictures[1]
        with pytest.raises(Refused) as late:
            await person.call("POST", f"/tasks/{task['taskId']}/cancel")
        assert (late.value.status, late.value.body["code"]) == (409, "TASK_409_ENDED")
        assert await ledger(person) == [("GIFT", POINTS, 0), ("FREEZE", -20, 20), ("CONFIRM", 0, -20)]

    studio.run(scenario)


def test_key_of_workers_reads_no_picture(studio: Studio) -> None:
    """They made pictures, so they had addresses."""
    aws_url = studio.stack.facts["awsUrl"]
    own = boto3.Session("worker", "worker", region_name=REGION).client("s3", endpoint_url=aws_url)
    bucket = physical_ids(aws_url)["DataArtefactBucket"]

    async def scenario(person: Person) -> None:
        task = await person.submit("cutout", {"product": await person.upload(PHOTO)})
        assert (await ended(person, task["taskId"]))["status"] == "COMPLETED"

    studio.run(scenario)
    stored = client("s3", aws_url).list_objects_v2(Bucket=bucket)["Contents"]
    # Other files of this process may have archived runs there.
    assert {found["Key"].partition("/")[0] for found in stored} - {"archive"} == {"inputs", "outputs"}
    for found in stored:
        with pytest.raises(ClientError, match="AccessDenied"):
            own.get_object(Bucket=bucket, Key=found["Key"])
    with pytest.raises(ClientError, match="AccessDenied"):
        own.put_object(Bucket=bucket, Key=stored[0]["Key"], Body=b"forged")


def changes_of(events: list[tuple[str, str, dict[str, Any]]]) -> list[Change]:
    return [(body["sequence"], event, body.get("node")) for _, event, body in events if event in CHANGES]


def test_events_and_websocket_deliver_each_change_once(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        product = await person.upload(PHOTO)
        wanted = {"tool": "background", "inputs": {"product": product}, "count": 2}
        lane = (await person.call("POST", "/tasks/estimate", wanted))["lane"]
        administrator = await person.platform.administrator()
        async with connected(person) as client:
            # The lane is paused, so the first event arrives while the task waits: the answer is a stream.
            await administrator.call("POST", f"/ops/lanes/{lane}/pause")
            task = await person.call("POST", "/tasks", wanted, key=uuid4().hex)
            stream = Events(person, task["taskId"])
            following = stream.follow()
            received = [await anext(following)]
            await administrator.call("POST", f"/ops/lanes/{lane}/resume")
            received += [event async for event in following]
            changes = changes_of(received)
            assert [await client.change(task["taskId"]) for _ in changes] == changes
            assert await client.is_quiet(person)

        assert stream.answers > 1
        ids = [tuple(map(int, place.split("-"))) for place, _, _ in received]
        assert ids == sorted(set(ids))
        assert [sequence for sequence, _, _ in changes] == list(range(1, len(changes) + 1))
        assert changes[0][1:] == ("queued", None)
        assert [change[1:] for change in changes[-2:]] == [("completed", None), ("settled", None)]
        for node in ("cutout", "compose_1", "compose_2"):
            assert [event for _, event, name in changes if name == node] == ["started", "completed"]

        again = Events(person, task["taskId"])
        again.last_id = received[len(received) // 2][0]
        assert [event async for event in again.follow()] == received[len(received) // 2 + 1 :]

    studio.run(scenario)


def test_websocket_continues_after_breaks_and_killed_senders(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        product = await person.upload(PHOTO)
        async with connected(person) as client:
            task = await person.submit("background", {"product": product}, count=2)
            pushed: list[Change] = []
            killed = 0
            while not pushed or pushed[-1][1] != "settled":
                pushed.append(await client.change(task["taskId"]))
                if len(pushed) in {2, 6}:
                    await client.disconnect()
                if len(pushed) == 4:
                    killed = studio.kill_sandboxes_of("push")
            assert await client.is_quiet(person)
        received = [event async for event in Events(person, task["taskId"]).follow()]
        assert pushed == changes_of(received)
        assert [sequence for sequence, _, _ in pushed] == list(range(1, len(pushed) + 1))
        assert killed > 0
        assert client.sockets > 1

    studio.run(scenario)


def test_cancel_releases_points_of_undelivered_results(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        product = await person.upload(PHOTO)
        task = await person.submit("outfit_poses", {"product": product}, count=8)
        await until(person, task["taskId"], lambda view: any(n["status"] == "PROCESSING" for n in view["nodes"]))
        await person.call("POST", f"/tasks/{task['taskId']}/cancel")
        view = await ended(person, task["taskId"])
        assert view["status"] == "CANCELLED"
        assert {node["status"] for node in view["nodes"]} <= {"CANCELLED", "COMPLETED"}
        assert view["chargedPoints"] == 10 * len(view["results"]) < 80
        balance = POINTS - view["chargedPoints"]
        assert await person.call("GET", "/points") == {"balance": balance, "frozen": 0}
        again = await person.call("POST", f"/tasks/{task['taskId']}/cancel")
        assert again == {"taskId": task["taskId"], "status": "CANCELLED"}

    studio.run(scenario)


def test_killed_worker_costs_one_attempt(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        product = await person.upload(LARGE_PHOTO)
        task = await person.submit("upscale", {"product_1": product}, params={"scale": 4})
        await until(person, task["taskId"], lambda view: view["nodes"][0]["status"] == "PROCESSING")
        studio.kill_worker_of("hd_fix")
        view = await ended(person, task["taskId"])
        assert (view["status"], view["chargedPoints"], len(view["results"])) == ("COMPLETED", 6, 1)
        assert view["nodes"][0]["attempt"] == 2
        assert await ledger(person) == [("GIFT", POINTS, 0), ("FREEZE", -6, 6), ("CONFIRM", 0, -6)]

    studio.run(scenario)
