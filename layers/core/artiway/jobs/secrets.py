"""Secrets of jobs: `secret:NAME` in a header or body stands for a value that only the caller decrypts."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Protocol
from uuid import UUID

NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
REFERENCE = re.compile(rf"(?<![A-Za-z0-9_])secret:({NAME.pattern})(?![A-Za-z0-9_])")
VALUE_BYTES = 4_096  # KMS encrypts no more at once
# The name of a tenant's signing key in the encryption context. No secret of a tenant can have it.
SIGNING_KEY = "signing-key"
KEPT_S = 300
KEPT_VALUES = 1_000


class Cipher(Protocol):
    def encrypt(self, plaintext: bytes, context: Mapping[str, str]) -> bytes: ...

    def decrypt(self, ciphertext: bytes, context: Mapping[str, str]) -> bytes:
        """Raises ValueError for another context or a damaged ciphertext."""


class SecretCipher:
    """A ciphertext of one tenant and name is of no use under another."""

    def __init__(self, cipher: Cipher) -> None:
        self._cipher = cipher

    def encrypt(self, *, tenant_id: UUID, name: str, value: str) -> bytes:
        return self._cipher.encrypt(value.encode(), _context(tenant_id, name))


class SecretReader:
    """Decrypts, and keeps values for five minutes in memory. Safe to share between threads."""

    def __init__(self, cipher: Cipher, *, now: Callable[[], float] = time.monotonic) -> None:
        self._cipher, self._now = cipher, now
        self._kept: OrderedDict[tuple[UUID, str, bytes], tuple[float, str]] = OrderedDict()
        self._lock = threading.Lock()

    def decrypt(self, *, tenant_id: UUID, name: str, ciphertext: bytes) -> str:
        key = (tenant_id, name, ciphertext)
        with self._lock:
            found = self._kept.get(key)
        if found is not None and self._now() < found[0]:
            return found[1]
        value = self._cipher.decrypt(ciphertext, _context(tenant_id, name)).decode()
        with self._lock:
            self._kept[key] = (self._now() + KEPT_S, value)
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT_VALUES:
                self._kept.popitem(last=False)
        return value


def names_in(text: str) -> set[str]:
    return set(REFERENCE.findall(text))


def inserted(text: str, values: Mapping[str, str]) -> str:
    """The text with each reference replaced. In a JSON document values are escaped, so that it stays valid."""
    is_escaped = is_json(text)

    def value_of(found: re.Match[str]) -> str:
        value = values[found[1]]
        return json.dumps(value, ensure_ascii=False)[1:-1] if is_escaped else value

    return REFERENCE.sub(value_of, text)


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def hidden(text: str, values: Mapping[str, str], *, is_cut: bool) -> str:
    """The text with each value replaced by its reference. `is_cut`: the end may be the beginning of a value."""
    forms = {
        form: f"secret:{name}"
        for name, value in values.items()
        for form in (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
        if form
    }
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, forms[form])
    if is_cut:
        longest = max((_shared(text, form) for form in forms), default=0)
        text = text[: len(text) - longest]
    return text


def _shared(text: str, form: str) -> int:
    """The length of the longest end of the text with which the form begins."""
    return next((size for size in range(min(len(text), len(form)), 0, -1) if text.endswith(form[:size])), 0)


def _context(tenant_id: UUID, name: str) -> dict[str, str]:
    return {"tenantId": str(tenant_id), "name": name}
