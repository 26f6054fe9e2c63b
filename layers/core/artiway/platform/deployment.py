"""CloudFormation custom resources: do the work, then tell CloudFormation at the address that it gave."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from artiway.platform.logs import Logger

logger = Logger("deployment")
# "Custom::TokenKeys" -> "token-keys": the resource type names the action.
ACTIONS = {"Custom::Migration": "migrate", "Custom::TokenKeys": "token-keys"}
REASON_LIMIT = 400
ANSWER_TIMEOUT_S = 10


def answer_custom_resource(
    event: dict[str, Any], context: Any, perform: Callable[[str, dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    """Perform the resource's action on create and update. A failure is told, so that the stack rolls back at once."""
    answer: dict[str, Any] = {
        "Status": "SUCCESS",
        "PhysicalResourceId": event.get("PhysicalResourceId") or event["LogicalResourceId"],
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": {},
    }
    if event["RequestType"] != "Delete":  # deleting a stack deletes no data and no history
        try:
            answer["Data"] = perform(ACTIONS[event["ResourceType"]], event.get("ResourceProperties", {}))
        except Exception as error:
            logger.exception("custom resource failed", resource=event["LogicalResourceId"])
            answer |= {"Status": "FAILED", "Reason": f"{type(error).__name__}: {error}"[:REASON_LIMIT]}
    _tell(event["ResponseURL"], answer)
    return answer


def _tell(url: str, answer: dict[str, Any]) -> None:
    import urllib3

    # CloudFormation's presigned address is signed without a content type.
    response = urllib3.PoolManager().request(
        "PUT", url, body=json.dumps(answer).encode(), headers={"content-type": ""}, timeout=ANSWER_TIMEOUT_S
    )
    if response.status >= 300:
        raise RuntimeError(f"CloudFormation did not take the answer: {response.status}")
