"""Passwords: argon2id with the parameters of OWASP's first choice. One hash takes about 70 ms and 19 MB."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argon2 import PasswordHasher

MEMORY_KIB, PASSES, LANES = 19_456, 2, 1


class Argon2Passwords:
    @cached_property
    def _hasher(self) -> PasswordHasher:
        from argon2 import PasswordHasher

        return PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES)

    @cached_property
    def _unused_hash(self) -> str:
        return self._hasher.hash("a password that no user has")

    def hash(self, password: str) -> str:
        return self._hasher.hash(password)

    def matches(self, password_hash: str | None, password: str) -> bool:
        """Takes the same time for an unknown user and for one without a password."""
        from argon2.exceptions import Argon2Error, InvalidHashError

        try:
            return self._hasher.verify(password_hash or self._unused_hash, password) and password_hash is not None
        except (Argon2Error, InvalidHashError):
            return False

    def is_outdated(self, password_hash: str) -> bool:
        return self._hasher.check_needs_rehash(password_hash)
