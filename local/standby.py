"""A streaming standby of the stack's PostgreSQL, and its promotion in place of a server that is lost for good."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from local import servers

SYNC_SECONDS = 60


class Standby:
    """`url` is the superuser's of the server that runs in `home`. Everything blocks: call it in a thread."""

    def __init__(self, home: Path, url: str) -> None:
        self._account = servers.unprivileged()
        self._home, self._url = home, url
        self._place = servers.postgres_folder(home, self._account)
        self._standby_home = home / "standby"
        self._standby_place = servers.postgres_folder(self._standby_home, self._account)
        self._server: servers.Server | None = None

    def start(self) -> None:
        """Copy the running server and follow it. From then on a commit waits until the standby has flushed it."""
        self._standby_place.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self._standby_place, ignore_errors=True)
        binary = servers.postgres_install() / "bin/pg_basebackup"
        command = [str(binary), "-D", str(self._standby_place), "-R", "-X", "stream", "-c", "fast"]
        done = subprocess.run(command, env=connection_settings(self._url), capture_output=True, text=True, check=False)
        if done.returncode:
            raise servers.ServerFailed(f"pg_basebackup failed: {done.stderr[-500:]}")
        # Copied while the primary waited for another standby, it would wait for one too.
        with (self._standby_place / "postgresql.auto.conf").open("a") as settings:
            settings.write("synchronous_standby_names = ''\n")
        shutil.copy2(self._place.parent / "postgres.password", self._standby_place.parent / "postgres.password")
        own(self._standby_place, self._account)
        self._server = servers.start_postgres(self._standby_home, servers.free_port())
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
        deadline = time.monotonic() + SYNC_SECONDS
        while not self._is_synchronous():
            if time.monotonic() > deadline:
                raise servers.ServerFailed("the standby did not become synchronous")
            time.sleep(0.1)

    def _is_synchronous(self) -> bool:
        with psycopg.connect(self._url, autocommit=True) as connection:
            row = connection.execute("SELECT FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone()
        return row is not None

    def take_over(self, primary: int, launcher: int) -> None:
        """Kill the primary, delete its folder, promote the standby, and let the launcher start it on the same port.

        The launcher is held meanwhile, or it would start the lost server again.
        """
        assert self._server is not None
        with held(launcher):
            os.kill(primary, signal.SIGKILL)
            with psycopg.connect(self._server.url, autocommit=True) as connection:
                connection.execute("SELECT pg_promote()")
            self._server.stop()  # a fast shutdown writes all to disk
            lost = self._place.with_name("postgres.lost")
            self._place.rename(lost)
            shutil.rmtree(lost, ignore_errors=True)  # its last processes may still write into it
            shutil.move(self._standby_place, self._place)

    def stop(self) -> None:
        """End the standby, if it did not take over. Commits no longer wait for it."""
        if self._server is not None and self._server.process.poll() is None:
            with contextlib.suppress(psycopg.Error), psycopg.connect(self._url, autocommit=True) as connection:
                connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
                connection.execute("SELECT pg_reload_conf()")
            self._server.stop()


@contextlib.contextmanager
def held(pid: int) -> Iterator[None]:
    """The process does not run meanwhile: it takes connections and answers none."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def connection_settings(url: str) -> dict[str, str]:
    """The environment in which PostgreSQL's programs find the server and the account of a URL."""
    address = urlsplit(url)
    return {
        "PATH": os.environ.get("PATH", ""),
        "PGHOST": "127.0.0.1",
        "PGPORT": str(address.port),
        "PGUSER": str(address.username),
        "PGPASSWORD": str(address.password),
    }


def own(place: Path, account: servers.Account | None) -> None:
    """Make a copied cluster the property of the account that PostgreSQL runs as."""
    place.chmod(0o700)
    if account:
        for path in [place, *place.rglob("*")]:
            os.chown(path, account.uid, account.gid)
