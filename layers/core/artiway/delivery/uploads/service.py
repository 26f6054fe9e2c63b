"""Uploads with a declared type and size, inspected before their first use; results as addresses that expire."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from artiway import ids
from artiway.delivery.uploads import names, pictures
from artiway.delivery.uploads.model import (
    NoSuchInput,
    NotAPicture,
    NotUploaded,
    OpenLimits,
    Original,
    Request,
    Result,
    Thumbnail,
    Ticket,
    Upload,
)
from artiway.platform.clock import Clock
from artiway.tasks.model import Requester
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

    def request(self, tenant_id: UUID, task_id: UUID) -> Mapping[str, Any] | None: ...

    def first_results(self, tenant_id: UUID, task_ids: Sequence[UUID]) -> Sequence[Mapping[str, Any]]: ...

    def delete_result(self, tenant_id: UUID, task_id: UUID, name: str, requester: Requester) -> None:
        """Raises NoSuchTask, NoSuchResult, ColleaguesTask, TaskNotEnded."""


class Objects(Protocol):
    def upload_url(self, key: str, *, content_type: str, size: int, ttl_s: int) -> tuple[str, Mapping[str, str]]: ...

    def head(self, key: str, *, length: int) -> tuple[bytes, int] | None:
        """The first bytes and the size of an object; None if it does not exist."""


class Pictures(Protocol):
    def address(
        self, key: str, *, base_url: str, content_type: str, expires_at: datetime, file_name: str | None = None
    ) -> str:
        """Where a stored picture can be read until a time; with a name, it is saved under it and not shown."""


@dataclass(frozen=True)
class Bounds:
    bytes: int
    pixels: int
    side: int
    url_ttl_s: int
    url_step_s: int
    upload_ttl_s: int
    opened: OpenLimits


class UploadService:
    def __init__(
        self,
        store: UploadStore,
        objects: Objects,
        pictures: Pictures,
        clock: Clock,
        bounds: Callable[[], Bounds],
        *,
        originals: Pictures,
    ) -> None:
        """`pictures` gives addresses of results, `originals` of uploads, which no distribution serves."""
        self._store, self._objects, self._pictures, self._originals = store, objects, pictures, originals
        self._clock, self._bounds = clock, bounds

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

    def results(self, *, tenant_id: UUID, task_id: UUID, base_url: str) -> Sequence[Result]:
        """The stored results of a task. `base_url` is where the caller reached the platform: https://shop.example."""
        until = self._valid_until()
        return [
            self._result(row, number, base_url, min(until, row["expires_at"]))
            for number, row in enumerate(self._store.results(tenant_id, task_id), start=1)
        ]

    def request(self, *, tenant_id: UUID, task_id: UUID, base_url: str) -> Request:
        """What the submitter asked for: parameters, and the original pictures as addresses that expire."""
        row = self._store.request(tenant_id, task_id)
        if row is None:
            return Request({}, None, (), ())
        until = self._clock.now() + timedelta(seconds=self.bounds.url_ttl_s)
        originals = [self._original(one, base_url, min(until, one["expires_at"])) for one in row["originals"]]
        return Request(row["params"], row["count"], originals, row["deleted"])

    def thumbnails(self, *, tenant_id: UUID, task_ids: Sequence[UUID], base_url: str) -> Mapping[UUID, Thumbnail]:
        """The first result of each task, in full size."""
        if not task_ids:
            return {}
        until = self._valid_until()
        return {
            row["task_id"]: Thumbnail(
                self._pictures.address(
                    row["key"],
                    base_url=base_url,
                    content_type=row["content_type"],
                    expires_at=min(until, row["expires_at"]),
                ),
                row["width"],
                row["height"],
            )
            for row in self._store.first_results(tenant_id, task_ids)
        }

    def delete_result(self, *, tenant_id: UUID, task_id: UUID, name: str, requester: Requester) -> None:
        """A deleted result is in no list any more. Deleting it again changes nothing."""
        self._store.delete_result(tenant_id, task_id, name, requester)

    def _original(self, row: Mapping[str, Any], base_url: str, expires_at: datetime) -> Original:
        url = None
        if row["is_kept"]:
            url = self._originals.address(
                row["key"], base_url=base_url, content_type=row["content_type"], expires_at=expires_at
            )
        return Original(
            name=row["name"],
            input_id=row["input_id"],
            url=url,
            content_type=row["content_type"],
            width=row["width"],
            height=row["height"],
            expires_at=None if url is None else expires_at,
        )

    def _valid_until(self) -> datetime:
        """At least `url_ttl_s` from now, and the same for all calls of one step: so a browser can keep the picture."""
        step = self.bounds.url_step_s
        soonest = int(self._clock.now().timestamp()) + self.bounds.url_ttl_s
        return datetime.fromtimestamp(-(-soonest // step) * step, UTC)

    def _result(self, row: Mapping[str, Any], number: int, base_url: str, expires_at: datetime) -> Result:
        content_type = row["content_type"]
        name = names.file_name(row["title"], row["made_at"], number, content_type)
        address = partial(
            self._pictures.address, row["key"], base_url=base_url, content_type=content_type, expires_at=expires_at
        )
        return Result(
            name=row["name"],
            url=address(),
            download_url=address(file_name=name),
            content_type=content_type,
            width=row["width"],
            height=row["height"],
            expires_at=expires_at,
        )

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
