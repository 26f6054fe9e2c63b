"""Audit entries: actor, action, target and time. An entry is never changed."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from artiway.errors import Refused

MOST_ITEMS = 100
LARGEST_DETAILS = 16_384


class CursorInvalid(Refused):
    def __init__(self) -> None:
        super().__init__("this cursor is not valid", field="cursor")


@dataclass(frozen=True)
class AuditEntry:
    audit_id: UUID
    tenant_id: UUID | None
    actor_id: UUID | None
    action: str
    target: str
    details: Mapping[str, Any]
    trace_id: str
    at: datetime
    actor_email: str | None = None
    actor_name: str | None = None
    tenant_name: str | None = None


@dataclass(frozen=True)
class AuditFilter:
    """All given fields must match. `start` is inclusive, `end` exclusive."""

    actor_id: UUID | None = None
    action: str | None = None
    target: str | None = None
    start: datetime | None = None
    end: datetime | None = None


@dataclass(frozen=True)
class AuditPage:
    items: Sequence[AuditEntry]
    next_cursor: str | None


def to_cursor(entry: AuditEntry) -> str:
    """The cursor after an entry, opaque to the client."""
    return base64.urlsafe_b64encode(f"{entry.at.isoformat()} {entry.audit_id.hex}".encode()).decode().rstrip("=")


def from_cursor(cursor: str) -> tuple[datetime, UUID]:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        at, _, audit_id = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii").partition(" ")
        moment = datetime.fromisoformat(at)
        if moment.tzinfo is None:
            raise ValueError("a moment without a zone")
        return moment, UUID(hex=audit_id)
    except (ValueError, binascii.Error) as error:
        raise CursorInvalid from error


def storable(details: Mapping[str, Any]) -> str:
    """JSON that PostgreSQL accepts: no NUL, no lone surrogate, limited size. No change fails because of its entry."""
    text = json.dumps(_clean(details), ensure_ascii=False, default=str)
    if len(text.encode()) <= LARGEST_DETAILS:
        return text
    return json.dumps({"truncated": text[: LARGEST_DETAILS // 8]}, ensure_ascii=False)


def clean_text(text: str, longest: int) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:longest]


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value, LARGEST_DETAILS)
    if isinstance(value, Mapping):
        return {clean_text(str(key), 200): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    if isinstance(value, float) and value - value != 0:  # NaN and infinity are not valid JSON
        return str(value)
    return value
