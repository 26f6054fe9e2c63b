"""Routes whose answers are streams. They have the same rules as the other routes: origin, access check, permission.

API Gateway streams from a REST API only, whose events have another form and whose authorizers have another protocol. So
the token is verified here, and the event is brought into the form of the HTTP API.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from artiway.errors import ArtiwayError
from artiway.platform import http, logs, metrics, tracing, waits
from artiway.platform.logs import Logger
from artiway.platform.streaming import Context, Prelude

if TYPE_CHECKING:
    from artiway.platform.origin import Origin

logger = Logger("streams")
MEDIA = "text/event-stream"
# A function's time that a stream leaves for its end.
SLACK_MS = 5_000


# Authorization header -> the caller's identity or an error, as the authorizer of the HTTP API puts it into a request.
Authorizer = Callable[[str], Mapping[str, Any]]


@dataclass(frozen=True)
class Answer:
    """A body that is made part by part, of another media type than events."""

    media: str
    parts: Generator[str, None, None]


class StreamApi(http.Api):
    """A stream's route is a generator of text. Until its first yield it may raise an error with a status."""

    def __init__(
        self,
        area: str,
        *,
        origin: Callable[[], Origin],
        access_check: Callable[[], http.AccessPort],
        authorizer: Callable[[], Authorizer],
    ) -> None:
        super().__init__(area, origin=origin, access_check=access_check)
        self._authorizer = authorizer
        self._context: Context | None = None

    @property
    def remaining_ms(self) -> int:
        """How long a stream may last."""
        assert self._context is not None
        return max(0, self._context.get_remaining_time_in_millis() - SLACK_MS)

    @property
    def last_event_id(self) -> str | None:
        found: str | None = self._event.get("headers", {}).get("last-event-id")
        return found

    def stream(self, event: Mapping[str, Any], context: Context) -> Iterator[Prelude | bytes]:
        """The Lambda entry point of a streaming function: check, begin the stream, then send it on."""
        request_id = str(event["requestContext"].get("requestId", ""))
        route_key = f"{event['httpMethod']} {event['resource']}"
        self._identity, self._limit, self._context = None, None, context
        with (
            tracing.traced(tracing.parse(_headers(event).get("x-amzn-trace-id"))) as trace_id,
            logs.context(request_id=request_id, route=route_key),
        ):
            own = {"x-request-id": request_id, "x-trace-id": trace_id}
            try:
                with waits.counted(is_bounded=True, most_s=http.QUICK_S):
                    answer = self._opened(event, route_key)
                    frames = answer.parts
                    first = next(frames, "")
            except ArtiwayError as error:
                yield from self._refused(error, request_id, own)
                return
            except Exception:
                logger.exception("request failed")
                metrics.emit("RequestFailures", 1, area=self.area)
                yield from self._refused(ArtiwayError("an internal error occurred"), request_id, own)
                return
            logger.info("stream begun")
            headers = {"content-type": answer.media, "cache-control": "no-store", **own}
            try:
                yield Prelude(200, {**headers, **http.limit_headers(self._limit)})
                yield first.encode()
                for frame in frames:
                    yield frame.encode()
            finally:
                frames.close()

    def _opened(self, event: Mapping[str, Any], route_key: str) -> Answer:
        headers = _headers(event)
        assert self.origin is not None
        self.origin().check(headers)
        rule = self.rules.get(route_key)
        if rule is None:
            raise self._explain_missing(str(event["httpMethod"]), str(event["path"]))
        found = self._authorizer()(headers.get("authorization", ""))
        self._event = _as_http_event(event, route_key, headers, found)
        self._admit(self._event, rule.permission)
        values = dict(event.get("pathParameters") or {})
        if (body := self._body(self._event, rule)) is not None:
            values["body"] = body
        made = self._handlers[route_key](**values)
        return made if isinstance(made, Answer) else Answer(f"{MEDIA}; charset=utf-8", made)

    def rendered(self, error: ArtiwayError, request_id: str) -> dict[str, Any]:
        return http.rendered(error, request_id)

    def _refused(self, error: ArtiwayError, request_id: str, own: Mapping[str, str]) -> Iterator[Prelude | bytes]:
        answer = self.rendered(error, request_id)
        if answer["statusCode"] >= 500:
            self._count_failure()
        headers = {"cache-control": "no-store", **answer["headers"], **http.limit_headers(self._limit), **own}
        yield Prelude(answer["statusCode"], headers)
        yield str(answer["body"]).encode()


def _headers(event: Mapping[str, Any]) -> dict[str, str]:
    """A REST API leaves the names of headers as the client spelled them."""
    return {name.lower(): str(value) for name, value in (event.get("headers") or {}).items()}


def _as_http_event(
    event: Mapping[str, Any], route_key: str, headers: Mapping[str, str], found: Mapping[str, Any]
) -> dict[str, Any]:
    context = event["requestContext"]
    values = event.get("multiValueQueryStringParameters") or {}
    return {
        "routeKey": route_key,
        "rawPath": quote(str(event["path"]), safe="/-._~%"),
        "rawQueryString": urlencode(values, doseq=True),
        "headers": headers,
        "pathParameters": event.get("pathParameters") or {},
        "requestContext": {
            "requestId": context.get("requestId", ""),
            "domainName": context.get("domainName", ""),
            "http": {
                "method": event["httpMethod"],
                "path": event["path"],
                "sourceIp": context.get("identity", {}).get("sourceIp", ""),
            },
            "authorizer": {"lambda": found},
        },
        "body": event.get("body") or "",
        "isBase64Encoded": bool(event.get("isBase64Encoded")),
    }
