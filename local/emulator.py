"""MiniStack emulates AWS. It keeps no resources: each run starts it empty and deploys the template into it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
from botocore.config import Config
from botocore.exceptions import ClientError

from local.lambdas import REGION, Configuration
from local.servers import Server, ServerFailed

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".tools/emulator/bin/python"
STACK_NAME = "artiway"
DEPLOY_SECONDS = 120
TEMPLATE_BUCKET = "artiway-deployment"
STOP_SECONDS = 1


def start_emulator(home: Path, port: int, *, python: Path = PYTHON) -> Server:
    if not python.exists():
        raise ServerFailed("the AWS emulator is not installed: run `make run` or `make test`, which install it")
    objects, scratch = (home / "s3").resolve(), home / "tmp"
    for folder in (objects, scratch):
        folder.mkdir(parents=True, exist_ok=True)
    log = home / "emulator.log"
    # The process gets none of the caller's AWS settings, so it can never reach a real account.
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(home.resolve()),
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",
        "MINISTACK_REGION": REGION,
        "GATEWAY_PORT": str(port),
        "PERSIST_STATE": "0",
        "S3_PERSIST": "1",
        "S3_DATA_DIR": str(objects),
        "ARTIWAY_KEYS": str((home / "keys").resolve()),
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "LOG_LEVEL": "WARNING",
        "LAMBDA_ACCOUNT_CONCURRENCY": "1000",
        "TMPDIR": str(scratch.resolve()),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(python), str(Path(__file__).with_name("ministack_main.py"))],
            env=environment,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    # It does not stop while Step Functions wait for a task token. It has no state to save, so it is killed soon.
    server = Server("the AWS emulator", f"http://127.0.0.1:{port}", port, process, log, STOP_SECONDS)
    return server.wait_until_open()


def client(service: str, url: str, config: Config | None = None) -> Any:
    """A boto3 client whose endpoint is on this machine and whose credentials are fake."""
    import boto3

    session = boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name=REGION)  # noqa: S106
    make: Callable[..., Any] = session.client
    return make(service, endpoint_url=url, config=config)


def deploy(
    url: str, body: dict[str, Any], *, parameters: Mapping[str, str], failures: Sequence[str] = ()
) -> dict[str, str]:
    """Create the CloudFormation stack and return its outputs. An error lists the failed resources with reasons.

    The Lambda server fills `failures`: a custom resource whose function failed never answers the emulator.
    """
    cloudformation = client("cloudformation", url)
    try:
        cloudformation.create_stack(
            StackName=STACK_NAME,
            TemplateURL=_uploaded(url, body),
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
        )
    except ClientError as error:
        raise ServerFailed(f"the template was not accepted: {error}") from error
    deadline = time.monotonic() + DEPLOY_SECONDS
    while True:
        stack = cloudformation.describe_stacks(StackName=STACK_NAME)["Stacks"][0]
        status = stack["StackStatus"]
        if status == "CREATE_COMPLETE":
            return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
        if failures:
            raise ServerFailed("\n".join(["the template was not deployed:", *failures]))
        if status != "CREATE_IN_PROGRESS" or time.monotonic() > deadline:
            events = cloudformation.describe_stack_events(StackName=STACK_NAME)["StackEvents"]
            reasons = [
                f"  {event['LogicalResourceId']} ({event['ResourceType']}): {event.get('ResourceStatusReason', '')}"
                for event in reversed(events)
                if event["ResourceStatus"].endswith("FAILED")
            ]
            raise ServerFailed("\n".join([f"the template was not deployed ({status}):", *reasons]))
        time.sleep(0.05)


def _uploaded(url: str, body: dict[str, Any]) -> str:
    """Upload the template: a request to CloudFormation holds 51,200 bytes, an object in a bucket a megabyte."""
    storage = client("s3", url)
    with contextlib.suppress(storage.exceptions.BucketAlreadyOwnedByYou):  # buckets outlive a run
        storage.create_bucket(Bucket=TEMPLATE_BUCKET)
    storage.put_object(Bucket=TEMPLATE_BUCKET, Key="template.json", Body=json.dumps(body).encode())
    return f"{url}/{TEMPLATE_BUCKET}/template.json"


async def configuration(session: aiohttp.ClientSession, url: str, name: str) -> Configuration:
    """The deployed function with all references resolved, read from the emulator, which resolves them."""
    async with session.get(f"{url}/2015-03-31/functions/{name}/configuration") as answer:
        answer.raise_for_status()
        deployed = await answer.json(content_type=None)
    # CloudFormation makes texts of numbers, the emulator leaves those of a mapping as they are.
    variables = {key: str(value) for key, value in deployed.get("Environment", {}).get("Variables", {}).items()}
    real_aws = [key for key, value in variables.items() if "amazonaws.com" in value]
    if real_aws:
        raise ServerFailed(f"{name} would call real AWS: {', '.join(real_aws)}")
    logging = deployed.get("LoggingConfig", {})
    return Configuration(
        handler=deployed["Handler"],
        timeout_seconds=deployed["Timeout"],
        memory_mb=deployed["MemorySize"],
        variables=variables,
        log_format=logging.get("LogFormat", "Text"),
        log_level=logging.get("ApplicationLogLevel", ""),
    )
