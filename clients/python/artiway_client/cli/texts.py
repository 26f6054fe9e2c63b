"""Texts: a typewriter in the terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from artiway_client.cli.session import current
from artiway_client.streams import Event


def register(app: typer.Typer) -> None:
    app.command()(text)
    app.command()(services)


def services() -> None:
    """The services that write texts. Their prices are for 1,000 tokens."""
    here = current()
    with here.client() as client:
        columns = {"service": "service", "mode": "mode", "in": "pricePoints.input", "out": "pricePoints.output"}
        here.output.items(client.each(client.list_services), columns)


def text(
    service: Annotated[str, typer.Argument(help="copywriting, title, image_tags, listing")],
    words: Annotated[str | None, typer.Argument(help="what the text is about")] = None,
    picture: Annotated[Path | None, typer.Option(help="a picture, for services that look at one")] = None,
    param: Annotated[list[str] | None, typer.Option("--param", "-p", help="name=value")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="longest text")] = None,
    lane: Annotated[str | None, typer.Option(help="a lower lane")] = None,
) -> None:
    """Have a text written, and see it as it is written."""
    here = current()
    last: dict[str, Any] = {}

    def notice(event: Event) -> None:
        last[event.name] = event.data
        if event.name == "start":
            here.output.note(f"{event.data.get('queueId')} · {event.data.get('provider')}/{event.data.get('modelId')}")
        elif event.name == "backpressure":
            here.output.note("waiting for a place")
        elif event.name == "restart":
            here.output.note("\nthe text begins again:")

    with here.client() as client:
        given: dict[str, Any] = {"text": words} if words is not None else {}
        if picture is not None:
            given["inputId"] = client.upload(picture)
        more: dict[str, Any] = {"maxTokens": max_tokens, "lane": lane, "params": parsed(param or [])}
        pieces = []
        asked = {name: value for name, value in more.items() if value}
        for piece in client.write(service, on_event=notice, input=given, **asked):
            pieces.append(piece)
            if not here.output.is_json:
                sys.stdout.write(piece)
                sys.stdout.flush()
    done = last.get("done", last.get("cancelled", {}))
    if here.output.is_json:
        here.output.data({"text": "".join(pieces), **done})
        return
    print()
    here.output.note(f"{done.get('points', 0)} points, {done.get('usage')}")


def parsed(pairs: list[str]) -> dict[str, Any]:
    """name=value, where a value that is JSON is read as JSON."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator:
            raise typer.BadParameter(f"{pair!r} is not name=value")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found
