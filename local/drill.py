"""`make drill`: recovery of PostgreSQL from a base backup and streamed WAL, taken under load, into an empty folder.

Writers commit runs of jobs, tasks and points and note each acknowledged commit. The server is killed and its folder
deleted. Another server recovers in an empty folder; the drill compares it with the notes and lets the triggers resume.
It prints RTO and RPO and fails if a goal is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import psycopg

from artiway import ids
from artiway.audit.repository import AuditLog
from artiway.errors import ArtiwayError
from artiway.jobs.dispatch import DispatchService
from artiway.jobs.messages import CALLS, Call, Outcome, Result
from artiway.jobs.model import RUN_LANES
from artiway.jobs.repository import PostgresRuns
from artiway.jobs.results import ResultService
from artiway.jobs.trigger import TriggerService
from artiway.jobs.zones import TZDATA_VERSION
from artiway.outbox.model import Envelope
from artiway.outbox.repository import Outbox
from artiway.platform.clock import SystemClock
from artiway.platform.database import Database
from artiway.platform.migrations import migrate
from artiway.points.model import Terms
from artiway.points.repository import PostgresLedger
from artiway.points.service import PointsService
from artiway.settings.model import Fixed
from local import servers
from local.database import bootstrap, in_database

RTO_S = 600
JOBS = 200
SLOT = "drill"
INSERT_JOB = """
INSERT INTO job (tenant_id, job_id, user_id, name, schedule_type, expr, timezone, tzdata_version, next_fire_at,
                 task_type, task, priority, max_attempts, base_delay_ms, max_delay_ms, concurrency_limit,
                 overlap_policy, misfire_policy, catchup_window_s, timeout_s)
VALUES (%s, %s, %s, 'drill', 'CRON', '*/5 * * * * ?', 'UTC', %s,
        to_timestamp(floor(extract(epoch FROM clock_timestamp()) / 5) * 5 + 5), 'HTTP',
        '{"url": "https://shop.example/hook"}', 'HIGH', 3, 1000, 60000, 100, 'ALLOW_ALL', %s, 3600, 30)
"""
INSERT_TASK = b"""
INSERT INTO task (tenant_id, task_id, user_id, tool, hold_id, lane, pool, price_points)
VALUES (%(tenant_id)s, %(task_id)s, %(user_id)s, 'cutout', %(hold_id)s, 'free', 'gpu', 1)
"""
POLICIES = ("FIRE_ONCE", "FIRE_ALL", "SKIP")


@dataclass
class Acknowledged:
    """Commits that the server acknowledged, by kind: id and time."""

    runs: dict[UUID, float] = field(default_factory=dict)
    tasks: dict[UUID, float] = field(default_factory=dict)
    points: dict[UUID, float] = field(default_factory=dict)


class Engine:
    """Trigger, dispatcher, a target that answers at once, and results, on one connection."""

    def __init__(self, url: str) -> None:
        self._queue: list[Envelope] = []
        self.first_end_at: float | None = None
        runs = PostgresRuns(Database(url), Outbox(self._keep))
        values: Any = Fixed({})
        self.dispatch = DispatchService(runs, values, pause=time.sleep)
        self.trigger = TriggerService(runs, values, wake=self.dispatch.wake)
        self.results = ResultService(runs, self.dispatch, jitter=lambda: 0.0)

    def _keep(self, _: Any, envelopes: Iterable[Envelope]) -> None:
        self._queue += envelopes

    def second(self) -> list[UUID]:
        """A pass, and what is due of its messages. Returns the runs that ended."""
        self.trigger.run_pass()
        ended: list[UUID] = []
        while due := self._due():
            for envelope in due:
                data = json.loads(envelope.body)["data"]
                if envelope.destination in RUN_LANES:
                    self.dispatch.admit([UUID(one) for one in data["runIds"]])
                elif envelope.destination == CALLS:
                    calls = [Call.from_data(one) for one in data["calls"]]
                    self.results.apply([_success(call) for call in calls])
                    ended += [call.run_id for call in calls]
                    self.first_end_at = self.first_end_at or time.monotonic()
        return ended

    def _due(self) -> list[Envelope]:
        now = datetime.now(UTC)
        due = [one for one in self._queue if one.due_at is None or one.due_at <= now]
        self._queue = [one for one in self._queue if one.due_at is not None and one.due_at > now]
        return due


def _success(call: Call) -> Result:
    now = datetime.now(UTC)
    return Result(call.tenant_id, call.run_id, call.generation, call.attempt, Outcome.SUCCEEDED, now, http_status=200)


class Drill:
    def __init__(self, folder: Path, *, jobs: int, load_s: float, outage_s: float) -> None:
        self._folder, self._jobs, self._load_s, self._outage_s = folder, jobs, load_s, outage_s
        self._known, self._stop = Acknowledged(), threading.Event()
        self._tenant, self._user = ids.new_id(), ids.new_id()
        self._threads: list[threading.Thread] = []
        self._out = sys.stdout

    def _say(self, line: str) -> None:
        """Logs and metrics of the services are lines on standard output, too: those go nowhere."""
        print(line, file=self._out, flush=True)

    def run(self) -> int:
        account = servers.unprivileged()
        primary = servers.start_postgres(self._folder / "primary", servers.free_port())
        urls = self._prepared(primary.url)
        receiver = self._receive_wal(primary.url)
        try:
            self._set_synchronous(primary.url)
            self._start_writers(urls)
            time.sleep(self._load_s / 2)
            backup_s = self._back_up(primary.url)
            time.sleep(self._load_s / 2)
            self._say(f"base backup under load: {backup_s:.1f} s")
            killed_at = time.monotonic()
            primary.kill()
            place = servers.postgres_folder(self._folder / "primary", account)
            shutil.rmtree(place)
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join(timeout=30)
            receiver.terminate()
            receiver.wait(timeout=20)
        self._say(f"server killed and deleted; recovery begins {self._outage_s:.0f} s later, so that fires are missed")
        time.sleep(max(0.0, killed_at + self._outage_s - time.monotonic()))
        began_at = time.monotonic()
        restored = self._restore(account)
        try:
            return self._judge(restored, killed_at, began_at)
        finally:
            restored.kill()

    # Before the fault

    def _prepared(self, url: str) -> dict[str, str]:
        urls = dict(bootstrap(url, self._folder))
        migrate(urls["artiway_owner"])
        with psycopg.connect(in_database(url)) as connection:
            connection.execute(
                "INSERT INTO tenant (tenant_id, name, tier, job_concurrency, job_per_minute)"
                " VALUES (%s, 'drill', 'enterprise', 100000, 1000000)",
                (self._tenant,),
            )
            connection.execute(
                "INSERT INTO app_user (tenant_id, user_id, email) VALUES (%s, %s, 'drill@example.com')",
                (self._tenant, self._user),
            )
            for number in range(self._jobs):
                policy = POLICIES[number % len(POLICIES)]
                connection.execute(INSERT_JOB, (self._tenant, ids.new_id(), self._user, TZDATA_VERSION, policy))
        return urls

    def _binary(self, name: str) -> str:
        return str(servers.postgres_install() / "bin" / name)

    def _environment(self, url: str) -> dict[str, str]:
        address = urlsplit(url)
        return {
            "PATH": os.environ.get("PATH", ""),
            "PGHOST": "127.0.0.1",
            "PGPORT": str(address.port),
            "PGUSER": str(address.username),
            "PGPASSWORD": str(address.password),
        }

    def _receive_wal(self, url: str) -> subprocess.Popen[bytes]:
        """Streams WAL into a folder and reports each flush, so a commit waits until it is there."""
        wal = self._folder / "wal"
        wal.mkdir()
        environment = self._environment(url)
        create = [self._binary("pg_receivewal"), "--slot", SLOT, "--create-slot"]
        subprocess.run(create, env=environment, check=True, capture_output=True)
        arguments = ["-D", str(wal), "--slot", SLOT, "--synchronous", "--no-loop", "--status-interval=1"]
        return subprocess.Popen([self._binary("pg_receivewal"), *arguments], env=environment, stderr=subprocess.DEVNULL)

    @staticmethod
    def _set_synchronous(url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'pg_receivewal'")
            connection.execute("SELECT pg_reload_conf()")
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                if (
                    connection.execute("SELECT FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone()
                    is not None
                ):
                    return
                time.sleep(0.1)
        raise SystemExit("the receiver of WAL did not become synchronous")

    def _start_writers(self, urls: dict[str, str]) -> None:
        engine = Engine(urls["artiway_service"])
        points = PointsService(PostgresLedger(Database(urls["artiway_app"]), AuditLog()), SystemClock())
        tasks = Database(urls["artiway_app"])

        def run_second() -> None:
            began = time.monotonic()
            self._known.runs.update(dict.fromkeys(engine.second(), time.monotonic()))
            time.sleep(max(0.0, 1 - (time.monotonic() - began)))

        def grant() -> None:
            entry = points.grant(
                tenant_id=self._tenant,
                user_id=self._user,
                amount_points=1,
                idempotency_key=str(ids.new_id()),
                reference="drill",
                terms=Terms(),
            )
            self._known.points[entry.entry_id] = time.monotonic()

        def submit() -> None:
            task_id = ids.new_id()
            with tasks.tenant_transaction(self._tenant) as tx:
                given = {"tenant_id": self._tenant, "task_id": task_id, "user_id": self._user, "hold_id": ids.new_id()}
                tx.run(INSERT_TASK, given)
            self._known.tasks[task_id] = time.monotonic()

        for work in (run_second, grant, submit):
            thread = threading.Thread(target=self._repeat, args=(work,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _repeat(self, work: Callable[[], None]) -> None:
        while not self._stop.is_set():
            try:
                work()
            except (psycopg.Error, ArtiwayError):
                return  # the server is gone

    def _back_up(self, url: str) -> float:
        began = time.monotonic()
        command = [self._binary("pg_basebackup"), "-D", str(self._folder / "base"), "-X", "none", "-c", "fast"]
        done = subprocess.run(command, env=self._environment(url), capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"pg_basebackup failed: {done.stderr[-500:]}")
        return time.monotonic() - began

    # Recovery

    def _restore(self, account: Any) -> servers.Server:
        home = self._folder / "restored"
        place = servers.postgres_folder(home, account)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(self._folder / "base", place)
        source = servers.postgres_folder(self._folder / "primary", account).parent / "postgres.password"
        shutil.copy2(source, place.parent / "postgres.password")
        wal = self._folder / "wal"
        restore = f"cp {wal}/%f %p || cp {wal}/%f.partial %p"
        with (place / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"synchronous_standby_names = ''\nrestore_command = '{restore}'\n")
        (place / "recovery.signal").touch()
        place.chmod(0o700)
        if account:
            for path in [place, *place.rglob("*"), wal, *wal.iterdir()]:
                os.chown(path, account.uid, account.gid)
        return servers.start_postgres(home, servers.free_port())

    def _judge(self, restored: servers.Server, killed_at: float, began_at: float) -> int:
        url = in_database(restored.url)
        with psycopg.connect(url, autocommit=True) as connection:
            while connection.execute("SELECT pg_is_in_recovery()").fetchone() == (True,):
                time.sleep(0.05)
        answering_s = time.monotonic() - began_at
        lost = self._lost(url)
        port = urlsplit(restored.url).port
        before = self._count(url)
        engine = Engine(self._service_url(port))
        ended = 0
        deadline = time.monotonic() + 60
        while not ended and time.monotonic() < deadline:
            ended += len(engine.second())
        caught_up_at = time.monotonic()
        ended_at = engine.first_end_at or caught_up_at
        rto_s = ended_at - killed_at
        late = self._misfires(url)
        for name, known, missing in lost:
            self._say(f"{name}: {known} commits acknowledged, {missing} lost")
        self._say(f"runs before {before}; most runs made up for by a job, by policy: {late}")
        self._say(
            f"waited on purpose {began_at - killed_at:.1f} s; recovery: the server answers after {answering_s:.1f} s,"
            f" the first run ended after {ended_at - began_at:.1f} s, {ended:,} that waited after"
            f" {caught_up_at - began_at:.1f} s"
        )
        missing = sum(count for _, _, count in lost)
        obeys = self._obeys(late)
        self._say(
            f"RTO {rto_s:.1f} s with the wait (goal {RTO_S}), RPO {missing} commits (goal 0), policies obeyed: {obeys}"
        )
        return int(bool(missing) or rto_s >= RTO_S or not ended or not obeys)

    def _service_url(self, port: int | None) -> str:
        from local.database import _passwords

        password = _passwords(self._folder)["artiway_service"]
        return f"postgresql://artiway_service:{password}@127.0.0.1:{port}/artiway"

    def _lost(self, url: str) -> list[tuple[str, int, int]]:
        """Kind, acknowledged commits, and those that the recovered server does not have."""
        queries = {
            "runs": "SELECT run_id FROM job_run WHERE state = 'SUCCESS'",
            "tasks": "SELECT task_id FROM task",
            "points": "SELECT entry_id FROM points_ledger",
        }
        found = []
        with psycopg.connect(url) as connection:
            for name, query in queries.items():
                stored = {row[0] for row in connection.execute(query.encode()).fetchall()}
                known = getattr(self._known, name)
                found.append((name, len(known), len(known.keys() - stored)))
        return found

    @staticmethod
    def _count(url: str) -> int:
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT count(*) FROM job_run").fetchone()
        return 0 if row is None else int(row[0])

    @staticmethod
    def _misfires(url: str) -> dict[str, int]:
        """The most runs that a job of a policy made up for."""
        with psycopg.connect(url) as connection:
            rows = connection.execute(
                "SELECT policy, coalesce(max(runs), 0) FROM"
                " (SELECT job.misfire_policy AS policy, count(run.run_id) AS runs FROM job LEFT JOIN job_run AS run"
                "   ON run.tenant_id = job.tenant_id AND run.job_id = job.job_id AND run.kind = 'CATCHUP'"
                "   GROUP BY job.job_id, job.misfire_policy) AS counted GROUP BY policy ORDER BY policy"
            ).fetchall()
        return {str(policy): int(runs) for policy, runs in rows}

    def _obeys(self, late: dict[str, int]) -> bool:
        """FIRE_ONCE makes up for one fire and SKIP for none; after a long outage FIRE_ALL makes up for several."""
        is_long = self._outage_s > 160
        return late["SKIP"] == 0 and late["FIRE_ONCE"] <= 1 and (not is_long or late["FIRE_ALL"] > 1)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="jobs that fire every five seconds")
    parser.add_argument("--load", type=float, default=30, help="seconds of load before the fault")
    parser.add_argument("--outage", type=float, default=170, help="seconds from the kill until the recovery begins")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="artiway-drill-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        drill = Drill(Path(folder), jobs=options.jobs, load_s=options.load, outage_s=options.outage)
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
            return drill.run()


if __name__ == "__main__":
    sys.exit(main())
