"""The whole platform on one machine: servers, emulator, functions and edge, started together and stopped together."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self, TypeVar

import aiohttp
from botocore.exceptions import BotoCoreError, ClientError

from artiway.platform.outbound import parse_targets
from local import administrator, database, emulator, template
from local.edge import Edge
from local.files import write_whole
from local.lambdas import DEFAULT_SANDBOXES, Configuration, Function, LambdaServer
from local.processes import Processes, holder_of
from local.servers import Server, ServerFailed, free_port, port_is_free, port_is_open, start_postgres, start_valkey
from local.wechat_login import WechatLogin
from local.wechat_pay import WechatPayService

ROOT = Path(__file__).resolve().parent.parent
WATCH_SECONDS = 0.5
WAIT_SECONDS = 0.05
RETRY_SECONDS = 5
# A launcher that was killed a moment ago still holds the lock while the kernel ends it.
LOCK_SECONDS = 1.0
T = TypeVar("T")


class CannotStart(RuntimeError):
    """The stack did not start; the message tells what to do about it."""


class Service(Protocol):
    """Something else that belongs to a running stack. It sees the stack's facts and may add to them."""

    name: str

    def start(self, facts: Mapping[str, Any]) -> Mapping[str, Any]: ...

    def stop(self) -> None: ...


class Stack:
    """Start with `with`, or with start() and stop(). `facts` is what stack.json says."""

    def __init__(
        self,
        *,
        home: Path,
        port: int,
        template_path: Path = ROOT / "template.yaml",
        console: Path = ROOT / "console",
        database_url: str | None = None,
        redis_url: str | None = None,
        parameters: Mapping[str, str] | None = None,
        services: Sequence[Service] = (),
        sandboxes: int = DEFAULT_SANDBOXES,
        interrupted: threading.Event | None = None,
        report: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """A start gives up with KeyboardInterrupt at its next step once `interrupted` is set."""
        self.home, self.port = home.resolve(), port
        self.facts: dict[str, Any] = {}
        self.outputs: Mapping[str, str] = {}
        self.servers: dict[str, Server] = {}
        self._template_path, self._console = template_path.resolve(), console
        self._database_url, self._redis_url = database_url, redis_url
        self._parameters = dict(parameters or {})
        self._services = services
        self._sandboxes = sandboxes
        self._interrupted = interrupted or threading.Event()
        self._report = report
        self._cleanup = contextlib.ExitStack()
        self._is_stopping = threading.Event()
        self._watching = threading.Lock()
        self._started_at = time.monotonic()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def functions(self) -> Mapping[str, Function]:
        return self._local.functions

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        try:
            self._start()
        except (ServerFailed, template.TemplateRefused) as error:
            self.stop()
            raise CannotStart(str(error)) from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self._is_stopping.set()
        self._cleanup.close()

    @contextlib.contextmanager
    def unwatched(self) -> Iterator[None]:
        """Within this, a server that dies stays dead: for tests of what the platform does meanwhile."""
        with self._watching:
            yield

    # --- starting

    def _start(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self._lock()
        self._processes = Processes(self.home)
        # Last of a stop and still under the lock: what any other stop missed is on record.
        self._cleanup.callback(self._processes.end_leftovers)
        if ended := self._processes.end_leftovers():
            self._say(f"ended {len(ended)} processes of a run that was killed")
        if port_is_open(self.port):
            holder = holder_of(self.port)
            raise CannotStart(f"port {self.port} is taken{holder}; choose another with ARTIWAY_PORT=<port>")
        self._choose_ports()

        starters: dict[str, Callable[[], Server]] = {"emulator": self._start_emulator}
        if self._database_url is None:
            starters["postgres"] = lambda: start_postgres(self.home, self._ports["postgres"])
        if self._redis_url is None:
            starters["valkey"] = lambda: start_valkey(self.home, self._ports["valkey"])
        self._starters = starters
        # A stop is registered before its start, everywhere: a signal may come between any two lines.
        for name in starters:
            self._cleanup.callback(self._stop_server, name)
        self._check_interrupt()
        with ThreadPoolExecutor() as pool:
            translation = pool.submit(lambda: template.translate(template.load(self._template_path)))
            started = [pool.submit(self._start_server, name) for name in starters]
            for one in started:
                one.result()
            translated = translation.result()
        self._check_interrupt()
        self._local = self._localise(translated)
        self._say(f"template.yaml translated: {len(self._local.functions)} functions")

        self._check_interrupt()
        self._start_loop()
        self._start_wechat_login()
        self._start_wechat_pay()
        self._allow_targets()
        self._aside(self._deploy)
        self._edge = Edge(
            port=self.port,
            console=self._console,
            aws_url=self._aws_url,
            http=self._local.http,
            websocket=self._local.websocket,
            origin_secret=self._origin_secret(),
            is_open=False,
        )
        self._cleanup.callback(lambda: self._run(self._edge.stop()))
        self._run(self._edge.start())
        if administrator.FUNCTION in self._local.functions:
            self.facts["admin"] = self._aside(lambda: administrator.ensure(self._lambda_url, self.home))
        for service in self._services:
            self._check_interrupt()
            self._cleanup.callback(service.stop)
            self.facts |= service.start(self.facts)
            self._say(f"{service.name} started")
        self._check_interrupt()
        self._write_facts()
        self._cleanup.callback(self._close_edge)
        self._edge.is_open = True  # last: who gets an answer finds stack.json
        watcher = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self._cleanup.callback(_join, watcher)
        watcher.start()

    def _say(self, line: str) -> None:
        self._report(f"{time.monotonic() - self._started_at:6.1f} s  {line}")

    def _check_interrupt(self) -> None:
        if self._interrupted.is_set():
            raise KeyboardInterrupt

    def _aside(self, work: Callable[[], T]) -> T:
        """Wait for calls to our own servers, or for an interrupt. The calls fail once the servers are stopped."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 (the waiting thread raises it)
                future.set_exception(error)

        threading.Thread(target=run, name="aside", daemon=True).start()
        while not wait([future], timeout=WAIT_SECONDS).done:
            self._check_interrupt()
        return future.result()

    def _lock(self) -> None:
        """The kernel lets go of the lock when its holder dies, however it dies."""
        file: IO[str] = (self.home / "lock").open("a+")
        self._cleanup.callback(file.close)
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    file.seek(0)
                    raise CannotStart(f"already running in {self.home}: {file.read().strip()}") from None
            time.sleep(0.05)
        file.truncate(0)
        file.write(f"pid {os.getpid()}, at {self.url}\n")
        file.flush()

    def _choose_ports(self) -> None:
        """The same ports as last time where they are free, so that what others noted down stays true."""
        file = self.home / "ports.json"
        before: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
        self._ports: dict[str, int] = {}
        for name in ("postgres", "valkey", "emulator", "lambda", "wechat_login", "wechat_pay"):
            port = before.get(name, 0)
            self._ports[name] = port if port and port_is_free(port) else free_port()
        write_whole(file, json.dumps(self._ports), mode=0o644)
        self._aws_url = f"http://127.0.0.1:{self._ports['emulator']}"
        self._lambda_url = f"http://127.0.0.1:{self._ports['lambda']}"

    def _start_emulator(self) -> Server:
        return emulator.start_emulator(self.home, self._ports["emulator"])

    def _start_server(self, name: str) -> None:
        server = self._starters[name]()
        self.servers[name] = server
        self._processes.add(server.process.pid)
        self._say(f"{server.name} on port {server.port}")

    def _stop_server(self, name: str) -> None:
        server = self.servers.get(name)
        if server is None:  # it did not start
            return
        server.stop()
        self._processes.remove(server.process.pid)

    def _localise(self, translated: dict[str, Any]) -> template.LocalTemplate:
        superuser = self._database_url or self.servers["postgres"].url
        redis_url = self._redis_url or self.servers["valkey"].url
        urls = database.bootstrap(superuser, self.home)
        self._say("database and roles ready")
        self.facts = {
            "apiUrl": f"{self.url}/api/v1",
            "wsUrl": f"ws://127.0.0.1:{self.port}/ws",
            "consoleUrl": f"{self.url}/",
            "lambdaUrl": self._lambda_url,
            "awsUrl": self._aws_url,
            "databaseUrl": database.in_database(superuser),
            "redisUrl": redis_url,
            "wechatSimUrl": None,
            "admin": None,
        }
        return template.localise(
            translated,
            root=self._template_path.parent,
            aws_url=self._aws_url,
            lambda_url=self._lambda_url,
            sandboxes=self._sandboxes,
            variables={
                "ARTIWAY_DATABASE_URL": urls["artiway_app"],
                "ARTIWAY_SERVICE_DATABASE_URL": urls["artiway_service"],
                "ARTIWAY_OWNER_DATABASE_URL": urls["artiway_owner"],
                "ARTIWAY_REDIS_URL": redis_url,
            },
        )

    def _start_loop(self) -> None:
        """Lambda server and edge share one event loop in a thread of its own."""
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever, name="loop", daemon=True)

        def stop() -> None:
            if thread.is_alive():
                self._loop.call_soon_threadsafe(self._loop.stop)
                thread.join()
            self._loop.close()

        self._cleanup.callback(stop)
        thread.start()
        session = self._run(_open_session())
        self._cleanup.callback(lambda: self._run(session.close()))

        async def lookup(name: str) -> Configuration:
            return await emulator.configuration(session, self._aws_url, name)

        self._lambdas = LambdaServer(
            functions=self._local.functions,
            lookup=lookup,
            home=self.home,
            port=self._ports["lambda"],
            endpoint_url=self._aws_url,
        )
        self._cleanup.callback(lambda: self._run(self._lambdas.stop()))
        self._run(self._lambdas.start())

    def _start_wechat_login(self) -> None:
        """Before the deployment, which is told its address."""
        if "WechatLoginUrl" not in self._local.body.get("Parameters", {}):
            return
        wechat = WechatLogin(self._ports["wechat_login"])
        self._cleanup.callback(lambda: self._run(wechat.stop()))
        self._run(wechat.start())
        self._parameters.setdefault("WechatLoginUrl", wechat.url)

    def _start_wechat_pay(self) -> None:
        """The simulator. Its merchant secret is deployed, or another one if ARTIWAY_WECHAT_SECRET names a file."""
        if "WechatPaySecretText" not in self._local.body.get("Parameters", {}):
            return
        service = WechatPayService(port=self._ports["wechat_pay"], home=self.home)
        self._cleanup.callback(service.stop)
        self.facts |= service.start(self.facts)
        text = json.dumps(service.secret)
        if file := os.environ.get("ARTIWAY_WECHAT_SECRET"):
            try:
                text = json.dumps(json.loads(Path(file).read_text()))
            except (OSError, ValueError) as error:
                raise CannotStart(f"ARTIWAY_WECHAT_SECRET cannot be read: {error}") from error
        self._parameters.setdefault("WechatPaySecretText", text)
        self._parameters.setdefault("PublicUrl", self.url)

    def _allow_targets(self) -> None:
        """The operator's list reaches the functions as a parameter, as it does on AWS."""
        text = os.environ.get("ARTIWAY_ALLOWED_TARGETS", "")
        try:
            targets = parse_targets(text)
        except ValueError as error:
            raise CannotStart(f"ARTIWAY_ALLOWED_TARGETS: {error}") from error
        if "AllowedTargets" in self._local.body.get("Parameters", {}):
            allowed = ",".join(f"{host}:{port}" for host, port in sorted(targets))
            self._parameters.setdefault("AllowedTargets", allowed)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _deploy(self) -> None:
        self._lambdas.failures.clear()
        self._loop.call_soon_threadsafe(self._lambdas.forget_configurations)
        self.outputs = emulator.deploy(
            self._aws_url, self._local.body, parameters=self._parameters, failures=self._lambdas.failures
        )
        self._say(f"template deployed: {len(self._local.body['Resources'])} resources")

    def _origin_secret(self) -> str:
        """What the edge proves itself with, as the deployment made it up."""
        arn = self.outputs.get("OriginSecretArn")
        if arn is None:
            return ""
        return str(emulator.client("secretsmanager", self._aws_url).get_secret_value(SecretId=arn)["SecretString"])

    def _write_facts(self) -> None:
        """Readable by its owner alone: the database's password is in it. Gone when nothing runs."""
        file = self.home / "stack.json"
        self._cleanup.callback(lambda: file.unlink(missing_ok=True))
        write_whole(file, json.dumps(self.facts, indent=2) + "\n")

    def _close_edge(self) -> None:
        self._edge.is_open = False

    # --- running

    def _watch(self) -> None:
        """A server that dies is started again; the emulator also gets its template back."""
        while not self._is_stopping.wait(WATCH_SECONDS):
            with self._watching:
                for name, server in list(self.servers.items()):
                    if server.process.poll() is not None and not self._is_stopping.is_set():
                        self._revive(name, server)

    def _revive(self, name: str, dead: Server) -> None:
        self._say(f"{dead.name} ended with status {dead.process.returncode}, starting it again")
        self._processes.remove(dead.process.pid)
        if name == "emulator":
            self._edge.is_open = False
        try:
            self._start_server(name)
            if name == "emulator":
                self._deploy()
                self._edge.origin_secret = self._origin_secret()
                self._edge.is_open = True
        except (ServerFailed, BotoCoreError, ClientError, OSError) as error:
            self._say(f"{dead.name} did not start, next try in {RETRY_SECONDS} s: {error}")
            self.servers[name].kill()  # an emulator without its template is no use
            self._is_stopping.wait(RETRY_SECONDS)


def _join(thread: threading.Thread) -> None:
    """A thread that was not started has nothing to wait for."""
    if thread.is_alive():
        thread.join()


async def _open_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession()
