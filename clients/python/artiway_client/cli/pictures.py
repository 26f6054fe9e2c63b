"""run, flow, tools, tasks, why."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar

from artiway_client.cli.batch import Batch, Item
from artiway_client.cli.output import Exit, shown
from artiway_client.cli.session import Session, current
from artiway_client.cli.texts import parsed
from artiway_client.client import Client
from artiway_client.errors import ApiError
from artiway_client.pictures import EXTENSIONS, input_names, tool_named
from artiway_client.streams import Event

if TYPE_CHECKING:
    from artiway_client import models

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp"})
PARALLEL = 8
BATCH_PICTURES = 50

flow = typer.Typer(help="DAGs of your own, from a file.", no_args_is_help=True)
tasks = typer.Typer(help="Your tasks.", invoke_without_command=True)


def register(app: typer.Typer) -> None:
    for command in (run, tools, why):
        app.command()(command)
    app.add_typer(flow, name="flow")
    app.add_typer(tasks, name="tasks")


def tools() -> None:
    """The tools, their prices, inputs and parameters."""
    here = current()
    with here.client() as client:
        found = list(client.each(client.list_tools))
    rows = [
        (
            t["tool"],
            t["pricePoints"],
            ", ".join(t["inputs"] + [f"[{n}]" for n in t["optionalInputs"]]),
            ", ".join(t["params"].get("properties", {})),
        )
        for t in found
    ]
    here.output.data(found, lambda: here.output.table(["tool", "points", "inputs", "parameters"], rows))


def run(
    tool: Annotated[str, typer.Argument(help="a tool, see `artiway tools`")],
    files: Annotated[list[str], typer.Argument(help="pictures, folders or patterns")],
    out: Annotated[Path, typer.Option("--out", "-o", help="folder of the results")] = Path(),
    param: Annotated[list[str] | None, typer.Option("--param", "-p", help="name=value")] = None,
    also: Annotated[list[str] | None, typer.Option("--input", "-i", help="another input: mask=mask.png")] = None,
    count: Annotated[int | None, typer.Option(help="number of results")] = None,
    priority: Annotated[str | None, typer.Option(help="HIGH, NORMAL or LOW among your own tasks")] = None,
    parallel: Annotated[int, typer.Option(min=1, max=50, help="tasks at the same time")] = PARALLEL,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="show price and expected time, and change nothing")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="run pictures anew whose results are in the folder")] = False,
) -> None:
    """Run a tool on pictures and save the results. Uploads them, shows progress and prints a receipt.

    With several pictures the same command goes on after an interrupt: what was saved is skipped, what runs is awaited.
    """
    here = current()
    paths = list(_pictures(files))
    if not paths:
        here.output.fail(f"no picture in {' '.join(files)}", hint="PNG, JPEG and WebP are taken.", code=Exit.USAGE)
    extra = {name: Path(path) for name, _, path in (pair.partition("=") for pair in also or [])}
    body: dict[str, Any] = {"tool": tool, "params": parsed(param or [])}
    body |= {name: value for name, value in (("count", count), ("priority", priority)) if value is not None}
    with here.client() as client:
        known = tool_named(client.tools(), tool)
        items = _items(known, paths, extra)
        if estimate:
            _estimate(here, client, body, items)
            return
        if len(items) == 1:
            with _waiting(here):
                _run_one(here, client, body, items[0], out)
    if len(items) > 1:
        _run_many(here, body, items, out, parallel, is_anew=again)
    _receipt(here, items)


def _pictures(names: Sequence[str]) -> Iterator[Path]:
    for name in names:
        path = Path(name)
        if path.is_dir():
            yield from sorted(one for one in path.iterdir() if one.suffix.lower() in SUFFIXES)
        elif path.exists():
            yield path
        elif any(sign in name for sign in "*?["):  # a pattern that the shell did not expand
            start = Path(path.anchor) if path.is_absolute() else Path()
            pattern = str(path.relative_to(path.anchor)) if path.is_absolute() else name
            yield from sorted(one for one in start.glob(pattern) if one.suffix.lower() in SUFFIXES)
        else:
            raise FileNotFoundError(f"there is no file {name}")


def _items(tool: models.ToolBody, paths: Sequence[Path], extra: Mapping[str, Path]) -> list[Item]:
    """One task per picture; a batch tool takes up to fifty in one task."""
    if tool["group"] == "batch":
        parts = [paths[start : start + BATCH_PICTURES] for start in range(0, len(paths), BATCH_PICTURES)]
        return [
            Item(
                f"{len(part)} pictures",
                dict(zip(input_names(tool, len(part)), part, strict=True)),
                f"{number}-{tool['tool']}-",
            )
            for number, part in enumerate(parts, 1)
        ]
    first = tool["inputs"][0]
    same: Counter[str] = Counter()
    items = []
    for path in paths:
        same[path.stem] += 1  # a.jpg and a.png, or x/a.jpg and y/a.jpg: their results need names of their own
        number = f"{same[path.stem]}-" if same[path.stem] > 1 else ""
        items.append(Item(path.name, {first: path, **extra}, f"{path.stem}-{number}"))
    return items


def _estimate(here: Session, client: Client, body: dict[str, Any], items: Sequence[Item]) -> None:
    """The price of one, with an upload of its own, and of all."""
    inputs = {name: client.upload(path) for name, path in items[0].inputs.items()}
    found = client.estimate_task(cast("models.SubmitBody", {**body, "inputs": inputs}))
    total = found["pricePoints"] * len(items)
    wait = f"ends in about {found['etaEndSeconds']} s" if found["etaEndSeconds"] is not None else found["detail"]
    here.output.data(
        {**found, "tasks": len(items), "totalPoints": total},
        lambda: here.output.line(
            f"{len(items)} × {found['pricePoints']} points = {total}; the first {wait} ({found['lane']})"
        ),
    )


@contextmanager
def _waiting(here: Session) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        here.output.note("\nThe task goes on: artiway tasks. To end it: artiway tasks cancel ID")
        raise


class Bar(BarColumn):
    """Without the pulse of a bar that has not started: without colour it looks like progress."""

    def render(self, task: Task) -> ProgressBar:
        bar = super().render(task)
        bar.pulse = False
        return bar


class NodeBars:
    """A bar per node; lines where stderr is no terminal."""

    def __init__(self, console: Console, *, is_quiet: bool) -> None:
        self._console, self._is_live = console, console.is_terminal and not is_quiet
        self._is_quiet = is_quiet
        self.progress = Progress(
            TextColumn("{task.description:<14.14}"),
            Bar(bar_width=None),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[state]:<10.10}"),
            TimeElapsedColumn(),
            console=console,
            disable=not self._is_live,
        )
        self._bars: dict[str, TaskID] = {}
        self._states: dict[str, str] = {}

    def add(self, name: str, state: str = "waiting") -> None:
        if name not in self._bars:
            self._bars[name] = self.progress.add_task(name, total=100, state=state, start=False)

    def set(self, name: str, percent: int | None, state: str) -> None:
        self.add(name)
        bar = self._bars[name]
        if state not in {"waiting", "queued"}:
            self.progress.start_task(bar)
        self.progress.update(bar, completed=percent, state=state)
        if state == "done":
            self.progress.stop_task(bar)
        if not self._is_live and not self._is_quiet and self._states.get(name) != state:
            self._console.print(f"{name}: {state}", markup=False)
        self._states[name] = state

    def take(self, event: Event) -> None:
        node = event.data.get("node")
        if node is None:
            return
        percent, state = {
            "queued": (0, "queued"),
            "started": (0, "running"),
            "progress": (int(event.data.get("progress", 0)), "running"),
            "completed": (100, "done"),
            "failed": (None, "failed"),
            "cancelled": (None, "cancelled"),
        }.get(event.name, (None, event.name))
        self.set(str(node), percent, state)


def _run_one(here: Session, client: Client, body: dict[str, Any], item: Item, out: Path) -> None:
    bars = NodeBars(here.output.err, is_quiet=here.output.is_json)
    with bars.progress:
        bars.set("upload", 0, "running")
        inputs = {name: client.upload(path) for name, path in item.inputs.items()}
        bars.set("upload", 100, "done")
        accepted = client.submit_task(cast("models.SubmitBody", {**body, "inputs": inputs}))
        _follow(client, bars, accepted["taskId"], item, out)


def _follow(client: Client, bars: NodeBars, task_id: str, item: Item, out: Path) -> None:
    for node in client.get_task(task_id)["nodes"]:
        bars.add(node["name"])
    item.task = client.wait(task_id, on_event=bars.take)
    item.saved = client.download(item.task, out, prefix=item.prefix)
    item.state = item.task["status"]
    if item.task["error"]:
        item.error = f"{item.task['error']['message']} ({item.task['error']['code']})"


def _run_many(
    here: Session, body: dict[str, Any], items: Sequence[Item], out: Path, parallel: int, *, is_anew: bool
) -> None:
    console = here.output.err
    is_live = console.is_terminal and not here.output.is_json
    columns = (
        TextColumn("{task.description:<24.24}"),
        Bar(bar_width=None),
        TextColumn("{task.fields[state]:>18.18}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not is_live) as progress:
        total = progress.add_task("all", total=len(items), state=f"0 of {len(items)}")
        bars: dict[int, TaskID] = {}
        ended: set[int] = set()

        def changed(item: Item) -> None:
            if item.has_ended:
                if id(item) in ended:
                    return
                ended.add(id(item))
                if id(item) in bars:
                    progress.remove_task(bars.pop(id(item)))
                progress.update(total, completed=len(ended), state=f"{len(ended)} of {len(items)}")
                if item.error or not (is_live or here.output.is_json):
                    outcome = item.error or ("skipped, its result exists" if item.is_skipped else "done")
                    console.print(f"{item.label}: {outcome}", markup=False)
                return
            if id(item) not in bars:
                bars[id(item)] = progress.add_task(item.label, total=100, state=item.state)
            progress.update(bars[id(item)], completed=item.progress, state=item.state)

        async def go() -> None:
            async with here.batch_client() as client:
                await Batch(client, body, out, parallel, changed, is_anew=is_anew).run(items)

        try:
            asyncio.run(go())
        except KeyboardInterrupt:
            progress.stop()  # the note stands below the bars
            saved = sum(item.is_done or item.is_skipped for item in items)
            here.output.note(f"\n{saved} of {len(items)} are saved. The same command goes on from here.")
            raise


def _receipt(here: Session, items: Sequence[Item]) -> None:
    """What was saved and what it cost. The command fails if a task did."""
    done = [item for item in items if item.is_done]
    skipped = [item for item in items if item.is_skipped]
    charged = sum(item.task["chargedPoints"] for item in items if item.task)
    held = sum(item.task["pricePoints"] for item in items if item.task)
    balance = None
    try:
        with here.client() as client:
            balance = client.get_points()["balance"]
    except ApiError:  # a key without points.read
        pass
    answer = {
        "tasks": [
            {
                "input": item.label,
                "taskId": item.task["taskId"] if item.task else None,
                "status": item.task["status"] if item.task else "SKIPPED" if item.is_skipped else "FAILED",
                "files": [str(path) for path in item.saved],
                "chargedPoints": item.task["chargedPoints"] if item.task else 0,
                "error": item.error or None,
            }
            for item in items
        ],
        "completed": len(done),
        "skipped": len(skipped),
        "failed": len(items) - len(done) - len(skipped),
        "chargedPoints": charged,
        "releasedPoints": held - charged,
        "balance": balance,
    }

    def show() -> None:
        for item in items if len(items) <= 20 else (done or skipped)[:5]:
            for path in item.saved:
                here.output.line(str(path))
        if len(items) > 20:
            here.output.line(f"… {sum(len(item.saved) for item in items)} files in all")
        rows = [("tasks", f"{len(done)} of {len(items)} completed"), ("charged", f"{charged} points")]
        if skipped:
            rows.insert(1, ("skipped", f"{len(skipped)}, their results exist (--again runs them anew)"))
        if held != charged:
            rows.append(("released", f"{held - charged} points"))
        if balance is not None:
            rows.append(("balance", f"{balance} points"))
        if len(items) == 1 and items[0].task:
            rows.insert(0, ("task", items[0].task["taskId"]))
        here.output.table(["receipt", ""], rows)

    here.output.data(answer, show)
    if failed := [item for item in items if not (item.is_done or item.is_skipped)]:
        here.output.fail(
            f"{len(failed)} of {len(items)} failed; {failed[0].label}: {failed[0].error or failed[0].state}",
            hint="The same command runs them again." if len(items) > 1 else "",
        )


# ---------------------------------------------------------------- flows


@flow.command("run")
def run_flow(
    file: Annotated[Path, typer.Argument(help="YAML or JSON with nodes; `file:photo.jpg` as an input is uploaded")],
    out: Annotated[Path, typer.Option("--out", "-o", help="folder of the results")] = Path(),
) -> None:
    """Run a DAG from a file, show its nodes and save the results."""
    import yaml

    here = current()
    body = yaml.safe_load(file.read_text("utf-8"))
    if not isinstance(body, dict) or not isinstance(body.get("nodes"), list):
        here.output.fail(f"{file} has no list of nodes", hint="docs/guides/tools.md has an example.", code=Exit.USAGE)
    item = Item(file.name, {}, f"{file.stem}-")
    bars = NodeBars(here.output.err, is_quiet=here.output.is_json)
    with here.client() as client, bars.progress, _waiting(here):
        uploads: dict[str, str] = {}
        for node in body["nodes"]:
            for name, source in (node.get("inputs") or {}).items():
                if str(source).startswith("file:"):
                    path = str(file.parent / str(source).removeprefix("file:"))
                    uploads[path] = uploads.get(path) or client.upload(path)
                    node["inputs"][name] = uploads[path]
        accepted = client.submit_flow(cast("models.FlowBody", body))
        _follow(client, bars, accepted["taskId"], item, out)
    _receipt(here, [item])


# ---------------------------------------------------------------- tasks


@tasks.callback()
def list_tasks(
    context: typer.Context,
    status: Annotated[
        str | None, typer.Option(help="QUEUED, PROCESSING, COMPLETED, PARTIAL, FAILED, CANCELLED")
    ] = None,
    tool: Annotated[str | None, typer.Option()] = None,
    limit: Annotated[int, typer.Option(min=1, max=100)] = 20,
) -> None:
    """Your tasks, newest first; `show`, `download`, `cancel`, `retry` and `watch` take an id."""
    if context.invoked_subcommand is not None:
        return
    here = current()
    with here.client() as client:
        found = client.list_tasks(status=cast("Any", status), tool=tool, limit=limit)["items"]
    columns = {"task": "taskId", "tool": "tool", "status": "status", "%": "progress", "points": "chargedPoints"}
    here.output.items(cast("list[dict[str, Any]]", found), columns)


@tasks.command("show")
def show_task(task_id: str) -> None:
    """A task with its nodes and results."""
    here = current()
    with here.client() as client:
        view = client.get_task(task_id)

    def show() -> None:
        here.output.line(
            f"{view['tool']} {view['status']} {view['progress']} %, "
            f"{view['chargedPoints']} of {view['pricePoints']} points"
        )
        rows = [
            (n["name"], n["status"], n["progress"], n["attempt"], n["error"]["code"] if n["error"] else None)
            for n in view["nodes"]
        ]
        here.output.table(["node", "status", "%", "attempt", "error"], rows)
        for result in view["results"]:
            here.output.line(
                f"{result['name']}.{EXTENSIONS.get(result['contentType'], '')} {result['width']} × {result['height']}"
            )

    here.output.data(view, show)


@tasks.command("watch")
def watch_task(task_id: str) -> None:
    """Follow a task to its end."""
    here = current()
    bars = NodeBars(here.output.err, is_quiet=here.output.is_json)
    with here.client() as client, bars.progress:
        view = client.wait(task_id, on_event=bars.take)
    here.output.data(view, lambda: here.output.out.print(shown(view["status"])))
    if view["status"] != "COMPLETED":
        here.output.fail(f"{task_id} is {view['status']}")


@tasks.command("download")
def download_task(task_id: str, out: Annotated[Path, typer.Option("--out", "-o")] = Path()) -> None:
    """Save the results of a task."""
    here = current()
    with here.client() as client:
        saved = [str(path) for path in client.download(client.get_task(task_id), out)]
    here.output.data(saved, lambda: here.output.line("\n".join(saved)))


@tasks.command("cancel")
def cancel_task(task_id: str) -> None:
    """Cancel a task: what was delivered is charged, the rest released."""
    here = current()
    with here.client() as client:
        answer = client.cancel_task(task_id)
    here.output.data(answer, lambda: here.output.line(f"{task_id} is {answer['status']}"))


@tasks.command("retry")
def retry_task(task_id: str) -> None:
    """Run again what did not complete of a failed or partial task."""
    here = current()
    with here.client() as client:
        answer = client.retry_task(task_id)
    here.output.data(answer, lambda: here.output.line(f"{task_id} is {answer['status']}"))


def why(task_id: str) -> None:
    """Why a task waits: for what, at which place, for how long."""
    here = current()
    with here.client() as client:
        found = client.explain_task(task_id)
    rows = [(n["name"], n["waitingFor"], n["position"], n["etaSeconds"], n["detail"]) for n in found["nodes"]]

    def show() -> None:
        if rows:
            here.output.table(["node", "waits for", "place", "s", "detail"], rows)
        else:
            here.output.line("Nothing waits: every node has ended.")

    here.output.data(found, show)
