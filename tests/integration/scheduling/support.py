"""Drives the queue on Redis and the oracle side by side: every answer and every clock has to agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import redis

from artiway.scheduling.model import (
    Admitted,
    Cancelled,
    Completion,
    Dispatched,
    Enqueued,
    Lane,
    Node,
    Running,
    Snapshot,
    TenantPolicy,
    Track,
    microseconds,
)
from artiway.scheduling.oracle import Oracle
from artiway.scheduling.queue import TABLE_LIMIT, FairQueue

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
) -> Node:
    return Node(name, tenant, user, Track(kind, lane, model), microseconds(seconds))


def nodes(prefix: str, count: int, tenant: str, seconds: float, **track: str) -> list[Node]:
    return [node(f"{prefix}{i}", tenant, seconds, **track) for i in range(count)]


class Twins:
    """A queue and its oracle. `now_ms` is the only clock there is."""

    def __init__(self, client: redis.Redis, snapshot: Snapshot, *, table_limit: int = TABLE_LIMIT) -> None:
        self.client, self.now_ms = client, 0
        self.queue = FairQueue(client, "gpu", lease_ms=LEASE_MS, log_length=100_000, table_limit=table_limit)
        self.rebuild(snapshot)

    def rebuild(self, snapshot: Snapshot) -> None:
        self.queue.rebuild(snapshot, now_ms=self.now_ms)
        self.oracle = Oracle(lease_ms=LEASE_MS)
        self.oracle.load(snapshot)

    def enqueue(self, batch: Sequence[Node]) -> list[Enqueued]:
        answer = self.queue.enqueue(batch, now_ms=self.now_ms)
        assert answer == self.oracle.enqueue(batch)
        return answer

    def admit(self, batch: Sequence[Node], dispatch: int, warm: Iterable[str] = ()) -> Admitted:
        answer = self.queue.admit(batch, now_ms=self.now_ms, dispatch=dispatch, warm=warm)
        assert list(answer.enqueued) == self.oracle.enqueue(batch)
        assert list(answer.dispatched) == self.oracle.dispatch(dispatch, now_ms=self.now_ms, warm=warm)
        return answer

    def dispatch(self, limit: int, warm: Iterable[str] = ()) -> list[Dispatched]:
        chosen = self.queue.dispatch(limit, now_ms=self.now_ms, warm=warm)
        assert chosen == self.oracle.dispatch(limit, now_ms=self.now_ms, warm=warm)
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

    def set_capacity(self, capacity: int | None) -> None:
        self.queue.set_capacity(capacity, now_ms=self.now_ms)
        self.oracle.pool.capacity = capacity

    def check(self) -> None:
        """Clocks, tags and slots are the same on both sides, and so are the nodes that wait and run."""
        queue, oracle = self.queue, self.oracle
        fields = queue._fields()
        tracks = {track: index for index, track in queue._indexed(fields)}
        assert list(oracle.lag) == [t for t, _ in sorted(tracks.items(), key=lambda item: item[1])]
        assert int(fields.get("clock", 0)) == oracle.clock
        assert {t: int(fields[f"d:{i}"].split()[0]) for t, i in tracks.items()} == oracle.lag
        costs = {f[2:]: tuple(map(int, v.split())) for f, v in fields.items() if f.startswith("c:")}
        assert costs == oracle.costs
        assert int(fields["loaded"]) + int(fields["texts"]) == len(oracle.waiting)
        assert queue._client.hlen(queue._keys.places(queue.epoch)) == int(fields["texts"])

        listed = sorted(queue._waiting(queue.tenant_ids()))
        ordered = sorted(oracle.waiting.values(), key=lambda waiting: waiting.seq)
        assert [(seq, words[0]) for seq, words in listed] == [(w.seq, w.node.node_id) for w in ordered]

        rows = {row[0]: row[4:] for row in queue._tenant_rows()}
        assert rows.keys() == oracle.tenants.keys()
        assert queue.running_ids() == oracle.running.keys()
        for name, tenant in oracle.tenants.items():
            last, credit, dearest, waiting, running, is_capped, _, listed = rows[name]
            heads = sorted(tuple(map(int, head.split())) for head in listed.split(",") if head)
            assert heads == sorted((tracks[t], h.tag, h.cost, h.seq) for t, h in tenant.heads.items()), name
            assert (int(last), int(credit), is_capped == "1", int(dearest)) == (
                tenant.last,
                tenant.credit,
                tenant.is_capped,
                tenant.dearest,
            ), name
            assert int(running) == sum(run.node.tenant_id == name for _, run in oracle.running.values())
            assert int(waiting) == sum(w.node.tenant_id == name for w in oracle.waiting.values())
        for track, index in tracks.items():
            running, waiting = map(int, fields[f"d:{index}"].split()[1:])
            assert running == sum(run.node.track == track for _, run in oracle.running.values())
            assert waiting == sum(w.node.track == track for w in oracle.waiting.values())
