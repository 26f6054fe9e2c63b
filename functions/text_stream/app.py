"""Writes the texts of the lanes that stream. A message is a wake-up: the text whose turn it is is claimed here."""

from __future__ import annotations

from typing import Any

from artiway import bootstrap
from artiway.platform.consumer import Received, consume

MODES = ("stream",)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    def handle(message: Received) -> None:
        bootstrap.text_consumer().handle(
            message, modes=MODES, remaining_s=lambda: context.get_remaining_time_in_millis() / 1_000
        )

    return consume(event, handle)
