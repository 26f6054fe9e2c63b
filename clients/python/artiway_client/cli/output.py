"""What the user sees: tables or JSON on stdout, progress and errors on stderr, exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NoReturn

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from artiway_client.errors import ApiError

STATUS_STYLES = {
    "COMPLETED": "green",
    "SUCCESS": "green",
    "ok": "green",
    "ACTIVE": "green",
    "FAILED": "red",
    "TERMINATED": "red",
    "PARTIAL": "yellow",
    "CANCELLED": "yellow",
    "RETRYING": "yellow",
    "paused": "yellow",
}


class Exit(IntEnum):
    """Exit codes of every command."""

    OK = 0
    FAILED = 1  # the work was done and failed: a task, a text, a check
    USAGE = 2
    IDENTITY = 3  # not logged in, or not allowed
    NOT_FOUND = 4
    REFUSED = 5  # points, limits, a wrong field, a wrong state
    AWAY = 6  # the platform does not answer
    INTERRUPTED = 130


class Stop(Exception):
    """Ends the command with a code, after what was to be said."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Output:
    is_json: bool = False

    def __post_init__(self) -> None:
        self.out = Console(highlight=False, soft_wrap=False)
        self.err = Console(stderr=True, highlight=False)

    def data(self, value: Any, show: Callable[[], object] | None = None) -> None:
        """The answer of a command: JSON where it was asked for, else what `show` prints."""
        if self.is_json:
            print(json.dumps(value, ensure_ascii=False, indent=2))
        elif show is not None:
            show()

    def line(self, text: str = "") -> None:
        if not self.is_json:
            self.out.print(text, markup=False)

    def note(self, text: str) -> None:
        self.err.print(text, markup=False, style="dim")

    def fail(self, text: str, *, hint: str = "", code: Exit = Exit.FAILED) -> NoReturn:
        self.err.print(Text.assemble(("artiway: ", "bold red"), text), soft_wrap=True)
        if hint:
            self.err.print(Text(hint), soft_wrap=True)
        raise Stop(code)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
        self.out.print(table(columns, rows, title=title))

    def items(self, items: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
        """A list: `columns` maps the title to the field, with dots for fields of fields."""
        found = list(items)
        self.data(
            found, lambda: self.table(list(columns), [[_at(one, path) for path in columns.values()] for one in found])
        )


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> Table:
    """Numbers stand under each other: a column that has nothing else is aligned to the right."""
    made = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, show_edge=False)
    listed = [list(row) for row in rows]
    for number, column in enumerate(columns):
        values = [row[number] for row in listed if row[number] not in (None, "")]
        is_number = bool(values) and all(_is_number(value) for value in values)
        made.add_column(column, no_wrap=number == 0, overflow="fold", justify="right" if is_number else "left")
    for row in listed:
        made.add_row(*(shown(value) for value in row))
    return made


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return value.removesuffix(" %").isdecimal()
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(value: object) -> Text:
    if value is None:
        return Text("–", style="dim")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, float):
        return Text(f"{value:.3g}")
    if isinstance(value, list | dict):
        return Text(json.dumps(value, ensure_ascii=False))
    text = str(value)
    if len(text) > 19 and text[4:5] == "-" and text[10:11] == "T":
        text = f"{text[:10]} {text[11:19]}"
    return Text(text, style=STATUS_STYLES.get(text, ""))


def _at(item: Mapping[str, Any], path: str) -> Any:
    found: Any = item
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def exit_of(error: ApiError) -> Exit:
    if error.status in {401, 403}:
        return Exit.IDENTITY
    if error.status == 404:
        return Exit.NOT_FOUND
    return Exit.AWAY if error.status >= 500 else Exit.REFUSED


def hint_for(error: ApiError) -> str:
    """What the user can do about it."""
    lines = []
    match error.code:
        case "AUTH_401_BAD_CREDENTIALS":
            lines.append("Check login and password; after five failures wait for a moment.")
        case "POINTS_402_INSUFFICIENT":
            lines.append(
                "See `artiway points`; recharge with `artiway topup`, or `artiway points --trial` for a first gift."
            )
        case "TASK_429_QUEUE_FULL":
            lines.append("Too many tasks have not ended. Wait for them (`artiway tasks`), or cancel some.")
        case "TASK_503_STEP_UNAVAILABLE":
            lines.append("A step of this tool is out of order; `artiway why` of a waiting task names it.")
        case "AUTH_403_FORBIDDEN":
            lines.append(f"You need the permission {error.details.get('permission', '')}: ask an owner of your tenant.")
        case "KEY_403_BEYOND_PARENT":
            lines.append("A key cannot do this: log in with a password.")
        case "DAG_422_CYCLE":
            lines.append("Break the cycle that the message names.")
        case _ if error.status == 401:
            lines.append("Log in: artiway login")
        case _ if error.status == 422:
            lines += _fields(error.details)
        case _ if error.status == 429 and error.retry_after_s:
            lines.append(f"Try again in {error.retry_after_s:.0f} s.")
        case _ if error.status >= 500:
            lines.append("Run `artiway doctor` to see which part is away.")
    if error.request_id:
        lines.append(f"request {error.request_id}")
    return "\n".join(lines)


def _fields(details: Mapping[str, Any]) -> list[str]:
    """The fields of a refused request, each on a line."""
    lines = []
    for name, value in details.items():
        if isinstance(value, list):
            lines += [f"  {_field(one)}" for one in value[:10]]
        else:
            lines.append(f"  {name}: {value}")
    return lines


def _field(one: Any) -> str:
    if not isinstance(one, Mapping):
        return str(one)
    place = one.get("field") or ".".join(map(str, one.get("loc", []) or []))
    return f"{place}: {one.get('message') or one.get('msg') or one.get('reason') or dict(one)}"


def is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
