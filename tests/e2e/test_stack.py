"""The deployed template through HTTP, WebSocket, SQS and the Lambda API, also while a server is down."""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import psycopg
import pytest
import redis

from artiway.ids import to_wire
from artiway.platform.streaming import DELIMITER
from local.emulator import client
from local.stack import Stack
from tests.e2e.conftest import EarlyProbe, Platform, User, wait_for

ROOT = Path(__file__).resolve().parent.parent.parent
# The event relay.schedule.json starts a sweep of a minute; the test of the schedule covers it.
EVENTS = sorted(
    file.name for file in (ROOT / "events").glob("*.json") if file.name not in {"env.local.json", "relay.schedule.json"}
)


def test_stack_json_is_complete_and_owner_readable(stack: Stack, platform: Platform) -> None:
    assert set(platform.facts) == {
        "apiUrl", "wsUrl", "consoleUrl", "lambdaUrl", "awsUrl", "databaseUrl", "redisUrl", "wechatSimUrl",
        "mailboxUrl", "admin",
    }  # fmt: skip
    assert (stack.home / "stack.json").stat().st_mode & 0o077 == 0
    with psycopg.connect(platform.facts["databaseUrl"]) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == ("artiway",)
    with redis.Redis.from_url(platform.facts["redisUrl"]) as connected:
        assert connected.ping()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(platform.facts["databaseUrl"], password="guessed")


def test_the_api_is_closed_until_stack_json_exists(early_probe: EarlyProbe, platform: Platform) -> None:
    assert (early_probe.status, early_probe.code) == (502, "EDGE_502_UNREACHABLE")
    assert platform.get("/health")[0] == 200


def test_health_openapi_docs_and_console_answer(platform: Platform) -> None:
    assert platform.get("/health")[::2] == (200, {"status": "ok", "checks": {"postgres": "ok", "redis": "ok"}})
    status, kind, document = platform.get("/openapi.json")
    assert (status, kind, document["openapi"]) == (200, "application/json", "3.1.0")
    status, kind, page = platform.get("/docs")
    assert (status, kind.partition(";")[0]) == (200, "text/html")
    assert "swagger" in page.lower()
    console = Platform({**platform.facts, "apiUrl": platform.facts["consoleUrl"]})
    assert "Artiway" in console.get("")[2]


def test_unknown_route_returns_the_documented_error(platform: Platform) -> None:
    status, _, body = platform.get("/no/such/thing")
    assert status == 404
    assert set(body) == {"code", "message", "requestId", "details"}


async def connect(
    session: aiohttp.ClientSession, platform: Platform, user: User, scope: str = "user"
) -> aiohttp.ClientWebSocketResponse:
    socket = await session.ws_connect(f"{platform.facts['wsUrl']}?token={user.token}&scope={scope}")
    await receive(socket, "connected")
    return socket


async def receive(socket: aiohttp.ClientWebSocketResponse, kind: str) -> Any:
    """The next message of this type. Progress may be delivered again in between."""
    while (message := await socket.receive_json(timeout=60))["type"] != kind:
        pass
    return message


def send(platform: Platform, stack: Stack, *bodies: str) -> None:
    entries = [{"Id": str(number), "MessageBody": body} for number, body in enumerate(bodies)]
    answer = platform.aws("sqs").send_message_batch(QueueUrl=stack.outputs["PushQueueUrl"], Entries=entries)
    assert len(answer["Successful"]) == len(bodies)


def test_websocket_greets_answers_ping_and_delivers_pushes(stack: Stack, platform: Platform) -> None:
    user, other = platform.user(), platform.user()

    async def scenario() -> None:
        async with aiohttp.ClientSession() as session:
            socket = await connect(session, platform, user)
            await socket.send_json({"action": "ping"})
            await receive(socket, "pong")
            send(platform, stack, other.notice(1), user.notice(2))
            assert (await receive(socket, "task.progress"))["progress"] == 2
            await socket.close()

    asyncio.run(scenario())


async def status_of_connecting(session: aiohttp.ClientSession, platform: Platform, token: str) -> int:
    try:
        async with session.ws_connect(f"{platform.facts['wsUrl']}?token={token}"):
            return 101
    except aiohttp.WSServerHandshakeError as refusal:
        return refusal.status


@pytest.mark.parametrize("token", ["", "not-a-token"])
def test_a_websocket_without_a_genuine_token_is_refused(platform: Platform, token: str) -> None:
    async def scenario() -> int:
        async with aiohttp.ClientSession() as session:
            return await status_of_connecting(session, platform, token)

    assert asyncio.run(scenario()) in {401, 403}


def test_websocket_with_ended_session_token_is_refused(platform: Platform) -> None:
    user = platform.user()

    async def scenario() -> None:
        async with aiohttp.ClientSession() as session:
            socket = await connect(session, platform, user)
            await socket.close()
            headers = {"authorization": f"Bearer {user.token}"}
            async with session.post(f"{platform.facts['apiUrl']}/auth/logout", headers=headers) as answer:
                assert answer.status == 204
            async with asyncio.timeout(60):  # other processes cache the session for some seconds
                while (status := await status_of_connecting(session, platform, user.token)) == 101:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            assert status in {401, 403}

    asyncio.run(scenario())


def invoke(platform: Platform, function: str, event: dict[str, Any]) -> None:
    lambdas = client("lambda", platform.facts["lambdaUrl"])
    assert "FunctionError" not in lambdas.invoke(FunctionName=function, Payload=json.dumps(event).encode())


def test_a_websocket_closes_after_its_user_logged_out(platform: Platform) -> None:
    user, other = platform.user(), platform.user()

    async def scenario() -> None:
        async with aiohttp.ClientSession() as session:
            socket, other_socket = [await connect(session, platform, one) for one in (user, other)]
            headers = {"authorization": f"Bearer {user.token}"}
            async with session.post(f"{platform.facts['apiUrl']}/auth/logout", headers=headers) as answer:
                assert answer.status == 204
            await asyncio.to_thread(invoke, platform, "WatchdogFunction", {"pass": "quick", "once": True})
            assert (await socket.receive(timeout=60)).type in {aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED}
            await other_socket.send_json({"action": "ping"})
            await receive(other_socket, "pong")
            await other_socket.close()

    asyncio.run(scenario())


def test_a_tenant_wide_websocket_receives_events_of_colleagues(stack: Stack, platform: Platform) -> None:
    owner = platform.user()
    colleague = User(owner.tenant_id, uuid4(), "")

    async def scenario() -> None:
        async with aiohttp.ClientSession() as session:
            socket = await connect(session, platform, owner, scope="tenant")
            send(platform, stack, colleague.notice(4))
            message = await receive(socket, "task.progress")
            assert (message["progress"], message["userId"]) == (4, to_wire("usr", colleague.user_id))
            await socket.close()

    asyncio.run(scenario())


def test_poison_message_alone_reaches_the_dead_letters(stack: Stack, platform: Platform) -> None:
    user = platform.user()
    sqs, dlq = platform.aws("sqs"), stack.outputs["PushDeadLetterQueueUrl"]

    async def scenario() -> None:
        async with aiohttp.ClientSession() as session:
            socket = await connect(session, platform, user)
            send(platform, stack, user.notice(1), "this is no message", user.notice(2))
            received: set[int] = set()
            while received != {1, 2}:
                received.add((await receive(socket, "task.progress"))["progress"])
            await socket.close()

    asyncio.run(scenario())
    dead = wait_for(lambda: sqs.receive_message(QueueUrl=dlq, WaitTimeSeconds=1).get("Messages"), 60)
    assert [message["Body"] for message in dead] == ["this is no message"]
    sqs.delete_message(QueueUrl=dlq, ReceiptHandle=dead[0]["ReceiptHandle"])


@pytest.fixture
def callback() -> Iterator[tuple[str, list[Any]]]:
    """The response URL of a custom resource, and the responses that it got."""
    responses: list[Any] = []

    class Listener(http.server.BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            responses.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", responses
    server.shutdown()
    server.server_close()
    thread.join()


def test_every_function_of_the_template_has_an_event(stack: Stack) -> None:
    folders = {function.folder.name for function in stack.functions.values()}
    assert {file.partition(".")[0] for file in EVENTS} == folders


@pytest.mark.parametrize("file", EVENTS)
def test_function_answers_its_event_through_lambda_api(
    stack: Stack, platform: Platform, callback: tuple[str, list[Any]], file: str
) -> None:
    address, responses = callback
    event = json.loads((ROOT / "events" / file).read_text())
    if "ResponseURL" in event:
        event["ResponseURL"] = address
    folder = file.partition(".")[0]
    name = next(name for name, function in stack.functions.items() if function.folder.name == folder)
    lambdas = client("lambda", platform.facts["lambdaUrl"])
    answer = lambdas.invoke(FunctionName=name, Payload=json.dumps(event).encode())
    assert "FunctionError" not in answer, answer["Payload"].read()
    prelude = answer["Payload"].read().partition(DELIMITER)[0]  # of a streamed answer; any other is whole
    assert json.loads(prelude) is not None
    assert len(responses) == ("ResponseURL" in event)


def test_the_schedule_fires(stack: Stack, platform: Platform) -> None:
    """Only the sweep sends a message that its writer did not send, and only the schedule starts the sweep."""
    user = platform.user()
    with psycopg.connect(platform.facts["databaseUrl"]) as connection:
        connection.execute(
            "INSERT INTO outbox (tenant_id, aggregate, destination, body, created_at)"
            " VALUES (%s, %s, 'push', %s, now() - interval '1 minute')",
            (user.tenant_id, f"user:{user.user_id}", user.notice(7)),
        )

    def is_sent() -> bool:
        with psycopg.connect(platform.facts["databaseUrl"]) as connection:
            query = "SELECT sent_at IS NOT NULL FROM outbox WHERE tenant_id = %s"
            found = connection.execute(query, (user.tenant_id,)).fetchone()
        return bool(found and found[0])

    wait_for(is_sent, 150)


@pytest.mark.parametrize(("server", "check"), [("postgres", "postgres"), ("valkey", "redis")])
def test_health_names_dead_server_until_it_restarts(stack: Stack, platform: Platform, server: str, check: str) -> None:
    before = stack.servers[server].process.pid
    with stack.unwatched():
        stack.servers[server].kill()
        degraded = wait_for(lambda: health if (health := platform.health())["status"] == "degraded" else None)
        assert {name for name, answer in degraded["checks"].items() if answer != "ok"} == {check}
    wait_for(lambda: platform.health() == {"status": "ok", "checks": {"postgres": "ok", "redis": "ok"}})
    wait_for(lambda: stack.servers[server].process.pid != before)


def test_restarted_emulator_keeps_template_and_old_tokens(stack: Stack, platform: Platform) -> None:
    user = platform.user()
    with stack.unwatched():
        stack.servers["emulator"].kill()
        status, _, body = platform.get("/health")
        assert (status, body["code"]) == (502, "EDGE_502_UNREACHABLE")
    wait_for(lambda: platform.get("/health")[0] == 200, 60)

    async def scenario() -> None:
        async with aiohttp.ClientSession() as session:
            socket = await connect(session, platform, user)
            send(platform, stack, user.notice(3))
            assert (await receive(socket, "task.progress"))["progress"] == 3
            await socket.close()

    asyncio.run(scenario())
