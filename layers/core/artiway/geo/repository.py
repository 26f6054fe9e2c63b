"""Sources of locations over HTTP."""

from __future__ import annotations

import threading
from functools import cache
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from artiway.geo.model import PARSERS, SourceFailed
from artiway.platform import metrics
from artiway.platform.logs import Logger

if TYPE_CHECKING:
    from urllib3 import PoolManager

logger = Logger("geo")

LARGEST_BODY = 65_536
MOST_CALLS = 8


class HttpSource:
    """One URL of the settings with `{address}` in it, and the parser of its answer."""

    def __init__(self, name: str, url: str) -> None:
        self.name, self._url, self._parse = name, url, PARSERS[name]
        self._calls = threading.BoundedSemaphore(MOST_CALLS)

    def locate(self, address: str, *, timeout_s: float) -> str:
        """Calls in a thread: a socket timeout covers neither a slow name server nor an answer that comes byte by byte.

        A thread that did not finish in time ends with its connection. There are at most `MOST_CALLS` threads.
        """
        if not self._calls.acquire(blocking=False):
            raise SourceFailed("too many calls under way")
        answers: SimpleQueue[str | SourceFailed] = SimpleQueue()
        threading.Thread(target=self._call, args=(address, timeout_s, answers), daemon=True).start()
        try:
            answer = answers.get(timeout=timeout_s)
        except Empty:
            answer = SourceFailed("no answer in time")
        if isinstance(answer, SourceFailed):
            logger.warning("location source failed", source=self.name, reason=str(answer))
            raise answer
        return answer

    def _call(self, address: str, timeout_s: float, answers: SimpleQueue[str | SourceFailed]) -> None:
        try:
            answers.put(self._parse(self._fetch(address, timeout_s)))
        except SourceFailed as error:
            answers.put(error)
        except Exception as error:  # noqa: BLE001 (no error of a source may fail a login)
            answers.put(SourceFailed(type(error).__name__))
        finally:
            self._calls.release()

    def _fetch(self, address: str, timeout_s: float) -> bytes:
        response = _pool().request(
            "GET",
            self._url.format(address=address),
            timeout=timeout_s,
            retries=False,
            redirect=False,  # a redirect could lead to a private address
            preload_content=False,
        )
        try:
            if response.status != 200:
                raise SourceFailed(f"status {response.status}")
            body = response.read(LARGEST_BODY + 1)
        finally:
            response.close()
        if len(body) > LARGEST_BODY:
            raise SourceFailed("too large")
        return body


@cache
def _pool() -> PoolManager:
    from urllib3 import PoolManager

    return PoolManager(num_pools=4, maxsize=MOST_CALLS)


def report(source: str, is_success: bool) -> None:
    """The average of this metric is the success rate."""
    metrics.emit("GeoSuccess", 100 if is_success else 0, "Percent", source=source)
