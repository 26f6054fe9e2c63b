"""A client that reads the events of a text."""

from __future__ import annotations

import json

from artiway.generations.feed.model import Name, sha256_of


class Client:
    """Applies SPEC 12.4: the text is that of token and token_batch since the last restart."""

    def __init__(self) -> None:
        self.text = ""
        self.last: str | None = None
        self.names: list[str] = []
        self.end: dict | None = None
        self.retry_ms = 0

    def receive(self, frame: str) -> bool:
        """Whether it was the terminal event."""
        if frame.startswith("retry: "):
            self.retry_ms = int(frame.split()[1])
        if not frame.startswith("id: "):
            return False
        lines = frame.split("\n")
        self.last, name = lines[0].removeprefix("id: "), lines[1].removeprefix("event: ")
        body = json.loads(lines[2].removeprefix("data: "))
        self.names.append(name)
        if name == Name.RESTART:
            self.text = ""
        if name in (Name.TOKEN, Name.TOKEN_BATCH):
            assert body["offset"] == len(self.text), self.names[-12:]
            self.text += body["text"]
        if name in (Name.DONE, Name.ERROR, Name.CANCELLED):
            assert self.end is None
            self.end = body
            assert body["characters"] == len(self.text)
            assert body["sha256"] == sha256_of(self.text)
            return True
        return False
