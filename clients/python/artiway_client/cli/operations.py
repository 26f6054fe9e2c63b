"""For operators: top, lanes, dead letters, tenants, settings."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any, cast

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from artiway_client.cli.output import table
from artiway_client.cli.session import current
from artiway_client.cli.texts import parsed
from artiway_client.client import Client

lanes = typer.Typer(help="Lanes: pause, resume, limits.", invoke_without_command=True)
dlq = typer.Typer(help="Dead letters.", invoke_without_command=True)
tenants = typer.Typer(help="Tenants, tiers, overrides.", invoke_without_command=True)
settings = typer.Typer(help="Live settings.", invoke_without_command=True)
MOST_WORKERS = 8
LANE_COLUMNS = {
    "lane": "lane",
    "waiting": "depth",
    "running": "running",
    "parallelism": "parallelism",
    "limit": "limit",
    "paused": "paused",
}


def register(app: typer.Typer) -> None:
    app.command()(top)
    app.add_typer(lanes, name="lanes")
    app.add_typer(dlq, name="dlq")
    app.add_typer(tenants, name="tenants")
    app.add_typer(settings, name="settings")


# ---------------------------------------------------------------- top


def top(
    every: Annotated[float, typer.Option(min=0.5, help="seconds between two looks")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="one look, without the live screen")] = False,
    window: Annotated[int, typer.Option(min=10, help="seconds of service that the shares cover")] = 300,
) -> None:
    """Lanes, shares against weights, and workers, live. Ctrl-C ends it."""
    here = current()
    with here.client() as client:
        if once or here.output.is_json or not here.output.out.is_terminal:
            found = _look(client, window)
            here.output.data(found, lambda: here.output.out.print(_screen(found)))
            return
        with Live(_screen(_look(client, window)), console=here.output.out, screen=True, auto_refresh=False) as live:
            try:
                while True:
                    time.sleep(every)
                    live.update(_screen(_look(client, window)), refresh=True)
            except KeyboardInterrupt:
                return


def _look(client: Client, window: int) -> dict[str, Any]:
    return {
        "state": client.get_guard()["state"],
        "lanes": list(client.each(client.list_lanes)),
        "fairness": client.get_fairness(window_seconds=window),
        "pools": client.get_scheduler()["pools"],
        "workers": list(client.each(client.list_workers)),
        "tenants": {one["tenantId"]: one["name"] for one in client.list_tenants(limit=100)["items"]},
    }


def _screen(found: dict[str, Any]) -> RenderableType:
    slots, running = (sum(pool[name] for pool in found["pools"]) for name in ("slots", "running"))
    waiting = sum(lane["depth"] for lane in found["lanes"])
    style = "green" if found["state"] == "NORMAL" else "red"
    head = Text.assemble(
        ("artiway ", "bold"),
        (found["state"], style),
        f" · {running} of {slots} slots · {waiting} waiting · {time.strftime('%H:%M:%S')}",
    )
    return Group(head, "", _lane_table(found["lanes"]), "", _share_table(found), "", _worker_table(found["workers"]))


def _lane_table(lanes: Sequence[dict[str, Any]]) -> RenderableType:
    """Lanes with work, or that are paused. The others are counted, so that all fits on a small screen."""
    busy = [one for one in lanes if one["depth"] or one["running"] or one["paused"]]
    rows = [
        (
            one["lane"],
            _bar(one["depth"], one["limit"], 16),
            one["depth"],
            one["running"],
            "paused" if one["paused"] else "",
        )
        for one in busy
    ]
    idle = len(lanes) - len(busy)
    if idle:
        rows.append((f"{idle} idle lanes", "", "", "", ""))
    return table(["lane", "filled", "waiting", "running", ""], rows)


def _share_table(found: dict[str, Any]) -> RenderableType:
    """A tenant that did not compete in the whole window has no ideal share."""
    queued = {one["tenantId"]: one for pool in found["pools"] for one in pool["tenants"]}
    shares = sorted(found["fairness"]["tenants"], key=lambda one: -one["share"])[:8]
    shown = [
        (
            found["tenants"].get(one["tenantId"], one["tenantId"])[:20],
            one["weight"],
            _bar(one["share"], 1, 16, mark=one["idealShare"] or None),
            f"{100 * one['share']:.0f} %",
            f"{100 * one['idealShare']:.0f} %" if one["idealShare"] else None,
            queued.get(one["tenantId"], {}).get("queued", 0),
        )
        for one in shares
    ]
    return table(
        ["tenant", "weight", "share | ideal", "share", "ideal", "queued"],
        shown or [("no work in this window", "", "", "", "", "")],
    )


def _worker_table(workers: Sequence[dict[str, Any]]) -> RenderableType:
    """Busy workers first. Those that are idle are counted once the screen would be too small for all."""
    busy = sorted(workers, key=lambda one: -len(one["nodes"]))
    shown = [
        (
            one["workerId"][-18:],
            ", ".join(one["types"]),
            f"{len(one['nodes'])}/{one['slots']}",
            ", ".join(node["node"] for node in one["nodes"]) or ("draining" if one["draining"] else "idle"),
        )
        for one in busy[:MOST_WORKERS]
    ]
    if rest := busy[MOST_WORKERS:]:
        shown.append((f"{len(rest)} more", "", f"{sum(len(one['nodes']) for one in rest)} nodes", ""))
    return table(["worker", "types", "busy", "node"], shown or [("no worker is alive", "", "", "")])


def _bar(value: float, whole: float, width: int, *, mark: float | None = None) -> str:
    """Full at `whole`; `|` is where a value should be."""
    filled = round(width * min(1.0, value / whole)) if whole else 0
    if value and not filled:
        filled = 1
    cells = ["█"] * filled + ["·"] * (width - filled)
    if mark is not None:
        cells[min(width - 1, round(width * mark))] = "|"
    return "".join(cells)


# ---------------------------------------------------------------- lanes


@lanes.callback()
def list_lanes(context: typer.Context) -> None:
    """Every lane: what waits, what runs, its limits."""
    if context.invoked_subcommand is not None:
        return
    here = current()
    with here.client() as client:
        here.output.items(client.each(client.list_lanes), LANE_COLUMNS)


def _lane(answer: Any) -> None:
    current().output.data(
        answer, lambda: current().output.table(list(LANE_COLUMNS), [[answer.get(n) for n in LANE_COLUMNS.values()]])
    )


@lanes.command("pause")
def pause_lane(lane: str) -> None:
    """Stop dispatching; the lane accepts up to its limit."""
    with current().client() as client:
        _lane(client.pause_lane(lane))


@lanes.command("resume")
def resume_lane(lane: str) -> None:
    """Dispatch again."""
    with current().client() as client:
        _lane(client.resume_lane(lane))


@lanes.command("set")
def set_lane(
    lane: str,
    change: Annotated[list[str], typer.Argument(help="parallelism=4, limit=500, sharePercent=50; null restores")],
) -> None:
    """Change a lane at once, without a deployment."""
    with current().client() as client:
        _lane(client.change_lane(lane, cast("Any", parsed(change))))


# ---------------------------------------------------------------- dead letters


@dlq.callback()
def list_queues(context: typer.Context) -> None:
    """How many messages each dead-letter queue holds."""
    if context.invoked_subcommand is not None:
        return
    here = current()
    with here.client() as client:
        here.output.items(client.each(client.list_dead_queues), {"queue": "queue", "messages": "depth"})


@dlq.command("show")
def show_queue(queue: str) -> None:
    """The messages of a queue."""
    here = current()
    with here.client() as client:
        columns = {"message": "messageId", "sent": "sentAt", "tries": "receiveCount", "body": "body"}
        here.output.items(client.each(client.list_dead_letters, queue), columns)


@dlq.command("replay")
def replay(
    queue: str,
    message: Annotated[list[str] | None, typer.Option("--message", "-m", help="only these; all if left out")] = None,
    reason: Annotated[str | None, typer.Option(help="for the audit log")] = None,
) -> None:
    """Send messages back to the queue where they failed."""
    here = current()
    body: Any = {name: value for name, value in (("messageIds", message), ("reason", reason)) if value}
    with here.client() as client:
        answer = client.replay_dead_letters(queue, body)
    here.output.data(answer, lambda: here.output.line(f"Sent {answer['count']} back."))


@dlq.command("discard")
def discard(
    queue: str,
    reason: Annotated[str, typer.Option(help="for the audit log")],
    message: Annotated[list[str] | None, typer.Option("--message", "-m", help="only these; all if left out")] = None,
) -> None:
    """Delete messages."""
    here = current()
    body: Any = {"reason": reason, **({"messageIds": message} if message else {})}
    with here.client() as client:
        answer = client.discard_dead_letters(queue, body)
    here.output.data(answer, lambda: here.output.line(f"Deleted {answer['count']}."))


# ---------------------------------------------------------------- tenants and settings

TENANT_COLUMNS = {"tenant": "tenantId", "name": "name", "tier": "tier", "weight": "weight", "slots": "concurrency"}


def _show_tenants(found: Sequence[Any]) -> None:
    """The status is named where it is not ACTIVE, so that a row fits 80 columns."""
    rows = [[dict(one)[name] for name in TENANT_COLUMNS.values()] for one in found]
    for row, one in zip(rows, found, strict=True):
        row[2] += "" if one["status"] == "ACTIVE" else f" {one['status']}"
    current().output.table(list(TENANT_COLUMNS), rows)


@tenants.callback()
def list_tenants(context: typer.Context) -> None:
    """All tenants and their limits."""
    if context.invoked_subcommand is not None:
        return
    here = current()
    with here.client() as client:
        found = list(client.each(client.list_tenants))
    here.output.data(found, lambda: _show_tenants(found))


@tenants.command("create")
def create_tenant(
    name: str,
    tier: Annotated[str, typer.Option(help="enterprise, vip, standard, free")] = "free",
    owner: Annotated[str | None, typer.Option(help="e-mail of its first user")] = None,
    password: Annotated[str | None, typer.Option(help="of the first user")] = None,
) -> None:
    """Create a tenant, and its first user if one is given."""
    here = current()
    body: dict[str, Any] = {"name": name, "tier": tier}
    if owner is not None:
        body["owner"] = {"email": owner, "password": password or typer.prompt("password", hide_input=True)}
    with here.client() as client:
        made = client.create_tenant(cast("Any", body))
    here.output.data(made, lambda: here.output.line(made["tenantId"]))


@tenants.command("set")
def set_tenant(
    tenant_id: str,
    change: Annotated[list[str], typer.Argument(help="tier=vip, weight=7, status=suspended; null restores")],
) -> None:
    """Change a tenant; takes effect within a minute."""
    here = current()
    with here.client() as client:
        made = client.change_tenant(tenant_id, cast("Any", parsed(change)))
    here.output.data(made, lambda: _show_tenants([made]))


@tenants.command("grant")
def grant(
    user_id: str,
    amount: Annotated[int, typer.Argument(min=1)],
    reason: Annotated[str, typer.Option(help="shown in the ledger and in the audit log")],
) -> None:
    """Give a user points."""
    here = current()
    with here.client() as client:
        entry = client.grant_points({"userId": user_id, "amount": amount, "reason": reason})
    here.output.data(entry, lambda: here.output.line(f"{user_id} has {entry['balance']} points"))


@settings.callback()
def list_settings(
    context: typer.Context,
    changed: Annotated[bool, typer.Option("--changed", help="only those that differ from their default")] = False,
) -> None:
    """Every live setting: its value, default and bounds."""
    if context.invoked_subcommand is not None:
        return
    here = current()
    with here.client() as client:
        found = [one for one in client.each(client.list_settings) if not changed or one["value"] != one["default"]]
    here.output.items(found, {"setting": "key", "value": "value", "default": "default", "description": "description"})


@settings.command("set")
def set_setting(key: str, value: str) -> None:
    """Change a setting; all processes use it within a minute."""
    here = current()
    with here.client() as client:
        made = client.change_setting(key, {"value": parsed([f"value={value}"])["value"]})
    here.output.data(made, lambda: here.output.line(f"{key} = {made['value']} (default {made['default']})"))


@settings.command("reset")
def reset_setting(key: str) -> None:
    """Restore the default of a setting."""
    here = current()
    with here.client() as client:
        made = client.restore_setting(key)
    here.output.data(made, lambda: here.output.line(f"{key} = {made['value']}"))
