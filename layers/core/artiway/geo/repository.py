"""Sources of locations over HTTP."""

from __future__ import annotations

from artiway.geo.model import SourceFailed, SourceSpec
from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.platform.outbound import Client, OutboundError

logger = Logger("geo")

LARGEST_BODY = 65_536


class HttpSource:
    """Calls a source with the client that calls public targets only, follows no redirect and ends with its deadline."""

    def __init__(self, spec: SourceSpec, client: Client) -> None:
        self.name, self._spec, self._client = spec.name, spec, client

    def locate(self, address: str, *, timeout_s: float) -> str:
        try:
            return self._spec.parse(self._fetch(address, timeout_s))
        except SourceFailed as error:
            logger.warning("location source failed", source=self.name, reason=str(error))
            raise

    def _fetch(self, address: str, timeout_s: float) -> bytes:
        url = self._spec.address_url(address)
        try:
            answer = self._client.call("GET", url, deadline_s=timeout_s, answer_bytes=LARGEST_BODY)
        except OutboundError as error:
            raise SourceFailed(error.reason) from error
        if answer.status != 200:
            raise SourceFailed(f"status {answer.status}")
        return answer.body


def report(source: str, is_success: bool) -> None:
    """The average of this metric is the success rate."""
    metrics.emit("GeoSuccess", 100 if is_success else 0, "Percent", source=source)
