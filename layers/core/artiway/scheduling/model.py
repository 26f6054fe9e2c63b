"""Words of the fair queue: nodes, tracks, policies, verdicts, and virtual time as whole microseconds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TypedDict
from uuid import UUID

from artiway.errors import Conflict, Refused, Unavailable

MICROSECONDS = 1_000_000
COST_LIMIT_US = 1_000_000 * MICROSECONDS
WEIGHT_LIMIT = 10_000
COUNT_LIMIT = 1_000_000
TRACK_LIMIT = 256
SAMPLES_BEFORE_AVERAGE = 20
# A double holds whole numbers up to 2**53. Far before that the queue asks to be rebuilt, which starts the clock anew.
CLOCK_LIMIT_US = 2**52
RETRY_AFTER_S = 2
KEY_BITS = 80

_PLAIN = r"[A-Za-z0-9_.:@-]{1,64}"
_NAME = re.compile(_PLAIN)
_THREE_NAMES = re.compile(rf"{_PLAIN}\|{_PLAIN}\|{_PLAIN}")


class StaleEpoch(Unavailable):
    """Redis lost the queue, or another process rebuilt it: attach again, or rebuild from the database."""

    code = "SCHED_503_STALE_EPOCH"

    def __init__(self, message: str) -> None:
        super().__init__(message, retry_after_s=RETRY_AFTER_S)


class NewerLayout(Unavailable):
    """A newer release keeps the queue in a layout that this one cannot read. It waits until it is replaced."""

    code = "SCHED_503_NEWER_LAYOUT"

    def __init__(self, layout: int) -> None:
        super().__init__("a newer release keeps the queue; try again", retry_after_s=RETRY_AFTER_S, layout=layout)


class QueueMemoryFull(Unavailable):
    """Redis is over its maxmemory. The nodes stay in the database and are queued once there is room."""

    code = "SCHED_503_QUEUE_MEMORY"

    def __init__(self) -> None:
        super().__init__("the queue has no memory left; try again", retry_after_s=RETRY_AFTER_S)


class UnknownTenant(Conflict):
    """The queue has no policy for these tenants yet; nothing was changed."""

    code = "SCHED_409_UNKNOWN_TENANT"

    def __init__(self, tenant_ids: Sequence[str]) -> None:
        super().__init__(f"no policy for {', '.join(tenant_ids)}")
        self.tenant_ids = tuple(tenant_ids)


class TooManyTracks(Refused):
    """Tracks are catalogue entries, not user input: this many of them is a mistake of the caller."""

    code = "SCHED_422_TOO_MANY_TRACKS"


class Enqueued(StrEnum):
    QUEUED = "queued"
    DUPLICATE = "duplicate"


class Ended(StrEnum):
    ENDED = "ended"
    NOT_RUNNING = "not_running"


class Cancelled(StrEnum):
    CANCELLED = "cancelled"
    RUNNING = "running"
    UNKNOWN = "unknown"


class WaitingFor(StrEnum):
    """Why a node waits, in the words of the HTTP contract (`dependency` is the task's to say)."""

    LANE_PAUSED = "lane_paused"
    CIRCUIT_OPEN = "circuit_open"
    NO_WORKER = "no_worker"
    LANE_CAP = "lane_cap"
    MODEL_CAP = "model_cap"
    TENANT_CAP = "tenant_cap"
    USER_CAP = "user_cap"
    TURN = "turn"
    NONE = "none"


class Priority(StrEnum):
    """Orders a node among the work of its own tenant. It never changes the tenant's share of the pool."""

    HIGH = "HIGH"
    NORMAL = "NORMAL"
    LOW = "LOW"


PRIORITY_RANK = {Priority.HIGH: 0, Priority.NORMAL: 1, Priority.LOW: 2}


class DecisionReason(StrEnum):
    """Why a tenant's node was chosen before the runner-up's."""

    ONLY_CANDIDATE = "only_candidate"
    SMALLEST_TAG = "smallest_tag"
    TIE_EARLIER_ARRIVAL = "tie_earlier_arrival"


def microseconds(seconds: float) -> int:
    return round(seconds * MICROSECONDS)


def charge_us(cost_us: int, weight: int) -> int:
    """Virtual time that a node costs its tenant. Rounded up, so that nothing is free."""
    return -(-cost_us // weight)


def named(word: str, value: str) -> str:
    """Names become parts of keys and of packed records, so they are plain."""
    if not _NAME.fullmatch(value):
        raise ValueError(f"{word} {value!r}: 1 to 64 of a-z, A-Z, 0-9, _ . : @ -")
    return value


def whole(word: str, value: int, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{word} {value!r}: a whole number from {low} to {high}")
    return value


@dataclass(frozen=True, slots=True)
class Track:
    """Nodes that the same limits can block. There are as many as the catalogue has combinations, not as tenants."""

    node_type: str
    lane: str
    model: str = ""
    step: str = ""

    def __post_init__(self) -> None:
        named("type", self.node_type)
        named("lane", self.lane)
        if self.model:
            named("model", self.model)
        if self.step:
            named("step", self.step)

    def __str__(self) -> str:
        return f"{self.node_type}|{self.lane}|{self.model}|{self.step}"

    @staticmethod
    def parse(text: str) -> Track:
        return Track(*text.split("|"))


@dataclass(frozen=True, slots=True)
class Node:
    """One unit of work that is ready to run. `cost_us` is the catalogue's estimate of its GPU time."""

    node_id: str
    tenant_id: str
    user_id: str
    track: Track
    cost_us: int
    priority: Priority = Priority.NORMAL

    def __post_init__(self) -> None:
        # One look at all three, since this runs several times for each node; which of them it was is asked afterwards.
        if not _THREE_NAMES.fullmatch(f"{self.node_id}|{self.tenant_id}|{self.user_id}"):
            named("node", self.node_id)
            named("tenant", self.tenant_id)
            named("user", self.user_id)
        whole("cost_us", self.cost_us, 1, COST_LIMIT_US)


@dataclass(frozen=True, slots=True)
class TenantPolicy:
    """What a tenant may have. None is "no limit". `user_cap` holds for each of its users without one of their own."""

    tenant_id: str
    weight: int = 1
    cap: int | None = None
    user_cap: int | None = None

    def __post_init__(self) -> None:
        named("tenant", self.tenant_id)
        whole("weight", self.weight, 1, WEIGHT_LIMIT)
        for word, cap in (("cap", self.cap), ("user_cap", self.user_cap)):
            if cap is not None:
                whole(word, cap, 0, COUNT_LIMIT)


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane's switches: its parallelism is the smaller of a number and a percentage of the pool's slots."""

    name: str
    is_paused: bool = False
    parallelism: int | None = None
    share_percent: int | None = None

    def __post_init__(self) -> None:
        named("lane", self.name)
        if self.parallelism is not None:
            whole("parallelism", self.parallelism, 0, COUNT_LIMIT)
        if self.share_percent is not None:
            whole("share_percent", self.share_percent, 1, 100)

    def limit(self, pool_slots: int) -> int:
        """Nodes of this lane that may run at once. A share of a small pool is one slot, not none."""
        limit = COUNT_LIMIT if self.parallelism is None else self.parallelism
        if self.share_percent is not None:
            limit = min(limit, max(1, pool_slots * self.share_percent // 100))
        return limit


@dataclass(slots=True)
class Pool:
    """Workers that share capacity, and the limits on what they take. `capacity` bounds all types together.

    `steps` has the limits of steps whose circuit is not closed: 0 while it is open, few while it is probed.
    """

    slots: dict[str, int] = field(default_factory=dict)
    lanes: dict[str, Lane] = field(default_factory=dict)
    models: dict[str, int] = field(default_factory=dict)
    capacity: int | None = None
    steps: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node_type, count in self.slots.items():
            named("type", node_type)
            whole("slots", count, 0, COUNT_LIMIT)
        for model, limit in self.models.items():
            named("model", model)
            whole("limit", limit, 0, COUNT_LIMIT)
        for step, limit in self.steps.items():
            named("step", step)
            whole("limit", limit, 0, COUNT_LIMIT)
        if self.capacity is not None:
            whole("capacity", self.capacity, 0, COUNT_LIMIT)

    def total_slots(self) -> int:
        return sum(self.slots.values()) if self.capacity is None else self.capacity

    def blocked_by(self, track: Track, running: Mapping[Track, int]) -> WaitingFor | None:
        """What keeps every node of a track from running, if anything does. `TURN` is a busy worker."""
        lane = self.lanes.get(track.lane, Lane(track.lane))
        slots = self.slots.get(track.node_type, 0)
        if lane.is_paused:
            return WaitingFor.LANE_PAUSED
        if slots == 0 or self.total_slots() == 0:
            return WaitingFor.NO_WORKER
        if track.step in self.steps and (
            sum(n for t, n in running.items() if t.step == track.step) >= self.steps[track.step]
        ):
            return WaitingFor.CIRCUIT_OPEN
        if sum(n for t, n in running.items() if t.lane == track.lane) >= lane.limit(self.total_slots()):
            return WaitingFor.LANE_CAP
        if track.model in self.models and (
            sum(n for t, n in running.items() if t.model == track.model) >= self.models[track.model]
        ):
            return WaitingFor.MODEL_CAP
        is_busy = sum(n for t, n in running.items() if t.node_type == track.node_type) >= slots
        is_full = self.capacity is not None and sum(running.values()) >= self.capacity
        return WaitingFor.TURN if is_busy or is_full else None


@dataclass(frozen=True, slots=True)
class Dispatched:
    """A node that was chosen: what it was charged, and the tag that won. Keep the tag: a rebuild wants it back."""

    node: Node
    charged_us: int
    tag_us: int


@dataclass(frozen=True, slots=True)
class Completion:
    """The end of a node, however it ended. `measured_us` None: nothing was measured, the estimate stands."""

    node_id: str
    measured_us: int | None = None

    def __post_init__(self) -> None:
        named("node", self.node_id)
        if self.measured_us is not None:
            whole("measured_us", self.measured_us, 0, COST_LIMIT_US)


@dataclass(frozen=True, slots=True)
class Admitted:
    """The answer of one admission: what became of each node, and who goes next."""

    enqueued: tuple[Enqueued, ...]
    dispatched: tuple[Dispatched, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """The answer of one completion call: what became of each end, and who goes next."""

    ended: tuple[Ended, ...]
    dispatched: tuple[Dispatched, ...]


@dataclass(frozen=True, slots=True)
class Running:
    """A node that holds a slot. `lease_ms` is set while nobody has confirmed that it was sent."""

    node: Node
    charged_us: int
    lease_ms: int | None = None


@dataclass(slots=True)
class Snapshot:
    """All that a queue is made of. The database can write one, so a lost Redis is a rebuild and nothing more.

    `waiting` is in order of arrival. `last_us` has the tag of each tenant's latest dispatch and `clock_us` the largest
    of them all: with these the clocks go on as if nothing had happened; without them all tenants start level.
    """

    pool: Pool = field(default_factory=Pool)
    tenants: list[TenantPolicy] = field(default_factory=list)
    user_caps: dict[tuple[str, str], int] = field(default_factory=dict)
    running: list[Running] = field(default_factory=list)
    waiting: list[Node] = field(default_factory=list)
    clock_us: int = 0
    last_us: dict[str, int] = field(default_factory=dict)
    costs: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """A dispatch as the queue recorded it. The runner-up is the next tenant that could have run, None without one."""

    at_ms: int
    node_id: str
    tenant_id: str
    user_id: str
    track: Track
    charged_us: int
    tag_us: int
    runner_up_tenant_id: str | None
    runner_up_tag_us: int | None
    reason: DecisionReason


@dataclass(frozen=True, slots=True)
class Choice:
    """A decision of a pool's queue, for operators. Task and name are None for a node that was deleted."""

    pool: str
    decision: Decision
    task_id: str | None = None
    name: str | None = None

    @property
    def key(self) -> int:
        """Names the decision in 128 bits: its time, and 80 bits of the node's id."""
        return self.decision.at_ms << KEY_BITS | UUID(self.decision.node_id).int & (1 << KEY_BITS) - 1

    @property
    def detail(self) -> str:
        """The decision in words."""
        decision = self.decision
        tag = f"Its tag of {decision.tag_us / MICROSECONDS:.3f} s"
        if decision.runner_up_tag_us is None:
            return "No other tenant had a node that could run."
        if decision.reason is DecisionReason.TIE_EARLIER_ARRIVAL:
            return f"{tag} equals that of the next tenant's node, and it arrived earlier."
        runner_up_s = decision.runner_up_tag_us / MICROSECONDS
        return f"{tag} is smaller than {runner_up_s:.3f} s, the tag of the next tenant's node."


@dataclass(frozen=True, slots=True)
class TrackBacklog:
    """A tenant's work on one track. `head_tag_us` is None while the tenant has no eligible node there."""

    waiting: int = 0
    waiting_us: int = 0
    head_tag_us: int | None = None
    running: int = 0
    running_us: int = 0


@dataclass(frozen=True, slots=True)
class TenantBacklog:
    """A tenant that has work, by track. `last_us` counts the heads that are tagged and still wait."""

    policy: TenantPolicy
    last_us: int
    credit_us: int
    running: int
    tracks: Mapping[Track, TrackBacklog]


@dataclass(frozen=True, slots=True)
class Backlog:
    """Counts and sums of all work in a pool: what a forecast needs, without the nodes themselves."""

    clock_us: int
    pool: Pool
    costs: Mapping[str, tuple[int, int]]
    tenants: Mapping[str, TenantBacklog]

    def plus(self, more: Mapping[str, TenantBacklog]) -> Backlog:
        """The backlog with further waiting work."""
        tenants = dict(self.tenants)
        for tenant_id, added in more.items():
            known = tenants.get(tenant_id, replace(added, tracks={}))
            tracks = dict(known.tracks)
            for track, work in added.tracks.items():
                old = tracks.get(track, TrackBacklog())
                tracks[track] = replace(
                    old, waiting=old.waiting + work.waiting, waiting_us=old.waiting_us + work.waiting_us
                )
            tenants[tenant_id] = replace(known, tracks=tracks)
        return replace(self, tenants=tenants)

    def running_by_track(self) -> dict[Track, int]:
        counts: dict[Track, int] = {}
        for tenant in self.tenants.values():
            for track, work in tenant.tracks.items():
                counts[track] = counts.get(track, 0) + work.running
        return counts


@dataclass(frozen=True, slots=True)
class LaneState:
    """A lane as operators see it: its switches, what waits in it and what runs."""

    lane: str
    pool: str
    is_paused: bool
    parallelism: int | None
    share_percent: int | None
    depth_limit: int
    depth: int
    running: int


@dataclass(frozen=True, slots=True)
class WorkerNode:
    """A node that a worker runs now."""

    task_id: str
    tenant_id: str
    name: str
    type: str
    attempt: int
    started_at: datetime


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker that is alive: its types and slots, its last heartbeat, the nodes that it runs.

    A worker that drains gets no new node. Its slots do not count.
    """

    worker_id: str
    pool: str
    types: tuple[str, ...]
    slots: int
    engine: str
    registered_at: datetime
    beat_at: datetime
    is_draining: bool = False
    nodes: tuple[WorkerNode, ...] = ()


class LaneChange(TypedDict, total=False):
    """The settings of a lane that an operator changes; the others stay. None restores the lane's default."""

    is_paused: bool
    parallelism: int | None
    share_percent: int | None
    depth_limit: int | None


@dataclass(frozen=True, slots=True)
class ModelLoad:
    """The nodes of one model in one pool."""

    pool: str
    running: int
    waiting: int


@dataclass(frozen=True, slots=True)
class ModelState:
    """A model of the catalogue. `limit` is how many of its nodes may run at once in each pool; None is no limit."""

    model: str
    steps: tuple[str, ...]
    limit: int | None
    pools: tuple[ModelLoad, ...]


@dataclass(frozen=True, slots=True)
class ChangedLimits:
    """Limits of tenants and users that were set in the last minute. A user's cap of None is the tenant's."""

    tenants: Sequence[TenantPolicy] = ()
    user_caps: Mapping[tuple[str, str], int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A node as it was recorded: when it became ready, and how long it really ran."""

    at_us: int
    node: Node
    runs_us: int


@dataclass(frozen=True, slots=True)
class TenantState:
    """`last_us` is the tag of the latest dispatch, corrected by what the nodes really cost."""

    policy: TenantPolicy
    last_us: int
    waiting: int
    running: int
    dearest_us: int
    contending_since_ms: int | None


@dataclass(frozen=True, slots=True)
class Waits:
    """A tenant's waiting times in one run: nodes that started, mean and worst wait, and nodes that never did."""

    started: int
    mean_us: int
    worst_us: int
    unstarted: int
