"""Posts deliveries with the platform's outbound client, and checks URLs before they are stored."""

from __future__ import annotations

from collections.abc import Mapping

from artiway.delivery.webhooks.model import Answer
from artiway.platform.outbound import Client, OutboundError, TargetRefused

ANSWER_BYTES = 1_000


class WebhookPost:
    def __init__(self, client: Client, *, timeout_s: float, lookup_s: float) -> None:
        self._client, self._timeout_s, self._lookup_s = client, timeout_s, lookup_s

    def refusal(self, url: str, *, is_looked_up: bool) -> str | None:
        """The reason why this URL can never be called, or None. A name that does not resolve now is not refused."""
        try:
            self._client.check(url, lookup_s=self._lookup_s if is_looked_up else None)
        except TargetRefused as error:
            return error.reason
        return None

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """A redirect is not followed: it is an answer, and the delivery has failed."""
        try:
            answer = self._client.call(
                "POST",
                url,
                deadline_s=self._timeout_s,
                headers=headers,
                body=body,
                answer_bytes=ANSWER_BYTES,
                is_start_enough=True,
            )
        except OutboundError as error:
            return Answer(None, error.reason[:ANSWER_BYTES])
        return Answer(answer.status, answer.body.decode("utf-8", "replace").replace("\0", ""))
