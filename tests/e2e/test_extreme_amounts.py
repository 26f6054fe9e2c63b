"""One tenant makes as many of everything as it can: each list ends at its limit, and other tenants notice nothing.

Lists whose default limit takes too long to reach here (users, sessions, points lots) are held in
tests/integration/identity/test_limits.py and tests/integration/payments/test_bodies_and_limits.py with a small one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest

from tests.e2e.conftest import Platform
from tests.e2e.people import Client

ROOT = Path(__file__).parents[2]
FAST = {"tier": "enterprise", "ratePerSecond": 5_000}
NUMBER = itertools.count(1)


@dataclass(frozen=True)
class List:
    """A list that a tenant can grow: how to add one, its limit, and the refusal beyond it."""

    name: str
    limit: int
    code: str
    path: str

    def body(self) -> dict[str, Any]:
        number = next(NUMBER)
        return {
            "/webhooks": {"url": f"https://example.com/{number}"},
            "/api-keys": {"name": f"key {number}", "permissions": []},
            "/roles": {"name": f"role_{number}", "permissions": ["task.read"]},
            "/orders": {"packageId": "starter", "channel": "native"},
            "/uploads": {"contentType": "image/png", "bytes": 100},
        }[self.path]


LISTS = [
    List("registered webhooks", 20, "WEBHOOK_409_TOO_MANY", "/webhooks"),
    List("API keys", 100, "KEY_409_TOO_MANY", "/api-keys"),
    List("roles", 50, "ROLE_409_TOO_MANY", "/roles"),
    List("open orders", 20, "ORDER_409_TOO_MANY_OPEN", "/orders"),
    List("open uploads", 500, "UPLOAD_409_TOO_MANY", "/uploads"),
]


class Person:
    def __init__(self, client: Client, platform: Platform) -> None:
        self._client, made = client, client.register()
        self.token = made["token"]
        admin = client.call("POST", "/auth/login", platform.facts["admin"]).body["accessToken"]
        client.call("PATCH", f"/tenants/{made['tenantId']}", FAST, token=admin)
        self._client.call("GET", "/me", token=self.token)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        headers = {"idempotency-key": uuid4().hex}
        return self._client.call("POST", path, body, token=self.token, headers=headers)

    def count(self, path: str) -> int:
        found, cursor = 0, ""
        while cursor is not None:
            page = self._client.call("GET", f"{path}?limit=100{cursor and '&cursor=' + cursor}", token=self.token)
            found += len(page.body["items"])
            cursor = page.body.get("nextCursor")
        return found


@pytest.fixture
def people(platform: Platform) -> Iterator[tuple[Person, Person]]:
    with contextlib.closing(Client(platform.facts["apiUrl"])) as client:
        yield Person(client, platform), Person(client, platform)


class TestOneTenantExtremeAmounts:
    @pytest.mark.parametrize("wanted", LISTS, ids=lambda wanted: wanted.name)
    def test_list_ends_at_its_limit(self, people: tuple[Person, Person], wanted: List) -> None:
        greedy, other = people
        answers = [greedy.post(wanted.path, wanted.body()) for _ in range(wanted.limit + 5)]
        outcomes = Counter(answer.body.get("code", answer.status) for answer in answers)
        assert outcomes == {201: wanted.limit, wanted.code: 5}
        assert str(wanted.limit) in answers[-1].body["message"]
        assert other.post(wanted.path, wanted.body()).status == 201

    @pytest.mark.parametrize("path", ["/webhooks", "/api-keys"])
    def test_refused_rows_are_not_stored(self, people: tuple[Person, Person], path: str) -> None:
        greedy, _ = people
        wanted = next(one for one in LISTS if one.path == path)
        for _ in range(wanted.limit + 3):
            greedy.post(path, wanted.body())
        assert greedy.count(path) == wanted.limit

    def test_flow_with_too_many_edges_is_refused(self, people: tuple[Person, Person]) -> None:
        picture = people[0].post("/uploads", {"contentType": "image/png", "bytes": 100}).body["inputId"]
        names = [f"n{number}" for number in range(200)]
        nodes = [
            {"name": name, "type": "cutout", "inputs": {"product": picture}, "dependsOn": names[:place]}
            for place, name in enumerate(names)
        ]
        refused = people[0].post("/flows", {"name": "dense", "nodes": nodes})
        assert refused.status == 422, refused
        assert "10,000" in str(refused.body) or "10000" in str(refused.body)

    def test_sockets_of_one_user_are_bounded(self, platform: Platform, people: tuple[Person, Person]) -> None:
        async def opened(token: str, wanted: int) -> Counter[int]:
            async with contextlib.AsyncExitStack() as open_sockets:
                session = await open_sockets.enter_async_context(aiohttp.ClientSession())
                found: Counter[int] = Counter()
                for _ in range(wanted):
                    try:
                        socket = session.ws_connect(f"{platform.facts['wsUrl']}?token={token}")
                        await open_sockets.enter_async_context(socket)
                        found[101] += 1
                    except aiohttp.WSServerHandshakeError as refused:
                        found[refused.status] += 1
                return found

        greedy, other = people
        # The emulator answers 403 to every $connect that the function refuses; the function says 429.
        assert asyncio.run(opened(greedy.token, 13)) in ({101: 10, 429: 3}, {101: 10, 403: 3})
        assert asyncio.run(opened(other.token, 1)) == {101: 1}


def test_every_limit_of_the_list_is_documented():
    text = (ROOT / "docs/limits.md").read_text("utf-8")
    for wanted in LISTS:
        assert wanted.code in text, f"docs/limits.md lacks {wanted.code}"
