"""One stack from template.yaml for all end-to-end tests, and clients for it."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import UUID

import pytest

from artiway.ids import from_wire
from local import text_model
from local.emulator import client
from local.servers import free_port
from local.stack import Stack
from local.text_standin import PROMPTED, TextStandin
from tests.e2e.people import Client
from tests.e2e.studio import Studio

T = TypeVar("T")


def wait_for(condition: Callable[[], T], seconds: float = 30) -> T:
    """Poll until the answer is true and return it. A failure shows the last answer."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"the condition never came true; last seen: {answer!r}"
        time.sleep(0.02)
    return answer


class Platform:
    """A running stack, known by its stack.json alone."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts

    def aws(self, service: str) -> Any:
        return client(service, self.facts["awsUrl"])

    def get(self, path: str) -> tuple[int, str, Any]:
        request = Request(f"{self.facts['apiUrl']}{path}")
        try:
            with urlopen(request, timeout=35) as answer:
                status, kind, body = answer.status, answer.headers["Content-Type"], answer.read().decode()
        except HTTPError as error:
            with error:
                status, kind, body = error.code, error.headers["Content-Type"], error.read().decode()
        return status, kind, json.loads(body) if kind.startswith("application/json") else body

    def health(self) -> Any:
        return self.get("/health")[2]

    def user(self) -> User:
        """A user who has just registered."""
        with contextlib.closing(Client(self.facts["apiUrl"])) as client:
            made = client.register()
        return User(from_wire("tnt", made["tenantId"]), from_wire("usr", made["userId"]), made["token"])


@dataclass(frozen=True)
class User:
    tenant_id: UUID
    user_id: UUID
    token: str

    def notice(self, number: int) -> str:
        """A message of the push queue that delivers a progress event to this user."""
        payload = {"type": "task.progress", "taskId": "t1", "progress": number, "at": "2026-11-16T00:00:00+00:00"}
        data = {"tenantId": str(self.tenant_id), "userId": str(self.user_id), "payload": payload}
        return json.dumps({"type": "notice", "aggregate": f"user:{self.user_id}", "data": data})


@dataclass
class KmsSigner:
    key_id: str
    kms: Any

    def sign(self, message: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

        answer = self.kms.sign(KeyId=self.key_id, Message=message, MessageType="RAW", SigningAlgorithm="ECDSA_SHA_256")
        return b"".join(part.to_bytes(32, "big") for part in decode_dss_signature(answer["Signature"]))


# The only private target that the stack's functions may call. A webhook test listens there.
RECEIVER_PORT = free_port()
# Where pictures are read. Only test_vision.py starts the reader, whose networks take memory.
PICTURE_PORT = free_port()


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder that other accounts can enter, unlike pytest's: under root, PostgreSQL runs as `nobody`."""
    with tempfile.TemporaryDirectory(prefix="artiway-e2e-") as place:
        Path(place).chmod(0o755)
        yield Path(place)


class EarlyProbe:
    """A service of the stack that calls /health before the start has finished."""

    name = "early probe"

    def __init__(self) -> None:
        self.status, self.code = 0, ""

    def start(self, facts: Mapping[str, Any]) -> Mapping[str, Any]:
        self.status, _, body = Platform(dict(facts)).get("/health")
        self.code = body.get("code", "")
        return {}

    def stop(self) -> None:
        pass


@pytest.fixture(scope="session")
def early_probe() -> EarlyProbe:
    return EarlyProbe()


@pytest.fixture(scope="session")
def text_standin() -> Iterator[TextStandin]:
    """The provider of every service. `scene=<name>` in the text of a request names how it answers."""
    with TextStandin() as standin:
        yield standin


@pytest.fixture(scope="session")
def stack(early_probe: EarlyProbe, text_standin: TextStandin) -> Iterator[Stack]:
    parameters = {
        "TextProvidersText": text_model.document(text_standin.port, PROMPTED, picture_port=PICTURE_PORT),
        "RedeliverySeconds": "5",
        "WebhookRedeliverySeconds": "5",
        "CallRedeliverySeconds": "20",
        "AllowedTargets": f"127.0.0.1:{RECEIVER_PORT}",
    }
    with (
        folder() as place,
        Stack(home=place / "home", port=free_port(), parameters=parameters, services=[early_probe]) as running,
    ):
        yield running


@pytest.fixture(scope="session")
def platform(stack: Stack) -> Platform:
    return Platform(json.loads((stack.home / "stack.json").read_text()))


@pytest.fixture(scope="session")
def studio() -> Iterator[Studio]:
    """A second stack with workers. The first has none, because tests read its queues."""
    with folder() as place, Studio.opened(place / "home") as opened:
        yield opened
