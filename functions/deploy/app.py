"""What a deployment must do inside: the schema, the public token keys, the first sweeps, the first administrator."""

from __future__ import annotations

from typing import Any

from artiway import bootstrap
from artiway.platform import deployment

# Begun and not waited for: no deployment is held up by a sweep, or fails because of one.
FIRST_PASSES = ("quick", "slow")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """A custom resource of the template, or called by hand with `{"action": "migrate"}`."""
    if "RequestType" in event:
        return deployment.answer_custom_resource(event, context, _perform)
    return _perform(event["action"], event)


def _perform(action: str, arguments: dict[str, Any]) -> dict[str, Any]:
    match action:
        case "migrate":
            return {"ran": bootstrap.migrate()}
        case "token-keys":
            return {"Jwks": bootstrap.token_jwks(arguments["KeyIds"])}
        case "recover":
            for name in FIRST_PASSES:
                deployment.call_later(arguments["FunctionArn"], {"pass": name})
            return {}
        case "bootstrap-admin":
            return {"userId": bootstrap.make_administrator(arguments["login"], arguments["password"])}
        case _:
            raise ValueError(f"unknown action {action!r}: migrate, token-keys, recover or bootstrap-admin")
