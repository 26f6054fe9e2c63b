"""The pictures of requests: uploads as for tasks, made small before they leave for a provider."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from artiway import ids
from artiway.delivery.uploads.model import NoSuchInput, NotAPicture, NotUploaded
from artiway.errors import NotFound
from artiway.generations.ports import PictureUnreadable
from artiway.tasks.service import Picture

# The largest upload that an operator can allow (delivery/uploads/settings.py).
MOST_BYTES = 25_000_000


class Inputs(Protocol):
    def inspect(self, tenant_id: UUID, input_ids: Sequence[UUID]) -> Mapping[UUID, Picture]:
        """Raises NoSuchInput, NotAPicture, NotUploaded."""


class Objects(Protocol):
    def read(self, key: str, *, most_bytes: int) -> bytes | None:
        """The object; None if it does not exist or is larger. Raises Unavailable."""


class StoredPictures:
    def __init__(self, inputs: Inputs, objects: Objects, *, small: Callable[[bytes], bytes]) -> None:
        """`small` makes a JPEG of a picture, and raises ValueError for what is none."""
        self._inputs, self._objects, self._small = inputs, objects, small

    def check(self, tenant_id: UUID, input_id: str) -> None:
        self._found(tenant_id, input_id)

    def data_url(self, tenant_id: UUID, input_id: str) -> str:
        try:
            picture = self._found(tenant_id, input_id)
        except (NoSuchInput, NotAPicture, NotUploaded) as error:
            raise PictureUnreadable(error.message) from error
        data = self._objects.read(picture.key, most_bytes=MOST_BYTES)
        if data is None:
            raise PictureUnreadable("it is not kept any more")
        try:
            small = self._small(data)
        except ValueError as error:
            raise PictureUnreadable(str(error)) from error
        return f"data:image/jpeg;base64,{base64.b64encode(small).decode()}"

    def _found(self, tenant_id: UUID, input_id: str) -> Picture:
        try:
            upload_id = ids.from_wire("inp", input_id)
        except NotFound:
            raise NoSuchInput from None
        return self._inputs.inspect(tenant_id, [upload_id])[upload_id]
