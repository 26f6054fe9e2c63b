"""The fair queue on Redis. Each verb is one script; a lost or replaced queue answers StaleEpoch and changes nothing."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar, cast

import redis

from artiway.scheduling import scripts
from artiway.scheduling.keys import Keys
from artiway.scheduling.model import (
    COUNT_LIMIT,
    Cancelled,
    Completion,
    Dispatched,
    Ended,
    Enqueued,
    Lane,
    Node,
    Pool,
    Running,
    Settled,
    Snapshot,
    StaleEpoch,
    TenantPolicy,
    TenantState,
    TooManyTracks,
    Track,
    UnknownTenant,
    WaitingFor,
    charge_us,
    named,
    whole,
)

LEASE_MS = 30_000
LOG_LENGTH = 5_000
BATCH_LIMIT = 1_000
LOAD_CHUNK = 1_000
SCAN_COUNT = 1_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a node waits. The counts behind it are what a caller can show."""

    waiting_for: WaitingFor
    detail: Mapping[str, Any]


class FairQueue:
    """One pool's queue. Not attached, or after StaleEpoch: `attach()`, and `rebuild()` where that answers False."""

    def __init__(
        self, client: redis.Redis, pool: str, *, lease_ms: int = LEASE_MS, log_length: int = LOG_LENGTH
    ) -> None:
        self._client, self._keys = client, Keys(pool)
        self._lease_ms = whole("lease_ms", lease_ms, 1, COUNT_LIMIT)
        self._log_length = whole("log_length", log_length, 0, COUNT_LIMIT)
        self._epoch = ""
        self._state_keys: list[str] = []

    @property
    def epoch(self) -> str:
        return self._epoch

    def attach(self) -> bool:
        """Take up the queue that Redis holds. False: there is none, and somebody has to rebuild it."""
        epoch = self._text(self._client.get(self._keys.epoch))
        self._use(epoch)
        return bool(epoch)

    # The life of a node

    def enqueue(self, nodes: Sequence[Node], *, now_ms: int, policies: Sequence[TenantPolicy] = ()) -> list[Enqueued]:
        """Nodes became ready. A known node stays where it is. A tenant needs a policy, set before or given here."""
        verdicts: list[Enqueued] = []
        for batch in _batches(nodes, BATCH_LIMIT):
            answer = self._run("enqueue", now_ms, _policy_lines(policies), "\n".join(map(_node_line, batch)), "")
            policies = ()
            verdicts.extend(map(Enqueued, answer.split("\n")))
        return verdicts

    def dispatch(self, limit: int, *, now_ms: int, warm: Iterable[str] = ()) -> list[Dispatched]:
        """Take up to `limit` nodes that may run now. Confirm each when it is sent, or it comes back."""
        whole("limit", limit, 0, BATCH_LIMIT)
        return _dispatched(self._run("dispatch", now_ms, limit, self._lease_ms, "\n".join(warm)))

    def complete(
        self,
        completions: Sequence[Completion],
        *,
        now_ms: int,
        dispatch: int = 0,
        warm: Iterable[str] = (),
        confirmed: Iterable[str] = (),
    ) -> Settled:
        """Nodes ended; their slots go to the next ones in the same call. Ending a node twice is harmless."""
        whole("dispatch", dispatch, 0, BATCH_LIMIT)
        ends = "\n".join(f"{c.node_id}|{'' if c.measured_us is None else c.measured_us}" for c in completions)
        answer = self._run("complete", now_ms, dispatch, self._lease_ms, "\n".join(warm), ends, "\n".join(confirmed))
        ended, _, lines = answer.partition("\n\n")
        return Settled(tuple(map(Ended, ended.split("\n"))) if ended else (), tuple(_dispatched(lines)))

    def cancel(self, node_ids: Sequence[str], *, now_ms: int) -> list[Cancelled]:
        if not node_ids:
            return []
        return [Cancelled(word) for word in self._run("cancel", now_ms, _ids(node_ids)).split("\n")]

    def confirm(self, node_ids: Sequence[str], *, now_ms: int) -> None:
        """The messages of these nodes are sent and the database knows it: from here on its leases count, not ours."""
        self._run("confirm", now_ms, _ids(node_ids))

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
        self._configure(now_ms, {f"p:{named('lane', lane)}": 1})

    def resume_lane(self, lane: str, *, now_ms: int) -> None:
        self._configure(now_ms, {f"p:{named('lane', lane)}": None})

    def set_lane_limits(
        self, lane: str, *, parallelism: int | None, share_percent: int | None = None, now_ms: int
    ) -> None:
        wanted = Lane(lane, parallelism=parallelism, share_percent=share_percent)
        self._configure(now_ms, {f"n:{lane}": wanted.parallelism, f"h:{lane}": wanted.share_percent})

    def set_model_limit(self, model: str, limit: int | None, *, now_ms: int) -> None:
        self._configure(now_ms, {f"m:{named('model', model)}": limit})

    def set_slots(self, slots: Mapping[str, int], *, now_ms: int) -> None:
        """Slots that live workers announce, by type, a little prefetch included. Types left out keep theirs."""
        self._configure(now_ms, {f"s:{named('type', kind)}": count for kind, count in slots.items()})

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
        """Fill a new epoch from the database and switch to it. Whoever began later wins: the other gets StaleEpoch."""
        old, epoch = self._text(self._client.get(self._keys.epoch)), secrets.token_hex(8)
        self._client.set(self._keys.loading, epoch)
        self._use(epoch)
        self._load(snapshot, now_ms)
        answer = scripts.run(self._client, "commit", [self._keys.epoch, self._keys.loading], epoch)
        if answer == "stale":
            self._forget(epoch)
            raise StaleEpoch("another rebuild began later")
        if old:
            self._forget(old)
        return epoch

    def _load(self, snapshot: Snapshot, now_ms: int) -> None:
        pool = snapshot.pool
        # The log's length goes first, so that the log begins with the rest.
        self._run("configure", now_ms, _field_lines({"log": self._log_length}), is_load=True)
        fields: dict[str, int | str | None] = {"clock": snapshot.clock_us, "capacity": pool.capacity}
        fields |= {f"s:{kind}": count for kind, count in pool.slots.items()}
        fields |= {f"m:{model}": limit for model, limit in pool.models.items()}
        fields |= {f"p:{lane.name}": 1 for lane in pool.lanes.values() if lane.is_paused}
        fields |= {f"n:{lane.name}": lane.parallelism for lane in pool.lanes.values()}
        fields |= {f"h:{lane.name}": lane.share_percent for lane in pool.lanes.values()}
        fields |= {f"c:{kind}": f"{count} {average}" for kind, (count, average) in snapshot.costs.items()}
        self._run("configure", now_ms, _field_lines(fields), is_load=True)
        for tenants in _batches(snapshot.tenants, LOAD_CHUNK):
            lasts = "\n".join(f"{t.tenant_id}|{max(0, snapshot.last_us.get(t.tenant_id, 0))}" for t in tenants)
            self._run("set_tenants", now_ms, _policy_lines(tenants), lasts, is_load=True)
        for (tenant_id, user_id), cap in snapshot.user_caps.items():
            self._run("set_user", now_ms, named("tenant", tenant_id), named("user", user_id), cap, is_load=True)
        for running in _batches(snapshot.running, LOAD_CHUNK):
            self._run("adopt", now_ms, "\n".join(map(_running_line, running)), is_load=True)
        for waiting in _batches(snapshot.waiting, LOAD_CHUNK):
            self._run("enqueue", now_ms, "", "\n".join(map(_node_line, waiting)), "1", is_load=True)

    def _forget(self, epoch: str) -> None:
        """Remove an epoch's keys a few at a time; nobody reads them any more."""
        batch: list[Any] = []
        for key in self._client.scan_iter(match=_escaped(self._keys.all_of(epoch)), count=SCAN_COUNT):
            batch.append(key)
            if len(batch) >= SCAN_COUNT:
                self._client.unlink(*batch)
                batch = []
        if batch:
            self._client.unlink(*batch)

    # Looking at it

    def explain(self, node_id: str, *, now_ms: int) -> Explanation:
        found: dict[str, Any] = json.loads(self._run("explain", now_ms, named("node", node_id)))
        if found["state"] != "waiting":
            return Explanation(WaitingFor.NONE, found)
        pool, running = self.pool(), self.running_by_track()
        blocked = pool.blocked_by(Track.parse(found["track"]), running)
        if blocked not in (None, WaitingFor.TURN):
            return Explanation(blocked, found)
        if found["tenant_running"] >= found.get("tenant_cap", COUNT_LIMIT):
            return Explanation(WaitingFor.TENANT_CAP, found)
        if found["user_running"] >= found.get("user_cap", COUNT_LIMIT):
            return Explanation(WaitingFor.USER_CAP, found)
        return Explanation(WaitingFor.TURN, found)

    def clock_us(self) -> int:
        return int(self._fields().get("clock", 0))

    def pool(self) -> Pool:
        """Slots, lanes and limits as the queue knows them."""
        fields = self._fields()
        pool = Pool(capacity=int(fields["capacity"]) if "capacity" in fields else None)
        for field, value in fields.items():
            kind, _, name = field.partition(":")
            if kind == "s":
                pool.slots[name] = int(value)
            elif kind == "m":
                pool.models[name] = int(value)
        for lane in {f[2:] for f in fields if f[:2] in ("p:", "n:", "h:")} | {t.lane for t in self._tracks(fields)}:
            parallelism, share = fields.get(f"n:{lane}"), fields.get(f"h:{lane}")
            pool.lanes[lane] = Lane(
                lane,
                is_paused=f"p:{lane}" in fields,
                parallelism=int(parallelism) if parallelism else None,
                share_percent=int(share) if share else None,
            )
        return pool

    def running_by_track(self) -> dict[Track, int]:
        fields = self._fields()
        return {track: _numbers(fields[f"d:{index}"])[1] for index, track in self._indexed(fields)}

    def waiting_by_track(self) -> dict[Track, int]:
        """How many nodes wait on each track; summed by lane this is a lane's depth."""
        fields = self._fields()
        return {track: _numbers(fields[f"d:{index}"])[2] for index, track in self._indexed(fields)}

    def tenant_ids(self) -> list[str]:
        return sorted(self._text(name) for name in cast("list[Any]", self._client.hkeys(self._name("tenants"))))

    def tenants(self, tenant_ids: Sequence[str] | None = None) -> list[TenantState]:
        """The tenants' clocks, queues and slots; one pipeline, not one atomic view."""
        wanted = self.tenant_ids() if tenant_ids is None else list(tenant_ids)
        if not wanted:
            return []
        pipeline = self._client.pipeline(transaction=False)
        pipeline.hmget(self._name("tenants"), wanted)
        for tenant_id in wanted:
            pipeline.scard(self._name(f"tenant_slots|{tenant_id}"))
        rows, *running = pipeline.execute()
        found = zip(wanted, rows, running, strict=True)
        return [_tenant_state(name, self._text(row), held) for name, row, held in found if row]

    def running_ids(self) -> set[str]:
        """Every node that holds a slot here, to be compared with the database."""
        held: set[str] = set()
        for index, _ in self._indexed(self._fields()):
            for member in self._client.sscan_iter(self._name(f"track_slots|{index}"), count=SCAN_COUNT):
                held.add(self._text(member))
        return held

    def snapshot(self) -> Snapshot:
        """A copy to run forward, read in chunks so that nobody waits. Nodes may move meanwhile: forecasts bear it."""
        fields = self._fields()
        tracks = dict(self._indexed(fields))
        waiting: list[tuple[int, Node]] = []
        running: list[Running] = []
        for key, value in self._client.hscan_iter(self._name("nodes"), count=SCAN_COUNT):
            state, track, cost, seq, tenant, user, *charged = self._text(value).split("|")
            node = Node(self._text(key), tenant, user, tracks[int(track)], int(cost))
            if state == "w":
                waiting.append((int(seq), node))
            else:
                running.append(Running(node, int(charged[0])))
        states = self.tenants()
        return Snapshot(
            pool=self.pool(),
            tenants=[state.policy for state in states],
            user_caps=self._user_caps(),
            running=running,
            waiting=[node for _, node in sorted(waiting, key=lambda pair: pair[0])],
            clock_us=int(fields.get("clock", 0)),
            last_us={state.policy.tenant_id: state.last_us for state in states},
            costs={f[2:]: (_numbers(v)[0], _numbers(v)[1]) for f, v in fields.items() if f.startswith("c:")},
        )

    def service_us(self, minute: int) -> dict[str, int]:
        """GPU time that each tenant was given in one minute since the epoch of Unix."""
        row = cast("dict[Any, Any]", self._client.hgetall(self._name(f"service|{minute}")))
        found = {self._text(tenant): self._text(cost) for tenant, cost in row.items()}
        return {tenant: int(cost) for tenant, cost in found.items() if tenant != "|"}

    def log(self) -> list[dict[str, str]]:
        """The decisions that are still kept, oldest first: verb, now, in, out."""
        rows = cast("list[Any]", self._client.xrange(self._name("log")))
        return [{self._text(k): self._text(v) for k, v in row.items()} for _, row in rows]

    # The wire

    def _run(self, verb: str, now_ms: int, *arguments: str | int, is_load: bool = False) -> str:
        pointer = self._keys.loading if is_load else self._keys.epoch
        answer = scripts.run(self._client, verb, [pointer, *self._state_keys], self._epoch, now_ms, *arguments)
        if answer == "stale":
            raise StaleEpoch(f"epoch {self._epoch or '(none)'} is not in force")
        if answer.startswith("unknown_tenant\n"):
            raise UnknownTenant(sorted(answer.split("\n")[1:]))
        if answer == "too_many_tracks":
            raise TooManyTracks("too many combinations of type, lane and model")
        return answer

    def _use(self, epoch: str) -> None:
        self._epoch, self._state_keys = epoch, self._keys.state(epoch)

    def _name(self, what: str) -> str:
        return self._keys.name(self._epoch, what)

    def _fields(self) -> dict[str, str]:
        row = cast("dict[Any, Any]", self._client.hgetall(self._name("pool")))
        return {self._text(k): self._text(v) for k, v in row.items()}

    def _user_caps(self) -> dict[tuple[str, str], int]:
        row = cast("dict[Any, Any]", self._client.hgetall(self._name("user_caps")))
        return {cast("tuple[str, str]", tuple(self._text(k).split("|"))): int(v) for k, v in row.items()}

    @staticmethod
    def _indexed(fields: Mapping[str, str]) -> Iterator[tuple[int, Track]]:
        for field, value in fields.items():
            if field.startswith("k:"):
                yield int(field[2:]), Track.parse(value)

    def _tracks(self, fields: Mapping[str, str]) -> list[Track]:
        return [track for _, track in self._indexed(fields)]

    @staticmethod
    def _text(value: Any) -> str:
        """Clients may or may not decode for us."""
        return value.decode() if isinstance(value, bytes) else (value or "")


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def _ids(node_ids: Iterable[str]) -> str:
    return "\n".join(named("node", node_id) for node_id in node_ids)


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split()]


def _escaped(pattern: str) -> str:
    return pattern.replace("[", "\\[").replace("]", "\\]")


def _node_line(node: Node) -> str:
    track = node.track
    return f"{node.node_id}|{node.tenant_id}|{node.user_id}|{track.node_type}|{track.lane}|{track.model}|{node.cost_us}"


def _running_line(running: Running) -> str:
    lease = "" if running.lease_ms is None else running.lease_ms
    return f"{_node_line(running.node)}|{running.charged_us}|{lease}"


def _policy_lines(policies: Iterable[TenantPolicy]) -> str:
    return "\n".join(f"{p.tenant_id}|{p.weight}|{_cap(p.cap)}|{_cap(p.user_cap)}" for p in policies)


def _cap(cap: int | None) -> str:
    return "" if cap is None else str(cap)


def _field_lines(fields: Mapping[str, int | str | None]) -> str:
    return "\n".join(f"{field}|{'' if value is None else value}" for field, value in fields.items())


def _dispatched(lines: str) -> list[Dispatched]:
    found = []
    for line in lines.split("\n") if lines else ():
        node_id, tenant, user, kind, lane, model, cost, charged, tag = line.split("|")
        node = Node(node_id, tenant, user, Track(kind, lane, model), int(cost))
        found.append(Dispatched(node, int(charged), int(tag)))
    return found


def _tenant_state(tenant_id: str, row: str, running: int) -> TenantState:
    """The row as lua/includes/pool.lua packs it."""
    head, _, state = row.partition("|")
    _, weight, cap, user_cap = head.split(" ")
    policy = TenantPolicy(tenant_id, int(weight), int(cap) if cap else None, int(user_cap) if user_cap else None)
    last, _, dearest, waiting, since, heads, _ = json.loads(state)
    # The clock runs ahead by the heads that are tagged and still wait.
    ahead_us = sum(charge_us(cost, policy.weight) for _, _, cost, _ in heads)
    return TenantState(
        policy=policy,
        last_us=int(last) - ahead_us,
        waiting=waiting,
        running=running,
        dearest_us=dearest,
        contending_since_ms=since if heads else None,
    )
