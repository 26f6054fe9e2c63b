"""Pictures to send and to save: content types, names of inputs, names of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from artiway_client import models

Source = str | Path | bytes | BinaryIO
ENDED = frozenset({"COMPLETED", "PARTIAL", "FAILED", "CANCELLED"})
EXTENSIONS = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp"}


def read(source: Source) -> bytes:
    if isinstance(source, bytes):
        return source
    if isinstance(source, str | Path):
        return Path(source).read_bytes()
    return source.read()


def save(content: bytes, path: Path) -> Path:
    """Whole or not at all: a file that is being written has another name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(content)
    return part.rename(path)


def content_type(picture: bytes) -> str:
    """From the first bytes, whatever the file is called."""
    if picture.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if picture.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if picture[:4] == b"RIFF" and picture[8:12] == b"WEBP":
        return "image/webp"
    raise ValueError("not a PNG, JPEG or WebP picture")


def input_names(tool: models.ToolBody, count: int) -> list[str]:
    """The names of `count` pictures: the tool's inputs in order, or numbered ones for a batch tool."""
    if tool["group"] == "batch":
        stem = tool["inputs"][0].removesuffix("1")
        return [f"{stem}{number}" for number in range(1, count + 1)]
    names = [*tool["inputs"], *tool["optionalInputs"]]
    if not len(tool["inputs"]) <= count <= len(names):
        raise ValueError(f"{tool['tool']} takes {', '.join(names)}; {count} pictures were given")
    return names[:count]


def file_names(results: Sequence[models.ResultBody], prefix: str = "") -> list[str]:
    return [f"{prefix}{result['name']}.{EXTENSIONS.get(result['contentType'], 'bin')}" for result in results]


def tool_named(tools: Mapping[str, models.ToolBody], name: str) -> models.ToolBody:
    if name not in tools:
        raise ValueError(f"there is no tool {name!r}; there are {', '.join(sorted(tools))}")
    return tools[name]
