"""The emulator: deployments, their errors, and the patches with which it starts."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import aiohttp
import boto3
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

from local.emulator import client, configuration, deploy, start_emulator
from local.lambdas import REGION, Function, LambdaServer
from local.servers import ServerFailed, free_port, running

Run = Callable[[Coroutine[Any, Any, Any]], Any]
HANDLER = """
class OutOfStock(Exception): pass

def handler(event, context):
    raise OutOfStock("no shoes left")
"""


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[str]:
    """An empty emulator for each test; it starts in half a second."""
    (tmp_path / "emulator").mkdir()
    with running(start_emulator(tmp_path / "emulator", free_port())) as emulator:
        yield emulator.url


@pytest.fixture
def server(aws: str, run: Run, tmp_path: Path) -> Iterator[LambdaServer]:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/app.py").write_text(HANDLER)
    session = run(open_session())
    server = LambdaServer(
        functions={"Shop": Function("Shop", tmp_path / "shop", tmp_path / "layer")},
        lookup=lambda name: configuration(session, aws, name),
        home=tmp_path / "home",
        port=free_port(),
        endpoint_url=aws,
    )
    run(server.start())
    yield server
    run(server.stop())
    run(session.close())


async def open_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession()


def shop(server: LambdaServer, **variables: str) -> dict[str, Any]:
    address = f"http://127.0.0.1:{server.port}/proxy/Shop"
    environment = {"Variables": {"MINISTACK_LAMBDA_PROXY_URL": address, **variables}}
    return {
        "Type": "AWS::Lambda::Function",
        "Properties": {"FunctionName": "Shop", "Handler": "app.handler", "Timeout": 5, "Environment": environment},
    }


def test_outputs_and_parameters_of_a_deployment_are_resolved(aws: str) -> None:
    body = {
        "Parameters": {"Name": {"Type": "String", "Default": "other"}},
        "Resources": {"Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": {"Ref": "Name"}}}},
        "Outputs": {"Url": {"Value": {"Ref": "Queue"}}},
    }
    assert deploy(aws, body, parameters={"Name": "mine"}) == {"Url": f"{aws}/000000000000/mine"}


def test_failed_deployment_names_resource_and_reason(aws: str) -> None:
    body = {"Resources": {"Lake": {"Type": "AWS::Nonsense::Lake"}}}
    with pytest.raises(ServerFailed, match="AWS::Nonsense::Lake"):
        deploy(aws, body, parameters={})


def test_failed_custom_resource_ends_deployment_at_once(aws: str, server: LambdaServer) -> None:
    token = {"ServiceToken": {"Fn::GetAtt": ["Shop", "Arn"]}, "ServiceTimeout": 3600}
    body = {"Resources": {"Shop": shop(server), "Setup": {"Type": "Custom::Setup", "Properties": token}}}
    with pytest.raises(ServerFailed, match=r"Shop: .*no shoes left"):
        deploy(aws, body, parameters={}, failures=server.failures)


def test_step_functions_catches_function_error_by_name(aws: str, server: LambdaServer) -> None:
    definition = {
        "StartAt": "Buy",
        "States": {
            "Buy": {
                "Type": "Task",
                "Resource": "arn:aws:states:::lambda:invoke",
                "Parameters": {"FunctionName": "Shop", "Payload": {}},
                "Catch": [{"ErrorEquals": ["OutOfStock"], "Next": "Sorry"}],
                "End": True,
            },
            "Sorry": {"Type": "Succeed"},
        },
    }
    role = {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}}
    body = {
        "Resources": {
            "Shop": shop(server),
            "Role": {"Type": "AWS::IAM::Role", "Properties": role},
            "Steps": {
                "Type": "AWS::StepFunctions::StateMachine",
                "Properties": {
                    "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
                    "StateMachineType": "EXPRESS",
                    "DefinitionString": json.dumps(definition),
                },
            },
        },
        "Outputs": {"Steps": {"Value": {"Ref": "Steps"}}},
    }
    outputs = deploy(aws, body, parameters={})
    steps = client("stepfunctions", aws)
    steps.meta.events.register("before-call.stepfunctions", lambda params, **_: no_prefix(params, aws))
    answer = steps.start_sync_execution(stateMachineArn=outputs["Steps"], input="{}")
    assert answer["status"] == "SUCCEEDED", answer
    caught = json.loads(answer["output"])
    assert caught["Error"] == "OutOfStock"
    assert "no shoes left" in caught["Cause"]


def no_prefix(params: dict[str, Any], url: str) -> None:
    """boto3 puts `sync-` before the host of a synchronous execution, which no loopback address has."""
    params["url"] = f"{url}/"


def test_function_with_real_aws_address_is_refused(aws: str, server: LambdaServer, run: Run) -> None:
    astray = shop(server, ENDPOINT="https://sqs.us-east-1.amazonaws.com")
    deploy(aws, {"Resources": {"Shop": astray}}, parameters={})

    async def look() -> None:
        async with aiohttp.ClientSession() as session:
            await configuration(session, aws, "Shop")

    with pytest.raises(ServerFailed, match="Shop would call real AWS: ENDPOINT"):
        run(look())


def test_missing_emulator_error_names_the_make_target(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="make run"):
        start_emulator(tmp_path, free_port(), python=tmp_path / "none")


KEY = "a b/caf\u00e9+1~(2).png"


class TestBucket:
    """A bucket answers only requests that are signed with the stack's access key."""

    @pytest.fixture
    def bucket(self, aws: str) -> str:
        storage = client("s3", aws)
        storage.create_bucket(Bucket="pictures")
        storage.put_object(Bucket="pictures", Key=KEY, Body=b"a picture")
        return f"{aws}/pictures"

    @pytest.mark.parametrize("path", ["", "?list-type=2", "/a%20b/caf%C3%A9%2B1~%282%29.png", "/no-such-object"])
    def test_a_request_without_a_signature_is_refused(self, bucket: str, path: str) -> None:
        assert fetch("GET", bucket + path) == (403, "AccessDenied")

    @pytest.mark.parametrize("method", ["PUT", "DELETE"])
    def test_a_change_without_a_signature_is_refused(self, aws: str, bucket: str, method: str) -> None:
        assert fetch(method, f"{bucket}/x", data=b"x" if method == "PUT" else None) == (403, "AccessDenied")
        assert [found["Key"] for found in client("s3", aws).list_objects_v2(Bucket="pictures")["Contents"]] == [KEY]

    def test_virtual_hosted_bucket_also_needs_a_signature(self, aws: str, bucket: str) -> None:
        assert fetch("GET", aws, headers={"Host": "pictures.s3.localhost"}) == (403, "AccessDenied")

    @pytest.mark.parametrize(
        ("key_id", "secret", "age_s", "code"),
        [
            ("test", "guess", 0, "SignatureDoesNotMatch"),
            ("other", "test", 0, "InvalidAccessKeyId"),
            ("test", "test", 3_600, "RequestTimeTooSkewed"),
        ],
    )
    def test_signature_of_other_key_or_hour_refused(
        self, bucket: str, monkeypatch: pytest.MonkeyPatch, key_id: str, secret: str, age_s: int, code: str
    ) -> None:
        signed_at = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=age_s)
        monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: signed_at.replace(tzinfo=None))
        request = AWSRequest("GET", bucket)
        S3SigV4Auth(Credentials(key_id, secret), "s3", REGION).add_auth(request)
        assert fetch("GET", bucket, headers=dict(request.headers.items())) == (403, code)

    @pytest.mark.parametrize("authorization", ["AWS test:c2lnbmF0dXJl", "AWS4-HMAC-SHA256 nonsense", "Bearer x"])
    def test_an_authorization_of_another_kind_is_refused(self, bucket: str, authorization: str) -> None:
        assert fetch("GET", bucket, headers={"Authorization": authorization}) == (403, "AccessDenied")

    def test_presigned_link_works_and_altered_one_fails(self, aws: str, bucket: str) -> None:
        session = boto3.Session("test", "test", region_name=REGION)
        storage = session.client("s3", endpoint_url=aws, config=Config(signature_version="s3v4"))
        link = storage.generate_presigned_url("get_object", Params={"Bucket": "pictures", "Key": KEY})
        assert fetch("GET", link) == (200, "a picture")
        assert fetch("GET", link[:-4] + "0000") == (403, "SignatureDoesNotMatch")
        assert fetch("GET", link.replace("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"))[0] == 403
        assert fetch("GET", f"{bucket}?X-Amz-Signature=x") == (403, "AccessDenied")
        place = {"Bucket": "pictures", "Key": "up", "ContentType": "image/png", "ContentLength": 3}
        upload = storage.generate_presigned_url("put_object", Params=place)
        assert fetch("PUT", upload, data=b"abc", headers={"Content-Type": "image/png"})[0] == 200

    def test_every_boto3_call_has_a_valid_signature(self, aws: str, bucket: str) -> None:
        storage = client("s3", aws)
        with storage.get_object(Bucket="pictures", Key=KEY, Range="bytes=0-0")["Body"] as body:
            assert body.read() == b"a"
        assert storage.head_object(Bucket="pictures", Key=KEY)["ContentLength"] == 9
        assert storage.list_objects_v2(Bucket="pictures", Prefix="a b/", Delimiter="")["KeyCount"] == 1
        storage.copy_object(Bucket="pictures", Key="copy", CopySource={"Bucket": "pictures", "Key": KEY})
        storage.delete_objects(Bucket="pictures", Delete={"Objects": [{"Key": "copy"}], "Quiet": True})
        assert [found["Name"] for found in storage.list_buckets()["Buckets"]] == ["pictures"]


def fetch(method: str, url: str, **more: Any) -> tuple[int, str]:
    """The status, and the body of an answer or the code of an error."""
    try:
        with urlopen(Request(url, method=method, **more), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode().partition("<Code>")[2].partition("</Code>")[0]
