"""Runs a request once per idempotency key. A key belongs to the user who sent it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol
from uuid import UUID

from artiway.idempotency.model import Answer, KeyReused, check_key


class Claim(Protocol):
    """A locked key: no other request uses it until the transaction ends."""

    def known(self, request_hash: str) -> Answer | None: ...

    def keep(self, answer: Answer) -> None: ...


class Store(Protocol):
    def claim(self, tenant_id: UUID, user_id: UUID, key: str) -> AbstractContextManager[Claim]:
        """Open the tenant's transaction; raises InProgress while another request of the user holds the key."""


class IdempotencyService:
    """The answer and the effect commit in one transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def run(
        self,
        *,
        tenant_id: UUID,
        user_id: UUID,
        key: str,
        request_hash: str,
        perform: Callable[[], tuple[int, str]],
    ) -> tuple[int, str]:
        """The answer (status, body): the stored one for a repeated request, else that of `perform`.

        If `perform` fails, the transaction rolls back with the key, so that the client may use the key again.
        """
        check_key(key)
        with self._store.claim(tenant_id, user_id, key) as claim:
            known = claim.known(request_hash)
            if known is not None:
                if known.request_hash != request_hash:
                    raise KeyReused
                return known.status, known.body
            status, body = perform()
            claim.keep(Answer(request_hash, status, body))
            return status, body
