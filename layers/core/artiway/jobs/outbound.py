"""Makes the HTTP calls of jobs with the platform's outbound client."""

from __future__ import annotations

from collections.abc import Mapping

from artiway.jobs.caller import CallFailed, TargetAnswer
from artiway.platform.outbound import Client, OutboundError


class HttpTarget:
    def __init__(self, client: Client) -> None:
        self._client = client

    def call(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        deadline_s: float,
        answer_bytes: int,
    ) -> TargetAnswer:
        """A redirect is an answer and is not followed. Of a long answer the start is read."""
        try:
            answer = self._client.call(
                method,
                url,
                deadline_s=deadline_s,
                headers=headers,
                body=body,
                answer_bytes=answer_bytes,
                is_start_enough=True,
            )
        except OutboundError as error:
            raise CallFailed(error.reason, is_retryable=error.is_retryable) from error
        return TargetAnswer(answer.status, answer.headers, answer.body)
