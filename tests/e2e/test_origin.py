"""The API's own host refuses requests that did not come through the edge, WeChat's notifications excepted."""

from __future__ import annotations

import asyncio
import json
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from local.stack import Stack
from tests.e2e.conftest import Platform

PUBLIC = {"content-type": "application/json", "authorization": "none"}
GUESSES: list[dict[str, str]] = [
    {},
    {"x-origin-verify": ""},
    {"x-origin-verify": "guess"},
    {"true-client-ip": "6.6.6.6"},
]


def api_host(stack: Stack, kind: str) -> str:
    """The host by which the emulator knows an API, as execute-api is on AWS."""
    api = stack._local.http if kind == "http" else stack._local.websocket
    assert api is not None
    return f"{api.api_id}.execute-api.127.0.0.1"


def call(stack: Stack, platform: Platform, method: str, path: str, **headers: str) -> tuple[int, Any]:
    """Call the API without the edge."""
    url = urlsplit(platform.facts["awsUrl"])
    connection = HTTPConnection(str(url.hostname), url.port, timeout=35)
    sent = {**PUBLIC, **headers, "host": api_host(stack, "http")}
    connection.request(method, f"/api/v1{path}", b"{}" if method == "POST" else None, sent)
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    return answer.status, body


@pytest.mark.parametrize("guess", GUESSES)
@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/health"), ("POST", "/auth/login"), ("GET", "/me"), ("GET", "/no/such/route")]
)
def test_direct_request_is_refused(
    stack: Stack, platform: Platform, method: str, path: str, guess: dict[str, str]
) -> None:
    status, body = call(stack, platform, method, path, **guess)
    assert (status, body["code"]) == (403, "EDGE_403_DIRECT")


def test_valid_token_does_not_help_direct_request(stack: Stack, platform: Platform) -> None:
    token = platform.user().token
    status, body = call(stack, platform, "GET", "/me", authorization=f"Bearer {token}")
    assert (status, body["code"]) == (403, "EDGE_403_DIRECT")


@pytest.mark.parametrize("path", ["/wechat/pay/notify", "/wechat/refund/notify"])
def test_wechat_may_call_directly(stack: Stack, platform: Platform, path: str) -> None:
    assert call(stack, platform, "POST", path) == (401, {"code": "FAIL", "message": "the signature is not valid"})


@pytest.mark.parametrize("guess", GUESSES)
def test_direct_socket_is_refused(stack: Stack, platform: Platform, guess: dict[str, str]) -> None:
    token = platform.user().token

    async def connect(url: str, headers: dict[str, str]) -> int:
        async with aiohttp.ClientSession() as session:
            try:
                async with session.ws_connect(f"{url}?token={token}", headers=headers):
                    return 101
            except aiohttp.WSServerHandshakeError as refusal:
                return refusal.status

    direct = {**guess, "host": api_host(stack, "websocket")}
    assert asyncio.run(connect(f"{platform.facts['awsUrl']}/ws", direct)) == 403
    assert asyncio.run(connect(platform.facts["wsUrl"], guess)) == 101


def test_second_value_is_accepted_beside_first(stack: Stack, platform: Platform) -> None:
    """The functions learn both values from the secret, as in the first step of a rotation."""
    functions, secrets = platform.aws("lambda"), platform.aws("secretsmanager")
    arn = stack.outputs["OriginSecretArn"]
    stored = json.loads(secrets.get_secret_value(SecretId=arn)["SecretString"])
    secrets.put_secret_value(SecretId=arn, SecretString=json.dumps({**stored, "second": "n" * 48}))
    event = {"action": "origin-hashes", "SecretArn": arn}
    answer = functions.invoke(FunctionName="DeployFunction", Payload=json.dumps(event))
    hashes = json.load(answer["Payload"])["Hashes"].split(",")
    variables = functions.get_function_configuration(FunctionName="HealthFunction")["Environment"]["Variables"]
    assert variables["ARTIWAY_ORIGIN_HASHES"] == hashes[0]
    assert len(hashes) == 2
    secrets.put_secret_value(SecretId=arn, SecretString=json.dumps(stored))


def test_bucket_allows_uploads_from_the_console(stack: Stack, platform: Platform) -> None:
    (rule,) = platform.aws("s3").get_bucket_cors(Bucket=stack.outputs["ArtefactBucketName"])["CORSRules"]
    assert rule["AllowedOrigins"] == [f"http://*:{stack.port}"]
