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
    """One address of the settings, with `{address}` in it, and the parser for what it answers."""

    def __init__(self, name: str, url: str) -> None:
        self.name, self._url, self._parse = name, url, PARSERS[name]
        self._calls = threading.BoundedSemaphore(MOST_CALLS)

    def locate(self, address: str, *, timeout_s: float) -> str:
        """In a thread of its own: a slow name server, or an answer that drips, obeys no socket's limit.

        A thread that is left behind ends with its connection; `MOST_CALLS` of them are the most there can be.
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
        except Exception as error:  # noqa: BLE001 (whatever a stranger's answer breaks, the login goes on)
            answers.put(SourceFailed(type(error).__name__))
        finally:
            self._calls.release()

    def _fetch(self, address: str, timeout_s: float) -> bytes:
        response = _pool().request(
            "GET",
            self._url.format(address=address),
            timeout=timeout_s,
            retries=False,
            redirect=False,  # a source that sends us elsewhere could send us inside
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
    """Its average is the rate of success."""
    metrics.emit("GeoSuccess", 100 if is_success else 0, "Percent", source=source)
