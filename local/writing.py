"""A text of the demo, printed while the language model writes it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from uuid import uuid4

import aiohttp

from local.shop import Person, Refused

LIMIT_SECONDS = 300  # also for a model that is still being downloaded
RETRY_SECONDS = 0.5
TOKENS_A_PIECE = 8  # a piece has at most 64 characters; the length of a text is the model's choice
TERMINAL = frozenset({"done", "error", "cancelled"})


@dataclass
class Writing:
    """What a reader has received of a text. Its end says whether that is all."""

    made: dict[str, Any]
    text: str = ""
    pieces: int = 0
    last_id: str = ""
    start: dict[str, Any] = field(default_factory=dict)
    end_name: str = ""
    end: dict[str, Any] = field(default_factory=dict)
    first_token_s: float = 0
    whole_s: float = 0

    @property
    def is_right(self) -> bool:
        """The text is whole, came in pieces, and cost no more than its price."""
        if self.end_name != "done":
            return False
        is_whole: bool = self.end["sha256"] == sha256(self.text.encode()).hexdigest()
        is_streamed: bool = self.pieces >= min(3, self.end["usage"]["outputTokens"] // TOKENS_A_PIECE)
        is_cheap_enough: bool = self.end["points"] <= self.made["pricePoints"]
        return is_whole and is_streamed and is_cheap_enough


async def write_copy(person: Person, product: str, *, max_tokens: int = 120) -> Writing:
    """Ask for copy about a product and print it as it comes. A connection that ends is resumed where it ended."""
    body = {"service": "copywriting", "input": {"text": product}, "maxTokens": max_tokens}
    writing = Writing(await person.call("POST", "/generations", body, key=uuid4().hex))
    began = time.monotonic()
    async with asyncio.timeout(LIMIT_SECONDS):
        while not writing.end_name:
            try:
                async for event in _events(person, writing.made["generationId"], writing.last_id):
                    _take(writing, *event, seconds=time.monotonic() - began)
            except aiohttp.ClientError:
                await asyncio.sleep(RETRY_SECONDS)
    writing.whole_s = time.monotonic() - began
    return writing


def _take(writing: Writing, event_id: str, name: str, data: dict[str, Any], *, seconds: float) -> None:
    writing.last_id = event_id
    if name == "start":
        writing.start = data
    elif name == "backpressure":
        print("   (waits for the language model)", flush=True)
    elif name == "restart":
        writing.text = ""
        print("\n   (begins again)", flush=True)
    elif name in ("token", "token_batch"):
        writing.first_token_s = writing.first_token_s or seconds
        writing.text += data["text"]
        writing.pieces += 1
        print(data["text"].replace("\n", "\n   "), end="", flush=True)
    elif name in TERMINAL:
        writing.end_name, writing.end = name, data


async def _events(person: Person, generation_id: str, last_id: str) -> AsyncIterator[tuple[str, str, dict[str, Any]]]:
    """Id, name and data of each event of one connection."""
    url = f"{person.platform.facts['apiUrl']}/generations/{generation_id}/events"
    headers = {"authorization": f"Bearer {person.token}"} | ({"last-event-id": last_id} if last_id else {})
    async with person.platform.session.get(url, headers=headers) as answer:
        if answer.status != 200:
            raise Refused(answer.status, await answer.text())
        fields: dict[str, str] = {}
        async for raw in answer.content:
            line = raw.decode().rstrip("\r\n")
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
                continue
            if "event" in fields and "id" in fields:
                yield fields["id"], fields["event"], json.loads(fields["data"])
                if fields["event"] in TERMINAL:
                    return
            fields = {}
