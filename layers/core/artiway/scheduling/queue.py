"""The fair queue on Redis. Each verb is one function; a lost queue answers StaleEpoch and changes nothing."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, TypeVar, cast

import redis

from artiway.platform.redis import translated
from artiway.scheduling import scripts
from artiway.scheduling.keys import Keys
from artiway.scheduling.model import (
    COUNT_LIMIT,
    Admitted,
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
TABLE_LIMIT = 120_000
BATCH_LIMIT = 1_000
LOAD_CHUNK = 1_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a node waits. The counts behind it are what a caller can show."""

    waiting_for: WaitingFor
    detail: Mapping[str, Any]


class FairQueue:
    """One pool's queue. Not attached, or after StaleEpoch: `attach()`, and `rebuild()` where that answers False."""

    def __init__(
        self,
        client: redis.Redis,
        pool: str,
        *,
        lease_ms: int = LEASE_MS,
        log_length: int = LOG_LENGTH,
        table_limit: int = TABLE_LIMIT,
    ) -> None:
        self._client, self._keys = client, Keys(pool)
        self._lease_ms = whole("lease_ms", lease_ms, 1, COUNT_LIMIT)
        self._log_length = whole("log_length", log_length, 0, COUNT_LIMIT)
        self._table_limit = whole("table_limit", table_limit, 0, COUNT_LIMIT)
        self._epoch = ""

    @property
    def epoch(self) -> str:
        return self._epoch

    def attach(self) -> bool:
        """Take up the queue that Redis holds. False: there is none, and somebody has to rebuild it."""
        with translated():
            self._epoch = self._text(self._client.get(self._keys.epoch))
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
        warm: Iterable[str] = (),
    ) -> Admitted:
        """Nodes became ready, and up to `dispatch` that may run go in the same call."""
        whole("dispatch", dispatch, 0, BATCH_LIMIT)
        verdicts: list[Enqueued] = []
        chosen: list[Dispatched] = []
        batches = list(_batches(nodes, BATCH_LIMIT))
        for place, batch in enumerate(batches, 1):
            limit = dispatch if place == len(batches) else 0
            lines = "\n".join(map(_node_line, batch))
            answer = self._run(
                "enqueue", now_ms, _policy_lines(policies), lines, "", limit, self._lease_ms, "\n".join(warm)
            )
            policies = ()
            words, _, taken = answer.partition("\n\n")
            verdicts.extend(map(Enqueued, words.split("\n")))
            chosen.extend(_dispatched(taken))
        return Admitted(tuple(verdicts), tuple(chosen))

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
        """Nodes ended; their slots go to the next ones in the same call. Ending a node twice is harmless.

        The messages of those that are `confirmed` are sent and the database knows it: from here on its leases count,
        not ours.
        """
        whole("dispatch", dispatch, 0, BATCH_LIMIT)
        ends = "\n".join(f"{c.node_id}|{'' if c.measured_us is None else c.measured_us}" for c in completions)
        answer = self._run("complete", now_ms, dispatch, self._lease_ms, "\n".join(warm), ends, "\n".join(confirmed))
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
        self._epoch = secrets.token_hex(8)
        self._forget(self._run("begin", now_ms))
        try:
            self._load(snapshot, now_ms)
            old = self._run("commit", now_ms)
        except StaleEpoch:
            self._forget(self._epoch)
            raise
        self._forget(old)
        return self._epoch

    def _load(self, snapshot: Snapshot, now_ms: int) -> None:
        pool = snapshot.pool
        # The log's length goes first, so that the log begins with the rest.
        self._run("configure", now_ms, _field_lines({"log": self._log_length, "tables": self._table_limit}))
        fields: dict[str, int | str | None] = {"clock": snapshot.clock_us, "capacity": pool.capacity}
        fields |= {f"s:{kind}": count for kind, count in pool.slots.items()}
        fields |= {f"m:{model}": limit for model, limit in pool.models.items()}
        fields |= {f"p:{lane.name}": 1 for lane in pool.lanes.values() if lane.is_paused}
        fields |= {f"n:{lane.name}": lane.parallelism for lane in pool.lanes.values()}
        fields |= {f"h:{lane.name}": lane.share_percent for lane in pool.lanes.values()}
        fields |= {f"c:{kind}": f"{count} {average}" for kind, (count, average) in snapshot.costs.items()}
        self._run("configure", now_ms, _field_lines(fields))
        for tenants in _batches(snapshot.tenants, LOAD_CHUNK):
            lasts = "\n".join(f"{t.tenant_id}|{max(0, snapshot.last_us.get(t.tenant_id, 0))}" for t in tenants)
            self._run("set_tenants", now_ms, _policy_lines(tenants), lasts)
        for (tenant_id, user_id), cap in snapshot.user_caps.items():
            self._run("set_user", now_ms, named("tenant", tenant_id), named("user", user_id), cap)
        for running in _batches(snapshot.running, LOAD_CHUNK):
            self._run("adopt", now_ms, "\n".join(map(_running_line, running)))
        for waiting in _batches(snapshot.waiting, LOAD_CHUNK):
            self._run("enqueue", now_ms, "", "\n".join(map(_node_line, waiting)), "1", 0, self._lease_ms, "")

    def _forget(self, epoch: str) -> None:
        if epoch:
            with translated():
                self._client.unlink(self._keys.log(epoch), self._keys.places(epoch))

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

    def steps(self) -> int:
        """How many places in its contests the queue has looked at so far: what its decisions cost, on any machine."""
        return int(self._fields()["steps"])

    def waiting_forms(self) -> tuple[int, int]:
        """How many nodes wait as tables, and how many as text because the backlog is long."""
        fields = self._fields()
        return int(fields["loaded"]), int(fields["texts"])

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
        return sorted(_lines(self._run("tenants", 0, "*")))

    def tenants(self, tenant_ids: Sequence[str] | None = None) -> list[TenantState]:
        """The tenants' clocks, queues and slots, some at a time: not one atomic view."""
        return [_tenant_state(row) for row in self._tenant_rows(tenant_ids)]

    def _tenant_rows(self, tenant_ids: Sequence[str] | None = None) -> Iterator[list[str]]:
        for part in _batches(self.tenant_ids() if tenant_ids is None else tenant_ids, LOAD_CHUNK):
            for line in _lines(self._run("tenants", 0, "\n".join(part))):
                yield line.split("|")

    def running_ids(self) -> set[str]:
        """Every node that holds a slot here, to be compared with the database."""
        return {line.partition("|")[0] for line in _lines(self._run("running", 0))}

    def snapshot(self) -> Snapshot:
        """A copy to run forward, read in chunks so that nobody waits. Nodes may move meanwhile: forecasts bear it."""
        fields = self._fields()
        states = self.tenants()
        waiting = sorted(self._waiting([state.policy.tenant_id for state in states if state.waiting]))
        return Snapshot(
            pool=self.pool(),
            tenants=[state.policy for state in states],
            user_caps=self.user_caps(),
            running=[_running(line) for line in _lines(self._run("running", 0))],
            waiting=[_node(*words) for _, words in waiting],
            clock_us=int(fields.get("clock", 0)),
            last_us={state.policy.tenant_id: state.last_us for state in states},
            costs={f[2:]: (_numbers(v)[0], _numbers(v)[1]) for f, v in fields.items() if f.startswith("c:")},
        )

    def _waiting(self, tenant_ids: list[str]) -> Iterator[tuple[int, list[str]]]:
        """Place and words of each node."""
        for part in _batches(tenant_ids, LOAD_CHUNK):
            place = "|"
            while True:
                place, *lines = self._run("waiting", 0, LOAD_CHUNK, "\n".join(part), place).split("\n")
                for line in lines:
                    seq, *words = line.split("|")
                    yield int(seq), words
                if place == "|":
                    break
                part = part[part.index(place.partition("|")[0]) :]

    def service_us(self, minute: int) -> dict[str, int]:
        """GPU time that each tenant was given in one minute since the epoch of Unix."""
        rows = (line.split("|") for line in _lines(self._run("service", 0, minute)))
        return {tenant: int(cost) for tenant, cost in rows}

    def log(self) -> list[dict[str, str]]:
        """The decisions that are still kept, oldest first: verb, now, in, out."""
        with translated():
            rows = cast("list[Any]", self._client.xrange(self._keys.log(self._epoch)))
        return [{self._text(k): self._text(v) for k, v in row.items()} for _, row in rows]

    # The wire

    def _run(self, verb: str, now_ms: int, *arguments: str | int) -> str:
        keys = self._keys.of(self._epoch)
        with translated():
            answer = scripts.run(self._client, verb, keys, self._epoch, now_ms, *arguments)
        if answer == "stale":
            raise StaleEpoch(f"epoch {self._epoch or '(none)'} is not in force")
        if answer.startswith("unknown_tenant\n"):
            raise UnknownTenant(sorted(answer.split("\n")[1:]))
        if answer == "too_many_tracks":
            raise TooManyTracks("too many combinations of type, lane and model")
        return answer

    def _fields(self) -> dict[str, str]:
        rows = (line.partition("|") for line in _lines(self._run("pool", 0)))
        return {field: value for field, _, value in rows if value}

    def waiting_ids(self, cursor: int, limit: int) -> tuple[list[str], int]:
        """A page of the waiting nodes, and the cursor of the next page, 0 after the last."""
        ids = [words[0] for _, words in sorted(self._waiting(self.tenant_ids()))]
        end = cursor + limit
        return ids[cursor:end], end if end < len(ids) else 0

    def user_caps(self) -> dict[tuple[str, str], int]:
        rows = (line.split("|") for line in _lines(self._run("caps", 0)))
        return {(tenant, user): int(cap) for tenant, user, cap in rows}

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


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split()]


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


@cache
def _track(node_type: str, lane: str, model: str) -> Track:
    return Track(node_type, lane, model)


def _node(node_id: str, tenant: str, user: str, kind: str, lane: str, model: str, cost: str) -> Node:
    return Node(node_id, tenant, user, _track(kind, lane, model), int(cost))


def _running(line: str) -> Running:
    *words, charged, lease = line.split("|")
    return Running(_node(*words), int(charged), int(lease) if lease else None)


def _dispatched(lines: str) -> list[Dispatched]:
    found = []
    for line in _lines(lines):
        *words, charged, tag = line.split("|")
        found.append(Dispatched(_node(*words), int(charged), int(tag)))
    return found


def _tenant_state(row: list[str]) -> TenantState:
    """The row as lua/verbs/tenants.lua writes it."""
    name, weight, cap, user_cap, last, _, dearest, waiting, running, _, since, heads = row
    policy = TenantPolicy(name, int(weight), int(cap) if cap else None, int(user_cap) if user_cap else None)
    # The clock runs ahead by the heads that are tagged and still wait.
    ahead_us = sum(charge_us(_numbers(head)[2], policy.weight) for head in heads.split(",") if head)
    return TenantState(
        policy=policy,
        last_us=int(last) - ahead_us,
        waiting=int(waiting),
        running=int(running),
        dearest_us=int(dearest),
        contending_since_ms=int(since) if heads else None,
    )
