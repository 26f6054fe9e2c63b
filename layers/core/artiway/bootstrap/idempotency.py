"""Requests that run once per idempotency key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.once import once

if TYPE_CHECKING:
    from artiway.idempotency.service import IdempotencyService


@once
def idempotency() -> IdempotencyService:
    from artiway.idempotency.repository import PostgresKeys
    from artiway.idempotency.service import IdempotencyService

    return IdempotencyService(PostgresKeys(base.database()))
