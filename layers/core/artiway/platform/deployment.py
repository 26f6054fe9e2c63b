"""CloudFormation custom resources: perform the action, then send the result to CloudFormation's response URL."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from artiway.platform import aws
from artiway.platform.logs import Logger

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

logger = Logger("deployment")
# "Custom::TokenKeys" -> "token-keys": the resource type names the action.
ACTIONS = {
    "Custom::Migration": "migrate",
    "Custom::TokenKeys": "token-keys",
    "Custom::OriginHashes": "origin-hashes",
    "Custom::PictureKeys": "picture-keys",
    "Custom::Recovery": "recover",
}
REASON_LIMIT = 400
ANSWER_TIMEOUT_S = 10


def answer_custom_resource(
    event: dict[str, Any], context: Any, perform: Callable[[str, dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    """Perform the resource's action on create and update. A failure is reported, so the stack rolls back at once."""
    answer: dict[str, Any] = {
        "Status": "SUCCESS",
        "PhysicalResourceId": event.get("PhysicalResourceId") or event["LogicalResourceId"],
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": {},
    }
    if event["RequestType"] != "Delete":  # deleting the stack deletes no data
        try:
            answer["Data"] = perform(ACTIONS[event["ResourceType"]], event.get("ResourceProperties", {}))
        except Exception as error:
            logger.exception("custom resource failed", resource=event["LogicalResourceId"])
            answer |= {"Status": "FAILED", "Reason": f"{type(error).__name__}: {error}"[:REASON_LIMIT]}
    _respond(event["ResponseURL"], answer)
    return answer


def call_later(function_arn: str, event: dict[str, Any]) -> None:
    """Invoke a function asynchronously. If that fails, its next schedule runs it."""
    from botocore.exceptions import BotoCoreError, ClientError

    functions: LambdaClient = aws.client("lambda")
    try:
        functions.invoke(FunctionName=function_arn, InvocationType="Event", Payload=json.dumps(event).encode())
    except (BotoCoreError, ClientError) as error:
        logger.warning("function not called", function_arn=function_arn, reason=type(error).__name__)


def _respond(url: str, answer: dict[str, Any]) -> None:
    import urllib3

    # CloudFormation's presigned URL is signed without a content type.
    response = urllib3.PoolManager().request(
        "PUT", url, body=json.dumps(answer).encode(), headers={"content-type": ""}, timeout=ANSWER_TIMEOUT_S
    )
    if response.status >= 300:
        raise RuntimeError(f"CloudFormation did not take the answer: {response.status}")
