"""What tenants hand in: a declared picture, and how to put it where workers find it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from artiway.errors import Conflict, NotFound, Refused

CONTENT_TYPES = ("image/png", "image/jpeg", "image/webp")


class NoSuchInput(NotFound):
    code = "UPLOAD_404_NO_INPUT"

    def __init__(self) -> None:
        super().__init__("there is no such input")


class NotAPicture(Refused):
    """What was uploaded is not what was declared, or nothing that we work on."""

    code = "UPLOAD_422_NOT_A_PICTURE"


class NotUploaded(Refused):
    code = "UPLOAD_422_NOT_UPLOADED"


class TooManyUploads(Conflict):
    """No upload is added: so many have not been used by a task yet."""

    code = "UPLOAD_409_TOO_MANY"

    def __init__(self, owner: str, limit: int) -> None:
        message = f"this {owner} has {limit} uploads that no task uses; use them, or wait until they expire"
        super().__init__(message, limit=limit, of=owner)


@dataclass(frozen=True)
class OpenLimits:
    """How many uploads may be there that no task has used."""

    per_user: int
    per_tenant: int


@dataclass(frozen=True)
class Upload:
    """`width` and `height` are known once the object was looked at."""

    input_id: UUID
    user_id: UUID
    key: str
    content_type: str
    bytes: int
    width: int | None
    height: int | None
    expires_at: datetime


@dataclass(frozen=True)
class Ticket:
    """How to upload: one request with exactly these headers, until then."""

    input_id: UUID
    url: str
    method: str
    headers: Mapping[str, str]
    expires_at: datetime


@dataclass(frozen=True)
class Result:
    """A delivered picture and a link to it that soon ends."""

    name: str
    url: str
    content_type: str
    width: int
    height: int
    expires_at: datetime
