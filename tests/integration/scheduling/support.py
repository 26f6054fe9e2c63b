"""Drives the queue on Redis and the oracle side by side: every answer and every clock has to agree."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import redis

from artiway.scheduling.model import (
    Admitted,
    Cancelled,
    Completion,
    Dispatched,
    Enqueued,
    Lane,
    Node,
    Priority,
    Running,
    Snapshot,
    TenantPolicy,
    Track,
    microseconds,
)
from artiway.scheduling.oracle import Oracle
from artiway.scheduling.queue import FairQueue

LEASE_MS = 30_000


def node(
    name: str,
    tenant: str,
    seconds: float,
    *,
    user: str = "u",
    kind: str = "cutout",
    lane: str = "vip_short",
    model: str = "",
    priority: Priority = Priority.NORMAL,
) -> Node:
    return Node(name, tenant, user, Track(kind, lane, model), microseconds(seconds), priority)


def nodes(prefix: str, count: int, tenant: str, seconds: float, **more: Any) -> list[Node]:
    return [node(f"{prefix}{i}", tenant, seconds, **more) for i in range(count)]


def play(queue: Any, seconds: dict[str, float], *, slots: int, until_s: int) -> dict[str, float]:
    """All tenants are backlogged and estimated at 10 s a node. Answers their parts of the GPU time."""
    names, running, now = itertools.count(), [], 0.0
    busy: Counter[str] = Counter()

    def feed(tenant: str, count: int) -> None:
        queue.enqueue([node(f"n{next(names)}", tenant, 10) for _ in range(count)], now_ms=int(now * 1000))

    def start(chosen: Iterable[Dispatched]) -> None:
        for one in chosen:
            tenant = one.node.tenant_id
            heapq.heappush(running, (now + seconds[tenant], one.node.node_id, tenant, now))
            feed(tenant, 1)

    for tenant in seconds:
        feed(tenant, 2 * slots)
    start(queue.dispatch(slots, now_ms=0))
    while running[0][0] <= until_s:
        now, node_id, tenant, since = heapq.heappop(running)
        busy[tenant] += now - since
        end = Completion(node_id, microseconds(seconds[tenant]))
        start(queue.complete([end], now_ms=int(now * 1000), dispatch=slots).dispatched)
    for _, _, tenant, since in running:
        busy[tenant] += until_s - since
    return {tenant: busy[tenant] / (slots * until_s) for tenant in seconds}


class Twins:
    """A queue and its oracle. `now_ms` is the only clock there is."""

    def __init__(self, client: redis.Redis, snapshot: Snapshot) -> None:
        self.client, self.now_ms = client, 0
        self.queue = FairQueue(client, "gpu", lease_ms=LEASE_MS)
        self.rebuild(snapshot)

    def rebuild(self, snapshot: Snapshot) -> None:
        self.queue.rebuild(snapshot, now_ms=self.now_ms)
        self.oracle = Oracle(lease_ms=LEASE_MS)
        self.oracle.load(snapshot)

    def enqueue(self, batch: Sequence[Node]) -> list[Enqueued]:
        answer = self.queue.enqueue(batch, now_ms=self.now_ms)
        assert answer == self.oracle.enqueue(batch)
        return answer

    def admit(self, batch: Sequence[Node], dispatch: int) -> Admitted:
        answer = self.queue.admit(batch, now_ms=self.now_ms, dispatch=dispatch)
        assert list(answer.enqueued) == self.oracle.enqueue(batch)
        assert list(answer.dispatched) == self.oracle.dispatch(dispatch, now_ms=self.now_ms)
        return answer

    def dispatch(self, limit: int) -> list[Dispatched]:
        chosen = self.queue.dispatch(limit, now_ms=self.now_ms)
        assert chosen == self.oracle.dispatch(limit, now_ms=self.now_ms)
        return chosen

    def complete(self, completions: Sequence[Completion], dispatch: int = 0) -> list[Dispatched]:
        settled = self.queue.complete(completions, now_ms=self.now_ms, dispatch=dispatch)
        assert list(settled.ended) == self.oracle.complete(completions)
        assert list(settled.dispatched) == self.oracle.dispatch(dispatch, now_ms=self.now_ms)
        return list(settled.dispatched)

    def end(self, chosen: Iterable[Dispatched], dispatch: int = 0) -> list[Dispatched]:
        """All of them ran as long as was estimated."""
        return self.complete([Completion(one.node.node_id) for one in chosen], dispatch)

    def cancel(self, node_ids: Sequence[str]) -> list[Cancelled]:
        answer = self.queue.cancel(node_ids, now_ms=self.now_ms)
        assert answer == self.oracle.cancel(node_ids)
        return answer

    def confirm(self, node_ids: Sequence[str]) -> None:
        self.queue.complete((), now_ms=self.now_ms, confirmed=node_ids)
        self.oracle.confirm(node_ids)

    def reclaim(self, limit: int = 100) -> list[str]:
        back = self.queue.reclaim(now_ms=self.now_ms, limit=limit)
        assert back == self.oracle.reclaim(now_ms=self.now_ms, limit=limit)
        return back

    def adopt(self, running: Sequence[Running]) -> None:
        self.queue.adopt(running, now_ms=self.now_ms)
        self.oracle.adopt(running)

    def set_tenant(self, policy: TenantPolicy) -> None:
        self.queue.set_tenants([policy], now_ms=self.now_ms)
        self.oracle.set_tenant(policy)

    def set_user_cap(self, tenant: str, user: str, cap: int | None) -> None:
        self.queue.set_user_cap(tenant, user, cap, now_ms=self.now_ms)
        self.oracle.set_user_cap(tenant, user, cap)

    def pause(self, lane: str, is_paused: bool = True) -> None:
        change = self.queue.pause_lane if is_paused else self.queue.resume_lane
        change(lane, now_ms=self.now_ms)
        old = self.oracle.pool.lanes.get(lane, Lane(lane))
        self.oracle.set_lane(Lane(lane, is_paused, old.parallelism, old.share_percent))

    def set_lane(self, lane: str, parallelism: int | None, share_percent: int | None = None) -> None:
        self.queue.set_lane_limits(lane, parallelism=parallelism, share_percent=share_percent, now_ms=self.now_ms)
        old = self.oracle.pool.lanes.get(lane, Lane(lane))
        self.oracle.set_lane(Lane(lane, old.is_paused, parallelism, share_percent))

    def set_slots(self, kind: str, count: int) -> None:
        self.queue.set_slots({kind: count}, now_ms=self.now_ms)
        self.oracle.pool.slots[kind] = count

    def set_model(self, model: str, limit: int | None) -> None:
        self.queue.set_model_limit(model, limit, now_ms=self.now_ms)
        self.oracle.pool.models.pop(model, None)
        if limit is not None:
            self.oracle.pool.models[model] = limit

    def set_step(self, step: str, limit: int | None) -> None:
        self.queue.set_step_limit(step, limit, now_ms=self.now_ms)
        self.oracle.pool.steps.pop(step, None)
        if limit is not None:
            self.oracle.pool.steps[step] = limit

    def set_capacity(self, capacity: int | None) -> None:
        self.queue.set_capacity(capacity, now_ms=self.now_ms)
        self.oracle.pool.capacity = capacity

    def check(self) -> None:
        """Every key says what the oracle says, and there is no other key."""
        queue, oracle = self.queue, self.oracle
        view = queue._view()
        tracks = {state.track: index for index, state in view.tracks.items()}
        assert list(oracle.lag) == list(tracks)
        assert view.clock_us == oracle.clock
        assert {state.track: state.lag_us for state in view.tracks.values()} == oracle.lag
        assert view.costs == oracle.costs
        waiting = sorted(queue._waiting(view.tracks), key=lambda pair: pair[0])
        assert waiting == sorted(((w.seq, w.node) for w in oracle.waiting.values()), key=lambda pair: pair[0])
        running = {run.node.node_id: run for run in queue._running()}
        assert running == {node_id: run for node_id, (_, run) in oracle.running.items()}
        assert queue.user_caps() == oracle.user_caps
        self._check_sorted_sets(tracks)
        self._check_users()

        rows = {row.policy.tenant_id: row for row in queue._tenant_rows(queue.tenant_ids())}
        works = queue._works(list(rows), list(view.tracks))
        assert rows.keys() == oracle.tenants.keys()
        for name, tenant in oracle.tenants.items():
            row = rows[name]
            kept = (row.policy, row.last_us, row.credit_us, row.dearest_us, row.heads, row.is_capped)
            assert kept == (
                tenant.policy,
                tenant.last,
                tenant.credit,
                tenant.dearest,
                len(tenant.heads),
                tenant.is_capped,
            ), name
            assert row.own_caps == sum(owner == name for owner, _ in oracle.user_caps)
            assert row.running == sum(run.node.tenant_id == name for _, run in oracle.running.values())
            for track, index in tracks.items():
                self._check_work(name, track, works[name].get(index))
        for state in view.tracks.values():
            assert state.running == sum(run.node.track == state.track for _, run in oracle.running.values())
            assert state.waiting == sum(w.node.track == state.track for w in oracle.waiting.values())

    def _check_sorted_sets(self, tracks: dict[Track, int]) -> None:
        oracle, prefix = self.oracle, self.queue._part("")
        expected: dict[str, dict[str, float]] = {}
        for track, index in tracks.items():
            heads = {name: tenant.heads[track] for name, tenant in oracle.tenants.items() if track in tenant.heads}
            expected[f"heads:{index}"] = {f"{head.turn:013}|{name}": head.tag for name, head in heads.items()}
        for (name, track), users in oracle.users.items():
            members = {f"{head.seq:013}|{user}": head.rank * 2e15 + head.tag for user, head in users.heads.items()}
            expected[f"users:{tracks.get(track)}|{name}"] = members
        for (name, user, track), waiting in oracle.queues.items():
            members = {f"{w.node.node_id}|{w.node.cost_us}": w.rank * 1e13 + w.seq for w in waiting}
            expected[f"nodes:{tracks.get(track)}|{name}|{user}"] = members
        keys = [self.queue._text(key) for key in self.client.scan_iter(f"{prefix}*", count=1000, _type="zset")]
        keys = [key for key in keys if not key.endswith(":leases")]
        pipeline = self.client.pipeline(transaction=False)
        for key in keys:
            pipeline.zrange(key, 0, -1, withscores=True)
        found = {
            key.removeprefix(prefix): {self.queue._text(member): score for member, score in rows}
            for key, rows in zip(keys, pipeline.execute(), strict=True)
        }
        assert found == {key: members for key, members in expected.items() if members}

    def _check_work(self, name: str, track: Track, work: Any) -> None:
        """Counts, sums, the users' clock and the head of a tenant on a track."""
        oracle = self.oracle
        waiting = [w.node for w in oracle.waiting.values() if (w.node.tenant_id, w.node.track) == (name, track)]
        if not waiting:
            assert work is None
            return
        head = oracle.tenants[name].heads.get(track)
        sums = len(waiting), sum(n.cost_us for n in waiting), oracle.users[name, track].clock
        assert tuple(work[:3]) == sums, (name, track)
        of_head = (head.turn, head.tag, head.cost, oracle.waiting[head.node.node_id].seq) if head else None
        assert (tuple(work[3:]) if work.turn else None) == of_head, (name, track)

    def _check_users(self) -> None:
        oracle, text = self.oracle, self.queue._text
        counts = {text(k): int(v) for k, v in self.client.hgetall(self.queue._part("user_running")).items()}
        capped = {owner for owner, _ in oracle.user_caps}
        capped |= {name for name, tenant in oracle.tenants.items() if tenant.policy.user_cap is not None}
        nodes = [run.node for _, run in oracle.running.values() if run.node.tenant_id in capped]
        assert counts == Counter(f"{one.tenant_id}|{one.user_id}" for one in nodes)
        for name in oracle.tenants:
            held = {
                user
                for (owner, user, _), waiting in oracle.queues.items()
                if owner == name and waiting and oracle._is_user_capped(name, user)
            }
            assert set(map(text, self.client.smembers(self.queue._part(f"held:{name}")))) == held, name
