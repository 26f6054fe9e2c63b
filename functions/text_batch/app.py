"""Writes the texts of the lanes that do not stream: batch, and vision."""

from __future__ import annotations

from typing import Any

from artiway import bootstrap
from artiway.platform.consumer import Received, consume

MODES = ("batch", "vision")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    def handle(message: Received) -> None:
        bootstrap.text_consumer().handle(
            message, modes=MODES, remaining_s=lambda: context.get_remaining_time_in_millis() / 1_000
        )

    return consume(event, handle)
