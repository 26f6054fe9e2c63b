"""Checks each task against its ledger entries, and each job against its runs and its target, as a tenant can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
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


@dataclass(frozen=True)
class WantedRuns:
    """A job that was accepted, and the times at which it had to run."""

    job_id: str
    times: frozenset[datetime]


@dataclass(frozen=True)
class ReceivedCall:
    """A call as the target saw it."""

    key: str
    run_id: str


def run_faults(wanted: WantedRuns, runs: Sequence[Mapping[str, Any]], calls: Sequence[ReceivedCall]) -> Iterator[str]:
    """Faults in the runs of a job and in what its target received. A call may repeat, with the key of its run."""
    job = wanted.job_id
    times = Counter(datetime.fromisoformat(run["scheduledTime"]) for run in runs)
    for time in sorted(wanted.times - times.keys()):
        yield f"{job} has no run for {time.isoformat()}"
    for time in sorted(times.keys() - wanted.times):
        yield f"{job} has a run for {time.isoformat()}, which is no time of it"
    for time in sorted(time for time, count in times.items() if count > 1):
        yield f"{job} has {times[time]} runs for {time.isoformat()}"
    keys: dict[str, set[str]] = {}
    for call in calls:
        keys.setdefault(call.run_id, set()).add(call.key)
    known = {run["runId"]: run for run in runs}
    for run_id in sorted(keys.keys() - known.keys()):
        yield f"{job} called its target for {run_id}, which does not exist"
    for run_id, run in known.items():
        found = keys.get(run_id, set())
        if run["state"] != "SUCCESS":
            yield f"{run_id} is {run['state']}: {run['lastError']}"
        elif not found:
            yield f"{run_id} is SUCCESS, but its target was not called"
        if found - {run["idempotencyKey"]}:
            yield f"{run_id} called its target with the keys {sorted(found)}"
        if run["startedAt"] and datetime.fromisoformat(run["startedAt"]) < datetime.fromisoformat(run["scheduledTime"]):
            yield f"{run_id} started before its time"
    owners = Counter(key for found in keys.values() for key in found)
    for key in sorted(key for key, count in owners.items() if count > 1):
        yield f"{key} is the key of {owners[key]} runs"
