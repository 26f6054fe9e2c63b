"""The emulator itself: what it deploys, what it says when it cannot, and the repairs that we start it with."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from local.emulator import client, configuration, deploy, start_emulator
from local.lambdas import Function, LambdaServer
from local.servers import ServerFailed, free_port, running

Run = Callable[[Coroutine[Any, Any, Any]], Any]
HANDLER = """
class OutOfStock(Exception): pass

def handler(event, context):
    raise OutOfStock("no shoes left")
"""


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[str]:
    """An empty emulator of the test's own: half a second, and nothing of another test in it."""
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


def test_a_deployment_that_fails_names_the_resource_and_the_reason(aws: str) -> None:
    body = {"Resources": {"Lake": {"Type": "AWS::Nonsense::Lake"}}}
    with pytest.raises(ServerFailed, match="AWS::Nonsense::Lake"):
        deploy(aws, body, parameters={})


def test_a_custom_resource_whose_function_fails_ends_the_deployment_at_once(aws: str, server: LambdaServer) -> None:
    token = {"ServiceToken": {"Fn::GetAtt": ["Shop", "Arn"]}, "ServiceTimeout": 3600}
    body = {"Resources": {"Shop": shop(server), "Setup": {"Type": "Custom::Setup", "Properties": token}}}
    with pytest.raises(ServerFailed, match=r"Shop: .*no shoes left"):
        deploy(aws, body, parameters={}, failures=server.failures)


def test_step_functions_catches_a_function_s_error_by_its_own_name(aws: str, server: LambdaServer) -> None:
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


def test_a_function_that_would_call_real_aws_does_not_start(aws: str, server: LambdaServer, run: Run) -> None:
    astray = shop(server, ENDPOINT="https://sqs.us-east-1.amazonaws.com")
    deploy(aws, {"Resources": {"Shop": astray}}, parameters={})

    async def look() -> None:
        async with aiohttp.ClientSession() as session:
            await configuration(session, aws, "Shop")

    with pytest.raises(ServerFailed, match="Shop would call real AWS: ENDPOINT"):
        run(look())


def test_a_missing_emulator_is_said_with_the_way_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="make run"):
        start_emulator(tmp_path, free_port(), python=tmp_path / "none")
