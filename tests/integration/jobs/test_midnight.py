"""The 00:00 story: 1,200 jobs of 50 tenants at one second, and a target that ends 20 calls per second."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import timedelta
from itertools import pairwise
from statistics import mean

import pytest

from artiway.jobs.admission import LANE_WEIGHTS
from artiway.jobs.messages import Outcome, Result
from artiway.jobs.settings import CAPACITY, JOB_LIMITS
from tests.fakes.clock import NOON

MIDNIGHT = NOON.replace(hour=0) + timedelta(days=1)
PER_SECOND = 20
AT_ONCE = 100
RESULTS_PER_BATCH = 10
LONGEST_S = 300
LANES = [*LANE_WEIGHTS]
# Tenants, their tier, the priority and number of their jobs: 300 in each lane. In the low lane are large tenants too.
TENANTS = (
    (10, "enterprise", "CRITICAL", 30),
    (10, "vip", "HIGH", 30),
    (10, "standard", "NORMAL", 30),
    (5, "enterprise", "LOW", 30),
    (15, "free", "LOW", 10),
)
# The first tenant of each row has limits of its own, below its share.
OWN = {
    "enterprise": {"job_concurrency": 3},
    "vip": {"job_concurrency": 1},
    "standard": {"job_per_minute": 12},
    "free": {"job_per_minute": 4},
}


class Target:
    """Ends its oldest calls, so many per second."""

    def __init__(self, world):
        self._world, self._calls = world, []
        world.answer = self._take

    def _take(self, call):
        self._calls.append(call)  # its result comes later

    def end(self, count):
        ending, self._calls = self._calls[:count], self._calls[count:]
        self._world.results.apply(
            [
                Result(
                    tenant_id=call.tenant_id,
                    run_id=call.run_id,
                    generation=call.generation,
                    attempt=call.attempt,
                    outcome=Outcome.SUCCEEDED,
                    at=self._world.now,
                    http_status=200,
                    elapsed_ms=1,
                )
                for call in ending
            ]
        )


class Night:
    """Lets the seconds pass, and looks at every tenant after every step."""

    def __init__(self, world):
        self._world, self._target = world, Target(world)
        self.at_once, self.per_minute, self.limited = {}, {}, set()
        self.tenants_of = defaultdict(set)
        self.most, self.most_calls = Counter(), 0
        for number, tier, priority, jobs in TENANTS:
            for place in range(number):
                self._add(tier, priority, jobs, OWN[tier] if place == 0 else {})

    def _add(self, tier, priority, jobs, own):
        tenant = self._world.tenant(tier, points=0, **own)
        self.at_once[tenant[0]] = own.get("job_concurrency", JOB_LIMITS[f"{tier}.runs_at_once"].default)
        self.per_minute[tenant[0]] = own.get("job_per_minute", JOB_LIMITS[f"{tier}.runs_per_minute"].default)
        self.limited |= {tenant[0]} if own else set()
        self.tenants_of[f"run_{priority.lower()}"].add(tenant[0])
        for _ in range(jobs):
            self._world.job(tenant, "0 0 0 * * ?", priority=priority, is_stored_only=True)

    def play(self):
        """Until all runs have ended."""
        world = self._world
        for second in range(LONGEST_S):
            if second % 5 == 0:
                world.trigger.run_pass()
            self._deliver()
            for _ in range(PER_SECOND // RESULTS_PER_BATCH):
                self._target.end(RESULTS_PER_BATCH)
                self._deliver()
            if world.now > MIDNIGHT and not self._live():
                break
            world.network.now = float(int(world.network.now) + 1)
        self.runs, self.calls = world.runs(), list(world.calls)

    def _deliver(self):
        self._look()
        while self._world.deliver_one():
            self._look()

    def _look(self):
        running = Counter()
        for row in self._world.rows("SELECT tenant_id, running FROM job_load WHERE running > 0"):
            running[row["tenant_id"]] += row["running"]
        self.most |= running
        self.most_calls = max(self.most_calls, running.total())

    def _live(self):
        return self._world.rows("SELECT FROM job_run WHERE ended_at IS NULL LIMIT 1")

    def starts(self, **wanted):
        """Seconds after midnight, in order."""
        found = [run for run in self.runs if all(run[name] == value for name, value in wanted.items())]
        return sorted((run["started_at"] - MIDNIGHT).total_seconds() for run in found)


@pytest.fixture(scope="module")
def night(open_world):
    with open_world(values={CAPACITY: AT_ONCE}) as world:
        world.network.now = (MIDNIGHT - NOON).total_seconds() - 40
        night = Night(world)
        night.play()
    return night


def longest_wait(starts):
    """Between two starts, from midnight on."""
    return max(after - before for before, after in pairwise([0, *starts]))


def per_second(lane):
    """What a lane gets of the target when all lanes wait."""
    return PER_SECOND * LANE_WEIGHTS[lane] / sum(LANE_WEIGHTS.values())


def test_every_run_ends_once(night):
    assert len(night.runs) == len({run["job_id"] for run in night.runs}) == 1_200
    assert {(run["state"], run["attempt"], run["scheduled_at"]) for run in night.runs} == {("SUCCESS", 1, MIDNIGHT)}
    assert Counter(call.run_id for call in night.calls) == Counter(run["run_id"] for run in night.runs)


def test_limits_hold_at_every_step(night):
    assert night.most_calls == AT_ONCE
    assert {tenant_id for tenant_id, most in night.most.items() if most > night.at_once[tenant_id]} == set()
    minutes = Counter((run["tenant_id"], run["started_at"].replace(second=0, microsecond=0)) for run in night.runs)
    assert {key for key, count in minutes.items() if count > night.per_minute[key[0]]} == set()
    # Limits below a tenant's share are used in full.
    for tenant_id in night.limited:
        is_at_once = night.most[tenant_id] == night.at_once[tenant_id]
        assert is_at_once or minutes[tenant_id, MIDNIGHT] == night.per_minute[tenant_id]


def test_no_tenant_starves(night):
    """With room, each tenant of a lane has a start in the time in which the lane has one for each, and a half more."""
    for lane in LANES:
        bound_s = max(1.5 * len(night.tenants_of[lane]) / per_second(lane), AT_ONCE / PER_SECOND + 1)
        for tenant_id in night.tenants_of[lane] - night.limited:
            assert longest_wait(night.starts(tenant_id=tenant_id)) <= bound_s


def test_low_priority_yields_and_goes_on(night):
    delays = {
        lane: mean(second for tenant_id in tenants - night.limited for second in night.starts(tenant_id=tenant_id))
        for lane, tenants in night.tenants_of.items()
    }
    critical, high, normal, low = (delays[lane] for lane in LANES)
    assert critical < high < normal < low
    assert low > 3 * critical
    # As long as more urgent runs wait, the low lane has at least half of its share of each ten seconds.
    seconds = Counter(int(second // 10) for second in night.starts(lane="run_low"))
    for number in range(int(night.starts(lane="run_critical")[-1] // 10)):
        assert seconds[number] >= 10 * per_second("run_low") / 2
