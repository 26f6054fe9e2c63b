"""The deployed template through HTTP, WebSocket, SQS and the Lambda API, and what happens when a server dies."""

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
from local.emulator import client
from local.stack import Stack
from tests.e2e.conftest import Platform, User, Witness, wait_for

pytestmark = pytest.mark.xdist_group("e2e")
ROOT = Path(__file__).resolve().parent.parent.parent
# The sweep of the schedule works for a minute; the test of the schedule covers it.
EVENTS = sorted(
    file.name for file in (ROOT / "events").glob("*.json") if file.name not in {"env.local.json", "relay.schedule.json"}
)


def test_stack_json_says_where_everything_is_and_is_nobody_else_s_to_read(stack: Stack, platform: Platform) -> None:
    assert set(platform.facts) == {
        "apiUrl", "wsUrl", "consoleUrl", "lambdaUrl", "awsUrl", "databaseUrl", "redisUrl", "wechatSimUrl", "admin",
    }  # fmt: skip
    assert (stack.home / "stack.json").stat().st_mode & 0o077 == 0
    with psycopg.connect(platform.facts["databaseUrl"]) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == ("artiway",)
    with redis.Redis.from_url(platform.facts["redisUrl"]) as connected:
        assert connected.ping()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(platform.facts["databaseUrl"], password="guessed")


def test_the_api_is_closed_until_stack_json_exists(witness: Witness, platform: Platform) -> None:
    assert (witness.status, witness.code) == (502, "EDGE_502_UNREACHABLE")
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


def test_an_unknown_route_is_the_documented_error(platform: Platform) -> None:
    status, _, body = platform.get("/no/such/thing")
    assert status == 404
    assert set(body) == {"code", "message", "requestId", "details"}


async def connect(
    session: aiohttp.ClientSession, platform: Platform, user: User, scope: str = "user"
) -> aiohttp.ClientWebSocketResponse:
    socket = await session.ws_connect(f"{platform.facts['wsUrl']}?token={user.token}&scope={scope}")
    await hear(socket, "connected")
    return socket


async def hear(socket: aiohttp.ClientWebSocketResponse, kind: str) -> Any:
    """The next message of a kind; progress may come again in between."""
    while (message := await socket.receive_json(timeout=60))["type"] != kind:
        pass
    return message


def send(platform: Platform, stack: Stack, *bodies: str) -> None:
    entries = [{"Id": str(number), "MessageBody": body} for number, body in enumerate(bodies)]
    answer = platform.aws("sqs").send_message_batch(QueueUrl=stack.outputs["PushQueueUrl"], Entries=entries)
    assert len(answer["Successful"]) == len(bodies)


def test_a_websocket_is_greeted_answers_ping_and_receives_what_is_pushed_to_its_user(
    stack: Stack, platform: Platform
) -> None:
    user, other = platform.user(), platform.user()

    async def scenario() -> None:
        async with aiohttp.ClientSession() as session:
            socket = await connect(session, platform, user)
            await socket.send_json({"action": "ping"})
            await hear(socket, "pong")
            send(platform, stack, other.notice(1), user.notice(2))
            assert (await hear(socket, "task.progress"))["progress"] == 2
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


def test_a_websocket_with_the_token_of_a_session_that_was_ended_is_refused(platform: Platform) -> None:
    user = platform.user()

    async def scenario() -> None:
        async with aiohttp.ClientSession() as session:
            socket = await connect(session, platform, user)
            await socket.close()
            leave = {"authorization": f"Bearer {user.token}"}
            async with session.post(f"{platform.facts['apiUrl']}/auth/logout", headers=leave) as answer:
                assert answer.status == 204
            async with asyncio.timeout(60):  # what other processes know of a session they forget soon
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
            socket, stays = [await connect(session, platform, one) for one in (user, other)]
            leave = {"authorization": f"Bearer {user.token}"}
            async with session.post(f"{platform.facts['apiUrl']}/auth/logout", headers=leave) as answer:
                assert answer.status == 204
            await asyncio.to_thread(invoke, platform, "WatchdogFunction", {"pass": "quick", "once": True})
            assert (await socket.receive(timeout=60)).type in {aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED}
            await stays.send_json({"action": "ping"})
            await hear(stays, "pong")
            await stays.close()

    asyncio.run(scenario())


def test_a_tenant_wide_websocket_receives_events_of_colleagues(stack: Stack, platform: Platform) -> None:
    owner = platform.user()
    colleague = User(owner.tenant_id, uuid4(), "")

    async def scenario() -> None:
        async with aiohttp.ClientSession() as session:
            socket = await connect(session, platform, owner, scope="tenant")
            send(platform, stack, colleague.notice(4))
            message = await hear(socket, "task.progress")
            assert (message["progress"], message["userId"]) == (4, to_wire("usr", colleague.user_id))
            await socket.close()

    asyncio.run(scenario())


def test_a_poison_message_lands_in_the_dlq_while_the_others_of_its_batch_are_processed(
    stack: Stack, platform: Platform
) -> None:
    user = platform.user()
    sqs, dlq = platform.aws("sqs"), stack.outputs["PushDeadLetterQueueUrl"]

    async def scenario() -> None:
        async with aiohttp.ClientSession() as session:
            socket = await connect(session, platform, user)
            send(platform, stack, user.notice(1), "this is no message", user.notice(2))
            heard: set[int] = set()
            while heard != {1, 2}:
                heard.add((await hear(socket, "task.progress"))["progress"])
            await socket.close()

    asyncio.run(scenario())
    dead = wait_for(lambda: sqs.receive_message(QueueUrl=dlq, WaitTimeSeconds=1).get("Messages"), 60)
    assert [message["Body"] for message in dead] == ["this is no message"]
    sqs.delete_message(QueueUrl=dlq, ReceiptHandle=dead[0]["ReceiptHandle"])


@pytest.fixture
def callback() -> Iterator[tuple[str, list[Any]]]:
    """Where CloudFormation would hear from a custom resource."""
    heard: list[Any] = []

    class Listener(http.server.BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", heard
    server.shutdown()
    server.server_close()
    thread.join()


def test_every_function_of_the_template_has_an_event(stack: Stack) -> None:
    folders = {function.folder.name for function in stack.functions.values()}
    assert {file.partition(".")[0] for file in EVENTS} == folders


@pytest.mark.parametrize("file", EVENTS)
def test_a_function_answers_its_event_through_the_lambda_api(
    stack: Stack, platform: Platform, callback: tuple[str, list[Any]], file: str
) -> None:
    address, heard = callback
    event = json.loads((ROOT / "events" / file).read_text())
    if "ResponseURL" in event:
        event["ResponseURL"] = address
    folder = file.partition(".")[0]
    name = next(name for name, function in stack.functions.items() if function.folder.name == folder)
    lambdas = client("lambda", platform.facts["lambdaUrl"])
    answer = lambdas.invoke(FunctionName=name, Payload=json.dumps(event).encode())
    assert "FunctionError" not in answer, answer["Payload"].read()
    assert json.load(answer["Payload"]) is not None
    assert len(heard) == ("ResponseURL" in event)


def test_the_schedule_fires(stack: Stack, platform: Platform) -> None:
    """A message that its writer never sent can only arrive through the sweep, which only the schedule starts."""
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
def test_a_server_that_dies_is_named_by_health_and_comes_back_by_itself(
    stack: Stack, platform: Platform, server: str, check: str
) -> None:
    before = stack.servers[server].process.pid
    with stack.unwatched():
        stack.servers[server].kill()
        degraded = wait_for(lambda: health if (health := platform.health())["status"] == "degraded" else None)
        assert {name for name, answer in degraded["checks"].items() if answer != "ok"} == {check}
    wait_for(lambda: platform.health() == {"status": "ok", "checks": {"postgres": "ok", "redis": "ok"}})
    wait_for(lambda: stack.servers[server].process.pid != before)


def test_an_emulator_that_dies_gets_the_template_back_and_old_tokens_stay_good(
    stack: Stack, platform: Platform
) -> None:
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
            assert (await hear(socket, "task.progress"))["progress"] == 3
            await socket.close()

    asyncio.run(scenario())
