"""The decision log: what was asked and answered. Replayed on the oracle it must give the same answers again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from artiway.errors import Conflict
from artiway.scheduling.model import Arrival, Completion, Lane, Node, Running, TenantPolicy, Track
from artiway.scheduling.oracle import Oracle


class LogTrimmed(Conflict):
    """The beginning of the epoch is no longer in the log, so there is no state to replay from."""

    code = "SCHED_409_LOG_TRIMMED"


@dataclass(frozen=True, slots=True)
class Divergence:
    """A decision that the oracle would have taken otherwise."""

    place: int
    verb: str
    recorded: str
    replayed: str


def replay(log: Iterable[Mapping[str, str]]) -> list[Divergence]:
    """Run a whole log again. An empty answer means that every decision was right."""
    oracle, wrong = Oracle(), []
    for place, entry in enumerate(log):
        if place == 0 and entry["verb"] != "configure":
            raise LogTrimmed("the log does not begin with its epoch")
        answer = _apply(oracle, entry["verb"], int(entry["now"]), entry["in"].split("\t"))
        if answer is not None and answer != entry["out"]:
            wrong.append(Divergence(place, entry["verb"], entry["out"], answer))
    return wrong


def arrivals(log: Iterable[Mapping[str, str]], *, since_ms: int) -> list[Arrival]:
    """Nodes that became ready, with what they really ran where that is known: the input of a what-if."""
    found: dict[str, tuple[int, Node]] = {}
    ran: dict[str, int] = {}
    for entry in log:
        parts = entry["in"].split("\t")
        if entry["verb"] == "enqueue":
            for node in map(_node, _lines(parts[1])):
                found.setdefault(node.node_id, (int(entry["now"]), node))
        elif entry["verb"] == "complete":
            ran |= {end.node_id: end.measured_us for end in _ends(parts[3]) if end.measured_us is not None}
    return [
        Arrival((at_ms - since_ms) * 1000, node, ran.get(node.node_id, node.cost_us))
        for at_ms, node in found.values()
        if at_ms >= since_ms
    ]


def _apply(oracle: Oracle, verb: str, now_ms: int, parts: list[str]) -> str | None:
    """One line of the log on the oracle. None: the verb decides nothing."""
    match verb:
        case "configure":
            for line in _lines(parts[0]):
                _configure(oracle, *line.split("|"))
        case "set_tenants":
            for policy in map(_policy, _lines(parts[0])):
                oracle.set_tenant(policy)
            for line in _lines(parts[1]):
                tenant_id, last = line.split("|")
                oracle.tenants[tenant_id].last = int(last)
        case "set_user":
            oracle.set_user_cap(parts[0], parts[1], _number(parts[2]))
        case "adopt":
            oracle.adopt(map(_running, _lines(parts[0])))
        case "enqueue":
            for policy in map(_policy, _lines(parts[0])):
                oracle.set_tenant(policy)
            queued = "\n".join(oracle.enqueue(map(_node, _lines(parts[1])), is_load=parts[2] == "1"))
            oracle.lease_ms = int(parts[4])
            return f"{queued}\n\n{_dispatch(oracle, int(parts[3]), now_ms, parts[5])}"
        case "dispatch":
            oracle.lease_ms = int(parts[1])
            return _dispatch(oracle, int(parts[0]), now_ms, parts[2])
        case "complete":
            oracle.lease_ms = int(parts[1])
            oracle.confirm(_lines(parts[4]))
            ended = "\n".join(oracle.complete(_ends(parts[3])))
            return f"{ended}\n\n{_dispatch(oracle, int(parts[0]), now_ms, parts[2])}"
        case "cancel":
            return "\n".join(oracle.cancel(_lines(parts[0])))
        case "reclaim":
            return "\n".join(oracle.reclaim(now_ms=now_ms, limit=int(parts[0])))
        case _:
            raise ValueError(f"unknown verb {verb!r}")
    return None


def _dispatch(oracle: Oracle, limit: int, now_ms: int, warm: str) -> str:
    chosen = oracle.dispatch(limit, now_ms=now_ms, warm=_lines(warm))
    return "\n".join(
        f"{c.node.node_id}|{c.node.tenant_id}|{c.node.user_id}|{c.node.track}|{c.node.cost_us}|{c.charged_us}|{c.tag_us}"
        for c in chosen
    )


def _configure(oracle: Oracle, field: str, value: str) -> None:
    kind, _, name = field.partition(":")
    pool = oracle.pool
    if kind in ("p", "n", "h"):
        lane = pool.lanes.get(name, Lane(name))
        pool.lanes[name] = Lane(
            name,
            bool(value) if kind == "p" else lane.is_paused,
            _number(value) if kind == "n" else lane.parallelism,
            _number(value) if kind == "h" else lane.share_percent,
        )
    elif kind == "s":
        pool.slots[name] = int(value or 0)
    elif kind == "m":
        pool.models.pop(name, None)
        if value:
            pool.models[name] = int(value)
    elif kind == "c":
        samples, average = value.split()
        oracle.costs[name] = (int(samples), int(average))
    elif kind == "capacity":
        pool.capacity = _number(value)
    elif kind == "clock":
        oracle.clock = int(value)


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def _number(text: str) -> int | None:
    return int(text) if text else None


def _policy(line: str) -> TenantPolicy:
    tenant_id, weight, cap, user_cap = line.split("|")
    return TenantPolicy(tenant_id, int(weight), _number(cap), _number(user_cap))


def _node(line: str) -> Node:
    node_id, tenant_id, user_id, kind, lane, model, cost = line.split("|")
    return Node(node_id, tenant_id, user_id, Track(kind, lane, model), int(cost))


def _running(line: str) -> Running:
    node, charged, lease = line.rsplit("|", 2)
    return Running(_node(node), int(charged), _number(lease))


def _ends(text: str) -> Iterator[Completion]:
    for line in _lines(text):
        node_id, measured = line.split("|")
        yield Completion(node_id, _number(measured))
