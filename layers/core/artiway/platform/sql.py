"""Named queries: SQL lives in .sql files, each statement under a line `-- name: verb_noun`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from uuid import UUID

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def load(package: str, file: str = "queries.sql") -> Mapping[str, bytes]:
    """All statements of a package's query file by name. Bytes, as psycopg takes no plain `str` that it cannot trust."""
    parts = _NAME.split((files(package) / file).read_text("utf-8"))
    names, bodies = parts[1::2], parts[2::2]
    queries = {name: body.strip().encode() for name, body in zip(names, bodies, strict=True)}
    if len(queries) != len(names):
        raise ValueError(f"{package}/{file} names a query twice")
    return queries


def array(values: Iterable[UUID | str | int]) -> str:
    """Ids or numbers as the text of an array, to be cast where it is used. Psycopg looks at each item of a list three
    times, which the paths of hundreds of nodes feel."""
    return "{" + ",".join(map(str, values)) + "}"
