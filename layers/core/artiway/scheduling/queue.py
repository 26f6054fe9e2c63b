"""The fair queue on Redis. Each verb is one script; a lost queue answers StaleEpoch and changes nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from math import isinf
from struct import Struct
from typing import Any, NamedTuple, TypeVar, cast

import redis
from redis.client import NEVER_DECODE

from artiway.errors import Unavailable
from artiway.platform.redis import RedisFull, translated
from artiway.scheduling import scripts
from artiway.scheduling.keys import LAYOUT, Keys, layout_of, new_epoch
from artiway.scheduling.model import (
    COUNT_LIMIT,
    PRIORITY_RANK,
    Admitted,
    Backlog,
    Cancelled,
    Completion,
    Decision,
    DecisionReason,
    Dispatched,
    Ended,
    Enqueued,
    Lane,
    NewerLayout,
    Node,
    Pool,
    Priority,
    QueueMemoryFull,
    Running,
    Settled,
    Snapshot,
    StaleEpoch,
    TenantBacklog,
    TenantPolicy,
    TenantState,
    TooManyTracks,
    Track,
    TrackBacklog,
    UnknownTenant,
    WaitingFor,
    charge_us,
    named,
    whole,
)

LEASE_MS = 30_000
BATCH_LIMIT = 1_000
LOAD_CHUNK = 1_000
SCAN_COUNT = 1_000
DECISIONS_KEPT = 1_000
NODE_RANK = 10**13
_PRIORITIES = tuple(sorted(Priority, key=lambda priority: PRIORITY_RANK[priority]))

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a node waits. The counts behind it are what a caller can show."""

    waiting_for: WaitingFor
    detail: Mapping[str, Any]


class FairQueue:
    """One pool's queue. Not attached, or after StaleEpoch: `attach()`, and `rebuild()` where that answers False."""

    def __init__(self, client: redis.Redis, pool: str, *, lease_ms: int = LEASE_MS, layout: int = LAYOUT) -> None:
        self._client, self._keys, self._layout = client, Keys(pool), layout
        self._lease_ms = whole("lease_ms", lease_ms, 1, COUNT_LIMIT)
        self._epoch = self._seen = ""

    @property
    def epoch(self) -> str:
        return self._epoch

    def attach(self) -> bool:
        """Take up the queue that Redis holds. False: there is none that this release can use, and it rebuilds it."""
        with _translated():
            self._seen = self._text(self._client.get(self._keys.epoch))
        layout = layout_of(self._seen)
        # What another layout holds is not to be touched, whatever the caller does next.
        self._epoch = self._seen if layout == self._layout else ""
        if layout > self._layout:
            raise NewerLayout(layout)
        if layout < self._layout:
            return False
        try:
            return self._run("attach", 0) == "attached"
        except StaleEpoch:
            return False

    # The life of a node

    def enqueue(self, nodes: Sequence[Node], *, now_ms: int, policies: Sequence[TenantPolicy] = ()) -> list[Enqueued]:
        """Nodes became ready. A known node stays where it is. A tenant needs a policy, set before or given here."""
        return list(self.admit(nodes, now_ms=now_ms, policies=policies).enqueued)

    def admit(
        self,
        nodes: Sequence[Node],
        *,
        now_ms: int,
        policies: Sequence[TenantPolicy] = (),
        dispatch: int = 0,
    ) -> Admitted:
        """Nodes became ready, and up to `dispatch` that may run go in the same call."""
        whole("dispatch", dispatch, 0, BATCH_LIMIT)
        verdicts: list[Enqueued] = []
        chosen: list[Dispatched] = []
        batches = list(_batches(nodes, BATCH_LIMIT))
        for place, batch in enumerate(batches, 1):
            limit = dispatch if place == len(batches) else 0
            lines = "\n".join(map(_node_line, batch))
            answer = self._run("enqueue", now_ms, _policy_lines(policies), lines, "", limit, self._lease_ms)
            policies = ()
            words, _, taken = answer.partition("\n\n")
            verdicts.extend(map(Enqueued, words.split("\n")))
            chosen.extend(_dispatched(taken))
        return Admitted(tuple(verdicts), tuple(chosen))

    def dispatch(self, limit: int, *, now_ms: int) -> list[Dispatched]:
        """Take up to `limit` nodes that may run now. Confirm each when it is sent, or it comes back."""
        whole("limit", limit, 0, BATCH_LIMIT)
        return _dispatched(self._run("dispatch", now_ms, limit, self._lease_ms))

    def complete(
        self,
        completions: Sequence[Completion],
        *,
        now_ms: int,
        dispatch: int = 0,
        confirmed: Iterable[str] = (),
    ) -> Settled:
        """Nodes ended; their slots go to the next ones in the same call. Ending a node twice is harmless.

        The messages of those that are `confirmed` are sent and the database knows it: from here on its leases count,
        not ours.
        """
        whole("dispatch", dispatch, 0, BATCH_LIMIT)
        ends = "\n".join(f"{c.node_id}|{'' if c.measured_us is None else c.measured_us}" for c in completions)
        answer = self._run("complete", now_ms, dispatch, self._lease_ms, ends, "\n".join(confirmed))
        ended, _, lines = answer.partition("\n\n")
        return Settled(tuple(map(Ended, ended.split("\n"))) if ended else (), tuple(_dispatched(lines)))

    def cancel(self, node_ids: Sequence[str], *, now_ms: int) -> list[Cancelled]:
        if not node_ids:
            return []
        lines = "\n".join(named("node", node_id) for node_id in node_ids)
        return [Cancelled(word) for word in self._run("cancel", now_ms, lines).split("\n")]

    def reclaim(self, *, now_ms: int, limit: int = BATCH_LIMIT) -> list[str]:
        """Bring back what was taken and not confirmed in time. Sent after all? Then the next dispatch finds out."""
        return self._run("reclaim", now_ms, whole("limit", limit, 1, BATCH_LIMIT)).split()

    def adopt(self, nodes: Sequence[Running], *, now_ms: int) -> None:
        """Mirror slots that the database says are held. Those that are here already stay as they are."""
        for batch in _batches(nodes, LOAD_CHUNK):
            self._run("adopt", now_ms, "\n".join(map(_running_line, batch)))

    # Policy

    def set_tenants(self, policies: Sequence[TenantPolicy], *, now_ms: int) -> None:
        for batch in _batches(policies, LOAD_CHUNK):
            self._run("set_tenants", now_ms, _policy_lines(batch), "")

    def set_user_cap(self, tenant_id: str, user_id: str, cap: int | None, *, now_ms: int) -> None:
        text = "" if cap is None else whole("cap", cap, 0, COUNT_LIMIT)
        self._run("set_user", now_ms, named("tenant", tenant_id), named("user", user_id), text)

    def pause_lane(self, lane: str, *, now_ms: int) -> None:
        self._configure(now_ms, {f"paused:{named('lane', lane)}": 1})

    def resume_lane(self, lane: str, *, now_ms: int) -> None:
        self._configure(now_ms, {f"paused:{named('lane', lane)}": None})

    def set_lane_limits(
        self, lane: str, *, parallelism: int | None, share_percent: int | None = None, now_ms: int
    ) -> None:
        wanted = Lane(lane, parallelism=parallelism, share_percent=share_percent)
        self._configure(now_ms, {f"parallelism:{lane}": wanted.parallelism, f"share:{lane}": wanted.share_percent})

    def set_model_limit(self, model: str, limit: int | None, *, now_ms: int) -> None:
        self._configure(now_ms, {f"model:{named('model', model)}": limit})

    def set_step_limit(self, step: str, limit: int | None, *, now_ms: int) -> None:
        self._configure(now_ms, {f"step:{named('step', step)}": limit})

    def set_slots(self, slots: Mapping[str, int], *, now_ms: int) -> None:
        """Slots that live workers announce, by type, a little prefetch included. Types left out keep theirs."""
        self._configure(now_ms, {f"slots:{named('type', kind)}": count for kind, count in slots.items()})

    def set_capacity(self, capacity: int | None, *, now_ms: int) -> None:
        """A bound on all types together, for workers that serve several types with the same slots."""
        self._configure(now_ms, {"capacity": capacity})

    def _configure(self, now_ms: int, fields: Mapping[str, int | str | None]) -> None:
        for value in fields.values():
            if isinstance(value, int):
                whole("limit", value, 0, COUNT_LIMIT)
        self._run("configure", now_ms, _field_lines(fields))

    # Loss and rebuild

    def rebuild(self, snapshot: Snapshot, *, now_ms: int) -> str:
        """Fill a new epoch from the database and switch to it. The later of two at once wins, the other is stale.

        A queue that was rebuilt since this one was attached stays: the caller attaches again instead.
        """
        self._epoch = new_epoch(self._layout)
        begun = self._run("begin", now_ms, self._seen)
        if begun == "newer_layout":
            with _translated():
                found = map(self._text, self._client.mget(self._keys.epoch, self._keys.loading))
            raise NewerLayout(max(map(layout_of, found)))
        if begun == "replaced":
            self.sweep()  # before its memory is needed
        try:
            self._load(snapshot, now_ms)
            self._run("commit", now_ms)
        except Unavailable:
            with suppress(Unavailable):  # it is stale, or Redis is away: then the next rebuild deletes the keys
                self._run("abandon", now_ms)
            with suppress(Unavailable):
                self.sweep()
            raise
        self.sweep()
        self._seen = self._epoch
        return self._epoch

    def _load(self, snapshot: Snapshot, now_ms: int) -> None:
        pool = snapshot.pool
        fields: dict[str, int | str | None] = {"clock": snapshot.clock_us, "capacity": pool.capacity}
        fields |= {f"slots:{kind}": count for kind, count in pool.slots.items()}
        fields |= {f"model:{model}": limit for model, limit in pool.models.items()}
        fields |= {f"step:{step}": limit for step, limit in pool.steps.items()}
        fields |= {f"paused:{lane.name}": 1 for lane in pool.lanes.values() if lane.is_paused}
        fields |= {f"parallelism:{lane.name}": lane.parallelism for lane in pool.lanes.values()}
        fields |= {f"share:{lane.name}": lane.share_percent for lane in pool.lanes.values()}
        fields |= {f"cost:{kind}": f"{count} {average}" for kind, (count, average) in snapshot.costs.items()}
        self._run("configure", now_ms, _field_lines(fields))
        for tenants in _batches(snapshot.tenants, LOAD_CHUNK):
            lasts = "\n".join(f"{t.tenant_id}|{max(0, snapshot.last_us.get(t.tenant_id, 0))}" for t in tenants)
            self._run("set_tenants", now_ms, _policy_lines(tenants), lasts)
        for (tenant_id, user_id), cap in snapshot.user_caps.items():
            self._run("set_user", now_ms, named("tenant", tenant_id), named("user", user_id), cap)
        for running in _batches(snapshot.running, LOAD_CHUNK):
            self._run("adopt", now_ms, "\n".join(map(_running_line, running)))
        for waiting in _batches(snapshot.waiting, LOAD_CHUNK):
            self._run("enqueue", now_ms, "", "\n".join(map(_node_line, waiting)), "1", 0, self._lease_ms)

    def sweep(self) -> int:
        """Delete, a part at a time, what belongs to no epoch that is in force or loading. Answers how many keys."""
        removed = cursor = 0
        with _translated():
            while True:
                cursor, keys = cast("Any", self._client.scan(cursor, match=f"{self._keys.tag}:*", count=SCAN_COUNT))
                owned = [(key, epoch) for key in map(self._text, keys) if (epoch := self._keys.epoch_in(key))]
                if owned:
                    # Read after the scan: an epoch that is in neither place by now never comes back.
                    alive = set(map(self._text, self._client.mget(self._keys.epoch, self._keys.loading)))
                    dead = [key for key, epoch in owned if epoch not in alive]
                    removed += int(self._client.unlink(*dead)) if dead else 0
                if not cursor:
                    return removed

    # Looking at it

    def explain(self, node_id: str, *, now_ms: int) -> Explanation:
        """Where a node stands: its priority, what may hold it, and how many nodes go before it."""
        found: dict[str, Any] = json.loads(self._run("explain", now_ms, named("node", node_id)))
        if "tag" in found:
            found["tag"] = int(found["tag"])
        if found["state"] != "waiting":
            return Explanation(WaitingFor.NONE, found)
        view = self._view()
        blocked = view.pool.blocked_by(Track.parse(found["track"]), view.running_by_track())
        if blocked not in (None, WaitingFor.TURN):
            return Explanation(blocked, found)
        if found["tenant_running"] >= found.get("tenant_cap", COUNT_LIMIT):
            return Explanation(WaitingFor.TENANT_CAP, found)
        if found.get("user_running", 0) >= found.get("user_cap", COUNT_LIMIT):
            return Explanation(WaitingFor.USER_CAP, found)
        return Explanation(WaitingFor.TURN, found)

    def clock_us(self) -> int:
        return self._view().clock_us

    def pool(self) -> Pool:
        """Slots, lanes and limits as the queue knows them."""
        return self._view().pool

    def running_by_track(self) -> dict[Track, int]:
        return self._view().running_by_track()

    def waiting_by_track(self) -> dict[Track, int]:
        """How many nodes wait on each track; summed by lane this is a lane's depth."""
        return {state.track: state.waiting for state in self._view().tracks.values()}

    def backlog(self) -> Backlog:
        """Counts and sums of all work: it costs as much as there are tenants with work and slots, not as nodes wait."""
        view = self._view()
        waiting: dict[tuple[str, Track], _Work] = {}
        heads: dict[tuple[str, Track], int] = {}
        for index, state in view.tracks.items():
            for name, blob in _raw(self._client, "HGETALL", self._keys.work(self._epoch, index)).items():
                place = name.decode(), state.track
                waiting[place] = _work(blob)
                if waiting[place].turn:
                    heads[place] = waiting[place].tag + state.lag_us
        running: dict[tuple[str, Track], list[int]] = {}
        for run in self._running():
            running.setdefault((run.node.tenant_id, run.node.track), []).append(run.charged_us)
        tracks: dict[str, dict[Track, TrackBacklog]] = {}
        for tenant_id, track in {**dict.fromkeys(waiting), **dict.fromkeys(running)}:
            work, charged = waiting.get((tenant_id, track), _NO_WORK), running.get((tenant_id, track), [])
            tracks.setdefault(tenant_id, {})[track] = TrackBacklog(
                work.waiting, work.waiting_us, heads.get((tenant_id, track)), len(charged), sum(charged)
            )
        rows = self._tenant_rows(list(tracks))
        self._check_epoch()
        return Backlog(
            clock_us=view.clock_us,
            pool=view.pool,
            costs=view.costs,
            tenants={
                row.policy.tenant_id: TenantBacklog(
                    row.policy, row.last_us, row.credit_us, row.running, tracks[row.policy.tenant_id]
                )
                for row in rows
            },
        )

    def decisions(self, limit: int = DECISIONS_KEPT) -> list[Decision]:
        """The latest dispatches, newest first."""
        with _translated():
            lines = self._client.lrange(self._part("decisions"), -whole("limit", limit, 1, DECISIONS_KEPT), -1)
        self._check_epoch()
        return [_decision(self._text(line)) for line in reversed(cast("list[Any]", lines))]

    def tenant_ids(self) -> list[str]:
        with _translated():
            found = sorted(map(self._text, cast("list[Any]", self._client.hkeys(self._part("tenants")))))
        self._check_epoch()
        return found

    def tenants(self, tenant_ids: Sequence[str] | None = None) -> list[TenantState]:
        """The tenants' clocks, queues and slots, some at a time: not one atomic view."""
        tracks = list(self._view().tracks)
        states = []
        for part in _batches(self.tenant_ids() if tenant_ids is None else tenant_ids, LOAD_CHUNK):
            rows = self._tenant_rows(part)
            works = self._works([row.policy.tenant_id for row in rows], tracks)
            states += [_tenant_state(row, works[row.policy.tenant_id]) for row in rows]
        self._check_epoch()
        return states

    def _tenant_rows(self, tenant_ids: Sequence[str]) -> list[_TenantRow]:
        rows = []
        for part in _batches(tenant_ids, LOAD_CHUNK):
            blobs = _raw(self._client, "HMGET", self._part("tenants"), *part)
            rows += [_tenant_row(name, blob) for name, blob in zip(part, blobs, strict=True) if blob]
        return rows

    def _works(self, tenant_ids: list[str], tracks: Iterable[int]) -> dict[str, dict[int, _Work]]:
        """A few tenants' work by track."""
        found: dict[str, dict[int, _Work]] = {name: {} for name in tenant_ids}
        for index in tracks if tenant_ids else ():
            blobs = _raw(self._client, "HMGET", self._keys.work(self._epoch, index), *tenant_ids)
            for name, blob in zip(tenant_ids, blobs, strict=True):
                if blob:
                    found[name][index] = _work(blob)
        return found

    def running_ids(self) -> set[str]:
        """Every node that holds a slot here, to be compared with the database."""
        with _translated():
            found = set(map(self._text, cast("list[Any]", self._client.hkeys(self._part("running")))))
        self._check_epoch()
        return found

    def user_caps(self) -> dict[tuple[str, str], int]:
        """The users that have a cap of their own."""
        caps = {}
        for name, cap in self._scan("user_caps"):
            tenant, _, user = name.partition("|")
            caps[tenant, user] = int(cap)
        self._check_epoch()
        return caps

    def waiting_ids(self, cursor: int, limit: int) -> tuple[list[str], int]:
        """About `limit` of the waiting nodes, and the cursor of the next ones: 0 at the beginning and after the end."""
        with _translated():
            found = cast("Any", self._client.hscan(self._part("where"), cursor, count=limit))
        self._check_epoch()
        return list(map(self._text, found[1])), int(found[0])

    def snapshot(self) -> Snapshot:
        """A copy, read in parts so that no other client waits. Nodes may move meanwhile: readers bear it."""
        view = self._view()
        states = self.tenants()
        waiting = sorted(self._waiting(view.tracks), key=lambda pair: pair[0])
        running = list(self._running())
        user_caps = self.user_caps()
        return Snapshot(
            pool=view.pool,
            tenants=[state.policy for state in states],
            user_caps=user_caps,
            running=running,
            waiting=[node for _, node in waiting],
            clock_us=view.clock_us,
            last_us={state.policy.tenant_id: state.last_us for state in states},
            costs=view.costs,
        )

    def _waiting(self, tracks: Mapping[int, _TrackState]) -> Iterator[tuple[int, Node]]:
        """Arrival and node, as lua/includes/nodes.lua describes them."""
        for node_id, text in self._scan("where"):
            index, tenant, user, cost, score = text.split("|")
            rank, seq = divmod(int(score), NODE_RANK)
            yield seq, Node(node_id, tenant, user, tracks[int(index)].track, int(cost), _PRIORITIES[rank])

    def _running(self) -> Iterator[Running]:
        """As lua/includes/slots.lua describes them."""
        with _translated():
            leases = cast("list[Any]", self._client.zrange(self._part("leases"), 0, -1, withscores=True))
        confirm_by = {self._text(member)[14:]: int(score) for member, score in leases}
        for node_id, text in self._scan("running"):
            tenant, user, kind, lane, model, step, cost, rank, charged, _, _ = text.split("|")
            node = Node(node_id, tenant, user, _track(kind, lane, model, step), int(cost), _PRIORITIES[int(rank)])
            yield Running(node, int(charged), confirm_by.get(node_id))

    def service_us(self, first_minute: int, last_minute: int | None = None) -> dict[str, int]:
        """GPU time that each tenant was given in some minutes since the epoch of Unix."""
        minutes = range(first_minute, (first_minute if last_minute is None else last_minute) + 1)
        with _translated():
            pipeline = self._client.pipeline(transaction=False)
            for minute in minutes:
                pipeline.hgetall(self._keys.service(self._epoch, minute))
            rows = pipeline.execute()
        service: Counter[str] = Counter()
        for row in rows:
            service.update({self._text(tenant): int(cost) for tenant, cost in row.items()})
        # The latest minute of each tenant is kept with the tenant, where counting costs no command.
        for part in _batches(self.tenant_ids(), LOAD_CHUNK):
            for latest in self._tenant_rows(part):
                if latest.minute in minutes and latest.served_us:
                    service[latest.policy.tenant_id] += latest.served_us
        self._check_epoch()
        return dict(service)

    # The wire

    def _run(self, verb: str, now_ms: int, *arguments: str | int) -> str:
        keys = self._keys.of(self._epoch)
        with _translated():
            answer = scripts.run(self._client, verb, keys, self._epoch, now_ms, *arguments)
        if answer == "stale":
            raise self._stale()
        if answer.startswith("unknown_tenant\n"):
            raise UnknownTenant(sorted(answer.split("\n")[1:]))
        if answer == "too_many_tracks":
            raise TooManyTracks("too many combinations of type, lane, model and step")
        return answer

    def _stale(self) -> StaleEpoch:
        return StaleEpoch(f"epoch {self._epoch or '(none)'} is not in force")

    def _check_epoch(self) -> None:
        """After a read: keys are deleted only once their epoch is not in force, so what was read is whole."""
        with _translated():
            if not self._epoch or self._text(self._client.get(self._keys.epoch)) != self._epoch:
                raise self._stale()

    def _view(self) -> _View:
        with _translated():
            fields: dict[Any, Any] = cast("Any", self._client.hgetall(self._part("pool")))
        self._check_epoch()
        if not fields:
            raise self._stale()
        return _View({self._text(field): self._text(value) for field, value in fields.items()})

    def _scan(self, part: str) -> Iterator[tuple[str, str]]:
        """The fields of a hash, each once."""
        seen = set()
        with _translated():
            for field, value in self._client.hscan_iter(self._part(part), count=SCAN_COUNT):
                if (name := self._text(field)) not in seen:
                    seen.add(name)
                    yield name, self._text(value)

    def _part(self, name: str) -> str:
        return self._keys.part(self._epoch, name)

    @staticmethod
    def _text(value: Any) -> str:
        """Clients may or may not decode for us."""
        return value.decode() if isinstance(value, bytes) else (value or "")


class _TrackState(NamedTuple):
    track: Track
    lag_us: int
    waiting: int
    running: int


class _View:
    """The pool's hash, as lua/includes/pool.lua describes it."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        by_kind: dict[str, dict[str, str]] = {}
        for field, value in fields.items():
            kind, _, name = field.partition(":")
            by_kind.setdefault(kind, {})[name] = value
        self.clock_us = int(fields["clock"])
        self.tracks = {
            int(index): self._track(text)
            for index, text in sorted(by_kind.get("track", {}).items(), key=lambda item: int(item[0]))
        }
        costs = {kind: text.split() for kind, text in by_kind.get("cost", {}).items()}
        self.costs = {kind: (int(samples), int(average)) for kind, (samples, average) in costs.items()}
        paused, parallelism, share = (by_kind.get(kind, {}) for kind in ("paused", "parallelism", "share"))
        lanes = {*paused, *parallelism, *share, *(state.track.lane for state in self.tracks.values())}
        self.pool = Pool(
            slots={kind: int(count) for kind, count in by_kind.get("slots", {}).items()},
            lanes={
                lane: Lane(lane, lane in paused, _number(parallelism.get(lane, "")), _number(share.get(lane, "")))
                for lane in lanes
            },
            models={model: int(limit) for model, limit in by_kind.get("model", {}).items()},
            steps={step: int(limit) for step, limit in by_kind.get("step", {}).items()},
            capacity=_number(fields.get("capacity", "")),
        )

    def _track(self, text: str) -> _TrackState:
        lag, blocked_at, waiting, running, name = text.split(" ")
        # The time of a blocked track stands still.
        lag_us = int(lag) if blocked_at == "-" else int(lag) + self.clock_us - int(blocked_at)
        return _TrackState(Track.parse(name), lag_us, int(waiting), int(running))

    def running_by_track(self) -> dict[Track, int]:
        return {state.track: state.running for state in self.tracks.values()}


class _Work(NamedTuple):
    """A tenant's work on a track, as lua/includes/tenants.lua writes it. It has a head while `turn` is not 0."""

    waiting: int
    waiting_us: int
    clock_us: int
    turn: int
    tag: int
    cost_us: int
    seq: int


class _TenantRow(NamedTuple):
    policy: TenantPolicy
    last_us: int
    credit_us: int
    running: int
    dearest_us: int
    since_ms: int
    minute: int
    served_us: int
    heads: int
    own_caps: int
    is_capped: bool


_NO_WORK = _Work(*[0] * 7)
_WORK = Struct("<7d")
_TENANT = Struct("<13d")


def _raw(client: redis.Redis, command: str, *arguments: str) -> Any:
    """The answer in bytes, also of a client that decodes: records are binary."""
    with _translated():
        return client.execute_command(command, *arguments, **{NEVER_DECODE: []})  # type: ignore[no-untyped-call]


@contextmanager
def _translated() -> Iterator[None]:
    """Vendor errors become ours: no memory, or a server that cannot serve now."""
    try:
        with translated():
            yield
    except RedisFull as error:
        raise QueueMemoryFull from error


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def _number(text: str) -> int | None:
    return int(text) if text and text != "-" else None


def _node_line(node: Node) -> str:
    return f"{node.node_id}|{node.tenant_id}|{node.user_id}|{node.track}|{node.cost_us}|{PRIORITY_RANK[node.priority]}"


def _running_line(running: Running) -> str:
    lease = "" if running.lease_ms is None else running.lease_ms
    return f"{_node_line(running.node)}|{running.charged_us}|{lease}"


def _policy_lines(policies: Iterable[TenantPolicy]) -> str:
    return "\n".join(f"{p.tenant_id}|{p.weight}|{_cap(p.cap)}|{_cap(p.user_cap)}" for p in policies)


def _cap(cap: int | None) -> str:
    return "" if cap is None else str(cap)


def _field_lines(fields: Mapping[str, int | str | None]) -> str:
    return "\n".join(f"{field}|{'' if value is None else value}" for field, value in fields.items())


@cache
def _track(node_type: str, lane: str, model: str, step: str) -> Track:
    return Track(node_type, lane, model, step)


def _dispatched(lines: str) -> list[Dispatched]:
    found = []
    for line in lines.split("\n") if lines else ():
        node_id, tenant, user, kind, lane, model, step, cost, rank, charged, tag = line.split("|")
        node = Node(node_id, tenant, user, _track(kind, lane, model, step), int(cost), _PRIORITIES[int(rank)])
        found.append(Dispatched(node, int(charged), int(tag)))
    return found


def _decision(line: str) -> Decision:
    """As lua/includes/dispatch.lua writes it."""
    at, node_id, tenant, user, kind, lane, model, step, _, _, charged, tag, other, other_tag = line.split("|")
    if not other:
        reason = DecisionReason.ONLY_CANDIDATE
    else:
        reason = DecisionReason.TIE_EARLIER_ARRIVAL if tag == other_tag else DecisionReason.SMALLEST_TAG
    return Decision(
        at_ms=int(at),
        node_id=node_id,
        tenant_id=tenant,
        user_id=user,
        track=_track(kind, lane, model, step),
        charged_us=int(charged),
        tag_us=int(tag),
        runner_up_tenant_id=other or None,
        runner_up_tag_us=_number(other_tag),
        reason=reason,
    )


def _work(blob: bytes) -> _Work:
    return _Work(*map(int, _WORK.unpack_from(blob)))


def _tenant_row(name: str, blob: bytes) -> _TenantRow:
    """As lua/includes/tenants.lua writes it."""
    weight, cap, user_cap, *numbers = _TENANT.unpack_from(blob)
    policy = TenantPolicy(name, int(weight), *(None if isinf(limit) else int(limit) for limit in (cap, user_cap)))
    last, credit, running, dearest, since, minute, served, heads, own_caps, is_capped = map(int, numbers)
    return _TenantRow(policy, last, credit, running, dearest, since, minute, served, heads, own_caps, is_capped == 1)


def _tenant_state(row: _TenantRow, works: Mapping[int, _Work]) -> TenantState:
    # The clock runs ahead by the heads that are tagged and still wait.
    ahead_us = sum(charge_us(work.cost_us, row.policy.weight) for work in works.values() if work.turn)
    return TenantState(
        policy=row.policy,
        last_us=row.last_us - ahead_us,
        waiting=sum(work.waiting for work in works.values()),
        running=row.running,
        dearest_us=row.dearest_us,
        contending_since_ms=row.since_ms if row.heads else None,
    )
