"""The edge in front of a small server that stands where the emulator would."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from local import edge
from local.edge import Edge
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

    def ask(self, path: str, method: str = "GET", **options: Any) -> tuple[int, Any, Any]:
        async def work() -> tuple[int, Any, Any]:
            async with (
                aiohttp.ClientSession() as session,
                session.request(method, f"{self.url}{path}", allow_redirects=False, **options) as answer,
            ):
                text = await answer.text()
                is_json = answer.content_type == "application/json"
                return answer.status, json.loads(text) if is_json else text, answer.headers

        status, body, headers = self.run(work())
        return status, body, headers


@pytest.fixture
def console(tmp_path: Path) -> Path:
    folder = tmp_path / "console"
    folder.mkdir()
    (folder / "index.html").write_text("<p>start</p>")
    (folder / "app.js").write_text("let it = 1")
    (tmp_path / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def viewer(run: Run, console: Path) -> Iterator[Viewer]:
    port, behind = free_port(), free_port()

    async def start() -> tuple[web.AppRunner, Edge, asyncio.Event]:
        app = web.Application(client_max_size=2**30)
        app[CLOSED] = asyncio.Event()
        app.router.add_route("*", "/{tail:.*}", upstream)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", behind).start()
        front = Edge(port=port, console=console, aws_url=f"http://127.0.0.1:{behind}", http=API, websocket=SOCKET)
        await front.start()
        return runner, front, app[CLOSED]

    runner, front, closed = run(start())
    viewer = Viewer(run, port, closed)
    viewer.edge = front
    yield viewer
    run(front.stop())
    run(runner.cleanup())


def test_a_request_reaches_the_api_as_it_was_written(viewer: Viewer) -> None:
    assert viewer.ask("/api/v1/x", "POST", data=io.BytesIO(b"x" * 3_000_000))[1]["size"] == 3_000_000
    status, body, _ = viewer.ask("/api/v1/a%2Fb%20c?x=1&x=%2B&y", "PATCH", data=b"12345")
    assert (status, body["method"], body["size"]) == (200, "PATCH", 5)
    assert body["path"].startswith("/api/v1/a%2Fb%20c?x=1&x=")
    assert body["headers"]["Host"].startswith("aaaaaaaa.execute-api.")


@pytest.mark.parametrize("host", ["127.0.0.1", "another.example:81", "u:p@x"])
def test_a_whole_address_is_answered_like_its_path(viewer: Viewer, host: str) -> None:
    async def work(target: str) -> tuple[int, Any]:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(viewer.url.rpartition(":")[2]))
        writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return int(head.split()[1]), json.loads(body)

    status, body = viewer.run(work(f"https://{host}/api/v1/a%2Fb%20c?x=1&x=%2B&y"))
    assert (status, body["path"]) == (200, "/api/v1/a%2Fb%20c?x=1&x=%2B&y")
    assert {value for name, value in body["headers"].items() if name.lower() == "x-forwarded-proto"} == {"http"}
    assert viewer.run(work(f"http://{host}/missing.js"))[0] == 404


def test_the_viewer_s_address_is_ours_to_say(viewer: Viewer) -> None:
    viewer.edge.origin_secret = "between us"
    forged = {
        "True-Client-IP": "6.6.6.6",
        "X-Origin-Verify": "guess",
        "cloudfront-viewer-country": "XX",
        "X-Forwarded-For": "6.6.6.6",
    }
    _, body, _ = viewer.ask("/api/v1/x", headers=forged)
    seen = {name.lower(): value for name, value in body["headers"].items()}
    assert (seen["true-client-ip"], seen["x-origin-verify"]) == ("127.0.0.1", "between us")
    assert "cloudfront-viewer-country" not in seen
    assert seen["x-forwarded-for"] == "6.6.6.6, 127.0.0.1"


def test_a_trace_begins_here_unless_the_viewer_brought_one(viewer: Viewer) -> None:
    _, body, _ = viewer.ask("/api/v1/x")
    assert next(v for k, v in body["headers"].items() if k.lower() == "x-amzn-trace-id").startswith("Root=1-")
    _, body, _ = viewer.ask("/api/v1/x", headers={"X-Amzn-Trace-Id": "Root=1-aa-bb"})
    assert [v for k, v in body["headers"].items() if k.lower() == "x-amzn-trace-id"] == ["Root=1-aa-bb"]


def test_status_and_every_header_come_back(viewer: Viewer) -> None:
    status, body, headers = viewer.ask("/api/v1/cookies")
    assert (status, body, headers.getall("Set-Cookie")) == (201, "made", ["a=1", "b=2"])


def test_a_body_beyond_ten_megabytes_is_refused(viewer: Viewer) -> None:
    status, body, _ = viewer.ask("/api/v1/x", "POST", data=io.BytesIO(b"x" * (10 * 1024 * 1024 + 1)))
    assert (status, body["code"]) == (413, "REQUEST_413_TOO_LARGE")
    assert set(body) == {"code", "message", "requestId", "details"}


def test_a_function_s_failure_shows_the_viewer_nothing_of_why(viewer: Viewer) -> None:
    assert viewer.ask("/api/v1/failing")[:2] == (500, {"message": "Internal Server Error"})
    assert viewer.ask("/api/v1/vendor")[:2] == (502, {"code": "PAY_502_VENDOR"})


def test_an_answer_that_does_not_come_in_time_is_given_up(run: Run, console: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(edge, "INTEGRATION_SECONDS", 0.2)
    port, behind = free_port(), free_port()

    async def start() -> tuple[web.AppRunner, Edge]:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", upstream)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", behind).start()
        front = Edge(port=port, console=console, aws_url=f"http://127.0.0.1:{behind}", http=API, websocket=None)
        await front.start()
        return runner, front

    runner, front = run(start())
    viewer = Viewer(run, port, asyncio.Event())
    status, body, headers = viewer.ask("/api/v1/slow")
    assert (status, body["code"], headers["Retry-After"]) == (503, "EDGE_503_TIMEOUT", "2")
    assert viewer.ask("/ws")[0] == 404
    run(front.stop())
    run(runner.cleanup())


def test_an_emulator_that_is_away_is_said_so_in_the_contract_s_shape(run: Run, console: Path) -> None:
    port = free_port()
    front = Edge(port=port, console=console, aws_url=f"http://127.0.0.1:{free_port()}", http=API, websocket=SOCKET)
    run(front.start())
    viewer = Viewer(run, port, asyncio.Event())
    for path in ("/api/v1/health", "/ws"):
        status, body, headers = viewer.ask(path)
        assert (status, body["code"], headers["Retry-After"]) == (502, "EDGE_502_UNREACHABLE", "2")
        assert set(body) == {"code", "message", "requestId", "details"}
    run(front.stop())


def test_an_edge_that_was_closed_sends_nothing_on_until_it_is_opened(viewer: Viewer) -> None:
    viewer.edge.is_open = False
    assert [viewer.ask(path)[0] for path in ("/api/v1/x", "/ws?token=good", "/")] == [502, 502, 200]
    viewer.edge.is_open = True
    assert viewer.ask("/api/v1/x")[0] == 200


def test_a_websocket_speaks_both_ways_until_either_side_ends_it(viewer: Viewer) -> None:
    async def work() -> tuple[str, str, int | None]:
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

    host, echo, code = viewer.run(work())
    assert host.startswith("bbbbbbbb.execute-api.")
    assert (echo, code) == ("echo hello", 4001)


def test_the_api_hears_when_the_viewer_leaves(viewer: Viewer) -> None:
    async def work() -> None:
        async with aiohttp.ClientSession() as session:
            socket = await session.ws_connect(f"{viewer.url}/ws?token=good")
            await socket.receive_str()
            await socket.close()
        await asyncio.wait_for(viewer.closed.wait(), 10)

    viewer.run(work())


def test_a_refused_handshake_is_refused_to_the_viewer(viewer: Viewer) -> None:
    async def work() -> int:
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
                await session.ws_connect(f"{viewer.url}/ws?token=bad")
            return refusal.value.status

    assert viewer.run(work()) == 403


def test_the_console_is_served_with_its_start_page_for_addresses_of_its_own(viewer: Viewer) -> None:
    assert viewer.ask("/")[:2] == (200, "<p>start</p>")
    assert viewer.ask("/wallet/orders")[:2] == (200, "<p>start</p>")
    assert viewer.ask("/app.js")[:2] == (200, "let it = 1")
    assert viewer.ask("/missing.js")[1]["code"] == "ROUTE_404_UNKNOWN"


@pytest.mark.parametrize("path", ["/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt"])
def test_nothing_outside_the_console_s_folder_is_served(viewer: Viewer, path: str) -> None:
    from yarl import URL

    async def work() -> str:
        async with aiohttp.ClientSession() as session, session.get(URL(viewer.url + path, encoded=True)) as answer:
            return await answer.text()

    assert "secret" not in viewer.run(work())
