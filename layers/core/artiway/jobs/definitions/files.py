"""A set of jobs as one file, YAML or JSON: `{version: 1, jobs: [{jobId?, name, schedule, task, …}]}`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from artiway.jobs.definitions.model import InvalidFile

VERSION = 1
JOBS_LIMIT = 500
DEPTH_LIMIT = 32
NODES_LIMIT = 100_000
YAML_TYPES = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"})
NO_ALIASES = "aliases (*) are not allowed; quote a text that begins with *"
_FIELDS = {"version", "jobs", "dryRun"}
_UNICODE_BREAKS = frozenset("\x85\u2028\u2029\ufeff")


def read(content: bytes, media_type: str) -> tuple[list[Mapping[str, Any]], bool]:
    """The documents of a file, and whether it asks for a dry run. Raises InvalidFile."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidFile("the file is not UTF-8") from None
    found = _yaml(text) if media_type in YAML_TYPES else _json(text)
    if isinstance(found, list):
        found = {"jobs": found}
    if not isinstance(found, dict) or not isinstance(found.get("jobs"), list):
        raise InvalidFile("a file is an object with a list `jobs`")
    if unknown := found.keys() - _FIELDS:
        raise InvalidFile(f"unknown field {min(map(str, unknown))[:64]}")
    if found.get("version", VERSION) != VERSION:
        raise InvalidFile(f"version {VERSION} is known")
    is_dry_run = found.get("dryRun", False)
    if not isinstance(is_dry_run, bool):
        raise InvalidFile("dryRun is true or false")
    jobs = found["jobs"]
    if not 1 <= len(jobs) <= JOBS_LIMIT:
        raise InvalidFile(f"a file has 1 to {JOBS_LIMIT} jobs", limit=JOBS_LIMIT)
    for place, job in enumerate(jobs):
        if not isinstance(job, dict):
            raise InvalidFile("a job is an object", place=f"jobs.{place}")
    _check(found, 0)
    return jobs, is_dry_run


def written(jobs: Sequence[Mapping[str, Any]], *, is_yaml: bool) -> str:
    document = {"version": VERSION, "jobs": list(jobs)}
    if not is_yaml:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    import yaml

    class Dumper(yaml.SafeDumper):
        """Quotes each text that the loader would read as another value, such as 0E0."""

    def represent_text(dumper: Any, text: str) -> Any:
        # Other styles fold the line breaks of Unicode into spaces.
        style = '"' if _UNICODE_BREAKS.intersection(text) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent_text)
    _resolve_json(Dumper)
    return str(yaml.dump(document, Dumper=Dumper, allow_unicode=True, sort_keys=False, width=120))


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidFile(f"not valid JSON: {str(error)[:150]}") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _yaml(text: str) -> Any:
    """The values of JSON alone: no aliases, no tags, and texts such as `on` or a date stay texts."""
    import yaml  # no other request pays for it

    depth = nodes = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.events.AliasEvent):
                raise InvalidFile(NO_ALIASES)
            if getattr(event, "tag", None) is not None or getattr(event, "anchor", None) is not None:
                raise InvalidFile("tags (!) and anchors (&) are not allowed; quote such a text")
            nodes += 1
            depth += isinstance(event, yaml.events.CollectionStartEvent) - isinstance(
                event, yaml.events.CollectionEndEvent
            )
            if depth > DEPTH_LIMIT or nodes > NODES_LIMIT:
                raise InvalidFile("the file is nested too deeply or has too many values")
        return yaml.load(text, Loader=_loader())  # noqa: S506 (a safe loader with fewer types)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f" in line {mark.line + 1}"
        if getattr(error, "context", None) == "while scanning an alias":
            raise InvalidFile(f"{NO_ALIASES}{place}") from None
        raise InvalidFile(f"not valid YAML{place}: {str(getattr(error, 'problem', error))[:150]}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidFile(f"not valid YAML: {str(error)[:150]}") from None


def _loader() -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {}  # noqa: RUF012 (PyYAML copies it for each class)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            if len(names) < len(node.value) or len(set(names)) < len(names):
                raise InvalidFile(f"a field is named twice or is no text, in line {node.start_mark.line + 1}")
            return super().construct_mapping(node, deep=deep)

    _resolve_json(Loader)
    return Loader


def _resolve_json(to: Any) -> None:
    """Let plain scalars have the types of YAML 1.2's JSON schema."""
    import re

    for tag, pattern, first in (
        ("tag:yaml.org,2002:bool", r"true|false", "tf"),
        ("tag:yaml.org,2002:null", r"null|~|", ["n", "~", ""]),
        ("tag:yaml.org,2002:int", r"-?(?:0|[1-9][0-9]{0,17})", "-0123456789"),
        ("tag:yaml.org,2002:float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", "-0123456789"),
    ):
        to.add_implicit_resolver(tag, re.compile(rf"^(?:{pattern})$"), list(first))


def _check(value: Any, depth: int) -> None:
    """Refuse what PostgreSQL does not store."""
    if depth > DEPTH_LIMIT:
        raise InvalidFile("the file is nested too deeply")
    if isinstance(value, str) and ("\0" in value or any("\ud800" <= one <= "\udfff" for one in value)):
        raise InvalidFile("a text contains NUL or a lone surrogate")
    if isinstance(value, dict):
        for name, item in value.items():
            _check(name, depth)
            _check(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check(item, depth + 1)
