"""The HTTP API of a function: every route declares its permission, every error has the documented shape."""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar, get_args
from uuid import UUID

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import ServiceError
from aws_lambda_powertools.event_handler.openapi.exceptions import (
    RequestUnsupportedContentType,
    RequestValidationError,
)
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from artiway.errors import ArtiwayError, NotAllowed, NotFound, Refused, TooMany, Unauthenticated
from artiway.platform import logs, metrics, tracing, waits
from artiway.platform.logs import Logger

if TYPE_CHECKING:
    from artiway.platform.origin import Origin
    from artiway.platform.ratelimit import Decision

logger = Logger("http")

BASE = "/api/v1"
BODY_LIMIT_BYTES = 1_000_000
JSON_DEPTH_LIMIT = 32
# The widest integer that survives every JSON reader and PostgreSQL's bigint.
INTEGER_LIMIT = 2**63 - 1
IDEMPOTENCY_KEY_LIMIT = 200
# For a 503 without a retry time, as on raw routes.
RETRY_AFTER_S = 2
# All waits for the database of a request together, so that a hung server is answered by a 503 within three seconds.
QUICK_S = 2.5
_BODY_METHODS = frozenset({"POST", "PUT", "PATCH"})
_PARAMETER = re.compile(r"<(\w+)>")
_Handler = TypeVar("_Handler", bound=Callable[..., Any])
_Item = TypeVar("_Item")
# The query parameters of every list.
Limit = Annotated[int, Query(ge=1, le=100)]
Cursor = Annotated[str | None, Query(max_length=200)]


class Wire(BaseModel):
    """A JSON object of the API: camelCase names, unknown fields refused.

    Python code uses the Python names. `Api` reads request bodies strictly and by camelCase names only.
    The validator is built on first use: a request needs one or two of a function's many models.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, defer_build=True
    )


class ErrorBody(Wire):
    code: str = Field(description="AREA_STATUS_NAME, stable")
    message: str
    request_id: str
    details: dict[str, Any]


_ERROR = {"$ref": "#/components/schemas/ErrorBody"}
# A raw route follows WeChat's protocol; its errors have only these two fields.
_BRIEF_ERROR = {
    "type": "object",
    "required": ["code", "message"],
    "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
}


class TooLarge(Refused):
    code = "REQUEST_413_TOO_LARGE"


class WrongMediaType(Refused):
    code = "REQUEST_415_MEDIA_TYPE"


@dataclass(frozen=True)
class Identity:
    """The caller, as the access check found it."""

    tenant_id: UUID
    user_id: UUID
    permissions: frozenset[str]
    token_id: str = ""
    session_id: UUID | None = None
    key_id: UUID | None = None

    def may(self, permission: str) -> bool:
        return permission in self.permissions


@dataclass(frozen=True)
class Request:
    """What the access check reads: the authorizer's context and the request exactly as it was sent."""

    found: Mapping[str, Any]
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Admission:
    identity: Identity
    limit: Decision | None = None


class AccessPort(Protocol):
    """The access check before every protected route of a function."""

    def admit(self, request: Request) -> Admission:
        """The caller's identity and rate limit. Raises Unauthenticated for a caller without an identity."""

    def count_failure(self, *, is_counted: bool) -> None:
        """Count an answer with a 5xx status. `is_counted`: the request itself was counted by `admit`."""

    def once(
        self, identity: Identity, *, key: str, request_hash: str, perform: Callable[[], tuple[int, str]]
    ) -> tuple[int, str]:
        """Run `perform` once for this key. A repeated request gets the stored answer."""


@dataclass(frozen=True)
class _Rule:
    permission: str | None
    is_public: bool
    is_raw: bool
    is_idempotent: bool
    is_slow: bool = False
    accepts: frozenset[str] = frozenset()


class Api:
    """A function's routes. `permission=None` is any logged-in user; a route open to all must say `public=True`.

    `access_check` is called when the first protected route is. Without one the API trusts the authorizer's context.
    `warm_up` is called before each request, and acts at the first one of a process.
    `origin` refuses each request that did not come through CloudFront. Only an API that others call directly has None.
    """

    # Where the paths begin, the form of an error, and the status of a request that is not valid.
    base = BASE
    error_schema: Mapping[str, Any] = _ERROR
    invalid_status = HTTPStatus.UNPROCESSABLE_ENTITY

    def __init__(
        self,
        area: str,
        *,
        origin: Callable[[], Origin] | None,
        access_check: Callable[[], AccessPort] | None = None,
        warm_up: Callable[[], object] | None = None,
    ) -> None:
        self.area = area
        self._warm_up = warm_up
        self.access_check = access_check
        self.origin = origin
        self.resolver = APIGatewayHttpResolver(enable_validation=True, serializer=_to_json)
        self.rules: dict[str, _Rule] = {}
        self._handlers: dict[str, Callable[..., Any]] = {}
        self._identity: Identity | None = None
        self._event: Mapping[str, Any] = {}
        self._limit: Decision | None = None
        self._explain_missing: Callable[[str, str], ArtiwayError] = _no_route
        self.resolver.exception_handler(RequestValidationError)(self._on_invalid)
        self.resolver.exception_handler(RequestUnsupportedContentType)(self._on_media_type)
        self.resolver.exception_handler(ArtiwayError)(self._on_error)
        self.resolver.exception_handler(ServiceError)(self._on_service_error)

    def route(
        self,
        method: str,
        path: str,
        *,
        permission: str | None = None,
        public: bool = False,
        status: int = 200,
        errors: Sequence[int] = (),
        media: str = "application/json",
        also: str = "",
        raw: bool = False,
        idempotent: bool = False,
        keyed: bool = False,
        slow: bool = False,
        accepts: Sequence[str] = (),
        content: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Callable[[_Handler], _Handler]:
        """Declare a route: its path, its permission, its answers.

        `also` is a second media type of the answer. `raw` leaves the body to the handler. An `idempotent` route runs
        once per Idempotency-Key; a `keyed` one too, but its service enforces that. A `slow` route may wait for the
        database as long as its function's settings say, any other for QUICK_S at most. `accepts` names media types of a
        body that the handler reads itself. `content` has the schema of the answer by media type, where the handler's
        annotation does not say it.
        """
        rule = self.base + path
        key = f"{method} " + _PARAMETER.sub(r"{\1}", rule)
        self.rules[key] = _Rule(permission, public, raw, idempotent, slow, frozenset(accepts))
        documented = {int(self.invalid_status), 500, 503, *errors}
        if self.origin is not None:
            documented.add(403)
        if not public:
            documented |= {401, 403, 429}
        if idempotent:
            documented.add(409)
        if _PARAMETER.search(rule):
            documented.add(404)
        if method in _BODY_METHODS:
            documented |= {413, 415}
        responses: dict[int, Any] = {
            code: {
                "description": HTTPStatus(code).phrase,
                "content": {"application/json": {"schema": _BRIEF_ERROR if raw else self.error_schema}},
            }
            for code in sorted(documented)
        }
        extensions: dict[str, Any] = {"x-permission": "public" if public else permission or "user"}
        if idempotent or keyed:
            extensions["x-idempotent"] = True
        if also:
            extensions["x-also"] = also
        if accepts:
            extensions["x-accepts"] = list(accepts)

        def register(handler: _Handler) -> _Handler:
            self._handlers[key] = handler
            return self.resolver.route(
                rule,
                method,
                status_code=status,
                summary=(handler.__doc__ or "").strip().split("\n")[0],
                operation_id=handler.__name__,
                tags=[self.area],
                responses=_with_success(status, media, responses, content),
                security=[] if public else [{"bearer": []}],
                openapi_extensions=extensions,
            )(handler)

        return register

    def get(self, path: str, **options: Any) -> Callable[[_Handler], _Handler]:
        return self.route("GET", path, **options)

    def post(self, path: str, **options: Any) -> Callable[[_Handler], _Handler]:
        return self.route("POST", path, **options)

    def put(self, path: str, **options: Any) -> Callable[[_Handler], _Handler]:
        return self.route("PUT", path, **options)

    def patch(self, path: str, **options: Any) -> Callable[[_Handler], _Handler]:
        return self.route("PATCH", path, **options)

    def delete(self, path: str, **options: Any) -> Callable[[_Handler], _Handler]:
        return self.route("DELETE", path, **options)

    @property
    def identity(self) -> Identity:
        if self._identity is None:
            raise Unauthenticated("log in first")
        return self._identity

    @property
    def event(self) -> Mapping[str, Any]:
        """The event of API Gateway, for what the routes do not declare: raw bodies, addresses."""
        return self._event

    @property
    def raw_body(self) -> bytes:
        return _body_of(self._event)

    @property
    def media_type(self) -> str:
        return _media_type_of(self._event)

    @property
    def client_address(self) -> str:
        """The viewer's address if the request came through CloudFront, else the connection's."""
        viewer = self.origin().viewer_address(self._event.get("headers", {})) if self.origin is not None else ""
        return viewer or str(self._event.get("requestContext", {}).get("http", {}).get("sourceIp", ""))

    @property
    def public_host(self) -> str:
        """The host that the client called: CloudFront's if the request came through it, else the API's own."""
        viewer = self.origin().viewer_host(self._event.get("headers", {})) if self.origin is not None else ""
        return viewer or str(self._event["requestContext"]["domainName"])

    @property
    def public_url(self) -> str:
        """Where the client reached the platform. API Gateway sets the scheme, and on AWS it is always https."""
        scheme = self._event.get("headers", {}).get("x-forwarded-proto")
        return f"{'http' if scheme == 'http' else 'https'}://{self.public_host}"

    @property
    def idempotency_key(self) -> str | None:
        """The request's Idempotency-Key, for a `keyed` route."""
        key = self._event.get("headers", {}).get("idempotency-key")
        return None if key is None else _checked_key(str(key))

    def fallback(self, explain: Callable[[str, str], ArtiwayError]) -> None:
        """Set the error for a request that no route matches."""
        self._explain_missing = explain

    def handler(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """The Lambda entry point: check origin, access and body, call the route, render."""
        request = event["requestContext"]
        request_id = str(request.get("requestId", ""))
        route_key = str(event.get("routeKey", ""))
        trace_id = tracing.parse(event.get("headers", {}).get("x-amzn-trace-id"))
        rule = self.rules.get(route_key)
        is_raw = rule is not None and rule.is_raw
        self._identity, self._limit = None, None
        with (
            tracing.traced(trace_id) as trace_id,
            logs.context(request_id=request_id, route=route_key),
            waits.counted(is_bounded=True, most_s=math.inf if rule is not None and rule.is_slow else QUICK_S),
        ):
            self._warm()
            try:
                answer = self._answer(event, rule, context)
            except ArtiwayError as error:
                answer = _failed(error) if is_raw else rendered(error, request_id)
            except Exception:
                logger.exception("request failed")
                metrics.emit("RequestFailures", 1, area=self.area)
                bug = ArtiwayError("an internal error occurred")
                answer = _failed(bug) if is_raw else rendered(bug, request_id)
            if answer["statusCode"] >= HTTPStatus.INTERNAL_SERVER_ERROR:
                self._count_failure()
            if answer["statusCode"] == HTTPStatus.TOO_MANY_REQUESTS:
                metrics.emit("RequestsThrottled", 1)
            answer["headers"] = {
                "cache-control": "no-store",
                **({"retry-after": str(RETRY_AFTER_S)} if answer["statusCode"] == 503 else {}),
                **answer.get("headers", {}),
                **limit_headers(self._limit),
                "x-request-id": request_id,
                "x-trace-id": trace_id,
            }
            logger.info("request answered", status=answer["statusCode"])
            return answer

    def _warm(self) -> None:
        if self._warm_up is None:
            return
        try:
            self._warm_up()
        except Exception:
            logger.exception("warm-up failed")  # the request loads what it needs

    def _count_failure(self) -> None:
        if self.access_check is None:
            return
        try:
            self.access_check().count_failure(is_counted=self._limit is not None)
        except Exception:  # the answer matters more than its count
            logger.exception("failure not counted")

    def _answer(self, event: Mapping[str, Any], rule: _Rule | None, context: Any) -> dict[str, Any]:
        if self.origin is not None:
            self.origin().check(event.get("headers", {}))
        http = event["requestContext"]["http"]
        if rule is None:
            raise self._explain_missing(http["method"], event["rawPath"])
        self._event = event
        if not rule.is_public:
            self._admit(event, rule.permission)
        bounded = _bounded(event, is_raw=rule.is_raw, accepts=rule.accepts)
        if bounded["body"]:
            parsed_body(self._handlers[str(event["routeKey"])], bounded["body"])

        def perform() -> dict[str, Any]:
            answer = dict(self.resolver.resolve(bounded, context))
            if answer["statusCode"] == HTTPStatus.NO_CONTENT:
                answer["body"] = ""
            return answer

        key = event.get("headers", {}).get("idempotency-key")
        if rule.is_idempotent and key is not None:
            return self._once(str(key), event, perform)
        return perform()

    def _body(self, event: Mapping[str, Any], rule: _Rule) -> Wire | None:
        """The checked body of a request whose handler is called without the resolver."""
        text = _bounded(event, is_raw=rule.is_raw, accepts=rule.accepts)["body"]
        return parsed_body(self._handlers[str(event["routeKey"])], text or "{}")

    def _admit(self, event: Mapping[str, Any], permission: str | None) -> None:
        """Set the identity and check the rate limit, then check the route's permission."""
        request = _request(event)
        admission = Admission(_trusted(request)) if self.access_check is None else self.access_check().admit(request)
        identity, self._limit = admission.identity, admission.limit
        if self._limit is not None and not self._limit.is_allowed:
            raise TooMany("too many requests", retry_after_s=max(1, self._limit.retry_after_s))
        if permission is not None and not identity.may(permission):
            raise NotAllowed("this needs a permission that you do not have", permission=permission)
        self._identity = identity

    def _once(self, key: str, event: Mapping[str, Any], perform: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Only a success is stored under the key: a refused request changed nothing and may be sent again."""
        _checked_key(key)
        if self.access_check is None:
            return perform()

        def performed() -> tuple[int, str]:
            answer = perform()
            if answer["statusCode"] >= HTTPStatus.BAD_REQUEST:
                raise _NotKept(answer)
            return int(answer["statusCode"]), str(answer["body"])

        request_hash = _request_hash(self.identity, event)
        try:
            status, body = self.access_check().once(
                self.identity, key=key, request_hash=request_hash, perform=performed
            )
        except _NotKept as refusal:
            return refusal.answer
        return {"statusCode": status, "headers": {"content-type": "application/json"}, "body": body}

    def _on_invalid(self, error: RequestValidationError) -> Response[str]:
        return self._on_error(_invalid(error.errors()))

    def _on_media_type(self, _: RequestUnsupportedContentType) -> Response[str]:
        return self._on_error(WrongMediaType("send application/json"))

    def _on_service_error(self, error: ServiceError) -> Response[str]:
        if error.status_code == HTTPStatus.NOT_FOUND:
            return self._on_error(_no_route(self._event["requestContext"]["http"]["method"], self._event["rawPath"]))
        raise error

    def _on_error(self, error: ArtiwayError) -> Response[str]:
        answer = rendered(error, str(self._event["requestContext"].get("requestId", "")))
        headers = {name: value for name, value in answer["headers"].items() if name != "content-type"}
        return Response(
            status_code=answer["statusCode"],
            content_type="application/json",
            body=answer["body"],
            headers=headers,
        )


def _no_route(method: str, path: str) -> ArtiwayError:
    return NotFound("there is no such route", code="REQUEST_404_NO_ROUTE", method=method, path=path[:200])


def cursor_of(place: UUID | None) -> str | None:
    """The cursor after an item of a list, opaque to the client."""
    return None if place is None else base64.urlsafe_b64encode(place.bytes).rstrip(b"=").decode()


def place_of(cursor: str | None) -> UUID | None:
    if cursor is None:
        return None
    try:
        return UUID(bytes=base64.b64decode(cursor + "==", altchars=b"-_", validate=True))
    except ValueError:
        fields = [{"field": "cursor", "reason": "not a valid cursor"}]
        raise Refused("the request is not valid", fields=fields) from None


def page_of(items: Sequence[_Item], cursor: str | None, limit: int) -> tuple[Sequence[_Item], str | None]:
    """One page of a list in memory, and the cursor of the next page."""
    place = place_of(cursor)
    start = 0 if place is None else min(place.int, len(items))
    end = start + limit
    return items[start:end], cursor_of(UUID(int=end)) if end < len(items) else None


class _NotKept(Exception):
    """Carries an error answer through the transaction, which rolls back."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__("not kept")
        self.answer = answer


def _checked_key(key: str) -> str:
    if not (0 < len(key) <= IDEMPOTENCY_KEY_LIMIT and key.isascii() and key.isprintable()):
        reason = f"1 to {IDEMPOTENCY_KEY_LIMIT} printable ASCII characters"
        raise Refused("the request is not valid", fields=[{"field": "Idempotency-Key", "reason": reason}])
    return key


def _request(event: Mapping[str, Any]) -> Request:
    context = event["requestContext"]
    query = event.get("rawQueryString") or ""
    return Request(
        found=context.get("authorizer", {}).get("lambda") or {},
        method=str(context["http"]["method"]),
        target=str(event["rawPath"]) + (f"?{query}" if query else ""),
        headers=event.get("headers", {}),
        body=_body_of(event),
    )


def _trusted(request: Request) -> Identity:
    """The identity in the authorizer's context, without further checks."""
    found = request.found
    if found.get("error"):
        raise Unauthenticated("the token is not valid", code=str(found["error"]))
    try:
        return Identity(
            tenant_id=UUID(found["tenantId"]),
            user_id=UUID(found["userId"]),
            permissions=frozenset(str(found.get("permissions", "")).split()),
            token_id=str(found.get("tokenId", "")),
        )
    except (KeyError, ValueError):
        raise Unauthenticated("log in first") from None


def _request_hash(identity: Identity, event: Mapping[str, Any]) -> str:
    """Two requests are the same if user, method, target and body are equal."""
    request = _request(event)
    parts = (str(identity.user_id).encode(), request.method.encode(), request.target.encode(), request.body)
    return hashlib.sha256(b"\n".join(parts)).hexdigest()


def limit_headers(limit: Decision | None) -> dict[str, str]:
    if limit is None:
        return {}
    return {
        "ratelimit-limit": str(limit.limit),
        "ratelimit-remaining": str(limit.remaining),
        "ratelimit-reset": str(limit.reset_s),
    }


def _body_of(event: Mapping[str, Any]) -> bytes:
    body = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        return str(body).encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(body, validate=True)
    except ValueError:
        raise Refused("the body cannot be read", fields=[{"field": "body", "reason": "not base64"}]) from None


def _media_type_of(event: Mapping[str, Any]) -> str:
    return str(event.get("headers", {}).get("content-type", "")).partition(";")[0].strip().lower()


def _bounded(event: Mapping[str, Any], *, is_raw: bool, accepts: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The event with its body checked: size, media type, JSON."""
    body = _body_of(event)
    if len(body) > BODY_LIMIT_BYTES:
        raise TooLarge("the body is too large", limit_bytes=BODY_LIMIT_BYTES)
    for name, value in {**(event.get("pathParameters") or {}), **(event.get("queryStringParameters") or {})}.items():
        if "\0" in name or "\0" in str(value):
            raise Refused("the request is not valid", fields=[{"field": name, "reason": "contains a NUL character"}])
    if is_raw:
        return {**event, "body": "", "isBase64Encoded": False}
    if not body:  # the type of nothing says nothing: some clients always send one
        headers = {name: value for name, value in (event.get("headers") or {}).items() if name != "content-type"}
        return {**event, "headers": headers, "body": "", "isBase64Encoded": False}
    media_type = _media_type_of(event)
    if accepts and media_type in accepts:
        return {**event, "body": "", "isBase64Encoded": False}
    if accepts or media_type != "application/json":
        raise WrongMediaType(f"send {' or '.join(sorted(accepts)) or 'application/json'}", received=media_type[:100])
    return {**event, "body": _checked_json(body), "isBase64Encoded": False}


def _checked_json(body: bytes) -> str:
    try:
        text = body.decode("utf-8")
        _check_value(json.loads(text, parse_constant=_no_constant), "body", 0)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else f"not valid JSON: {error}"
        raise Refused("the body is not valid", fields=[{"field": "body", "reason": reason[:200]}]) from None
    return text


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _check_value(value: Any, place: str, depth: int) -> None:
    """Refuse values that JSON allows and PostgreSQL does not: NUL, lone surrogates, large integers, deep nesting."""
    reason = ""
    if depth > JSON_DEPTH_LIMIT:
        reason = "nested too deeply"
    elif isinstance(value, str):
        if "\0" in value:
            reason = "contains a NUL character"
        elif any("\ud800" <= character <= "\udfff" for character in value):
            reason = "contains a lone surrogate"
    elif isinstance(value, bool):
        return
    elif isinstance(value, int) and abs(value) > INTEGER_LIMIT:
        reason = "integer out of range"
    if reason:
        raise Refused("the request is not valid", fields=[{"field": place.removeprefix("body."), "reason": reason}])
    if isinstance(value, dict):
        for name, item in value.items():
            _check_value(name, place, depth)
            _check_value(item, f"{place}.{name}", depth + 1)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            _check_value(item, f"{place}.{position}", depth + 1)


@cache
def _body_of_handler(handler: Callable[..., Any]) -> type[Wire] | None:
    """The model of a handler's body. Resolved at the first request, because annotations are evaluated late."""
    for parameter in inspect.signature(handler, eval_str=True).parameters.values():
        for kind in get_args(parameter.annotation) or (parameter.annotation,):  # a body may be optional
            if isinstance(kind, type) and issubclass(kind, Wire):
                return kind
    return None


def parsed_body(handler: Callable[..., Any], text: str) -> Wire | None:
    """Validate without conversions: "5" and true are no numbers, 1 is not true, and a field has one name.

    It validates the JSON text: strict validation of Python values would refuse dates and enums, which JSON has as text.
    """
    shape = _body_of_handler(handler)
    if shape is None:
        return None
    try:
        return shape.model_validate_json(text, strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise _invalid([{**problem, "loc": ("body", *problem["loc"])} for problem in found]) from None


def _invalid(problems: Sequence[Mapping[str, Any]]) -> Refused:
    fields = [
        {"field": _field_name(problem.get("loc", ())), "reason": problem.get("msg") or problem.get("type", "")}
        for problem in problems
    ]
    return Refused("the request is not valid", fields=fields)


def _field_name(location: Sequence[Any]) -> str:
    places = [str(part) for part in location]
    if len(places) > 1 and places[0] in {"body", "query", "path", "header"}:
        places = places[1:]
    return ".".join(places)


def rendered(error: ArtiwayError, request_id: str) -> dict[str, Any]:
    headers = {"content-type": "application/json"}
    if isinstance(error, TooMany):
        headers["retry-after"] = str(error.retry_after_s)
    if "allow" in error.details:
        headers["allow"] = ", ".join(error.details["allow"])
    body = {"code": error.code, "message": error.message, "requestId": request_id, "details": error.details}
    return {"statusCode": error.status, "headers": headers, "body": _to_json(body)}


def _failed(error: ArtiwayError) -> dict[str, Any]:
    """An error in WeChat's format: only WeChat calls raw routes."""
    body = _to_json({"code": "FAIL", "message": error.message})
    return {"statusCode": error.status, "headers": {"content-type": "application/json"}, "body": body}


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _with_success(
    status: int, media: str, errors: dict[int, Any], content: Mapping[str, Mapping[str, Any]] | None
) -> dict[int, Any]:
    success: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if content is not None:
        success["content"] = {name: {"schema": dict(schema)} for name, schema in content.items()}
    elif media != "application/json":
        success["content"] = {media: {"schema": {"type": "string"}}}
    return {status: success, **errors}
