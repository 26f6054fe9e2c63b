"""What a deployment must do inside: the schema, the public token keys, the first administrator."""

from __future__ import annotations

from typing import Any

from artiway import bootstrap
from artiway.platform import deployment


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
        case "bootstrap-admin":
            return {"userId": bootstrap.make_administrator(arguments["login"], arguments["password"])}
        case _:
            raise ValueError(f"unknown action {action!r}: migrate, token-keys or bootstrap-admin")
