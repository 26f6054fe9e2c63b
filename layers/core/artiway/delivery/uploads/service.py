"""Uploads with a declared type and size, inspected before their first use; results as links that expire."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

from artiway import ids
from artiway.delivery.uploads import pictures
from artiway.delivery.uploads.model import NoSuchInput, NotAPicture, NotUploaded, OpenLimits, Result, Ticket, Upload
from artiway.platform.clock import Clock
from artiway.tasks.service import Picture

HEAD_BYTES = 64 * 1024
# A JPEG may have this much metadata before the frame header with its size.
LONG_HEAD_BYTES = 1024 * 1024


class UploadStore(Protocol):
    def add(self, tenant_id: UUID, upload: Upload, limits: OpenLimits) -> None:
        """Raises TooManyUploads, and adds nothing, if a limit is reached."""

    def uploads(self, tenant_id: UUID, input_ids: Sequence[UUID]) -> Sequence[Upload]: ...

    def extend(self, tenant_id: UUID, sizes: Mapping[UUID, tuple[int, int]], input_ids: Sequence[UUID]) -> None: ...

    def results(self, tenant_id: UUID, task_id: UUID) -> Sequence[Mapping[str, Any]]: ...


class Objects(Protocol):
    def upload_url(self, key: str, *, content_type: str, size: int, ttl_s: int) -> tuple[str, Mapping[str, str]]: ...

    def download_url(self, key: str, *, content_type: str, ttl_s: int) -> str: ...

    def head(self, key: str, *, length: int) -> tuple[bytes, int] | None:
        """The first bytes and the size of an object; None if it does not exist."""


@dataclass(frozen=True)
class Bounds:
    bytes: int
    pixels: int
    side: int
    url_ttl_s: int
    upload_ttl_s: int
    opened: OpenLimits


class UploadService:
    def __init__(self, store: UploadStore, objects: Objects, clock: Clock, bounds: Callable[[], Bounds]) -> None:
        self._store, self._objects, self._clock, self._bounds = store, objects, clock, bounds

    @property
    def bounds(self) -> Bounds:
        """The bounds in force now."""
        return self._bounds()

    def ticket(self, *, tenant_id: UUID, user_id: UUID, content_type: str, size: int) -> Ticket:
        """Permission to upload one picture of this type and exactly this size."""
        if size > self.bounds.bytes:
            raise NotAPicture("the picture is too large", limit_bytes=self.bounds.bytes)
        input_id = ids.new_id()
        key = f"inputs/{tenant_id}/{input_id}"
        expires_at = self._clock.now() + timedelta(seconds=self.bounds.upload_ttl_s)
        upload = Upload(input_id, user_id, key, content_type, size, None, None, expires_at)
        self._store.add(tenant_id, upload, self.bounds.opened)
        url, headers = self._objects.upload_url(
            key, content_type=content_type, size=size, ttl_s=self.bounds.upload_ttl_s
        )
        return Ticket(input_id, url, "PUT", headers, expires_at)

    def inspect(self, tenant_id: UUID, input_ids: Sequence[UUID]) -> Mapping[UUID, Picture]:
        """Inspect each upload at its first use. An upload of another tenant is not found."""
        if not input_ids:
            return {}
        found = {upload.input_id: upload for upload in self._store.uploads(tenant_id, input_ids)}
        if set(found) != set(input_ids):
            raise NoSuchInput
        sizes = {upload.input_id: self._inspect(upload) for upload in found.values() if upload.width is None}
        self._store.extend(tenant_id, sizes, input_ids)
        return {input_id: Picture(upload.key, upload.content_type) for input_id, upload in found.items()}

    def results(self, *, tenant_id: UUID, task_id: UUID) -> Sequence[Result]:
        """The stored results of a task. The links expire soon; a new call returns new ones."""
        until = self._clock.now() + timedelta(seconds=self.bounds.url_ttl_s)
        return [
            Result(
                name=row["name"],
                url=self._objects.download_url(
                    row["key"], content_type=row["content_type"], ttl_s=self.bounds.url_ttl_s
                ),
                content_type=row["content_type"],
                width=row["width"],
                height=row["height"],
                expires_at=min(until, row["expires_at"]),
            )
            for row in self._store.results(tenant_id, task_id)
        ]

    def _inspect(self, upload: Upload) -> tuple[int, int]:
        picture = self._sniff(upload, HEAD_BYTES)
        if picture.content_type != upload.content_type:
            raise NotAPicture("the picture is not of the type declared", declared=upload.content_type)
        is_too_large = picture.width * picture.height > self.bounds.pixels
        if is_too_large or max(picture.width, picture.height) > self.bounds.side:
            raise NotAPicture("the picture has too many pixels", limit_pixels=self.bounds.pixels)
        return picture.width, picture.height

    def _sniff(self, upload: Upload, length: int) -> pictures.Picture:
        found = self._objects.head(upload.key, length=length)
        if found is None:
            raise NotUploaded("the picture has not been uploaded", input=ids.to_wire("inp", upload.input_id))
        head, size = found
        if size != upload.bytes:
            raise NotAPicture("the picture is not of the size declared", declared_bytes=upload.bytes)
        try:
            return pictures.sniff(head)
        except pictures.NeedMore:
            if length >= min(size, LONG_HEAD_BYTES):
                raise NotAPicture("the picture has no size in its header") from None
            return self._sniff(upload, LONG_HEAD_BYTES)
