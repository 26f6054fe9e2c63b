"""Runs the functions. It serves the Lambda Runtime API to `awslambdaric` processes and the Invoke API to callers.

A sandbox is one child process and handles one event at a time, as on AWS: its module state survives between calls, a
time-out or a crash ends it, and it does not inherit the environment in which the stack was started.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import secrets
import signal
import sys
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from aiohttp import ClientError, web

from local.processes import Processes
from local.servers import ServerFailed

REGION = "us-east-1"
ACCOUNT = "000000000000"
PAYLOAD_BYTES = 6 * 1024 * 1024
TAIL_BYTES = 4096
LOG_BYTES = 2 * 1024 * 1024
INIT_SECONDS = 30
IDLE_SECONDS = 300
QUEUE_SECONDS = 120
RELOAD_SECONDS = 0.5
DEFAULT_SANDBOXES = 8
PROXY_VARIABLE = "MINISTACK_LAMBDA_PROXY_URL"
WRAPPER_VARIABLE = "AWS_LAMBDA_EXEC_WRAPPER"
MODE_HEADER = "Lambda-Runtime-Function-Response-Mode"
FAILED_TRAILER = b"0\r\nLambda-Runtime-Function-Error-Type: "


@dataclass(frozen=True)
class Function:
    """Properties of a function that the template holds and the emulator does not need."""

    name: str
    folder: Path
    layer: Path
    concurrency: int = DEFAULT_SANDBOXES


@dataclass(frozen=True)
class Configuration:
    """The deployed function with all references resolved."""

    handler: str
    timeout_seconds: int
    memory_mb: int
    variables: Mapping[str, str]
    log_format: str = "Text"
    log_level: str = ""


Lookup = Callable[[str], Awaitable[Configuration]]


@dataclass
class Outcome:
    payload: bytes
    is_error: bool = False
    log: bytes = b""


@dataclass
class Invocation:
    request_id: str
    payload: bytes
    trace_id: str
    qualifier: str = ""  # an alias or a version; the function sees it in its ARN
    parts: Parts | None = None  # of an answer that is streamed
    timeout_seconds: int = INIT_SECONDS
    taken: asyncio.Event = field(default_factory=asyncio.Event)
    outcome: asyncio.Future[Outcome] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def finish(self, payload: bytes, *, is_error: bool = False) -> None:
        if not self.outcome.done():
            self.outcome.set_result(Outcome(payload, is_error))

    def fail(self, kind: str, message: str) -> None:
        text = f"RequestId: {self.request_id} Error: {message}"
        self.finish(json.dumps({"errorType": kind, "errorMessage": text}).encode(), is_error=True)


class Parts(asyncio.Queue[bytes | None]):
    """The parts of a streamed answer, None after the last. `cut` breaks the connection that they come from."""

    def __init__(self) -> None:
        super().__init__()
        self.cut: Callable[[], None] = lambda: None


class StreamFailed(RuntimeError):
    """The function failed before its answer was whole."""


class LogFile:
    """The output of a function's sandboxes, in two files of bounded size: the current one and the previous one."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._file = path, path.open("ab", buffering=0)

    def write(self, data: bytes) -> None:
        if self._file.closed:
            return
        self._file.write(data)
        if self._file.tell() > LOG_BYTES:
            self._file.close()
            self._path.replace(self._path.with_suffix(".log.1"))
            self._file = self._path.open("ab", buffering=0)

    def close(self) -> None:
        self._file.close()


class Tap(asyncio.Protocol):
    """Passes a connection on to aiohttp, which drops trailers. In these a runtime reports that its answer broke off."""

    def __init__(self, inner: asyncio.Protocol, is_broken: Callable[[], None]) -> None:
        self._inner, self._is_broken = inner, is_broken

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._inner.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def data_received(self, data: bytes) -> None:
        if FAILED_TRAILER in data:  # the runtime sends the last chunk and its trailers at once
            self._is_broken()
        self._inner.data_received(data)


class Sandbox(asyncio.SubprocessProtocol):
    """One child process and the Runtime API from which it requests one event after another."""

    def __init__(self, function: Function, files: Mapping[str, float], log: LogFile) -> None:
        self.function = function
        self.files = files
        self.current: Invocation | None = None
        self.idle_since = time.monotonic()
        self.is_spent = False
        self._is_answer_broken = False
        self._listener: asyncio.Server | None = None
        self._inbox: asyncio.Queue[Invocation] = asyncio.Queue(maxsize=1)
        self._exited = asyncio.Event()
        self._closed = asyncio.Event()
        self._log = log
        self._tail: deque[bytes] = deque()
        self._transport: asyncio.SubprocessTransport | None = None
        self._runner = _runner(
            web.get("/2018-06-01/runtime/invocation/next", self._next),
            web.post("/2018-06-01/runtime/invocation/{request_id}/response", self._response),
            web.post("/2018-06-01/runtime/invocation/{request_id}/error", self._error),
            web.post("/2018-06-01/runtime/init/error", self._init_error),
        )

    async def start(self, environment: Mapping[str, str], handler: str) -> None:
        await self._runner.setup()
        assert self._runner.server is not None
        api = self._runner.server
        self._listener = await asyncio.get_running_loop().create_server(
            lambda: Tap(api(), self._break_answer), "127.0.0.1", 0
        )
        port = self._listener.sockets[0].getsockname()[1]
        command = [sys.executable, "-m", "awslambdaric", handler]
        if wrapper := environment.get(WRAPPER_VARIABLE):
            command.insert(0, wrapper.replace("/opt/", f"{self.function.layer}/", 1))
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: self,
            *command,
            cwd=self.function.folder,
            env={**environment, "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{port}"},
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        self._transport = transport

    @property
    def pid(self) -> int:
        assert self._transport is not None
        return self._transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._tail.append(data)
        while len(self._tail) > 1 and sum(map(len, self._tail)) - len(self._tail[0]) > TAIL_BYTES:
            self._tail.popleft()
        self._log.write(data)

    def process_exited(self) -> None:
        self.is_spent = True
        self._exited.set()
        code = self._transport.get_returncode() if self._transport else None
        if self.current is not None:
            killed = signal.strsignal(-code) if code is not None and code < 0 else None
            reason = f"signal: {killed.lower()}" if killed else f"exit status {code}"
            self.current.fail("Runtime.ExitError", f"Runtime exited with error: {reason}")

    def connection_lost(self, _error: Exception | None) -> None:
        if self._transport is not None:
            self._transport.close()
        self._closed.set()

    async def end(self) -> None:
        """Kill the child and return when it has been reaped."""
        self.is_spent = True
        if self._transport is not None:
            if not self._exited.is_set():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
            await self._closed.wait()
        if self._listener is not None:
            self._listener.close()
        await self._runner.cleanup()

    async def run(self, invocation: Invocation) -> Outcome:
        """Run one event. The time-out counts from when the child takes the event, so a cold start does not count."""
        self._tail.clear()
        self._is_answer_broken = False
        self.current = invocation
        if self._exited.is_set():
            self.process_exited()
        self._inbox.put_nowait(invocation)
        taken = asyncio.ensure_future(invocation.taken.wait())
        either: set[asyncio.Future[Any]] = {taken, invocation.outcome}
        try:
            await asyncio.wait(either, timeout=INIT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            taken.cancel()
        if invocation.taken.is_set():
            await asyncio.wait({invocation.outcome}, timeout=invocation.timeout_seconds)
        if not invocation.outcome.done():
            self.is_spent = True
            what, seconds = (
                ("Task", invocation.timeout_seconds) if invocation.taken.is_set() else ("Init", INIT_SECONDS)
            )
            invocation.fail("Sandbox.Timedout", f"{what} timed out after {seconds}.00 seconds")
        outcome = await invocation.outcome
        # The child wrote its last log lines before it answered; two turns of the loop read them from the pipe.
        for _ in range(2):
            await asyncio.sleep(0)
        self.current = None
        self.idle_since = time.monotonic()
        outcome.log = b"".join(self._tail)[-TAIL_BYTES:]
        return outcome

    async def _next(self, _request: web.Request) -> web.Response:
        invocation = await self._inbox.get()
        invocation.taken.set()
        return web.Response(
            body=invocation.payload,
            content_type="application/json",
            headers={
                "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
                "Lambda-Runtime-Deadline-Ms": str(int((time.time() + invocation.timeout_seconds) * 1000)),
                "Lambda-Runtime-Invoked-Function-Arn": function_arn(self.function.name, invocation.qualifier),
                "Lambda-Runtime-Trace-Id": invocation.trace_id,
            },
        )

    async def _response(self, request: web.Request) -> web.Response:
        if request.headers.get(MODE_HEADER) == "streaming":
            return await self._streamed(request)
        payload = await request.read()
        if self.current and self.current.request_id == request.match_info["request_id"]:
            if len(payload) > PAYLOAD_BYTES:
                text = f"Response payload size exceeded maximum allowed payload size ({PAYLOAD_BYTES} bytes)."
                self.current.fail("Function.ResponseSizeTooLarge", text)
            self.current.finish(payload)
        return web.json_response({"status": "OK"}, status=202)

    async def _streamed(self, request: web.Request) -> web.Response:
        """Pass each part of the answer on as it arrives."""
        invocation = self.current
        if invocation is None or invocation.request_id != request.match_info["request_id"]:
            return web.json_response({"status": "OK"}, status=202)
        if invocation.parts is not None and request.transport is not None:
            invocation.parts.cut = request.transport.abort
        whole = bytearray()
        try:
            async for part in request.content.iter_any():
                if invocation.parts is not None:
                    invocation.parts.put_nowait(part)
                else:
                    whole += part
        finally:  # the connection may be cut
            invocation.finish(bytes(whole), is_error=self._is_answer_broken)
        return web.json_response({"status": "OK"}, status=202)

    def _break_answer(self) -> None:
        self._is_answer_broken = True

    async def _error(self, request: web.Request) -> web.Response:
        payload = await request.read()
        if self.current:
            self.current.finish(payload, is_error=True)
        return web.json_response({"status": "OK"}, status=202)

    async def _init_error(self, request: web.Request) -> web.Response:
        self.is_spent = True
        return await self._error(request)


class Pool:
    """The sandboxes of one function. A warm sandbox is used again until it is old or the code has changed."""

    def __init__(self, function: Function, server: LambdaServer) -> None:
        self.function = function
        self.configuration: Configuration | None = None
        self._server = server
        self._slots = asyncio.Semaphore(function.concurrency)
        self._idle: list[Sandbox] = []
        self._all: set[Sandbox] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._files: Mapping[str, float] = {}
        self._checked_at = 0.0
        self._log = LogFile(server.logs / f"{function.name}.log")

    async def invoke(
        self,
        payload: bytes,
        request_id: str,
        trace_id: str,
        qualifier: str = "",
        parts: Parts | None = None,
    ) -> Outcome:
        invocation = Invocation(request_id, payload, trace_id, qualifier, parts)
        try:
            await asyncio.wait_for(self._slots.acquire(), QUEUE_SECONDS)
        except TimeoutError:
            invocation.fail("TooManyRequestsException", "Rate Exceeded: every sandbox is busy")
            return await invocation.outcome
        sandbox = None
        try:
            self._drop_stale()
            configuration = await self._configured()
            invocation.timeout_seconds = configuration.timeout_seconds
            sandbox = self._idle.pop() if self._idle else await self._spawn(configuration)
            outcome = await sandbox.run(invocation)
            is_current = sandbox.files is self._files and self.configuration is configuration
            if is_current and not sandbox.is_spent:
                self._idle.append(sandbox)
                sandbox = None
        except (ServerFailed, ClientError, OSError) as error:
            invocation.fail("ServiceException", f"the function could not be started: {error}")
            outcome = await invocation.outcome
        finally:
            if sandbox is not None:
                self._end(sandbox)
            self._slots.release()
        return outcome

    async def _configured(self) -> Configuration:
        if self.configuration is None:
            self.configuration = await self._server.lookup(self.function.name)
        return self.configuration

    async def _spawn(self, configuration: Configuration) -> Sandbox:
        sandbox = Sandbox(self.function, self._files, self._log)
        try:
            await sandbox.start(self._server.environment(self.function, configuration), configuration.handler)
        except BaseException:  # a cancelled call may already have started the child
            await sandbox.end()
            raise
        self._all.add(sandbox)
        self._server.processes.add(sandbox.pid)
        return sandbox

    def _end(self, sandbox: Sandbox) -> None:
        self._all.discard(sandbox)
        self._server.processes.remove(sandbox.pid)
        task = asyncio.create_task(sandbox.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _drop_stale(self) -> None:
        """End the idle sandboxes that have exited, and all idle ones when a source file has changed."""
        for sandbox in [one for one in self._idle if one.is_spent]:
            self._idle.remove(sandbox)
            self._end(sandbox)
        now = time.monotonic()
        if now - self._checked_at < RELOAD_SECONDS:
            return
        self._checked_at = now
        files = {
            file: changed for root in (self.function.folder, self.function.layer) for file, changed in _sources(root)
        }
        if files != self._files:
            # Python compares byte code with its source by whole seconds, which two quick edits may share.
            for file, _ in files.items() - (self._files or files).items():
                Path(cache_from_source(file)).unlink(missing_ok=True)
            self._files = files
            self.retire()

    def retire(self, idle_seconds: float = 0) -> None:
        horizon = time.monotonic() - idle_seconds
        for sandbox in [one for one in self._idle if one.idle_since <= horizon]:
            self._idle.remove(sandbox)
            self._end(sandbox)

    def forget(self) -> None:
        """Read the configuration again at the next call: the function was deployed anew."""
        self.configuration = None
        self.retire()

    async def close(self) -> None:
        """Return when the children have been reaped: the event loop, which reaps them, stops next."""
        for sandbox in list(self._all):
            self._end(sandbox)
        await asyncio.gather(*self._ending)
        self._log.close()


def _sources(folder: Path) -> Iterator[tuple[str, float]]:
    """The source files of a function with their modification times."""
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in files:
            path = os.path.join(place, name)  # noqa: PTH118 (called often: this walk is a third of the time)
            with contextlib.suppress(FileNotFoundError):  # an editor's temporary file
                yield path, os.stat(path).st_mtime  # noqa: PTH116


def new_trace_id() -> str:
    return f"Root=1-{int(time.time()):08x}-{secrets.token_hex(12)}"


def trace_of(payload: bytes, header: str | None) -> str:
    """The trace id of the request or message that caused the call, or a new one."""
    try:
        event = json.loads(payload)
        record = (event.get("Records") or [{}])[0]
        found = (event.get("headers") or {}).get("x-amzn-trace-id") or record["attributes"]["AWSTraceHeader"]
    except (ValueError, AttributeError, TypeError, LookupError):
        found = None
    return found or header or new_trace_id()


class LambdaServer:
    """All functions of a stack behind one loopback port. It runs in one event loop."""

    def __init__(
        self,
        *,
        functions: Mapping[str, Function],
        lookup: Lookup,
        home: Path,
        port: int,
        endpoint_url: str,
    ) -> None:
        self.lookup = lookup
        self.port = port
        self.logs = home / "logs"
        self.processes = Processes(home)
        self.failures: list[str] = []
        self._endpoint_url = endpoint_url
        self._pools = {name: Pool(function, self) for name, function in functions.items()}
        self._background: set[asyncio.Task[Any]] = set()
        self._is_stopping = False
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        self._runner = _runner(
            web.post("/2015-03-31/functions/{name}/invocations", self._invoke),
            web.post("/proxy/{name}", self._proxy),
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, backlog=1024).start()
        self._track(asyncio.create_task(self._retire_idle()))

    async def stop(self) -> None:
        self._is_stopping = True  # the emulator keeps calling until it is stopped
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))
        if self._runner is not None:
            await self._runner.cleanup()

    def forget_configurations(self) -> None:
        for pool in self._pools.values():
            pool.forget()

    def environment(self, function: Function, configuration: Configuration) -> dict[str, str]:
        """The variables that Lambda sets, the function's own and the emulator's address; none of the caller's shell."""
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        logging = {"AWS_LAMBDA_LOG_FORMAT": configuration.log_format} if configuration.log_format == "JSON" else {}
        if configuration.log_level:
            logging["AWS_LAMBDA_LOG_LEVEL"] = configuration.log_level
        return {
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_ENDPOINT_URL": self._endpoint_url,
            "AWS_EXECUTION_ENV": f"AWS_Lambda_python{version}",
            "AWS_LAMBDA_FUNCTION_NAME": function.name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(configuration.memory_mb),
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function.name}",
            "AWS_LAMBDA_LOG_STREAM_NAME": f"{time.strftime('%Y/%m/%d')}/[$LATEST]{secrets.token_hex(16)}",
            "LAMBDA_TASK_ROOT": str(function.folder),
            "_HANDLER": configuration.handler,
            "LANG": "en_US.UTF-8",
            "TZ": ":UTC",
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": str(function.layer),
            **logging,
            **{name: value for name, value in configuration.variables.items() if name != PROXY_VARIABLE},
        }

    async def _retire_idle(self) -> None:
        while True:
            await asyncio.sleep(IDLE_SECONDS / 10)
            for pool in self._pools.values():
                pool.retire(IDLE_SECONDS)

    def _track(self, task: asyncio.Task[Any]) -> None:
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _call(self, pool: Pool, payload: bytes, request_id: str, trace_id: str, qualifier: str = "") -> Outcome:
        """Invoke a function. It keeps running when the caller disconnects."""
        task = asyncio.create_task(pool.invoke(payload, request_id, trace_id, qualifier))
        self._track(task)
        return await asyncio.shield(task)

    async def stream(self, name: str, payload: bytes, trace_id: str, is_cut: bool = False) -> AsyncIterator[bytes]:
        """The parts of an answer as they come. Raises StreamFailed.

        When the caller leaves the function runs on, as on AWS; with `is_cut` the connection of its answer is cut.
        """
        parts = Parts()
        task = asyncio.create_task(self._pools[name].invoke(payload, str(uuid.uuid4()), trace_id, parts=parts))
        task.add_done_callback(lambda _: parts.put_nowait(None))
        self._track(task)
        is_whole = False
        try:
            while (part := await parts.get()) is not None:
                yield part
            is_whole = True
        finally:
            if is_cut and not is_whole:
                parts.cut()
        outcome = task.result()
        if outcome.is_error:
            raise StreamFailed(outcome.payload.decode(errors="replace"))

    async def _invoke(self, request: web.Request) -> web.Response:
        """The Lambda Invoke API, as boto3 calls it."""
        if self._is_stopping:
            return _refusal(503, "ServiceException", "the stack is stopping")
        name, qualifier = function_name(request.match_info["name"])
        pool = self._pools.get(name)
        if pool is None:
            return _refusal(404, "ResourceNotFoundException", f"Function not found: {function_arn(name)}")
        payload = await request.read() or b"{}"
        if len(payload) > PAYLOAD_BYTES:
            return _refusal(413, "RequestTooLargeException", f"{len(payload)} byte payload is too large")
        if not _is_json(payload):
            return _refusal(400, "InvalidRequestContentException", "Could not parse request body into json")
        request_id = str(uuid.uuid4())
        headers = {"x-amzn-RequestId": request_id, "X-Amz-Executed-Version": "$LATEST"}
        trace_id = trace_of(payload, request.headers.get("X-Amzn-Trace-Id"))
        match request.headers.get("X-Amz-Invocation-Type", "RequestResponse"):
            case "DryRun":
                return web.Response(status=204, headers=headers)
            case "Event":
                self._track(asyncio.create_task(pool.invoke(payload, request_id, trace_id, qualifier)))
                return web.Response(status=202, headers=headers)
        outcome = await self._call(pool, payload, request_id, trace_id, qualifier)
        if outcome.is_error:
            headers["X-Amz-Function-Error"] = "Unhandled"
        if request.headers.get("X-Amz-Log-Type") == "Tail":
            headers["X-Amz-Log-Result"] = base64.b64encode(outcome.log).decode()
        return web.Response(body=outcome.payload, content_type="application/json", headers=headers)

    async def _proxy(self, request: web.Request) -> web.Response:
        """A call by the emulator: event in, result out, status 500 for a function's error."""
        if self._is_stopping:
            return _refusal(503, "ServiceException", "the stack is stopping")
        pool = self._pools.get(request.match_info["name"])
        if pool is None:
            return _refusal(404, "ResourceNotFoundException", "Function not found")
        payload = await request.read()
        request_id = request.headers.get("X-Amzn-Lambda-Request-Id") or str(uuid.uuid4())
        trace_id = trace_of(payload, request.headers.get("X-Amzn-Trace-Id"))
        outcome = await self._call(pool, payload, request_id, trace_id)
        status = 500 if outcome.is_error else 200
        if outcome.is_error and b'"ResponseURL"' in payload:
            self.failures.append(f"  {pool.function.name}: {outcome.payload.decode(errors='replace')[:2000]}")
        return web.Response(body=outcome.payload, content_type="application/json", status=status)


def _runner(*routes: web.RouteDef) -> web.AppRunner:
    app = web.Application(client_max_size=PAYLOAD_BYTES * 2)
    app.add_routes(routes)
    # A child that waits for an event must not keep the server from stopping.
    return web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)


def function_arn(name: str, qualifier: str = "") -> str:
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}" + (f":{qualifier}" if qualifier else "")


def function_name(reference: str) -> tuple[str, str]:
    """The name and the version or alias in a name, a partial or a full ARN; the second may be empty."""
    tail = reference.rpartition("function:")[2]
    name, _, qualifier = tail.partition(":")
    return name, qualifier


def _is_json(payload: bytes) -> bool:
    try:
        json.loads(payload)
    except ValueError:
        return False
    return True


def _refusal(status: int, kind: str, message: str) -> web.Response:
    body = {"Type": "User", "Message": message}
    return web.json_response(body, status=status, headers={"x-amzn-ErrorType": kind})
