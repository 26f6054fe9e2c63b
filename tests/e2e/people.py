"""An HTTP client of the running stack, and users that it registers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

PASSWORD = "correct horse battery"


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: dict[str, str]


class Client:
    """Sends requests to the API over one connection that stays open."""

    def __init__(self, api_url: str) -> None:
        self._url = urlsplit(api_url)
        self._connection = HTTPConnection(str(self._url.hostname), self._url.port, timeout=35)

    def close(self) -> None:
        self._connection.close()

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Answer:
        sent = {**({"authorization": f"Bearer {token}"} if token is not None else {}), **(headers or {})}
        if body is not None or raw is not None:
            sent.setdefault("content-type", "application/json")
        payload = raw if raw is not None else json.dumps(body).encode() if body is not None else None
        base = "" if path.startswith("/openai/") else self._url.path
        self._connection.request(method, f"{base}{path}", payload, sent)
        answer = self._connection.getresponse()
        text = answer.read()
        names = {name.lower(): value for name, value in answer.getheaders()}
        is_json = names.get("content-type", "").startswith("application/json")
        return Answer(answer.status, json.loads(text) if is_json and text else text.decode(), names)

    def register(self, name: str = "") -> dict[str, Any]:
        answer = self.call(
            "POST",
            "/auth/register",
            {"tenantName": name or "shop", "email": f"{name}{uuid4().hex}@example.com", "password": PASSWORD},
        )
        assert answer.status == 201, answer
        return {**answer.body, "token": answer.body["accessToken"]}

    def log_in(self, login: str, password: str = PASSWORD) -> dict[str, Any]:
        answer = self.call("POST", "/auth/login", {"login": login, "password": password})
        assert answer.status == 200, answer
        return {**answer.body, "token": answer.body["accessToken"]}
