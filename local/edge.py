"""Takes CloudFront's place: one address for console, API, WebSocket and pictures, with the headers that it adds."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import WSMsgType, web
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict
from yarl import URL

from artiway.platform.streaming import DELIMITER
from local import mailbox, pictures
from local.lambdas import StreamFailed, new_trace_id
from local.template import Api, StreamRoute

# Function, event, trace id and whether its answer ends with its viewer -> the parts of the answer.
Stream = Callable[[str, bytes, str, bool], AsyncIterator[bytes]]

# A text of these routes is cancelled when its viewer leaves. AWS does not show that to the function (docs/openai.md).
OPENAI = "/openai/"
# The limits of an HTTP API and of a WebSocket API on AWS.
PAYLOAD_BYTES = 10 * 1024 * 1024
INTEGRATION_SECONDS = 30
FRAME_BYTES = 128 * 1024
HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
    "upgrade", "host", "content-length", "date", "server",
}  # fmt: skip
# The policy of stacks/edge.yaml. Styles are inline because the component library writes them at run time.
CONSOLE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' blob: data: {uploads}; "
    "font-src 'self'; connect-src 'self' {uploads}; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
UNBUILT = """<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="2">
<title>Artiway</title><body style="font:16px/1.5 system-ui;display:grid;place-items:center;min-height:90vh">
<p>The console of Artiway is being built. This page opens it when it is ready.<br>
控制台正在构建，完成后会自动打开。</p>"""


class WholeFile(web.FileResponse):
    """A file that is closed also when the viewer leaves.

    aiohttp opens the file in a thread and cancels the handler of a viewer that leaves. A file that the thread opens
    after that would belong to nobody.
    """

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        return await asyncio.shield(super().prepare(request))


class Edge:
    def __init__(
        self,
        *,
        port: int,
        console: Path,
        aws_url: str,
        http: Api,
        websocket: Api | None,
        origin_secret: str = "",
        pictures: pictures.Pictures | None = None,
        streams: Sequence[StreamRoute] = (),
        stream: Stream | None = None,
        is_open: bool = True,
    ) -> None:
        self._port, self._console, self._aws_url = port, console.resolve(), aws_url
        self._http, self._websocket = http, websocket
        self.origin_secret, self.pictures = origin_secret, pictures
        self._streams, self._stream = streams, stream
        # Closed until the whole stack runs and while the template is deployed again: a partial API answers wrongly.
        self.is_open = is_open
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        timeout = aiohttp.ClientTimeout(total=INTEGRATION_SECONDS, connect=3)
        connector = aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(
            timeout=timeout,
            connector=connector,
            auto_decompress=False,
            # Forward the viewer's headers alone: aiohttp would add these by itself.
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        )
        app = web.Application(client_max_size=PAYLOAD_BYTES)
        for route in self._streams:
            app.router.add_route("*", route.path, partial(self._streamed, route))
        app.router.add_route("*", r"/api/{tail:[\s\S]*}", self._forward)
        app.router.add_route("*", OPENAI + r"{tail:[\s\S]*}", self._unknown)
        app.router.add_get("/ws", self._connect)
        app.router.add_route("*", pictures.PREFIX + r"{tail:[\s\S]*}", self._picture)
        app.router.add_get(mailbox.PATH, self._mailbox)
        app.router.add_get(f"{mailbox.PATH}.json", self._mailbox)
        app.router.add_get(r"/{tail:[\s\S]*}", self._static)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=1024).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    def _headers(self, request: web.Request, api: Api) -> CIMultiDict[str]:
        """Drop the headers that a viewer could forge, then set them from the connection."""
        headers = CIMultiDict(
            (name, value)
            for name, value in request.headers.items()
            if name.lower() not in HOP_BY_HOP and not name.lower().startswith(("cloudfront-", "sec-websocket-"))
        )
        host, *_ = (request.transport.get_extra_info("peername") if request.transport else None) or ("127.0.0.1", 0)
        forwarded = headers.pop("x-forwarded-for", "")
        headers["true-client-ip"], headers["x-origin-verify"] = host, self.origin_secret
        headers["x-viewer-host"] = request.headers.get("host", "")
        headers["x-forwarded-for"] = f"{forwarded}, {host}" if forwarded else host
        # Read from the connection: a viewer chooses the scheme of an absolute request line.
        is_encrypted = request.transport is not None and request.transport.get_extra_info("sslcontext") is not None
        headers["x-forwarded-proto"] = "https" if is_encrypted else "http"
        headers.setdefault("x-amzn-trace-id", new_trace_id())
        if not headers.get("authorization"):  # as the CloudFront function NamelessRequests does
            headers["authorization"] = "none"
        headers["Host"] = f"{api.api_id}.execute-api.127.0.0.1"
        return headers

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        if not self.is_open:
            return _unreachable()
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _problem(413, "REQUEST_413_TOO_LARGE", f"A request holds at most {PAYLOAD_BYTES} bytes.")
        headers = self._headers(request, self._http)
        url = f"{self._aws_url}{_target(request)}"
        try:
            async with self._session.request(
                request.method,
                _exact(url),
                headers=headers,
                data=io.BytesIO(body) if body else None,
                allow_redirects=False,
            ) as answer:
                return await _relay(request, answer)
        except TimeoutError:
            return _problem(503, "EDGE_503_TIMEOUT", f"No answer within {INTEGRATION_SECONDS} s.")
        except aiohttp.ClientError:
            return _unreachable()

    async def _streamed(self, route: StreamRoute, request: web.Request) -> web.StreamResponse:
        """Call the function as a REST API does that streams, and pass each part on as it comes."""
        if not self.is_open or self._stream is None:
            return _unreachable()
        headers = self._headers(request, self._http)
        event = rest_event(route.path, request, headers, await request.read())
        response = web.StreamResponse()
        prelude = b""
        try:
            payload, is_cut = json.dumps(event).encode(), route.path.startswith(OPENAI)
            async for part in self._stream(route.function, payload, headers["x-amzn-trace-id"], is_cut):
                if response.prepared:
                    await response.write(part)
                    continue
                prelude += part
                head, delimiter, first = prelude.partition(DELIMITER)
                if delimiter:
                    answer = json.loads(head)
                    response.set_status(answer["statusCode"])
                    response.headers.update(answer.get("headers", {}))
                    await response.prepare(request)
                    if first:
                        await response.write(first)
        except StreamFailed:
            if not response.prepared:
                return web.json_response({"message": "Internal Server Error"}, status=500)
            response.force_close()  # the viewer sees that the answer is not whole
            if request.transport is not None:
                request.transport.abort()
            return response
        except ConnectionResetError:  # the viewer left; the function does not see it
            return response
        if not response.prepared:
            return web.json_response({"message": "Internal Server Error"}, status=500)
        with contextlib.suppress(ConnectionResetError):
            await response.write_eof()
        return response

    async def _unknown(self, _request: web.Request) -> web.StreamResponse:
        """As the REST API answers a path that it does not have."""
        error = {"message": "there is no such route", "type": "invalid_request_error", "param": None}
        body = {"code": "REQUEST_404_NO_ROUTE", "message": "there is no such route", "requestId": str(uuid.uuid4())}
        return web.json_response({**body, "details": {}, "error": {**error, "code": "unknown_url"}}, status=404)

    async def _connect(self, request: web.Request) -> web.StreamResponse:
        """Connect to the API first: its answer decides whether the viewer's handshake succeeds."""
        assert self._session is not None
        if self._websocket is None:
            return _problem(404, "ROUTE_404_UNKNOWN", "This stack has no WebSocket API.")
        if not self.is_open:
            return _unreachable()
        url = f"{self._aws_url}/{self._websocket.stage}?{request.rel_url.raw_query_string}"
        headers = self._headers(request, self._websocket)
        try:
            upstream = await self._session.ws_connect(_exact(url), headers=headers, max_msg_size=FRAME_BYTES)
        except aiohttp.WSServerHandshakeError as refusal:
            return _problem(refusal.status, f"WS_{refusal.status}_REFUSED", "The connection was refused.")
        except (aiohttp.ClientError, TimeoutError):
            return _unreachable()
        viewer = web.WebSocketResponse(max_msg_size=FRAME_BYTES)
        async with upstream:
            await viewer.prepare(request)
            copies = [asyncio.ensure_future(_copy(viewer, upstream)), asyncio.ensure_future(_copy(upstream, viewer))]
            try:
                await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for copy in copies:
                    copy.cancel()
                await asyncio.gather(*copies, return_exceptions=True)
            with contextlib.suppress(ConnectionError, TimeoutError):
                await upstream.close(code=viewer.close_code or 1000)
                await viewer.close(code=upstream.close_code or 1000)
        return viewer

    async def _picture(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        if not self.is_open or self.pictures is None:
            return _unreachable()
        try:
            return await self.pictures.answer(request, self._session)
        except (aiohttp.ClientError, TimeoutError):
            return _unreachable()

    async def _mailbox(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        try:
            return await mailbox.answer(request, self._session, self._aws_url)
        except (aiohttp.ClientError, TimeoutError):
            return _unreachable()

    async def _static(self, request: web.Request) -> web.StreamResponse:
        """A file of the built console. The names of assets contain a hash of their content, so they never change."""
        tail = request.match_info["tail"]
        file = (self._console / (tail or "index.html")).resolve()
        if file.is_relative_to(self._console) and file.is_file() and not file.name.startswith("."):
            caching = "public, max-age=31536000, immutable" if tail.startswith("assets/") else "no-cache"
            return WholeFile(file, headers={"Cache-Control": caching, **self._page_headers()})
        if not tail:
            return web.Response(text=UNBUILT, content_type="text/html", headers={"Cache-Control": "no-store"})
        return _problem(404, "ROUTE_404_UNKNOWN", "There is nothing here.")

    def _page_headers(self) -> dict[str, str]:
        """Those of the response headers policy ConsoleHeaders; uploads go to the local S3, over HTTP."""
        policy = CONSOLE_POLICY.format(uploads=self._aws_url)
        return {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"}


def rest_event(resource: str, request: web.Request, headers: CIMultiDict[str], body: bytes) -> dict[str, Any]:
    """The event of a REST API (version 1.0) for a request."""
    query = request.rel_url.query
    return {
        "resource": resource,
        "path": request.rel_url.path,
        "httpMethod": request.method,
        "headers": dict(headers),
        "multiValueHeaders": {name: headers.getall(name) for name in headers},
        "queryStringParameters": dict(query) or None,
        "multiValueQueryStringParameters": {name: query.getall(name) for name in query} or None,
        "pathParameters": dict(request.match_info) or None,
        "stageVariables": None,
        "requestContext": {
            "resourcePath": resource,
            "httpMethod": request.method,
            "path": f"/live{request.rel_url.path}",
            "stage": "live",
            "requestId": str(uuid.uuid4()),
            "domainName": headers["Host"],
            "identity": {"sourceIp": headers["true-client-ip"], "userAgent": headers.get("user-agent")},
        },
        "body": body.decode(errors="replace") or None,
        "isBase64Encoded": False,
    }


def _target(request: web.Request) -> str:
    """Path and query. An absolute request line (RFC 9112) gives the same target."""
    if request.raw_path.startswith("/"):
        return request.raw_path
    return request.rel_url.raw_path_qs


def _exact(url: str) -> URL:
    """Keep the encoding of path and query as the viewer sent it: an API may sign or compare them."""
    return URL(url, encoded=True)


async def _relay(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    if answer.status == 502 and b'"errorType"' in await answer.read():
        # The function failed without an answer. AWS hides the reason from the viewer.
        return web.json_response({"message": "Internal Server Error"}, status=500)
    kept = [(name, value) for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP]
    response = web.StreamResponse(status=answer.status, headers=CIMultiDict(kept))
    if "Content-Length" in answer.headers:
        response.content_length = int(answer.headers["Content-Length"])
    await response.prepare(request)
    if answer.status == 502:
        await response.write(await answer.read())
    async for chunk in answer.content.iter_any():
        await response.write(chunk)
    await response.write_eof()
    return response


async def _copy(
    source: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
    sink: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
) -> None:
    async for message in source:
        if message.type == WSMsgType.TEXT:
            await sink.send_str(message.data)
        elif message.type == WSMsgType.BINARY:
            await sink.send_bytes(message.data)


def _unreachable() -> web.Response:
    return _problem(502, "EDGE_502_UNREACHABLE", "The API is not reachable; it may be starting.")


def _problem(status: int, code: str, message: str) -> web.Response:
    body = {"code": code, "message": message, "requestId": str(uuid.uuid4()), "details": {}}
    headers = {"Retry-After": "2"} if status in {502, 503} else None
    return web.json_response(body, status=status, headers=headers)
