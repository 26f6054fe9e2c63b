"""jobs, runs, backfill."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.text import Text

from artiway_client.cli.output import Exit, is_terminal, shown
from artiway_client.cli.session import Session, current
from artiway_client.client import Client
from artiway_client.core import Call, path_part

FOLLOW_S = 1.0
RUN_ENDS = frozenset({"SUCCESS", "FAILED", "TERMINATED"})
LOG_PAGE = EXPORT_PAGE = 500

jobs = typer.Typer(help="Scheduled jobs.", invoke_without_command=True)
runs = typer.Typer(help="Runs of jobs.", invoke_without_command=True)


def register(app: typer.Typer) -> None:
    app.add_typer(jobs, name="jobs")
    app.add_typer(runs, name="runs")
    app.command()(backfill)


@jobs.callback()
def list_jobs(context: typer.Context) -> None:
    """Your jobs; the commands below take a job's id or its name."""
    if context.invoked_subcommand is not None:
        return
    here = current()
    with here.client() as client:
        columns = {"job": "name", "status": "status", "next": "nextFireTime", "when": "description", "id": "jobId"}
        here.output.items(client.each(client.list_jobs), columns)


@jobs.command("apply")
def apply(
    file: Annotated[Path, typer.Option("--file", "-f", help="YAML or JSON, as `jobs export` writes it")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only show what would change")] = False,
) -> None:
    """Create and change jobs as a file says: shows the difference, asks, then applies all or none."""
    here = current()
    text = file.read_text("utf-8")
    with here.client() as client:
        plan = client.import_jobs(text, dry_run=True)
        if not here.output.is_json:
            _show_plan(here, plan)
        changes = plan["created"] + plan["updated"]
        if dry_run or not changes:
            here.output.data(plan)
            return
        if not yes:
            if not is_terminal():
                here.output.fail("nothing was applied", hint="Add --yes to apply without a question.", code=Exit.USAGE)
            if not typer.confirm(f"Apply {changes} changes?"):
                raise typer.Abort
        done = client.import_jobs(text)
    here.output.data(done, lambda: here.output.line(f"Applied: {done['created']} created, {done['updated']} changed."))


def _show_plan(here: Session, plan: Any) -> None:
    for job in plan["jobs"]:
        sign, style = {"create": ("+", "green"), "update": ("~", "yellow")}.get(job["action"], (" ", "dim"))
        here.output.out.print(Text(f"{sign} {job['name']}", style=style))
        for change in job["changes"] if job["action"] == "update" else []:
            here.output.out.print(Text(f"    {change['field']}: {change['before']!r} → {change['after']!r}"))
    here.output.line(f"{plan['created']} to create, {plan['updated']} to change, {plan['unchanged']} unchanged")


@jobs.command("export")
def export(
    file: Annotated[Path | None, typer.Option("--file", "-f", help="write here instead of stdout")] = None,
) -> None:
    """All jobs as one YAML file that `apply` takes."""
    here = current()
    is_file = file is not None or not here.output.is_json
    with here.client() as client:
        pages = list(_exported(client, "yaml" if is_file else "json"))
    if not is_file:
        found = [json.loads(page) for page in pages]
        here.output.data({**found[0], "jobs": [job for page in found for job in page["jobs"]]})
        return
    text = pages[0] + "".join(page.partition("jobs:\n")[2] for page in pages[1:])
    if file is None:
        sys.stdout.write(text)
    else:
        file.write_text(text, "utf-8")
        here.output.data({"file": str(file)}, lambda: here.output.line(f"Wrote {file}"))


def _exported(client: Client, kind: str) -> Iterator[str]:
    """The pages of the export. The cursor is a header, since the body is the file itself."""
    cursor: str | None = None
    while True:
        query = {"format": kind, "limit": EXPORT_PAGE, "cursor": cursor}
        answer = client.call(Call("GET", "/jobs/export", query=query, is_stream=True))
        yield answer.read().decode()
        if not (cursor := answer.headers.get("x-next-cursor")):
            return


@jobs.command("show")
def show_job(job: str) -> None:
    """A job and its next fires."""
    here = current()
    with here.client() as client:
        found = client.get_job(_id(here, client, job))
    rows = [("name", found["name"]), ("status", found["status"]), ("when", found["description"])]
    rows += [("next", fire["local"]) for fire in found["nextFires"][:5]]
    here.output.data(found, lambda: here.output.table(["job", found["jobId"]], rows))


def _act(job: str, act: str) -> None:
    here = current()
    with here.client() as client:
        answer = client.call(Call("POST", f"/jobs/{path_part(_id(here, client, job))}/{act}"))
    here.output.data(answer, lambda: here.output.line(f"{job}: {answer.get('status') or answer.get('runId')}"))


@jobs.command("pause")
def pause(job: str) -> None:
    """No fire makes a run until the job is resumed."""
    _act(job, "pause")


@jobs.command("resume")
def resume(job: str) -> None:
    """The next fire is the first one from now on."""
    _act(job, "resume")


@jobs.command("trigger")
def trigger(job: str) -> None:
    """Start a run now."""
    _act(job, "trigger")


@jobs.command("delete")
def delete(job: str, yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask")] = False) -> None:
    """Delete a job. Its runs stay."""
    here = current()
    with here.client() as client:
        job_id = _id(here, client, job)
        if not yes and not (is_terminal() and typer.confirm(f"Delete {job}?")):
            here.output.fail("nothing was deleted", hint="Add --yes.", code=Exit.USAGE)
        client.delete_job(job_id)
    here.output.data({"deleted": job_id}, lambda: here.output.line(f"Deleted {job}."))


@jobs.command("fires")
def fires(
    job: str,
    start: Annotated[str | None, typer.Option("--from", help="ISO 8601, for example 2026-11-17T00:00:00Z")] = None,
    end: Annotated[str | None, typer.Option("--to")] = None,
) -> None:
    """Every nominal fire of a range and what became of it: the `why` of jobs."""
    here = current()
    with here.client() as client:
        job_id = path_part(_id(here, client, job))

        def page(**query: Any) -> Any:
            return client.call(Call("GET", f"/jobs/{job_id}/fires", query={"from": start, "to": end, **query}))

        columns = {"scheduled": "scheduledTime", "outcome": "outcome", "reason": "reason", "run": "runId"}
        here.output.items(client.each(page), columns)


def backfill(
    job: Annotated[str, typer.Argument(help="a job's id or name")],
    start: Annotated[str, typer.Option("--from", help="ISO 8601; included")],
    end: Annotated[str, typer.Option("--to", help="ISO 8601; excluded")],
    parallelism: Annotated[int, typer.Option(min=1, help="runs at the same time")] = 1,
    reprocess: Annotated[str, typer.Option(help="none, failed or completed")] = "none",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only count the runs")] = False,
    wait: Annotated[bool, typer.Option(help="follow it to its end")] = True,
) -> None:
    """Run a job for the fires of a range in the past."""
    here = current()
    with here.client() as client:
        body = {"from": start, "to": end, "parallelism": parallelism, "reprocess": reprocess, "dryRun": dry_run}
        path = f"/jobs/{path_part(_id(here, client, job))}/backfill"
        accepted = client.call(Call("POST", path, body=body, is_keyed=True))
        here.output.note(f"{accepted['acceptedRuns']} runs")
        found = accepted
        while wait and accepted.get("backfillId"):
            found = client.call(Call("GET", f"/backfills/{path_part(accepted['backfillId'])}"))
            if found["status"] != "RUNNING":
                break
            here.output.note(f"{found['done']} of {found['total']} done, {found['failed']} failed")
            time.sleep(FOLLOW_S)
    rows = [(name, found[name]) for name in ("status", "total", "done", "failed", "acceptedRuns") if name in found]
    here.output.data(found, lambda: here.output.table(["backfill", str(accepted.get("backfillId") or "dry run")], rows))
    if found.get("failed"):
        here.output.fail(f"{found['failed']} runs failed", hint=f"artiway runs --job {job} --state FAILED")


# ---------------------------------------------------------------- runs


@runs.callback()
def list_runs(
    context: typer.Context,
    job: Annotated[str | None, typer.Option(help="a job's id or name")] = None,
    state: Annotated[str | None, typer.Option(help="PENDING, RUNNING, RETRYING, SUCCESS, FAILED, TERMINATED")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100)] = 20,
) -> None:
    """Runs, the newest first."""
    if context.invoked_subcommand is not None:
        return
    here = current()
    with here.client() as client:
        job_id = None if job is None else _id(here, client, job)
        found = client.list_runs(job_id=job_id, state=cast("Any", state), limit=limit)["items"]
    columns = {
        "run": "runId",
        "scheduled": "scheduledTime",
        "state": "state",
        "attempt": "attempt",
        "error": "lastError",
    }
    here.output.items(cast("list[dict[str, Any]]", found), columns)


@runs.command("show")
def show_run(run_id: str) -> None:
    """One firing of a job."""
    here = current()
    with here.client() as client:
        found = client.get_run(run_id)
    rows = [(name, value) for name, value in found.items() if value is not None]
    here.output.data(found, lambda: here.output.table(["field", "value"], rows))


@runs.command("logs")
def logs(
    run_id: str, follow: Annotated[bool, typer.Option("--follow", "-f", help="until the run has ended")] = False
) -> None:
    """The log of a run."""
    here = current()
    lines: list[Any] = []
    with here.client() as client:
        while True:
            is_ended = not follow or client.get_run(run_id)["state"] in RUN_ENDS
            found = list(client.each(client.list_log_lines, run_id, limit=LOG_PAGE))
            for line in found[len(lines) :] if not here.output.is_json else []:
                here.output.out.print(
                    Text.assemble(
                        (str(shown(line["at"])), "dim"),
                        f" {line['attempt']} ",
                        (f"{line['level']:<5} ", "red" if line["level"] == "ERROR" else ""),
                        line["message"],
                    )
                )
            lines = found
            if is_ended:
                break
            time.sleep(FOLLOW_S)
    here.output.data(lines)


@runs.command("replay")
def replay(run_id: str) -> None:
    """Start an ended run again."""
    here = current()
    with here.client() as client:
        answer = client.replay_run(run_id)
    here.output.data(answer, lambda: here.output.line(answer["runId"]))


@runs.command("terminate")
def terminate(run_id: str) -> None:
    """End a run now."""
    here = current()
    with here.client() as client:
        answer = client.terminate_run(run_id)
    here.output.data(answer, lambda: here.output.line(answer["runId"]))


def _id(here: Session, client: Any, job: str) -> str:
    """An id as it is, a name by the list."""
    if job.startswith("job_"):
        return job
    found = [one["jobId"] for one in client.each(client.list_jobs, name=job) if one["name"] == job]
    if len(found) != 1:
        here.output.fail(f"{len(found)} jobs are named {job!r}", hint="artiway jobs", code=Exit.NOT_FOUND)
    return str(found[0])
