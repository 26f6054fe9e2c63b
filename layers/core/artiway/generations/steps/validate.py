"""Step 1: the message names a lane that this function serves, and the stored request can still be made a prompt."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from artiway.errors import ArtiwayError, Unavailable
from artiway.generations.model import Failure, FailureCode, Generation, Mode
from artiway.generations.ports import Pictures, PictureUnreadable
from artiway.generations.providers.model import FailureCode as ProviderFailure
from artiway.generations.providers.model import Message, Prompt, ProviderFailed, Role
from artiway.generations.services import Services
from artiway.scheduling.lanes import LANES


class UnknownWakeUp(ValueError):
    """A message that no retry can help."""


@dataclass(frozen=True)
class WakeUp:
    """A text may be waiting in the lane. `generation_id` is the text for which the message was sent."""

    lane: str
    generation_id: UUID


def wake_up(data: Mapping[str, Any], *, modes: Collection[Mode]) -> WakeUp:
    try:
        lane, generation_id = str(data["lane"]), UUID(str(data["generationId"]))
    except (KeyError, ValueError) as error:
        raise UnknownWakeUp(f"not a message of a text lane: {error}") from error
    if lane not in LANES or lane.partition("_")[2] not in modes:
        raise UnknownWakeUp("this function does not serve the lane")
    return WakeUp(lane, generation_id)


def prompt(generation: Generation, services: Services, pictures: Pictures) -> Prompt | Failure:
    """The service may have changed since the request was accepted, and the picture may be gone.

    Raises ProviderFailed AWAY if the picture cannot be fetched now, so that the text waits.
    """
    images: tuple[str, ...] = ()
    try:
        service, input_, params = services.stage_of(generation)
        if service.sees_picture:
            images = (pictures.data_url(generation.tenant_id, str(input_["inputId"])),)
    except PictureUnreadable as error:
        return Failure(FailureCode.PICTURE, f"the picture cannot be read: {error}")
    except Unavailable as error:
        raise ProviderFailed(ProviderFailure.AWAY, "the picture cannot be fetched at the moment") from error
    except ArtiwayError as error:
        return Failure(FailureCode.INVALID, error.message)
    rows = service.messages(input_, params)
    return Prompt(
        messages=tuple(Message(Role(role), text, images if role == Role.USER else ()) for role, text in rows),
        max_tokens=generation.max_tokens,
        json_schema=service.json_schema,
        is_streamed=service.mode is Mode.STREAM,
        options=generation.input.get("options", {}),
    )
