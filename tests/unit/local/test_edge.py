"""The edge in edge_server of a small server that takes the emulator's place."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from artiway.platform import picture_keys
from artiway.platform.signed_urls import UrlSigner
from local import edge
from local.edge import Edge
from local.pictures import Pictures, public_keys
from local.servers import free_port
from local.template import Api

Run = Callable[[Coroutine[Any, Any, Any]], Any]
CLOSED = web.AppKey("CLOSED", asyncio.Event)
API, SOCKET = Api("aaaaaaaa", "$default"), Api("bbbbbbbb", "ws")


async def upstream(request: web.Request) -> web.StreamResponse:
    match request.path:
        case "/api/v1/slow":
            await asyncio.sleep(60)
        case "/api/v1/failing":
            return web.json_response({"errorType": "KeyError", "stackTrace": ["secret"]}, status=502)
        case "/api/v1/vendor":
            return web.json_response({"code": "PAY_502_VENDOR"}, status=502)
        case "/api/v1/cookies":
            answer = web.Response(status=201, text="made")
            answer.headers.extend([("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])
            return answer
        case "/ws" if request.query.get("token") != "good":
            return web.Response(status=403)
        case "/ws":
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            await socket.send_str(request.headers["Host"])
            async for message in socket:
                if message.data == "bye":
                    await socket.close(code=4001)
                else:
                    await socket.send_str(f"echo {message.data}")
            request.app[CLOSED].set()
            return socket
    body = {"path": request.raw_path, "headers": dict(request.headers), "size": len(await request.read())}
    return web.json_response({"method": request.method, **body})


class Viewer:
    """A client of the edge, on the test's event loop."""

    edge: Edge

    def __init__(self, run: Run, port: int, closed: asyncio.Event) -> None:
        self.run, self.url, self.closed = run, f"http://127.0.0.1:{port}", closed

    def request(self, path: str, method: str = "GET", **options: Any) -> tuple[int, Any, Any]:
        async def scenario() -> tuple[int, Any, Any]:
            async with (
                aiohttp.ClientSession() as session,
                session.request(method, f"{self.url}{path}", allow_redirects=False, **options) as answer,
            ):
                text = await answer.text()
                is_json = answer.content_type == "application/json"
                return answer.status, json.loads(text) if is_json else text, answer.headers

        status, body, headers = self.run(scenario())
        return status, body, headers


@pytest.fixture
def console(tmp_path: Path) -> Path:
    folder = tmp_path / "console"
    folder.mkdir()
    (folder / "index.html").write_text("<p>start</p>")
    (folder / "assets").mkdir()
    (folder / "assets/app-1f.js").write_text("let it = 1")
    (folder / "assets/app-1f.js.gz").write_bytes(gzip.compress(b"let it = 1 // compressed"))
    (folder / ".sources").write_text("hash")
    (tmp_path / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def viewer(run: Run, console: Path) -> Iterator[Viewer]:
    port, upstream_port = free_port(), free_port()

    async def start() -> tuple[web.AppRunner, Edge, asyncio.Event]:
        app = web.Application(client_max_size=2**30)
        app[CLOSED] = asyncio.Event()
        app.router.add_route("*", "/{tail:.*}", upstream)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", upstream_port).start()
        edge_server = Edge(
            port=port, console=console, aws_url=f"http://127.0.0.1:{upstream_port}", http=API, websocket=SOCKET
        )
        await edge_server.start()
        return runner, edge_server, app[CLOSED]

    runner, edge_server, closed = run(start())
    viewer = Viewer(run, port, closed)
    viewer.edge = edge_server
    yield viewer
    run(edge_server.stop())
    run(runner.cleanup())


def test_request_reaches_the_api_unchanged(viewer: Viewer) -> None:
    assert viewer.request("/api/v1/x", "POST", data=io.BytesIO(b"x" * 3_000_000))[1]["size"] == 3_000_000
    status, body, _ = viewer.request("/api/v1/a%2Fb%20c?x=1&x=%2B&y", "PATCH", data=b"12345")
    assert (status, body["method"], body["size"]) == (200, "PATCH", 5)
    assert body["path"].startswith("/api/v1/a%2Fb%20c?x=1&x=")
    assert body["headers"]["Host"].startswith("aaaaaaaa.execute-api.")


@pytest.mark.parametrize("host", ["127.0.0.1", "another.example:81", "u:p@x"])
def test_absolute_request_line_is_answered_like_its_path(viewer: Viewer, host: str) -> None:
    async def scenario(target: str) -> tuple[int, Any]:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(viewer.url.rpartition(":")[2]))
        writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return int(head.split()[1]), json.loads(body)

    status, body = viewer.run(scenario(f"https://{host}/api/v1/a%2Fb%20c?x=1&x=%2B&y"))
    assert (status, body["path"]) == (200, "/api/v1/a%2Fb%20c?x=1&x=%2B&y")
    assert {value for name, value in body["headers"].items() if name.lower() == "x-forwarded-proto"} == {"http"}
    assert viewer.run(scenario(f"http://{host}/missing.js"))[0] == 404


def test_edge_overwrites_forged_viewer_headers(viewer: Viewer) -> None:
    viewer.edge.origin_secret = "shared secret"
    forged = {
        "True-Client-IP": "6.6.6.6",
        "X-Origin-Verify": "guess",
        "X-Viewer-Host": "evil.example",
        "cloudfront-viewer-country": "XX",
        "X-Forwarded-For": "6.6.6.6",
    }
    _, body, _ = viewer.request("/api/v1/x", headers=forged)
    seen = {name.lower(): value for name, value in body["headers"].items()}
    assert (seen["true-client-ip"], seen["x-origin-verify"]) == ("127.0.0.1", "shared secret")
    assert seen["x-viewer-host"] == viewer.url.removeprefix("http://")
    assert "cloudfront-viewer-country" not in seen
    assert seen["x-forwarded-for"] == "6.6.6.6, 127.0.0.1"


def test_picture_is_read_with_own_signature(viewer: Viewer) -> None:
    """S3 gets the parameters of the cache policy, and neither the viewer's signature nor its other headers."""
    key = picture_keys.new_key()
    keys = public_keys(json.dumps({"first-1": key}), ["first-1"])
    plain = f"{viewer.url}/outputs/t/a%20b.png?response-content-type=image/png&x=1"
    signed = UrlSigner("KFIRST1", lambda: key).sign(plain, 4_000_000_000).removeprefix(viewer.url)
    assert viewer.request(signed)[0] == 502
    viewer.edge.pictures = Pictures(viewer.edge._aws_url, "bucket", keys)
    headers = {"Range": "bytes=0-9", "Authorization": "Bearer x", "Cookie": "a=1"}
    status, body, answered = viewer.request(signed, headers=headers)
    assert (status, answered["X-Content-Type-Options"]) == (200, "nosniff")
    path, _, query = body["path"].partition("?")
    names = {pair.partition("=")[0] for pair in query.split("&")}
    assert path == "/bucket/outputs/t/a%20b.png"
    assert {"response-content-type", "X-Amz-Signature"} <= names
    assert not names & {"x", "Signature", "Key-Pair-Id", "Expires"}
    assert body["headers"]["Range"] == "bytes=0-9"
    assert not {"Authorization", "Cookie"} & body["headers"].keys()
    assert viewer.request(signed.replace("x=1", "x=2"))[0] == 403
    assert viewer.request(signed, "DELETE")[0] == 403


def test_file_is_closed_when_viewer_leaves_early(
    viewer: Viewer, console: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[io.IOBase] = []
    is_opening, has_left = threading.Event(), threading.Event()
    make = web.FileResponse._make_response

    def slow(self: web.FileResponse, *arguments: Any) -> Any:
        is_opening.set()
        assert has_left.wait(30)
        answer = make(self, *arguments)
        opened.append(answer[1])
        return answer

    monkeypatch.setattr(web.FileResponse, "_make_response", slow)

    async def scenario() -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", int(viewer.url.rpartition(":")[2]))
        writer.write(b"GET /assets/app-1f.js HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.to_thread(is_opening.wait, 30)
        writer.transport.abort()
        runner = viewer.edge._runner
        while runner and runner.server and runner.server.connections:  # noqa: ASYNC110 (aiohttp changes them)
            await asyncio.sleep(0.01)
        has_left.set()
        async with asyncio.timeout(30):
            while not (opened and opened[0].closed):  # noqa: ASYNC110 (a thread changes it)
                await asyncio.sleep(0.01)

    viewer.run(scenario())


def test_edge_starts_a_trace_unless_viewer_sent_one(viewer: Viewer) -> None:
    _, body, _ = viewer.request("/api/v1/x")
    assert next(v for k, v in body["headers"].items() if k.lower() == "x-amzn-trace-id").startswith("Root=1-")
    _, body, _ = viewer.request("/api/v1/x", headers={"X-Amzn-Trace-Id": "Root=1-aa-bb"})
    assert [v for k, v in body["headers"].items() if k.lower() == "x-amzn-trace-id"] == ["Root=1-aa-bb"]


def test_status_and_every_header_come_back(viewer: Viewer) -> None:
    status, body, headers = viewer.request("/api/v1/cookies")
    assert (status, body, headers.getall("Set-Cookie")) == (201, "made", ["a=1", "b=2"])


def test_body_beyond_ten_megabytes_is_refused(viewer: Viewer) -> None:
    status, body, _ = viewer.request("/api/v1/x", "POST", data=io.BytesIO(b"x" * (10 * 1024 * 1024 + 1)))
    assert (status, body["code"]) == (413, "REQUEST_413_TOO_LARGE")
    assert set(body) == {"code", "message", "requestId", "details"}


def test_function_failure_hides_its_reason_from_viewer(viewer: Viewer) -> None:
    assert viewer.request("/api/v1/failing")[:2] == (500, {"message": "Internal Server Error"})
    assert viewer.request("/api/v1/vendor")[:2] == (502, {"code": "PAY_502_VENDOR"})


def test_late_answer_ends_in_a_timeout_status(run: Run, console: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(edge, "INTEGRATION_SECONDS", 0.2)
    port, upstream_port = free_port(), free_port()

    async def start() -> tuple[web.AppRunner, Edge]:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", upstream)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", upstream_port).start()
        edge_server = Edge(
            port=port, console=console, aws_url=f"http://127.0.0.1:{upstream_port}", http=API, websocket=None
        )
        await edge_server.start()
        return runner, edge_server

    runner, edge_server = run(start())
    viewer = Viewer(run, port, asyncio.Event())
    status, body, headers = viewer.request("/api/v1/slow")
    assert (status, body["code"], headers["Retry-After"]) == (503, "EDGE_503_TIMEOUT", "2")
    assert viewer.request("/ws")[0] == 404
    run(edge_server.stop())
    run(runner.cleanup())


def test_stopped_emulator_gives_an_api_error_body(run: Run, console: Path) -> None:
    port = free_port()
    edge_server = Edge(
        port=port, console=console, aws_url=f"http://127.0.0.1:{free_port()}", http=API, websocket=SOCKET
    )
    run(edge_server.start())
    viewer = Viewer(run, port, asyncio.Event())
    for path in ("/api/v1/health", "/ws"):
        status, body, headers = viewer.request(path)
        assert (status, body["code"], headers["Retry-After"]) == (502, "EDGE_502_UNREACHABLE", "2")
        assert set(body) == {"code", "message", "requestId", "details"}
    run(edge_server.stop())


def test_closed_edge_forwards_no_request_until_opened(viewer: Viewer) -> None:
    viewer.edge.is_open = False
    assert [viewer.request(path)[0] for path in ("/api/v1/x", "/ws?token=good", "/")] == [502, 502, 200]
    viewer.edge.is_open = True
    assert viewer.request("/api/v1/x")[0] == 200


def test_websocket_forwards_both_ways_until_one_closes(viewer: Viewer) -> None:
    async def scenario() -> tuple[str, str, int | None]:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{viewer.url}/ws?token=good") as socket,
        ):
            host = await socket.receive_str()
            await socket.send_str("hello")
            echo = await socket.receive_str()
            await socket.send_str("bye")
            await socket.receive()
            return host, echo, socket.close_code

    host, echo, code = viewer.run(scenario())
    assert host.startswith("bbbbbbbb.execute-api.")
    assert (echo, code) == ("echo hello", 4001)


def test_viewer_disconnect_closes_the_api_connection(viewer: Viewer) -> None:
    async def scenario() -> None:
        async with aiohttp.ClientSession() as session:
            socket = await session.ws_connect(f"{viewer.url}/ws?token=good")
            await socket.receive_str()
            await socket.close()
        await asyncio.wait_for(viewer.closed.wait(), 10)

    viewer.run(scenario())


def test_refused_handshake_is_refused_to_the_viewer(viewer: Viewer) -> None:
    async def scenario() -> int:
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
                await session.ws_connect(f"{viewer.url}/ws?token=bad")
            return refusal.value.status

    assert viewer.run(scenario()) == 403


class TestConsole:
    def test_page_is_revalidated_and_assets_are_kept(self, viewer: Viewer) -> None:
        status, text, headers = viewer.request("/")
        assert (status, text, headers["Cache-Control"]) == (200, "<p>start</p>", "no-cache")
        plain = {"Accept-Encoding": "identity"}
        status, text, headers = viewer.request("/assets/app-1f.js", headers=plain)
        assert (status, text) == (200, "let it = 1")
        assert headers["Cache-Control"] == "public, max-age=31536000, immutable"

    def test_browser_that_accepts_gzip_gets_the_compressed_file(self, viewer: Viewer) -> None:
        _, text, headers = viewer.request("/assets/app-1f.js", headers={"Accept-Encoding": "gzip"})
        assert (text, headers["Content-Encoding"]) == ("let it = 1 // compressed", "gzip")

    @pytest.mark.parametrize("path", ["/missing.js", "/wallet/orders", "/.sources"])
    def test_other_paths_are_unknown(self, viewer: Viewer, path: str) -> None:
        assert viewer.request(path)[1]["code"] == "ROUTE_404_UNKNOWN"

    def test_console_without_build_opens_later(self, viewer: Viewer, console: Path) -> None:
        (console / "index.html").unlink()
        status, text, headers = viewer.request("/")
        assert (status, headers["Cache-Control"]) == (200, "no-store")
        assert "Artiway is being built" in text
        assert 'http-equiv="refresh"' in text

    def test_pages_run_own_scripts_only(self, viewer: Viewer) -> None:
        policy = dict(one.split(" ", 1) for one in viewer.request("/")[2]["Content-Security-Policy"].split("; "))
        assert (policy["default-src"], policy["script-src"]) == ("'none'", "'self'")
        assert policy["frame-ancestors"] == "'none'"


@pytest.mark.parametrize("path", ["/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt"])
def test_files_outside_console_folder_are_not_served(viewer: Viewer, path: str) -> None:
    from yarl import URL

    async def scenario() -> str:
        async with aiohttp.ClientSession() as session, session.get(URL(viewer.url + path, encoded=True)) as answer:
            return await answer.text()

    assert "secret" not in viewer.run(scenario())
