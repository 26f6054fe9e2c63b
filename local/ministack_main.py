"""Starts MiniStack with three repairs. Runs in the emulator's own environment, pinned by hash, not in ours.

A function's error keeps its own name and text (Step Functions catches by name). A bucket whose objects are already on
disk is adopted by the new deployment instead of refused. A signing key is the same after a restart, so that tokens that
are out there stay valid.
"""

from __future__ import annotations

import http.client
import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import serialization
from ministack.app import main  # type: ignore[import-not-found]
from ministack.services import kms, lambda_svc, s3  # type: ignore[import-not-found]
from ministack.services.cloudformation import provisioners  # type: ignore[import-not-found]

Json = dict[str, Any]


def call_function(function: Json, event: Json, url: str, request_id: str) -> Json:
    """No time-out here: the Lambda server has the function's, and counts only the time that is the handler's."""
    target = urlsplit(url)
    connection = http.client.HTTPConnection(target.hostname or "", target.port)
    headers = {"Content-Type": "application/json", "X-Amzn-Lambda-Request-Id": request_id}
    try:
        connection.request("POST", target.path, json.dumps(event).encode(), headers)
        answer = connection.getresponse()
        body = json.loads(answer.read() or b"null")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return {"body": {"errorType": "ServiceException", "errorMessage": str(error)}, "error": True}
    finally:
        connection.close()
    return {"body": body} if answer.status == http.HTTPStatus.OK else {"body": body, "error": True}


def create_bucket(logical_id: str, properties: Json, stack_name: str) -> tuple[str, Json]:
    name = properties.get("BucketName")
    kept = s3._buckets.pop(name, None)  # noqa: SLF001
    made: tuple[str, Json] = provisioners._s3_create(logical_id, properties, stack_name)  # noqa: SLF001
    if kept is not None:
        s3._buckets[name]["objects"] = kept["objects"]  # noqa: SLF001
    return made


def create_key(logical_id: str, properties: Json, stack_name: str) -> tuple[str, Json]:
    made_id, _ = provisioners._kms_key_create(logical_id, properties, stack_name)  # noqa: SLF001
    record = kms._resolve_key(made_id)  # noqa: SLF001
    file = Path(os.environ["ARTIWAY_KEYS"]) / f"{logical_id}.pem"
    if "_private_key" in record and not file.exists():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        file.write_bytes(f"{made_id}\n".encode() + record["_private_key"].private_bytes(*form))
    elif "_private_key" in record:
        key_id, _, pem = file.read_bytes().partition(b"\n")
        kept_id = key_id.decode()
        kms._set_asymmetric_material(record, serialization.load_pem_private_key(pem, password=None))  # noqa: SLF001
        record |= {"KeyId": kept_id, "Arn": record["Arn"].replace(made_id, kept_id)}
        kms._keys[kept_id] = kms._keys.pop(made_id)  # noqa: SLF001
    return record["KeyId"], {"Arn": record["Arn"], "KeyId": record["KeyId"]}


if __name__ == "__main__":
    lambda_svc._execute_function_proxy = call_function  # noqa: SLF001
    provisioners.s3_bucket_name_conflict = lambda _name: None
    provisioners._RESOURCE_HANDLERS["AWS::S3::Bucket"]["create"] = create_bucket  # noqa: SLF001
    provisioners._RESOURCE_HANDLERS["AWS::KMS::Key"]["create"] = create_key  # noqa: SLF001
    main()
