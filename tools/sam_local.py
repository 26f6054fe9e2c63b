"""Runs events with `sam local invoke`, against the stack that `make run` started: `make sam-local`.

Arguments are event files; without any, all of events/ run. An event that carries a user is run as a user of the running
stack who has the event's permissions. events/statuses.toml has the status that each event must answer with.
SAM_BUILD_ARGS is added to `sam build`. Exits with 1 if an event failed, and with 2 if none could be run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import yaml
from samtranslator.yaml_helper import yaml_parse

from artiway.platform.origin import HEADER as ORIGIN_HEADER
from local import photos
from local.emulator import STACK_NAME, client
from local.shop import Platform, running_facts

ROOT = Path(__file__).resolve().parent.parent
EVENTS = ROOT / "events"
CHANGES = EVENTS / "env.local.json"
STATUSES = EVENTS / "statuses.toml"
SAM = str(ROOT / ".tools/sam/bin/sam")
BUILD = ROOT / ".aws-sam/build"
WORK = ROOT / ".aws-sam/local"
LOOPBACK, HOST = "127.0.0.1", "host.docker.internal"
COMMAND_SECONDS = 600
# SAM counts the cold start towards a function's time-out, Lambda does not.
FUNCTION_SECONDS = 120
IMAGE = "artiway-sam-local"
# The layers are in the image: SAM would copy them into a new image for each event.
DOCKERFILE = """
FROM public.ecr.aws/lambda/{runtime}-{architecture}
COPY DependenciesLayer CoreLayer /opt/
"""
POINTS = 100
INPUT_ID = re.compile(r"\binp_[0-9a-f]{32}\b")
DURATION = re.compile(r"REPORT .*?\tDuration: ([\d.]+) ms")
Json = dict[str, Any]


class CannotRun(Exception):
    """A part that every event needs is missing."""


@dataclass(frozen=True)
class Outcome:
    """One row of the summary."""

    event: str
    function: str
    status: str
    expected: str
    duration_ms: float | None = None

    @property
    def is_ok(self) -> bool:
        return self.status == self.expected

    def __str__(self) -> str:
        status = self.status if self.is_ok else f"FAILED: {self.status}, not {self.expected}"
        duration = "–" if self.duration_ms is None else f"{self.duration_ms:.0f}"
        return f"| {self.event} | {self.function} | {status} | {duration} |"


def function_of(event: Path) -> str:
    """HealthFunction for events/health.get.json."""
    name = event.name.partition(".")[0]
    return "".join(word.capitalize() for word in name.split("_")) + "Function"


def expected_of(event: Path) -> str:
    function, _, case = event.stem.partition(".")
    return str(tomllib.loads(STATUSES.read_text())[function][case])


def read_status(answer: str, *, responses: Iterable[Json] | None = None) -> str:
    """The status of an answer as the summary shows it.

    `responses` are those that a custom resource sent; None if the event is not of a custom resource.
    """
    try:
        whole = answer.partition("\0")[0]  # of a streamed answer the status and headers, which NULs end
        value = json.loads(whole.strip().rpartition("\n")[2])
    except ValueError:
        return "no answer"
    if responses is not None:
        return ", ".join(one["Status"] for one in responses) or "no response"
    match value:
        case {"errorType": str(kind)}:
            return kind
        case {"statusCode": int(code)}:
            return str(code)
        case {"batchItemFailures": list(failures)}:
            return f"{len(failures)} refused"
        case None:
            return "null"
    return "ok"


def read_duration_ms(log: str) -> float | None:
    found = DURATION.findall(log)
    return float(found[-1]) if found else None


def summary(outcomes: list[Outcome]) -> str:
    """A Markdown table with a closing line of counts."""
    rows = [str(one) for one in outcomes]
    passed = sum(one.is_ok for one in outcomes)
    closing = f"{passed} passed, {len(outcomes) - passed} failed"
    return "\n".join(["| event | function | status | ms |", "| --- | --- | --- | --- |", *rows, "", closing])


def environments(functions: Iterable[Json], changes: Mapping[str, str]) -> dict[str, Json]:
    """The variables of each function in the running stack, with `changes`, for `sam local invoke --env-vars`."""
    return {one["FunctionName"]: one["Environment"]["Variables"] | changes for one in functions}


def with_variables(template: Json, variables: Mapping[str, Json]) -> Json:
    """The template with every variable declared: SAM passes only those that a function's resource names."""
    template["Globals"]["Function"].pop("Layers")
    for name, values in variables.items():
        properties = template["Resources"][name]["Properties"]
        properties["Timeout"] = FUNCTION_SECONDS
        declared = properties.setdefault("Environment", {}).setdefault("Variables", {})
        for variable in values:
            declared.setdefault(variable, "")
    return template


@dataclass(frozen=True)
class Users:
    """Users of the running stack, as the authorizer describes them, and an input that the first one uploaded.

    Their requests carry the secret that CloudFront adds.
    """

    contexts: list[Json]
    input_id: str
    origin_secret: str

    @classmethod
    async def of(cls, facts: Json, origin_secret: str) -> Users:
        """The owner of a new tenant, and the administrator."""
        async with Platform.at(facts) as api:
            administrator = await api.administrator()
            owner = await administrator.open_shop("sam local", points=POINTS, tier="standard")
            input_id = await owner.upload(photos.shirt(photos.BLUE))
        lambdas = client("lambda", facts["lambdaUrl"])
        contexts = []
        for person in (owner, administrator):
            event = {"headers": {"authorization": f"Bearer {person.token}"}}
            answer = lambdas.invoke(FunctionName="AuthorizerFunction", Payload=json.dumps(event).encode())
            contexts.append(json.load(answer["Payload"])["context"])
        return cls(contexts, input_id, origin_secret)

    def send(self, text: str) -> Json:
        """The event with the input and the first user who has its permissions, if it has an input or a user."""
        event: Json = json.loads(INPUT_ID.sub(self.input_id, text))
        if "headers" in event:
            event["headers"][ORIGIN_HEADER] = self.origin_secret
        user = event.get("requestContext", {}).get("authorizer", {}).get("lambda", {})
        if "userId" in user:
            wanted = set(user["permissions"].split())
            user |= next(one for one in self.contexts if wanted <= set(one["permissions"].split()))
        return event


class Bridge:
    """Forwards ports of the Docker gateway to the loopback and takes the responses of custom resources.

    Containers cannot reach servers that listen on the loopback only. Docker Desktop has no gateway address on the
    host and does not need it.
    """

    def __init__(self, gateway: str, ports: Iterable[int]) -> None:
        self._gateway, self._ports = gateway, ports
        self._started = threading.Event()
        self.responses: defaultdict[str, list[Json]] = defaultdict(list)  # by the name in the response's address
        self.response_port = 0

    @contextlib.contextmanager
    def running(self) -> Iterator[Bridge]:
        thread = threading.Thread(target=asyncio.run, args=(self._serve(),))
        thread.start()
        self._started.wait()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._stop.set)
            thread.join()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with contextlib.AsyncExitStack() as stack:
            sink = await asyncio.start_server(self._take_response, LOOPBACK, 0)
            self.response_port = sink.sockets[0].getsockname()[1]
            for port in [self.response_port, *self._ports]:
                with contextlib.suppress(OSError):
                    await stack.enter_async_context(self._forward(port))
            self._started.set()
            await self._stop.wait()
            sink.close()

    @contextlib.asynccontextmanager
    async def _forward(self, port: int) -> AsyncIterator[None]:
        async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            inner_reader, inner_writer = await asyncio.open_connection(LOOPBACK, port)
            await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))

        server = await asyncio.start_server(connect, self._gateway, port)
        try:
            yield
        finally:
            server.close()

    async def _take_response(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].split("\r\n")[0])
        self.responses[head.split()[1].strip("/")].append(json.loads(await reader.readexactly(length)))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:  # the other side has closed
        pass
    finally:
        writer.close()


class SamLocal:
    """The built template and the environment of the running stack, in which events are invoked."""

    def __init__(self, facts: Json) -> None:
        self._architecture = {"aarch64": "arm64"}.get(platform.machine(), platform.machine())
        # The stack's PostgreSQL has no certificate of RDS.
        self._layer_variables = {"ARCHITECTURE": self._architecture, "RDS_ROOTS": "none"}
        self._overrides = ["--parameter-overrides", f"Architecture={self._architecture}"]
        self._variables = os.environ | {
            "SAM_CLI_TELEMETRY": "0",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_ENDPOINT_URL": facts["awsUrl"],  # SAM asks for the account's number
            "UV": str(ROOT / ".tools/uv/bin/uv"),
            **self._layer_variables,
        }
        self._facts = facts

    def build(self) -> None:
        """Build with the Python of the template, which is in a container if this machine has another one."""
        runtime = yaml_parse((ROOT / "template.yaml").read_text())["Parameters"]["PythonRuntime"]["Default"]
        command = [SAM, "build", *self._overrides]
        if not _starts(runtime, "-c", ""):
            # An environment that samconfig.toml does not have: SAM can lose the output of parallel containers.
            command += ["--config-env", "container", "--use-container"]
            command += [f"--container-env-var={name}={value}" for name, value in self._layer_variables.items()]
        self._build([*command, *os.environ.get("SAM_BUILD_ARGS", "").split()])
        dockerfile = DOCKERFILE.format(runtime=runtime.replace("n", "n:"), architecture=self._architecture)
        self._build(["docker", "build", "--quiet", "--tag", IMAGE, "--file", "-", str(BUILD)], dockerfile)
        # What SAM made of the image before.
        self._run(["docker", "image", "rm", f"{IMAGE}:rapid-{self._architecture}"])

    def _build(self, command: list[str], text: str = "") -> None:
        done = self._run(command, text)
        if done.returncode:
            raise CannotRun(f"the build failed: {done.stderr[-3000:]}")

    def prepare(self) -> list[int]:
        """Write the environment and a template that declares it; return the ports that functions connect to."""
        changes = json.loads(Template(CHANGES.read_text()).substitute(self._facts))["Parameters"]
        pages = client("lambda", self._facts["awsUrl"]).get_paginator("list_functions").paginate()
        variables = environments((one for page in pages for one in page["Functions"]), changes)
        self._users = asyncio.run(Users.of(self._facts, self._origin_secret()))
        copied = self._copy_secrets(variables)
        text = json.dumps([variables, copied])
        WORK.mkdir(parents=True, exist_ok=True)
        file = WORK / "env.json"
        file.touch(mode=0o600)
        file.write_text(json.dumps(variables).replace(LOOPBACK, HOST))
        built = yaml.safe_load((BUILD / "template.yaml").read_text())
        (BUILD / "local.yaml").write_text(yaml.safe_dump(with_variables(built, variables), sort_keys=False))
        return [int(port) for port in set(re.findall(rf"{re.escape(LOOPBACK)}:(\d+)", text))]

    def _origin_secret(self) -> str:
        stack = client("cloudformation", self._facts["awsUrl"]).describe_stacks(StackName=STACK_NAME)["Stacks"][0]
        arn = next(one["OutputValue"] for one in stack["Outputs"] if one["OutputKey"] == "OriginSecretArn")
        found = client("secretsmanager", self._facts["awsUrl"]).get_secret_value(SecretId=arn)
        values: Json = json.loads(found["SecretString"])
        return str(next(iter(values.values())))

    def _copy_secrets(self, variables: dict[str, Json]) -> dict[str, str]:
        """Give functions a copy of each secret that holds an address of the loopback; return those secrets' texts."""
        secrets = client("secretsmanager", self._facts["awsUrl"])
        copied: dict[str, str] = {}
        for values in variables.values():
            for name in [one for one in values if one.endswith("_SECRET_ARN") and values[one]]:
                text = secrets.get_secret_value(SecretId=values[name])["SecretString"]
                if LOOPBACK not in text:
                    continue
                copy = f"sam-local-{values[name].rpartition(':')[2]}"
                if copy not in copied:
                    with contextlib.suppress(secrets.exceptions.ResourceExistsException):
                        secrets.create_secret(Name=copy)
                    secrets.put_secret_value(SecretId=copy, SecretString=text.replace(LOOPBACK, HOST))
                copied[copy], values[name] = text, copy
        return copied

    def invoke(self, event: Path, bridge: Bridge) -> Outcome:
        body = self._users.send(event.read_text())
        is_custom = "ResponseURL" in body
        if is_custom:
            body["ResponseURL"] = f"http://{HOST}:{bridge.response_port}/{event.stem}"
        file = WORK / event.name
        file.write_text(json.dumps(body))
        function = function_of(event)
        done = self._run([
            SAM, "local", "invoke", function, "--event", str(file),
            "--template", str(BUILD / "local.yaml"), "--env-vars", str(WORK / "env.json"),
            "--add-host", f"{HOST}:host-gateway", "--invoke-image", IMAGE, "--skip-pull-image", *self._overrides,
        ])  # fmt: skip
        status = read_status(done.stdout, responses=bridge.responses[event.stem] if is_custom else None)
        outcome = Outcome(event.stem, function, status, expected_of(event), read_duration_ms(done.stderr))
        if not outcome.is_ok:
            print(done.stdout[-600:], done.stderr[-3000:], sep="\n", file=sys.stderr)
        print(outcome, file=sys.stderr, flush=True)
        return outcome

    def _run(self, command: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=ROOT, env=self._variables, input=text, capture_output=True, text=True, timeout=COMMAND_SECONDS
        )


def _starts(program: str, *arguments: str) -> bool:
    """Whether a program is installed and runs. A shim of a version manager can be found and still not run."""
    path = shutil.which(program)
    return path is not None and subprocess.run([path, *arguments], capture_output=True, check=False).returncode == 0


def docker_gateway() -> str:
    docker = shutil.which("docker")
    if docker is None:
        raise CannotRun("Docker is not installed")
    command = [docker, "network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotRun(f"no Docker engine answers: {done.stderr.strip()}")
    return done.stdout.strip()


def main(arguments: list[str]) -> int:
    try:
        gateway = docker_gateway()
        home = ROOT / os.environ.get("ARTIWAY_HOME", ".artiway")
        facts = running_facts(home)
        if facts is None:
            raise CannotRun(f"no stack is running in {home.name}; start it with `make run`")
        local = SamLocal(facts)
        local.build()
        ports = local.prepare()
    except CannotRun as error:
        print(f"sam-local: no event was run: {error}", file=sys.stderr)
        return 2
    events = [Path(one) for one in arguments] or sorted(set(EVENTS.glob("*.json")) - {CHANGES})
    with Bridge(gateway, ports).running() as bridge, ThreadPoolExecutor() as pool:
        outcomes = list(pool.map(lambda event: local.invoke(event, bridge), events))
    print(summary(outcomes))
    return 0 if all(one.is_ok for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
