"""Messages of the text lanes: each is a wake-up, and a refused one returns through its queue with a delay."""

from __future__ import annotations

from collections.abc import Callable, Collection

from artiway.generations.model import Mode
from artiway.generations.steps import validate
from artiway.generations.worker import TextWorker
from artiway.platform.consumer import PoisonMessage, Received, ReturnLater


class TextConsumer:
    def __init__(self, worker: TextWorker) -> None:
        self._worker = worker

    def handle(self, message: Received, *, modes: Collection[str], remaining_s: Callable[[], float]) -> None:
        """`modes` are those of the lanes that this function serves."""
        try:
            wake_up = validate.wake_up(message.data, modes=[Mode(mode) for mode in modes])
        except validate.UnknownWakeUp as error:
            raise PoisonMessage(str(error)) from error
        served = self._worker.serve(wake_up, receive_count=message.receive_count, remaining_s=remaining_s)
        if served.return_after_s is not None:
            raise ReturnLater(served.return_after_s)
