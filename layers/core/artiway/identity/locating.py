"""Looks up the location of a login's address in a thread while the password is checked."""

from __future__ import annotations

import threading
from collections.abc import Callable

from artiway.platform.logs import Logger

logger = Logger("identity")
UNKNOWN = "unknown"


class Locating:
    def __init__(self, locator: Callable[[], Callable[[str], str]], *, wait_s: float) -> None:
        self._locator, self._wait_s = locator, wait_s

    def begin(self, address: str) -> Callable[[], str]:
        found = [UNKNOWN]
        locator = self._locator()  # here and not in the thread: it reads settings, and the database has one thread

        def locate() -> None:
            try:
                found[0] = locator(address)
            except Exception:
                logger.exception("location failed")

        # A daemon thread: a source that hangs delays neither the login nor the end of the process.
        thread = threading.Thread(target=locate, name="locating", daemon=True)
        thread.start()

        def collect() -> str:
            thread.join(self._wait_s)
            return found[0]

        return collect
