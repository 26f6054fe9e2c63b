"""Checks the results of each task against its ledger entries, as a tenant can read both through the API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

Entry = tuple[str, int, int]


def entries_by_task(ledger: Iterable[Mapping[str, Any]]) -> dict[str, list[Entry]]:
    """The entries that refer to a task, oldest first. The API lists the ledger newest first."""
    found: dict[str, list[Entry]] = {}
    for entry in ledger:
        kind, _, task = entry["reference"].partition(":")
        if kind == "task":
            wire = f"task_{UUID(task).hex}"
            found.setdefault(wire, []).insert(0, (entry["kind"], entry["balanceDelta"], entry["frozenDelta"]))
    return found


def wanted_of(view: Mapping[str, Any]) -> int:
    """The number of pictures that a complete task delivers: one for each node on which no other node depends."""
    needed = {name for node in view["nodes"] for name in node["dependsOn"]}
    return sum(node["name"] not in needed for node in view["nodes"])


def faults_of(view: Mapping[str, Any], entries: list[Entry]) -> Iterator[str]:
    """Faults in the status, the charge and the hold of a finished task."""
    task, price, delivered, wanted = view["taskId"], view["pricePoints"], len(view["results"]), wanted_of(view)
    share = price * delivered // wanted
    ends = {"COMPLETED": delivered == wanted, "PARTIAL": 0 < delivered < wanted, "FAILED": delivered == 0}
    if not ends.get(view["status"], False):
        yield f"{task} is {view['status']} with {delivered} of {wanted} pictures"
    if view["chargedPoints"] != share:
        yield f"{task} charged {view['chargedPoints']}, not {share}, for {delivered} of {wanted} pictures"
    end = ("CONFIRM", price - share, -price) if share else ("CANCEL", price, -price)
    expected = [("FREEZE", -price, price), end]
    if entries != expected:
        yield f"{task} has the entries {entries}, not {expected}"
