"""log in, profiles, points, keys, doctor."""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from artiway_client.cli.output import Exit, Stop, is_terminal
from artiway_client.cli.profiles import OWNER_ONLY, Profile
from artiway_client.cli.session import Session, current
from artiway_client.client import Client
from artiway_client.core import Call
from artiway_client.errors import AnswerLost, ApiError, Forbidden

CLOCK_LIMIT_S = 60
PAYMENT_POLL_S = 2.0

keys = typer.Typer(help="API keys for programs.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    for command in (login, logout, profiles, whoami, points, topup, doctor):
        app.command()(command)
    app.command("register")(sign_up)
    app.add_typer(keys, name="keys")


def login(
    user: Annotated[str | None, typer.Argument(help="e-mail or phone")] = None,
    password: Annotated[str | None, typer.Option(help="asked for if left out; `-` reads it from stdin")] = None,
    api_key: Annotated[str | None, typer.Option(help="use an API key instead; `-` reads it from stdin")] = None,
    signed: Annotated[bool, typer.Option("--signed", help="the key was made with `signed`")] = False,
) -> None:
    """Log in and keep the session in a profile that only you can read."""
    here = current()
    with here.anonymous() as client:
        if api_key is not None:
            key = sys.stdin.readline().strip() if api_key == "-" else api_key
            profile = Profile(client.core.url, api_key=key, is_signed=signed)
            with Client(profile.url, api_key=key, is_signed=signed) as known:
                me: Any = known.get_me()
        else:
            name = user or _ask(here, "login: ")
            found = client.sign_in(name, _secret(here, password))
            profile = Profile(client.core.url, found["accessToken"], found["refreshToken"])
            me = client.get_me()
    _keep(here, profile)
    here.output.data(
        {"profile": here.name(), "url": profile.url, **me},
        lambda: here.output.line(f"Logged in as {me['email'] or me['userId']} ({me['tier']}) at {profile.url}"),
    )


def sign_up(
    tenant: Annotated[str, typer.Argument(help="name of your organisation")],
    email: Annotated[str, typer.Argument()],
    password: Annotated[str | None, typer.Option(help="asked for if left out; `-` reads it from stdin")] = None,
) -> None:
    """Create a tenant with you as its owner, and log in."""
    here = current()
    with here.anonymous() as client:
        made = client.register({"tenantName": tenant, "email": email, "password": _secret(here, password)})
        _keep(here, Profile(client.core.url, made["accessToken"], made["refreshToken"]))
    answer = {"tenantId": made["tenantId"], "userId": made["userId"], "profile": here.name()}
    here.output.data(answer, lambda: here.output.line(f"{tenant} is ready. First points: artiway points --trial"))


def logout() -> None:
    """End the session and forget the profile."""
    here = current()
    if here.profile().refresh_token:
        with here.client() as client:
            try:
                client.log_out()
            except ApiError as error:
                here.output.note(f"the session had ended: {error.code}")
    with here.file.locked():
        here.file.put(here.name(), None)
    here.output.data({"loggedOut": here.name()}, lambda: here.output.line(f"Logged out of {here.name()}."))


def profiles(
    use: Annotated[str | None, typer.Option(help="make this profile the current one")] = None,
) -> None:
    """List the profiles, or choose one. `--profile NAME` before `login` makes another."""
    here = current()
    if use is not None and not here.file.use(use):
        here.output.fail(f"there is no profile {use!r}", hint=f"artiway --profile {use} login", code=Exit.NOT_FOUND)
    now, names = here.file.names()
    rows = [{"profile": name, "current": name == now, "url": _known(here, name).url} for name in names]
    here.output.items(rows, {"profile": "profile", "current": "current", "address": "url"})


def whoami() -> None:
    """Who you are: tenant, tier, roles, permissions."""
    here = current()
    with here.client() as client:
        me = client.get_me()
    rows = [(name, ", ".join(value) if isinstance(value, list) else value) for name, value in me.items()]
    here.output.data(me, lambda: here.output.table(["field", "value"], rows))


def points(
    ledger: Annotated[int, typer.Option(help="show so many of the last changes")] = 0,
    trial: Annotated[bool, typer.Option("--trial", help="take the tenant's trial points")] = False,
) -> None:
    """Your balance, and the points that are held for tasks."""
    here = current()
    with here.client() as client:
        if trial:
            client.call(Call("POST", "/points/trial"))
        account = client.get_points()
        entries = client.list_entries(limit=min(ledger, 100))["items"] if ledger else []
    answer = {**account, "entries": entries} if ledger else account

    def show() -> None:
        here.output.line(f"{account['balance']} points, and {account['frozen']} held for tasks")
        if ledger:
            rows = [[one[name] for name in ("createdAt", "kind", "balanceDelta", "balance")] for one in entries]
            here.output.table(["when", "kind", "change", "balance"], rows)

    here.output.data(answer, show)


def topup(
    package: Annotated[str | None, typer.Argument(help="a package; without one they are listed")] = None,
    wait: Annotated[bool, typer.Option(help="wait for the payment")] = True,
) -> None:
    """Buy points by WeChat Pay. Shows the code to pay and waits for the payment."""
    here = current()
    with here.client() as client:
        if package is None:
            columns = {"package": "packageId", "points": "points", "fen": "amountFen"}
            here.output.items(client.each(client.list_packages), columns)
            return
        order = client.create_order({"packageId": package, "channel": "native"})
        here.output.note(f"Pay {order['amountFen'] / 100:.2f} CNY with WeChat: {order['codeUrl']}")
        while wait and order["status"] in {"CREATED", "PAYING"}:
            time.sleep(PAYMENT_POLL_S)
            order = client.get_order(order["orderId"])
    here.output.data(order, lambda: here.output.line(f"{order['orderId']} is {order['status']}"))
    if order["status"] == "CLOSED":
        here.output.fail("the order was closed without a payment")


@keys.command("list")
def list_keys() -> None:
    """Your keys; the keys themselves are never shown again."""
    here = current()
    with here.client() as client:
        columns = {"key": "keyId", "name": "name", "permissions": "permissions", "expires": "expiresAt"}
        here.output.items(client.each(client.list_api_keys), columns)


@keys.command("create")
def create_key(
    name: str,
    permission: Annotated[list[str], typer.Option("--permission", "-p", help="for example task.submit")],
    signed: Annotated[bool, typer.Option("--signed", help="requests with it must be signed")] = False,
) -> None:
    """Make a key. It is shown once."""
    here = current()
    body: Any = {"name": name, "permissions": permission, "signed": signed}
    with here.client() as client:
        made = client.create_api_key(body)
    here.output.data(made, lambda: here.output.line(made["key"]))


@keys.command("delete")
def delete_key(key_id: str) -> None:
    """Delete a key and those that it made."""
    here = current()
    with here.client() as client:
        client.delete_api_key(key_id)
    here.output.data({"deleted": key_id}, lambda: here.output.line(f"Deleted {key_id}."))


# ---------------------------------------------------------------- doctor


@dataclass(frozen=True)
class Check:
    name: str
    state: str  # ok, warning, failed
    detail: str


def doctor(
    aws: Annotated[str | None, typer.Option(help="also read what the AWS account lacks for this environment")] = None,
) -> None:
    """Check the platform and this account. With --aws also an AWS account, before a deployment."""
    here = current()
    checks = _checks(here)
    if aws is not None and here.output.is_json:
        checks.append(_preflight(here, aws))
    here.output.data(
        [vars(check) for check in checks],
        lambda: here.output.table(["check", "state", "detail"], [(c.name, c.state, c.detail) for c in checks]),
    )
    if aws is not None and not here.output.is_json:
        checks.append(_preflight(here, aws))
    if any(check.state == "failed" for check in checks):
        here.output.fail(
            "something is wrong, see above", hint="The runbook has a section for each part: docs/runbook.md"
        )


def _checks(here: Session) -> list[Check]:
    checks = [_check_file(here)]
    with here.anonymous() as client:
        try:
            started = time.time()
            answer = client._http.get(f"{client.core.url}/health")  # noqa: SLF001 (its Date header is needed)
        except httpx.HTTPError as error:
            checks.append(Check("platform", "failed", f"{client.core.url}: {error}. Start it with `make run`."))
            return checks
    body = answer.json() if "json" in answer.headers.get("content-type", "") else {}
    is_ok = body.get("status") == "ok"
    parts = ", ".join(f"{name} {state}" for name, state in body.get("checks", {}).items())
    checks.append(
        Check("platform", "ok" if is_ok else "failed", f"{here.anonymous().core.url}: {parts or answer.status_code}")
    )
    if date := answer.headers.get("date"):
        off_s = abs(parsedate_to_datetime(date).timestamp() - started)
        state = "ok" if off_s < CLOCK_LIMIT_S else "failed"
        checks.append(Check("clock", state, f"{off_s:.0f} s off; signed keys and webhooks allow 300 s"))
    try:
        with here.client() as client:
            checks += _account_checks(client)
    except (ApiError, AnswerLost) as error:
        checks.append(Check("account", "failed", f"{error}. Log in: artiway login"))
    except Stop:  # there is no profile
        checks.append(Check("account", "failed", "not logged in: artiway login"))
    return checks


def _check_file(here: Session) -> Check:
    path = here.file.path
    if not path.exists():
        return Check("profile file", "warning", f"{path} does not exist yet")
    mode = path.stat().st_mode & 0o777
    return Check("profile file", "ok" if mode == OWNER_ONLY else "failed", f"{path}, mode {mode:o}; wanted 600")


def _account_checks(client: Client) -> list[Check]:
    me = client.get_me()
    checks = [Check("account", "ok", f"{me['email'] or me['userId']}, {me['tier']}, roles {', '.join(me['roles'])}")]
    if "points.read" in me["permissions"]:
        balance = client.get_points()["balance"]
        checks.append(
            Check(
                "points", "ok" if balance else "warning", f"{balance} points" + ("" if balance else ": artiway topup")
            )
        )
    drafts = sorted(tool["tool"] for tool in client.tools().values() if tool["isDraft"])
    detail = f"drafts only, no network serves them: {', '.join(drafts)}" if drafts else "every tool has its network"
    checks.append(Check("tools", "warning" if drafts else "ok", detail))
    if "ops.read" not in me["permissions"]:
        return checks
    try:
        workers = client.list_workers(limit=100)["items"]
        checks.append(Check("workers", "ok" if workers else "failed", f"{len(workers)} alive"))
        paused = [lane["lane"] for lane in client.list_lanes(limit=100)["items"] if lane["paused"]]
        checks.append(
            Check("lanes", "warning" if paused else "ok", f"paused: {', '.join(paused)}" if paused else "none paused")
        )
        dead = {one["queue"]: one["depth"] for one in client.each(client.list_dead_queues) if one["depth"]}
        checks.append(
            Check("dead letters", "warning" if dead else "ok", ", ".join(f"{q} {n}" for q, n in dead.items()) or "none")
        )
        guard = client.get_guard()
        checks.append(Check("guard", "ok" if guard["state"] == "NORMAL" else "warning", guard["state"]))
        wrong = [one["name"] for one in client.get_invariants()["checks"] if not one["ok"]]
        checks.append(Check("invariants", "failed" if wrong else "ok", ", ".join(wrong) or "all hold"))
    except Forbidden as error:
        checks.append(Check("operations", "warning", error.message))
    return checks


def _preflight(here: Session, environment: str) -> Check:
    """tools/preflight of the clone that this command is used in; its environment has the AWS libraries.

    Its table goes to stderr where stdout is JSON.
    """
    root = next((place for place in (Path.cwd(), *Path.cwd().parents) if (place / "tools/preflight.py").exists()), None)
    if root is None or not (root / ".venv/bin/python").exists():
        here.output.fail("--aws needs a clone of Artiway", hint="In the clone: make preflight ENV=dev", code=Exit.USAGE)
    command = [str(root / ".venv/bin/python"), "-m", "tools.preflight", "--config-env", environment]
    done = subprocess.run(
        command,
        cwd=root,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{root}/layers/core:{root}"},
        stdout=subprocess.PIPE if here.output.is_json else None,
        text=True,
    )
    if done.stdout:
        here.output.note(done.stdout)
    return Check("aws", "failed" if done.returncode else "ok", f"make preflight ENV={environment}")


def _keep(here: Session, profile: Profile) -> None:
    with here.file.locked():
        here.file.put(here.name(), profile, is_current=True)


def _known(here: Session, name: str) -> Profile:
    return here.file.get(name) or Profile("")


def _ask(here: Session, prompt: str) -> str:
    if not is_terminal():
        here.output.fail("no login was given", hint="artiway login EMAIL --password -", code=Exit.USAGE)
    return input(prompt).strip()


def _secret(here: Session, given: str | None) -> str:
    if given == "-":
        return sys.stdin.readline().rstrip("\n")
    if given is not None:
        return given
    if not sys.stdin.isatty():
        here.output.fail("no password was given", hint="Add --password - and write it to stdin.", code=Exit.USAGE)
    return getpass.getpass("password: ")
