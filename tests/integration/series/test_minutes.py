"""The stored minutes agree with the tables that they were computed from."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import pytest

from artiway.platform.database import Database
from artiway.series.model import CATCH_UP, MINUTE, SERIES, floor, quantile
from artiway.series.repository import PostgresSeries
from artiway.series.service import SeriesService
from artiway.series.settings import KEEP_DAYS, TOP_TENANTS, WAIT_S
from artiway.settings.model import Defaults, Fixed
from tests.integration.series.conftest import POOLS, KnownRequests, Story

Histories = dict[Any, list[dict[str, Any]]]


def lanes(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], float]:
    """The values that are not zero, by minute and lane."""
    return {(row["minute"], row["labels"]["lane"]): row["value"] for row in rows if row["value"]}


def histories(story: Story) -> Histories:
    found: Histories = defaultdict(list)
    for row in story.world.rows(
        "SELECT history.*, node.pool, node.lane, node.step FROM node_history AS history JOIN task_node AS node"
        " USING (node_id) ORDER BY node_id, history.version"
    ):
        found[row["node_id"]].append(row)
    return found


def attempts(story: Story) -> Iterator[tuple[dict[str, Any], datetime, datetime | None]]:
    """Each attempt of the replayed history: its first row, its start, its end."""
    for rows in histories(story).values():
        for place, row in enumerate(rows):
            if row["to_status"] == "PROCESSING":
                ended_at = rows[place + 1]["changed_at"] if place + 1 < len(rows) else None
                yield row, row["changed_at"], ended_at


def test_story_has_every_kind_of_change(story: Story):
    """Otherwise the tests below compare nothing with nothing."""
    changes = Counter(row["to_status"] for rows in histories(story).values() for row in rows)
    assert {"COMPLETED", "FAILED", "CANCELLED", "PROCESSING", "QUEUED"} <= changes.keys()
    live = Counter(row["status"] for row in story.world.rows("SELECT status FROM task_node WHERE ended_at IS NULL"))
    assert live["PROCESSING"]
    assert live["QUEUED"] or live["PENDING"]
    assert len({floor(rows[-1]["changed_at"], MINUTE) for rows in histories(story).values()}) > 2


def test_completed_nodes_agree_with_sql(story: Story):
    story.close_all()
    wanted = {
        (row["minute"], row["lane"]): row["n"]
        for row in story.world.rows(
            "SELECT date_trunc('minute', ended_at) AS minute, lane, count(*) AS n FROM task_node"
            " WHERE status = 'COMPLETED' GROUP BY 1, 2"
        )
    }
    assert wanted
    assert lanes(story.stored("throughput")) == wanted


def test_failed_attempts_agree_with_history(story: Story):
    story.close_all()
    wanted = Counter(
        (floor(row["changed_at"], MINUTE), row["lane"], row["to_status"])
        for rows in histories(story).values()
        for row in rows
        if row["to_status"] in ("FAILED", "TIMEOUT")
    )
    found = {
        (row["minute"], row["labels"]["lane"], row["labels"]["status"]): row["value"]
        for row in story.stored("failures")
        if row["value"]
    }
    assert wanted
    assert found == wanted


def test_levels_agree_with_replayed_history(story: Story):
    """A late pass sees nodes that changed since, and still finds how they were at the end of the minute."""
    story.close_all()
    waiting, running = Counter[Any](), Counter[Any]()
    for minute in story.minutes:
        for rows in histories(story).values():
            before = [row for row in rows if row["changed_at"] < minute + MINUTE]
            if not before or before[-1]["to_status"] not in ("QUEUED", "PROCESSING"):
                continue
            is_dispatched = before[-1]["attempt"] > before[-2]["attempt"] or before[-1]["to_status"] == "PROCESSING"
            (running if is_dispatched else waiting)[minute, rows[0]["lane"]] += 1
    assert running
    assert waiting
    assert lanes(story.stored("waiting")) == waiting
    assert lanes(story.stored("running")) == running


def wait_percentiles(story: Story, share: float, step: str) -> dict[tuple[datetime, str], float]:
    return {
        (row["at"], row["lane"]): row["wait"]
        for row in story.world.rows(
            "SELECT date_bin(%s, started.changed_at, 'epoch') AS at, node.lane,"
            "       percentile_disc(%s) WITHIN GROUP (ORDER BY extract(epoch FROM started.changed_at - ("
            "           SELECT max(ready.changed_at) FROM node_history AS ready"
            "            WHERE ready.node_id = started.node_id AND ready.version < started.version"
            "              AND ready.from_status = 'PENDING'))::float8) AS wait"
            "  FROM node_history AS started JOIN task_node AS node USING (node_id)"
            " WHERE started.to_status = 'PROCESSING' GROUP BY 1, 2",
            step,
            share,
        )
    }


@pytest.mark.parametrize("share", [0.5, 0.95])
def test_wait_percentiles_agree_with_sql(story: Story, share: float):
    story.close_all()
    wanted = wait_percentiles(story, share, "1 minute")
    found = {(row["minute"], row["labels"]["lane"]): quantile(row["buckets"], share) for row in story.stored("wait")}
    assert wanted
    assert found == pytest.approx(wanted, rel=0.025)


def test_durations_of_steps_agree_with_sql(story: Story):
    story.close_all()
    wanted = {
        (row["minute"], row["step"]): (row["n"], row["p95"])
        for row in story.world.rows(
            "SELECT date_trunc('minute', ended_at) AS minute, step, count(*) AS n,"
            " percentile_disc(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM ended_at - started_at)::float8) AS p95"
            " FROM task_node WHERE status = 'COMPLETED' GROUP BY 1, 2"
        )
    }
    rows = story.stored("node_duration")
    found = {(row["minute"], row["labels"]["step"]): (row["weight"], quantile(row["buckets"], 0.95)) for row in rows}
    assert found.keys() == wanted.keys()
    for key, (count, p95) in wanted.items():
        assert found[key] == (count, pytest.approx(p95, rel=0.025))


def test_busy_time_agrees_with_replayed_attempts(story: Story):
    story.close_all()
    busy: dict[tuple[datetime, str], float] = defaultdict(float)
    for row, began_at, ended_at in attempts(story):
        for minute in story.minutes:
            end = min(ended_at or minute + MINUTE, minute + MINUTE)
            busy[minute, str(row["tenant_id"])] += max(timedelta(), end - max(began_at, minute)).total_seconds()
    wanted = {key: seconds for key, seconds in busy.items() if seconds}
    found = {(row["minute"], row["labels"]["tenantId"]): row["value"] for row in story.stored("share")}
    assert found == pytest.approx(wanted, abs=0.001)
    used = {row["minute"]: (row["value"], row["weight"]) for row in story.stored("utilisation")}
    for minute in story.minutes:
        total = sum(seconds for (at, _), seconds in wanted.items() if at == minute)
        assert used[minute] == pytest.approx((total, 5 * 60), abs=0.001)


def test_waits_are_counted_against_their_target(story: Story, emitted: dict[tuple[str, str], float]):
    """The target of the lane divides its waits; the number of those within it agrees with SQL."""
    story.close_all(story.service(values=Fixed({WAIT_S["vip_short"]: 25.0})))
    (wanted,) = story.world.rows(
        "SELECT count(*) FILTER (WHERE started.changed_at - ready.changed_at <= interval '25 s') AS good,"
        "       count(*) AS total"
        "  FROM node_history AS started JOIN task_node AS node USING (node_id)"
        "  JOIN LATERAL (SELECT max(changed_at) AS changed_at FROM node_history AS ready WHERE from_status = 'PENDING'"
        "                   AND ready.node_id = started.node_id AND ready.version < started.version) AS ready ON true"
        " WHERE started.to_status = 'PROCESSING' AND node.lane = 'vip_short'"
    )
    rows = [row for row in story.stored("wait_within_target") if row["labels"]["lane"] == "vip_short"]
    good, total = sum(row["value"] for row in rows), sum(row["weight"] for row in rows)
    assert (good, total) == (wanted["good"], wanted["total"])
    assert 0 < good < total
    assert emitted["wait_vip_short", "slow"] == pytest.approx((1 - good / total) / 0.05)


class TestPass:
    def rows(self, story: Story) -> list[dict[str, Any]]:
        return story.world.rows("SELECT * FROM series_minute ORDER BY name, minute, labels")

    def test_late_pass_writes_the_same_rows(self, story: Story):
        """But for workers, whose rows are deleted some minutes after they end, and the backlog, which is read now."""
        story.close_all()
        in_time = [row for row in self.rows(story) if row["name"] not in ("utilisation", "run_backlog")]
        story.begin()
        story.clock.set(story.late)
        assert story.service().close_minutes()["closed"] == len(story.minutes) + 1
        late = [row for row in self.rows(story) if row["name"] not in ("utilisation", "run_backlog")]
        assert [row for row in late if row["minute"] <= story.minutes[-1]] == in_time

    def test_repeated_pass_changes_nothing(self, story: Story):
        service = story.close_all()
        service.close_minutes()
        once = self.rows(story)
        story.world.superuser.execute("UPDATE task_node SET gpu_us = 1")
        assert service.close_minutes() == {"closed": 0, "deleted": 0}
        assert self.rows(story) == once

    def test_concurrent_passes_close_each_minute_once(self, story: Story, worker_addresses):
        story.close_all()
        alone = [
            row
            for row in self.rows(story)
            if row["name"] not in ("utilisation", "run_backlog", "burn_rate", "error_budget")
        ]
        story.begin()
        closed: list[int] = []

        def close() -> None:
            with closing(Database(worker_addresses.service)) as database:
                store = PostgresSeries(database, database, pools=POOLS, beat_s=lambda: 10)
                service = SeriesService(store, KnownRequests(), dict, Defaults(), story.clock)
                closed.extend(service.close_minutes()["closed"] for _ in range(10))

        threads = [threading.Thread(target=close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(closed) == len(story.minutes) + 1
        found = [
            row
            for row in self.rows(story)
            if row["name"] not in ("utilisation", "run_backlog", "burn_rate", "error_budget")
        ]
        assert [row for row in found if row["minute"] <= story.minutes[-1]] == alone

    def test_open_minute_waits_for_late_commits(self, story: Story):
        story.begin()
        story.clock.set(story.since + timedelta(seconds=119))
        assert story.service().close_minutes()["closed"] == 0
        story.clock.set(story.since + timedelta(seconds=120))
        assert story.service().close_minutes()["closed"] == 1

    def test_catch_up_leaves_old_minutes_out(self, story: Story):
        story.begin()
        story.clock.set(story.since + 5 * CATCH_UP)
        service = story.service()
        counts = [service.close_minutes()["closed"] for _ in range(5)]
        assert counts == [10, 10, 9, 0, 0]
        (first,) = story.world.rows("SELECT min(minute) AS minute FROM series_minute")
        assert first["minute"] == story.clock.now() - CATCH_UP

    def test_new_system_begins_with_this_minute(self, story: Story):
        story.clock.set(story.since + timedelta(seconds=30))
        assert story.service().close_minutes()["closed"] == 0
        (row,) = story.world.rows("SELECT closed_until FROM series_pass")
        assert row["closed_until"] == story.since

    def test_unreadable_queues_leave_a_gap_only(self, story: Story):
        def broken() -> dict[str, int]:
            raise ConnectionError("no answer")

        story.close_all(story.service(dead_letters=broken))
        assert story.stored("dead_letters") == []
        assert story.stored("throughput")

    def test_dead_letters_are_read_once_a_minute(self, story: Story):
        story.close_all(story.service(dead_letters=lambda: {"push": 3, "webhook": 0}))
        found = [(row["minute"], row["labels"]["queue"], row["value"]) for row in story.stored("dead_letters")]
        assert found == [(minute, queue, n) for minute in story.minutes for queue, n in (("push", 3), ("webhook", 0))]

    def test_old_rows_leave_in_batches(self, story: Story, monkeypatch):
        monkeypatch.setattr("artiway.series.service.DELETE_LIMIT", 50)
        values = Fixed({KEEP_DAYS: 2})
        service = story.close_all(story.service(values=values))
        before = len(self.rows(story))
        story.clock.set(story.minutes[2] + timedelta(days=2))
        kept = [row for row in self.rows(story) if row["minute"] >= story.minutes[2]]
        deleted = [service.close_minutes()["deleted"] for _ in range(before // 50 + 2)]
        assert max(deleted) == 50
        assert sum(deleted) == before - len(kept)
        assert [row for row in self.rows(story) if row["minute"] <= story.minutes[-1]] == kept


class TestSteps:
    def read(self, story: Story, name: str, step: int | None = None) -> dict[tuple[datetime, str], float]:
        found = story.service().read(SERIES[name], story.since, story.minutes[-1] + MINUTE, step)[1]
        return {
            (point.at, point.labels.get("lane") or point.labels.get("tenantId", "")): point.value for point in found
        }

    def test_sums_add_up(self, story: Story):
        story.close_all()
        (completed,) = story.world.rows("SELECT count(*) AS n FROM task_node WHERE status = 'COMPLETED'")
        for step in (None, 60, 120, 420, 86_400):
            assert sum(self.read(story, "throughput", step).values()) == completed["n"]

    def test_levels_keep_their_peak(self, story: Story):
        story.close_all()
        minutes, steps = self.read(story, "waiting", 60), self.read(story, "waiting", 180)
        for (at, lane), value in steps.items():
            inside = [v for (m, one), v in minutes.items() if one == lane and at <= m < at + timedelta(seconds=180)]
            assert value == max(inside)

    def test_percentiles_come_from_all_waits_of_a_step(self, story: Story):
        story.close_all()
        wanted = wait_percentiles(story, 0.95, "3 minutes")
        assert self.read(story, "wait_p95", 180) == pytest.approx(wanted, rel=0.025)

    def test_shares_of_a_step_are_whole(self, story: Story):
        story.close_all()
        for step in (60, 180, 3_600):
            shares = self.read(story, "share", step)
            for at in {at for at, _ in shares}:
                assert sum(value for (one, _), value in shares.items() if one == at) == pytest.approx(1)

    def test_small_tenants_are_one(self, story: Story):
        story.close_all(story.service(values=Fixed({TOP_TENANTS: 1})))
        for minute in story.minutes:
            names = [row["labels"]["tenantId"] for row in story.stored("share") if row["minute"] == minute]
            assert len(names) <= 2
        found = story.service(values=Fixed({TOP_TENANTS: 1})).read(
            SERIES["share"], story.since, story.minutes[-1], 86_400
        )[1]
        assert len(found) == 2
        assert "other" in {point.labels["tenantId"] for point in found}

    def test_names_without_events_have_no_points(self, story: Story):
        story.close_all()
        for name in ("trigger_latency_p95", "runs_on_time", "tokens_per_second", "first_token_p95"):
            assert self.read(story, name) == {}
