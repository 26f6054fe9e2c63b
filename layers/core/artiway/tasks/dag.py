"""Topological order of nodes (Kahn's algorithm), and the name of a circle if there is one."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from artiway.tasks.model import Cycle, InvalidRequest

NODE_LIMIT = 500
# A view of a task contains all of its dependencies, and the end of a node reads them. Flows of our own tools have fewer
# than two dependencies per node; this allows twenty for each of 500.
EDGE_LIMIT = 10_000


class Named(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def depends_on(self) -> Sequence[str]: ...


N = TypeVar("N", bound=Named)
K = TypeVar("K", bound=Hashable)


def ordered(nodes: Sequence[N]) -> tuple[N, ...]:
    """The nodes in topological order; nodes without an order between them stay in the given order."""
    check_names(nodes)
    by_name = {node.name: node for node in nodes}
    waiting = {node.name: len(set(node.depends_on)) for node in nodes}
    dependents: dict[str, list[str]] = {name: [] for name in by_name}
    for node in nodes:
        for name in dict.fromkeys(node.depends_on):
            dependents[name].append(node.name)
    free = deque(name for name, count in waiting.items() if count == 0)
    order: list[N] = []
    while free:
        name = free.popleft()
        order.append(by_name[name])
        for dependent in dependents[name]:
            waiting[dependent] -= 1
            if waiting[dependent] == 0:
                free.append(dependent)
    if len(order) < len(nodes):
        placed = {node.name for node in order}
        raise Cycle(circle({name: node.depends_on for name, node in by_name.items() if name not in placed}))
    return tuple(order)


def check_names(nodes: Sequence[Named]) -> None:
    if not nodes:
        raise InvalidRequest("nodes", "at least one node")
    if len(nodes) > NODE_LIMIT:
        raise InvalidRequest("nodes", f"{len(nodes)} nodes; at most {NODE_LIMIT} are allowed")
    if (edges := sum(len(set(node.depends_on)) for node in nodes)) > EDGE_LIMIT:
        raise InvalidRequest("nodes", f"{edges} dependencies; at most {EDGE_LIMIT} are allowed")
    for name, count in Counter(node.name for node in nodes).items():
        if count > 1:
            raise InvalidRequest("nodes", f"{count} nodes are called {name}")
    names = {node.name for node in nodes}
    for node in nodes:
        for name in node.depends_on:
            if name not in names:
                raise InvalidRequest(f"nodes.{node.name}.dependsOn", f"there is no node {name}")


def dependents(first: K, dependencies: Mapping[K, Iterable[K]]) -> set[K]:
    """The nodes that depend on `first`, directly or through other nodes."""
    following: dict[K, list[K]] = {}
    for place, needed in dependencies.items():
        for other in needed:
            following.setdefault(other, []).append(place)
    found: set[K] = set()
    unseen = [first]
    while unseen:
        fresh = [place for place in following.get(unseen.pop(), ()) if place not in found]
        found.update(fresh)
        unseen += fresh
    return found


def circle(remaining: Mapping[str, Iterable[str]]) -> list[str]:
    """A circle among the nodes that have no order: follow dependencies until a name repeats."""
    name = next(iter(remaining))
    path: list[str] = []
    while name not in path:
        path.append(name)
        name = next(dependency for dependency in remaining[name] if dependency in remaining)
    # Dependencies were followed backwards; in the message "a → b" means that b comes after a.
    return [name, *reversed(path[path.index(name) :])]
