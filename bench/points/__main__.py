"""Holds through PointsService, compared with the same SQL on a bare connection: `python -m bench.points`.

PostgreSQL is durable (fsync on). Every client is a process with one connection, like a Lambda environment. The service
and the bare connection take turns in short rounds, so that other load affects both equally.
"""

from __future__ import annotations

import json
import multiprocessing as mp
import os
import platform
import random
import subprocess
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4, uuid5

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from artiway.audit.repository import AuditLog
from artiway.ids import new_id
from artiway.platform.clock import SystemClock
from artiway.platform.database import Database
from artiway.platform.migrations import migrate
from artiway.platform.sql import load
from artiway.points.repository import PostgresLedger
from artiway.points.service import PointsService
from local.servers import Server, free_port, postgres_install, running, start_postgres

PLACE_HOLD = load("bench.points", "place_hold.sql")["place_hold"]
RESULTS = Path(__file__).parents[1] / "results" / "points.json"
CLIENTS = 8
ACCOUNTS = 1_000
ROUNDS = 6
ROUND_S = float(os.environ.get("BENCH_ROUND_S", "3"))
GOAL_RATIO = 0.8
TENANT = UUID("01900000-0000-7000-8000-00000000000a")
USERS = [uuid5(TENANT, str(number)) for number in range(ACCOUNTS)]
LIFE = timedelta(hours=1)
PASSWORD = "bench"
PlaceHold = Callable[[UUID], object]


def ours(url: str) -> PlaceHold:
    points = PointsService(PostgresLedger(Database(url), AuditLog()), SystemClock())

    def place_hold(user_id: UUID) -> object:
        expires_at = datetime.now(UTC) + LIFE
        return points.place_hold(
            tenant_id=TENANT, user_id=user_id, hold_id=uuid4(), amount_points=1, expires_at=expires_at
        )

    return place_hold


def bare(url: str) -> PlaceHold:
    """The same statements on a bare connection, with the hold's statement prepared once."""
    connection = psycopg.connect(url, autocommit=True)
    begin = f"BEGIN; SELECT set_config('app.tenant_id', '{TENANT}', true)".encode()

    def place_hold(user_id: UUID) -> object:
        now, hold_id = datetime.now(UTC), uuid4()
        connection.execute(begin)
        row = connection.execute(PLACE_HOLD, parameters(user_id, hold_id, now), prepare=True).fetchone()
        connection.execute(b"COMMIT")
        assert row is not None
        return row

    return place_hold


def parameters(user_id: UUID, hold_id: UUID, now: datetime) -> dict[str, Any]:
    return {
        "hold_id": hold_id,
        "user_id": user_id,
        "amount": 1,
        "expires_at": now + LIFE,
        "now": now,
        "entry_id": new_id(),
        "reference": str(hold_id),
        "idempotency_key": f"freeze:{hold_id}",
    }


def client(
    make: Callable[[str], PlaceHold], url: str, is_hot: bool, barrier: Barrier, counts: Any, number: int
) -> None:
    """Run in every second round; the clients of the other way use the rounds between."""
    place_hold = make(url)
    chance = random.Random(number)
    place_hold(USERS[0])
    for turn in range(2 * ROUNDS):
        barrier.wait()
        if (turn % 2 == 0) == (make is ours):
            until, count = time.monotonic() + ROUND_S, 0
            while time.monotonic() < until:
                place_hold(USERS[0] if is_hot else chance.choice(USERS))
                count += 1
            counts[number] += count
        barrier.wait()


def measure(url: str, *, is_hot: bool) -> dict[str, float]:
    context = mp.get_context("fork")
    barrier = context.Barrier(2 * CLIENTS)
    rates = {}
    counts = {make.__name__: context.Array("q", CLIENTS) for make in (ours, bare)}
    clients = [
        context.Process(target=client, args=(make, url, is_hot, barrier, counts[make.__name__], number))
        for make in (ours, bare)
        for number in range(CLIENTS)
    ]
    for process in clients:
        process.start()
    for process in clients:
        process.join()
        assert process.exitcode == 0
    for name, count in counts.items():
        rates[f"{name}_per_s"] = round(sum(count) / (ROUNDS * ROUND_S), 1)
    rates["ratio"] = round(rates["ours_per_s"] / rates["bare_per_s"], 3)
    return rates


def pgbench(server: Server, folder: Path, *, is_hot: bool) -> float:
    """The same prepared statement from pgbench: the speed of PostgreSQL itself."""
    text = PLACE_HOLD.decode()
    for name, value in {
        "amount": "1::bigint", "now": "now()", "expires_at": "now()", "hold_id": ":hold", "entry_id": ":hold",
        "user_id": ":user", "reference": "'x'", "idempotency_key": "'freeze:' || :hold",
    }.items():  # fmt: skip
        text = text.replace(f"%({name})s", value)
    user = f"(SELECT user_id FROM bench_user WHERE number = {'0' if is_hot else ':number'})"
    hold = "md5(:client_id || ':' || :a || ':' || :b)::uuid"
    script = folder / "place_hold.sql"
    lines = [
        f"\\set number random(0, {ACCOUNTS - 1})",
        "\\set a random(0, 9000000000000000)",
        "\\set b random(0, 9000000000000000)",
        f"BEGIN; SELECT set_config('app.tenant_id', '{TENANT}', true);",
        text.replace(":user", user).replace(":hold", hold),
        "COMMIT;",
    ]
    script.write_text("\n".join(lines))
    place = conninfo_to_dict(server.url)
    found = subprocess.run(
        [
            str(postgres_install() / "bin/pgbench"), "-n", "-M", "prepared",
            "-c", str(CLIENTS), "-j", "2", "-T", str(int(ROUNDS * ROUND_S) or 1), "-f", str(script),
            "-h", "127.0.0.1", "-p", str(place["port"]), "-U", "artiway_app", "artiway",
        ],
        env={"PATH": os.environ["PATH"], "PGPASSWORD": PASSWORD},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return float(next(line for line in found.stdout.splitlines() if line.startswith("tps")).split()[2])


def prepare(server: Server) -> str:
    with psycopg.connect(server.url, autocommit=True) as connection:
        for role in ("artiway_owner", "artiway_app", "artiway_service"):
            rights = "CREATEROLE" if role == "artiway_owner" else "NOCREATEROLE"
            connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}' {rights}".encode())
        connection.execute("CREATE DATABASE artiway OWNER artiway_owner")
    migrate(make_conninfo(server.url, user="artiway_owner", password=PASSWORD, dbname="artiway"))
    with psycopg.connect(make_conninfo(server.url, dbname="artiway"), autocommit=True) as connection:
        connection.execute("INSERT INTO tenant (tenant_id, name) VALUES (%s, 'bench')", [TENANT])
        connection.execute("CREATE TABLE bench_user (number integer PRIMARY KEY, user_id uuid NOT NULL)")
        connection.execute("GRANT SELECT ON bench_user TO artiway_app")
        with connection.cursor() as cursor:
            rows = list(enumerate(USERS))
            cursor.executemany("INSERT INTO bench_user VALUES (%s, %s)", rows)
            cursor.executemany(
                "INSERT INTO app_user (tenant_id, user_id, email) VALUES (%s, %s, %s)",
                [(TENANT, user_id, f"{number}@example.com") for number, user_id in rows],
            )
    url = make_conninfo(server.url, user="artiway_app", password=PASSWORD, dbname="artiway")
    database = Database(url)
    ledger, now = PostgresLedger(database, AuditLog()), datetime.now(UTC)
    from artiway.points.model import Change, Kind

    with database.tenant_transaction(TENANT):
        for user_id in USERS:
            ledger.credit(TENANT, Change(user_id, Kind.RECHARGE, 10**9, "bench", f"bench:{user_id}"), now=now)
    database.close()
    with psycopg.connect(make_conninfo(server.url, dbname="artiway"), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
    return url


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o755)
        with running(start_postgres(Path(home), free_port(), is_durable=True)) as server:
            url = prepare(server)
            found: dict[str, Any] = {}
            for name, is_hot in (("spread", False), ("hot", True)):
                found[name] = measure(url, is_hot=is_hot)
                found[name]["pgbench_per_s"] = round(pgbench(server, Path(home), is_hot=is_hot), 1)
    print(f"hold + ledger entry, {CLIENTS} clients, {ACCOUNTS} accounts or one, durable; goal: ratio >= {GOAL_RATIO}")
    print(f"{'accounts':<10}{'ours/s':>10}{'bare/s':>10}{'ratio':>8}{'pgbench/s':>12}")
    for name, row in found.items():
        line = f"{row['ours_per_s']:>10.0f}{row['bare_per_s']:>10.0f}{row['ratio']:>8.2f}{row['pgbench_per_s']:>12.0f}"
        print(f"{name:<10}{line}")
    RESULTS.parent.mkdir(exist_ok=True)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    RESULTS.write_text(json.dumps({"machine": machine, "clients": CLIENTS, **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
