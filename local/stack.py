"""The whole platform on one machine: starts and stops the servers, the emulator, the functions and the edge."""

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

from artiway.generations.providers import routes
from artiway.platform import picture_keys
from artiway.platform.outbound import parse_targets
from local import administrator, database, emulator, mailbox, pictures, template, text_model
from local.edge import Edge
from local.files import write_whole
from local.lambdas import DEFAULT_SANDBOXES, Configuration, Function, LambdaServer
from local.processes import Processes, holder_of
from local.servers import Server, ServerFailed, free_port, port_is_free, port_is_open, start_postgres, start_valkey
from local.text_model import TextModel
from local.wechat_login import WechatLogin
from local.wechat_pay import WechatPayService

ROOT = Path(__file__).resolve().parent.parent
WATCH_SECONDS = 0.5
WAIT_SECONDS = 0.05
RETRY_SECONDS = 5
# A killed launcher holds the lock until the kernel has ended it.
LOCK_SECONDS = 1.0
T = TypeVar("T")


class CannotStart(RuntimeError):
    """The stack did not start. The message says what the user can do."""


class Service(Protocol):
    """A part that starts after the stack. It reads the stack's facts and may add its own."""

    name: str

    def start(self, facts: Mapping[str, Any]) -> Mapping[str, Any]: ...

    def stop(self) -> None: ...


class Stack:
    """Start it with `with`, or with start() and stop(). `facts` is the content of stack.json."""

    def __init__(
        self,
        *,
        home: Path,
        port: int,
        template_path: Path = ROOT / "template.yaml",
        console: Path = ROOT / "console/dist",
        database_url: str | None = None,
        redis_url: str | None = None,
        parameters: Mapping[str, str] | None = None,
        services: Sequence[Service] = (),
        text_model: TextModel | None = None,
        picture_model: TextModel | None = None,
        sandboxes: int = DEFAULT_SANDBOXES,
        interrupted: threading.Event | None = None,
        report: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """When `interrupted` is set, a start raises KeyboardInterrupt at its next step."""
        self.home, self.port = home.resolve(), port
        self.facts: dict[str, Any] = {}
        self.outputs: Mapping[str, str] = {}
        self.servers: dict[str, Server] = {}
        self._template_path, self._console = template_path.resolve(), console
        self._database_url, self._redis_url = database_url, redis_url
        self._parameters = dict(parameters or {})
        self._services, self._text_model, self._picture_model = services, text_model, picture_model
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
        """Do not restart servers that end: for tests of the platform without a server."""
        with self._watching:
            yield

    # --- starting

    def _start(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self._lock()
        self._processes = Processes(self.home)
        # Runs last in a stop, under the lock: it ends the recorded processes that another step did not end.
        self._cleanup.callback(self._processes.end_leftovers)
        if ended := self._processes.end_leftovers():
            self._report_line(f"ended {len(ended)} processes of a killed run")
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
        # Every stop is registered before its start, because an interrupt can come between any two lines.
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
        self._report_line(f"template.yaml translated: {len(self._local.functions)} functions")

        self._check_interrupt()
        self._start_loop()
        self._start_wechat_login()
        self._start_wechat_pay()
        self._start_text_model()
        self._allow_targets()
        self._in_thread(self._deploy)
        self._edge = Edge(
            port=self.port,
            console=self._console,
            aws_url=self._aws_url,
            http=self._local.http,
            websocket=self._local.websocket,
            origin_secret=self._origin_secret(),
            pictures=self._pictures(),
            streams=self._local.streams,
            stream=self._lambdas.stream,
            is_open=False,
        )
        self._cleanup.callback(lambda: self._run(self._edge.stop()))
        self._run(self._edge.start())
        if administrator.FUNCTION in self._local.functions:
            self.facts["admin"] = self._in_thread(lambda: administrator.ensure(self._lambda_url, self.home))
        for service in self._services:
            self._check_interrupt()
            self._cleanup.callback(service.stop)
            self.facts |= service.start(self.facts)
            self._report_line(f"{service.name} started")
        self._check_interrupt()
        self._write_facts()
        self._cleanup.callback(self._close_edge)
        self._edge.is_open = True  # last, so that a client that gets an answer finds stack.json
        watcher = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self._cleanup.callback(_join, watcher)
        watcher.start()

    def _report_line(self, line: str) -> None:
        self._report(f"{time.monotonic() - self._started_at:6.1f} s  {line}")

    def _check_interrupt(self) -> None:
        if self._interrupted.is_set():
            raise KeyboardInterrupt

    def _in_thread(self, call: Callable[[], T]) -> T:
        """Run calls to the local servers in a thread, so that an interrupt ends the wait for them."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 (the waiting thread raises it)
                future.set_exception(error)

        threading.Thread(target=run, name="call", daemon=True).start()
        while not wait([future], timeout=WAIT_SECONDS).done:
            self._check_interrupt()
        return future.result()

    def _lock(self) -> None:
        """Take the lock of this home. The kernel releases it when the holder ends, also after kill -9."""
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
        """Use the ports of the last run where they are free, so that addresses stay valid."""
        file = self.home / "ports.json"
        before: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
        self._ports: dict[str, int] = {}
        for name in (
            "postgres",
            "valkey",
            "emulator",
            "lambda",
            "wechat_login",
            "wechat_pay",
            "text_model",
            "picture_model",
        ):
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
        self._report_line(f"{server.name} on port {server.port}")

    def _stop_server(self, name: str) -> None:
        server = self.servers.get(name)
        if server is None:  # the server did not start
            return
        server.stop()
        self._processes.remove(server.process.pid)

    def _localise(self, translated: dict[str, Any]) -> template.LocalTemplate:
        superuser = self._database_url or self.servers["postgres"].url
        redis_url = self._redis_url or self.servers["valkey"].url
        urls = database.bootstrap(superuser, self.home)
        self._report_line("database and roles ready")
        self.facts = {
            "apiUrl": f"{self.url}/api/v1",
            "wsUrl": f"ws://127.0.0.1:{self.port}/ws",
            "consoleUrl": f"{self.url}/",
            "lambdaUrl": self._lambda_url,
            "awsUrl": self._aws_url,
            "databaseUrl": database.in_database(superuser),
            "redisUrl": redis_url,
            "wechatSimUrl": None,
            "mailboxUrl": f"{self.url}{mailbox.PATH}",
            "admin": None,
        }
        signing = next(iter(self._picture_keys(translated).values()), "")
        return template.localise(
            translated,
            root=self._template_path.parent,
            aws_url=self._aws_url,
            lambda_url=self._lambda_url,
            sandboxes=self._sandboxes,
            variables={
                "ARTIWAY_DATABASE_URL": urls["artiway_app"],
                "ARTIWAY_HEALTH_URL": f"{self.url}/api/v1/health",
                "ARTIWAY_SERVICE_DATABASE_URL": urls["artiway_service"],
                "ARTIWAY_READER_HOST": "off",
                "ARTIWAY_OWNER_DATABASE_URL": urls["artiway_owner"],
                "ARTIWAY_OWNER_SECRET_ARN": "",
                "ARTIWAY_REDIS_URL": redis_url,
                "ARTIWAY_PICTURE_KEY_ID": pictures.key_id(signing),
                # Open streams leave sandboxes to requests that are answered at once.
                "ARTIWAY_EVENTS_AT_ONCE": str(max(1, self._sandboxes * 3 // 4)),
                "ARTIWAY_CHATS_AT_ONCE": str(max(1, self._sandboxes * 3 // 4)),
            },
        )

    def _start_loop(self) -> None:
        """Start the thread whose event loop runs the Lambda server and the edge."""
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
        """Start it before the deployment, which gets its address as a parameter."""
        if "WechatLoginUrl" not in self._local.body.get("Parameters", {}):
            return
        wechat = WechatLogin(self._ports["wechat_login"])
        self._cleanup.callback(lambda: self._run(wechat.stop()))
        self._run(wechat.start())
        self._parameters.setdefault("WechatLoginUrl", wechat.url)

    def _start_wechat_pay(self) -> None:
        """Start the simulator and deploy its merchant secret, or the secret in the file ARTIWAY_WECHAT_SECRET."""
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

    def _start_text_model(self) -> None:
        """Deploy the providers of the file ARTIWAY_TEXT_PROVIDERS, or else start the models of this machine."""
        if "TextProvidersText" not in self._local.body.get("Parameters", {}) or "TextProvidersText" in self._parameters:
            return
        if file := os.environ.get("ARTIWAY_TEXT_PROVIDERS"):
            try:
                text = Path(file).read_text("utf-8")
                routes.parse(text)
            except (OSError, ValueError, routes.ProvidersInvalid) as error:
                raise CannotStart(f"ARTIWAY_TEXT_PROVIDERS: {error}") from error
            self._parameters["TextProvidersText"] = text
        elif self._text_model is not None:
            port, picture_port = self._ports["text_model"], self._ports["picture_model"]
            self._parameters["TextProvidersText"] = text_model.document(
                port, picture_port=picture_port if self._picture_model else None
            )
            self._start_model(self._text_model, port)
            if self._picture_model is not None:
                self._start_model(self._picture_model, picture_port)

    def _start_model(self, model: TextModel, port: int) -> None:
        self._cleanup.callback(model.stop)
        model.start(port, self._report_line)

    def _allow_targets(self) -> None:
        """Pass the operator's list, the console's origin and the sender of mails as template parameters, as on AWS."""
        text = os.environ.get("ARTIWAY_ALLOWED_TARGETS", "")
        try:
            targets = parse_targets(text)
        except ValueError as error:
            raise CannotStart(f"ARTIWAY_ALLOWED_TARGETS: {error}") from error
        allowed = ",".join(f"{host}:{port}" for host, port in sorted(targets))
        # Browsers may call this machine by any of its names.
        given = {
            "AllowedTargets": allowed,
            "ConsoleOrigin": f"http://*:{self.port}",
            "PublicUrl": self.url,
            "MailFrom": mailbox.SENDER,
            "MailIdentity": mailbox.DOMAIN,
        }
        for name, value in given.items():
            if name in self._local.body.get("Parameters", {}):
                self._parameters.setdefault(name, value)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _deploy(self) -> None:
        self._lambdas.failures.clear()
        self._loop.call_soon_threadsafe(self._lambdas.forget_configurations)
        self.outputs = emulator.deploy(
            self._aws_url, self._local.body, parameters=self._parameters, failures=self._lambdas.failures
        )
        if "MailFrom" in self._local.body.get("Parameters", {}):
            mailbox.verify_sender(self._aws_url)
        self._report_line(f"template deployed: {len(self._local.body['Resources'])} resources")

    def _origin_secret(self) -> str:
        """The value that the deployment generated and the edge sends with each request."""
        arn = self.outputs.get("OriginSecretArn")
        if arn is None:
            return ""
        found = emulator.client("secretsmanager", self._aws_url).get_secret_value(SecretId=arn)
        return str(json.loads(found["SecretString"])[self._parameters.get("OriginSecretSlot", "first")])

    def _picture_keys(self, body: Mapping[str, Any]) -> dict[str, str]:
        """Slot -> name of its key, for the parameters of this stack. The slot that signs is the first."""
        declared = {name: str(one.get("Default", "")) for name, one in body.get("Parameters", {}).items()}
        given = declared | self._parameters
        signing = given.get("PictureKeySlot", "")
        versions = {slot: given.get(f"{slot.title()}PictureKey", picture_keys.NONE) for slot in picture_keys.SLOTS}
        names = {slot: name for slot, version in versions.items() if (name := picture_keys.name_of(slot, version))}
        return dict(sorted(names.items(), key=lambda one: one[0] != signing))

    def _pictures(self) -> pictures.Pictures | None:
        """The public halves of the keys that the deployment made, as CloudFront has them."""
        arn = self.outputs.get("PictureSecretArn")
        if arn is None:
            return None
        found = emulator.client("secretsmanager", self._aws_url).get_secret_value(SecretId=arn)
        keys = pictures.public_keys(found["SecretString"], list(self._picture_keys(self._local.body).values()))
        return pictures.Pictures(self._aws_url, self.outputs["ArtefactBucketName"], keys)

    def _write_facts(self) -> None:
        """Write stack.json, which exists only while the stack runs. It holds passwords: only the owner can read it."""
        file = self.home / "stack.json"
        self._cleanup.callback(lambda: file.unlink(missing_ok=True))
        write_whole(file, json.dumps(self.facts, indent=2) + "\n")

    def _close_edge(self) -> None:
        self._edge.is_open = False

    # --- running

    def _watch(self) -> None:
        """Restart each server that ends. The emulator also gets the template deployed again."""
        while not self._is_stopping.wait(WATCH_SECONDS):
            with self._watching:
                for name, server in list(self.servers.items()):
                    if server.process.poll() is not None and not self._is_stopping.is_set():
                        self._restart(name, server)

    def _restart(self, name: str, ended: Server) -> None:
        self._report_line(f"{ended.name} ended with status {ended.process.returncode}, restarting it")
        self._processes.remove(ended.process.pid)
        if name == "emulator":
            self._edge.is_open = False
        try:
            self._start_server(name)
            if name == "emulator":
                self._deploy()
                self._edge.origin_secret, self._edge.pictures = self._origin_secret(), self._pictures()
                self._edge.is_open = True
        except (ServerFailed, BotoCoreError, ClientError, OSError) as error:
            self._report_line(f"{ended.name} did not start, next try in {RETRY_SECONDS} s: {error}")
            self.servers[name].kill()  # an emulator without its template cannot serve
            self._is_stopping.wait(RETRY_SECONDS)


def _join(thread: threading.Thread) -> None:
    """Join a thread, unless it was never started."""
    if thread.is_alive():
        thread.join()


async def _open_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession()
