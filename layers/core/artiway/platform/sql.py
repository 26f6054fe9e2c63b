"""Named queries: SQL lives in .sql files, each statement under a line `-- name: verb_noun`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from uuid import UUID

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def load(package: str, file: str = "queries.sql") -> Mapping[str, bytes]:
    """All statements of a package's query file by name. Bytes, because psycopg types accept only literal `str`."""
    parts = _NAME.split((files(package) / file).read_text("utf-8"))
    names, bodies = parts[1::2], parts[2::2]
    queries = {name: body.strip().encode() for name, body in zip(names, bodies, strict=True)}
    if len(queries) != len(names):
        raise ValueError(f"{package}/{file} names a query twice")
    return queries


def array(values: Iterable[UUID | str | int]) -> str:
    """Ids or numbers as the text of an array, cast in the statement. Psycopg adapts each list item three times, which
    is slow for hundreds of nodes."""
    return "{" + ",".join(map(str, values)) + "}"
