"""Who the caller is: a pair of tokens that is renewed, an API key, or a key that signs each request."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol


class Credentials(Protocol):
    def headers(self, method: str, target: str, body: bytes) -> dict[str, str]:
        """The headers that identify the caller. `target` is path and query as they are sent."""


@dataclass(frozen=True)
class Tokens:
    access: str
    refresh: str


class TokenStore:
    """Tokens of one session. A refresh token works once, so only one caller at a time renews the pair.

    A store that several processes share overrides `exclusive` (a lock, then a fresh look) and `save`.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self._lock = threading.Lock()

    def headers(self, method: str, target: str, body: bytes) -> dict[str, str]:
        return {"authorization": f"Bearer {self.tokens.access}"}

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        with self._lock:
            yield

    def save(self, tokens: Tokens) -> None:
        self.tokens = tokens


@dataclass(frozen=True)
class ApiKey:
    key: str

    def headers(self, method: str, target: str, body: bytes) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"}


@dataclass(frozen=True)
class SigningKey:
    """A key made with `signed`: its secret never leaves this process."""

    key: str

    def headers(self, method: str, target: str, body: bytes) -> dict[str, str]:
        prefix, name, secret = self.key.split("_", 2)
        at, nonce = str(int(time.time())), secrets.token_urlsafe(18)
        text = "\n".join([method, target, at, nonce, hashlib.sha256(body).hexdigest()])
        key = hashlib.sha256(secret.encode()).digest()
        return {
            "authorization": f"Bearer {prefix}_{name}",
            "x-artiway-timestamp": at,
            "x-artiway-nonce": nonce,
            "x-artiway-signature": hmac.new(key, text.encode(), hashlib.sha256).hexdigest(),
        }
