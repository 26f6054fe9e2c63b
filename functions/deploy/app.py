"""Steps of a deployment: migrate the schema, publish keys and hashes, start the first sweeps, make an administrator."""

from __future__ import annotations

from functools import partial
from typing import Any

from artiway import bootstrap
from artiway.ids import to_wire
from artiway.platform import deployment, kms, migrations, origin, picture_keys
from artiway.platform.secrets import Secret

# Invoked asynchronously: a deployment neither waits for a sweep nor fails because of one.
FIRST_PASSES = ("quick", "slow", "changes")
# A migration ends so long before the function does, so that CloudFormation receives the reason.
ANSWER_S = 30


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """A custom resource of the template invokes it, or an operator with `{"action": "migrate", "Phase": "after"}`."""
    if "RequestType" in event:
        return deployment.answer_custom_resource(event, context, partial(_perform, context))
    return _perform(context, event["action"], event)


def _perform(context: Any, action: str, arguments: dict[str, Any]) -> dict[str, Any]:
    match action:
        case "migrate":
            phase = migrations.Phase(arguments.get("Phase", migrations.Phase.BEFORE))
            within_s = context.get_remaining_time_in_millis() / 1_000 - ANSWER_S
            return {"ran": migrations.migrate(bootstrap.owner_database_url(), phase=phase, within_s=within_s)}
        case "token-keys":
            return {"Jwks": kms.public_jwks(arguments["KeyIds"], signing_key_id=arguments["SigningKeyId"])}
        case "origin-hashes":
            return {"Hashes": origin.hashes_of(Secret(arguments["SecretArn"]).text())}
        case "picture-keys":
            versions = {slot: arguments[slot.title()] for slot in picture_keys.SLOTS}
            return {slot.title(): key for slot, key in picture_keys.ensure(arguments["SecretArn"], versions).items()}
        case "recover":
            for name in FIRST_PASSES:
                deployment.call_later(arguments["FunctionArn"], {"pass": name})
            deployment.call_later(arguments["TriggerArn"], {"once": True})
            return {}
        case "bootstrap-admin":
            login, password = arguments["login"], arguments["password"]
            return {"userId": to_wire("usr", bootstrap.administrators().ensure(login=login, password=password))}
        case _:
            known = "migrate, token-keys, origin-hashes, picture-keys, recover, bootstrap-admin"
            raise ValueError(f"unknown action {action!r}: {known}")
