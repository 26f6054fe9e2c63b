"""Series on the running stack: tasks run, their minutes are closed by the schedule, and the figures agree with SQL."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from psycopg.rows import dict_row

from artiway.series.model import MINUTE, SERIES, ceiling
from local import photos
from local.shop import Person, Platform
from tests.e2e.studio import Studio, ended

PHOTO = photos.shirt(photos.BLUE, side=240)
# A minute is closed a minute after its end, by a pass that the schedule starts each minute.
CLOSED_S = 260


class Operator:
    def __init__(self, person: Person, database: str) -> None:
        self._person, self._database = person, database

    def rows(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self._database, row_factory=dict_row) as connection:
            return connection.execute(query.encode(), parameters).fetchall()

    async def series(self, name: str, since: datetime, until: datetime, step: int = 60) -> list[dict[str, Any]]:
        query = urlencode({"name": name, "from": since.isoformat(), "to": until.isoformat(), "step": step})
        points: list[dict[str, Any]] = (await self._person.call("GET", f"/ops/series?{query}"))["points"]
        return points

    async def page(self) -> str:
        url = f"{self._person.platform.facts['apiUrl']}/ops/metrics"
        headers = {"authorization": f"Bearer {self._person.token}"}
        async with self._person.platform.session.get(url, headers=headers) as answer:
            assert (answer.status, answer.content_type) == (200, "application/openmetrics-text")
            return await answer.text()

    async def closed(self, until: datetime) -> None:
        """Wait until the schedule has closed the minutes before this time."""
        async with asyncio.timeout(CLOSED_S):
            while not self.rows("SELECT 1 FROM series_pass WHERE closed_until >= %s", until):  # noqa: ASYNC110
                await asyncio.sleep(2)


def at(row: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(row["at"])


# No job fires and no text is written here: tests/integration/series compares these.
OF_RUNS_AND_TEXTS = {
    "trigger_latency_p50",
    "trigger_latency_p95",
    "runs_on_time",
    "runs_ended",
    "run_failures",
    "tokens_per_second",
    "first_token_p95",
}


def test_every_series_agrees_with_sql(studio: Studio) -> None:
    async def scenario() -> None:
        facts = studio.stack.facts
        async with Platform.at(facts, retry_for_s=20) as platform:
            administrator = await platform.administrator()
            operator = Operator(administrator, facts["databaseUrl"])
            await operator.closed(datetime(2026, 1, 1, tzinfo=UTC))  # the first pass: requests count from here
            whole = ceiling(datetime.now(UTC), MINUTE)
            await asyncio.sleep((whole - datetime.now(UTC)).total_seconds())
            shop = await administrator.open_shop("series", points=1_000, tier="vip")
            picture = await shop.upload(PHOTO)
            tasks = [await shop.submit(tool, {"product": picture}) for tool in ("cutout", "crop", "cutout", "crop")]
            for task in tasks:
                await ended(shop, task["taskId"])
            until = ceiling(datetime.now(UTC), MINUTE)
            await operator.closed(until)
            await compare(operator, whole, until)
            await compare_page(operator)

    asyncio.run(scenario())


async def compare(operator: Operator, since: datetime, until: datetime) -> None:
    for name, series in SERIES.items():
        points = await operator.series(name, since, until)
        assert points or name in OF_RUNS_AND_TEXTS, name
        assert all(since <= at(point) < until for point in points), name
        assert all(point.keys() == {"at", "value", *series.labels} for point in points), name

    wanted = operator.rows(
        "SELECT date_trunc('minute', ended_at) AS minute, lane, count(*) AS n FROM task_node"
        " WHERE status = 'COMPLETED' AND ended_at >= %s AND ended_at < %s GROUP BY 1, 2",
        since,
        until,
    )
    found = {(at(one), one["lane"]): one["value"] for one in await operator.series("throughput", since, until)}
    assert {key: n for key, n in found.items() if n} == {(row["minute"], row["lane"]): row["n"] for row in wanted}
    assert sum(found.values()) >= 4

    wanted = operator.rows(
        "SELECT date_trunc('minute', started.changed_at) AS minute, node.lane, percentile_disc(0.95) WITHIN GROUP"
        "       (ORDER BY extract(epoch FROM started.changed_at - (SELECT max(ready.changed_at)"
        "           FROM node_history AS ready WHERE ready.node_id = started.node_id"
        "            AND ready.version < started.version AND ready.from_status = 'PENDING'))::float8) AS wait"
        "  FROM node_history AS started JOIN task_node AS node USING (node_id)"
        " WHERE started.to_status = 'PROCESSING' AND started.changed_at >= %s AND started.changed_at < %s"
        " GROUP BY 1, 2",
        since,
        until,
    )
    found = {(at(one), one["lane"]): one["value"] for one in await operator.series("wait_p95", since, until)}
    assert found == pytest.approx({(row["minute"], row["lane"]): row["wait"] for row in wanted}, rel=0.025)

    requests = await operator.series("requests", since, until)
    errors = await operator.series("server_errors", since, until)
    assert sum(one["value"] for one in requests) >= 10  # submissions, uploads and polls of this test alone
    shares = [1 - failed["value"] / one["value"] for one, failed in zip(requests, errors, strict=True) if one["value"]]
    availability = [one["value"] for one in await operator.series("availability", since, until)]
    assert availability == pytest.approx(shares)


async def compare_page(operator: Operator) -> None:
    families = {family.name: family for family in text_string_to_metric_families(await operator.page())}
    (closed,) = families["artiway_series_closed_seconds"].samples
    minute = datetime.fromtimestamp(closed.value, UTC) - MINUTE
    stored = operator.rows("SELECT labels, value FROM series_minute WHERE name = 'throughput' AND minute = %s", minute)
    shown = {sample.labels["lane"]: sample.value for sample in families["artiway_throughput"].samples}
    assert shown == {row["labels"]["lane"]: row["value"] for row in stored}
