"""Reads services.toml: what each service costs and allows, and the prompt that it makes of a request."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from artiway.generations.model import InvalidGeneration, Mode, NoSuchService, Price, PromptTooLarge, estimated_tokens
from artiway.settings.model import Defaults, Setting, SettingValues
from artiway.tasks import parameters

HIGHEST_PRICE = 10_000
_PLACE = re.compile(r"\{([a-z_]+)\}")
HIGHEST_TOKENS = 128_000


@dataclass(frozen=True)
class Prices:
    """The settings of a service's prices, in points per 1,000 tokens."""

    input: Setting[int]
    output: Setting[int]


@dataclass(frozen=True)
class TokenLimits:
    """The settings of a service's limits. `usual` is the length of a text whose caller asks for none."""

    input: Setting[int]
    usual: Setting[int]
    most: Setting[int]


@dataclass(frozen=True)
class Service:
    """`system` and `prompt` are templates: `{name}` stands for the input or a parameter."""

    name: str
    mode: Mode
    title: Mapping[str, str]
    prices: Prices
    limits: TokenLimits
    system: str
    prompt: str
    params: Mapping[str, parameters.Schema]
    json_schema: Mapping[str, Any] | None = None
    values: SettingValues = Defaults()  # noqa: RUF009 (it has no state)

    @property
    def price(self) -> Price:
        """In force now."""
        return Price(self.values.get(self.prices.input), self.values.get(self.prices.output))

    @property
    def most_tokens(self) -> int:
        return self.values.get(self.limits.most)

    @property
    def usual_tokens(self) -> int:
        return min(self.values.get(self.limits.usual), self.most_tokens)

    @property
    def params_schema(self) -> dict[str, Any]:
        return {"type": "object", "properties": dict(self.params), "additionalProperties": False}

    def checked_params(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters with defaults for absent ones. Raises InvalidGeneration for one that is unknown or wrong."""
        for name, value in given.items():
            if name not in self.params:
                raise InvalidGeneration(f"params.{name}", f"unknown; known are {', '.join(sorted(self.params))}")
            if reason := parameters.fault(self.params[name], value):
                raise InvalidGeneration(f"params.{name}", reason)
        defaults = {name: schema["default"] for name, schema in self.params.items() if "default" in schema}
        return {**defaults, **given}

    def checked_input(self, given: Mapping[str, Any]) -> dict[str, Any]:
        text = given.get("text")
        if not isinstance(text, str) or not text.strip():
            raise InvalidGeneration("input.text", "is required")
        if not _is_storable(text):
            raise InvalidGeneration("input.text", "contains a NUL or half of a character")
        if given.get("inputId") is not None:
            raise InvalidGeneration("input.inputId", "this service takes no picture")
        return {"text": text}

    def checked_tokens(self, wanted: int | None) -> int:
        if wanted is not None and wanted > self.most_tokens:
            raise InvalidGeneration("maxTokens", f"more than {self.most_tokens}")
        return wanted or self.usual_tokens

    def parsed(self, text: str) -> dict[str, Any]:
        """The result of a structured service, by its JSON schema. Raises NotOfSchema."""
        assert self.json_schema is not None
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise NotOfSchema("the answer is not JSON") from None
        if not isinstance(found, dict) or not _is_storable(text) or "\\u0000" in text:
            raise NotOfSchema("the answer is no JSON object")
        schemas = self.json_schema["properties"]
        if found.keys() != schemas.keys():
            raise NotOfSchema(f"the answer has other fields than {', '.join(schemas)}")
        for name, schema in schemas.items():
            if reason := parameters.fault(schema, found[name]):
                raise NotOfSchema(f"{name}: {reason}")
        return found

    def messages(self, input_: Mapping[str, Any], params: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
        """Role and text of each message to the model."""
        values = {**params, **input_}
        return [("system", _filled(self.system, values)), ("user", _filled(self.prompt, values))]

    def input_tokens(self, input_: Mapping[str, Any], params: Mapping[str, Any]) -> int:
        """About how many tokens the prompt has. Raises PromptTooLarge."""
        tokens = sum(estimated_tokens(text) for _, text in self.messages(input_, params))
        limit = self.values.get(self.limits.input)
        if tokens > limit:
            raise PromptTooLarge(tokens=tokens, limit=limit)
        return tokens


class NotOfSchema(ValueError):
    """A model's answer is not what the service promises. The message may be shown."""


class Services:
    """All services, with prices and limits from the given settings."""

    def __init__(self, services: Mapping[str, Service], values: SettingValues) -> None:
        self._services = {name: replace(service, values=values) for name, service in services.items()}

    def all(self) -> list[Service]:
        return list(self._services.values())

    def get(self, name: str) -> Service:
        """Raises NoSuchService."""
        if name not in self._services:
            raise NoSuchService(name)
        return self._services[name]

    def of_modes(self, modes: Sequence[Mode]) -> list[Service]:
        return [service for service in self._services.values() if service.mode in modes]


@cache
def load() -> Mapping[str, Service]:
    rows = tomllib.loads((files("artiway.generations") / "services.toml").read_text("utf-8"))
    return {name: _service(name, row) for name, row in rows.items()}


def _service(name: str, row: Mapping[str, Any]) -> Service:
    limits, price = row["limits"], row["price"]

    def points(kind: str) -> Setting[int]:
        key, description = f"text.{name}.{kind}_price", f"points for 1,000 tokens of {kind}"
        return Setting(key, price[kind], description, minimum=0, maximum=HIGHEST_PRICE)

    def tokens(kind: str, description: str) -> Setting[int]:
        return Setting(f"text.{name}.{kind}", limits[kind], description, minimum=1, maximum=HIGHEST_TOKENS)

    return Service(
        name=name,
        mode=Mode(row["mode"]),
        title=row["title"],
        prices=Prices(points("input"), points("output")),
        limits=TokenLimits(
            input=tokens("input_tokens", "tokens that the prompt may have"),
            usual=tokens("max_tokens", "tokens of a text whose caller asks for no length"),
            most=tokens("most_tokens", "tokens that a caller can ask for"),
        ),
        system=row["system"],
        prompt=row["prompt"],
        params=row.get("params", {}),
        json_schema=row.get("json_schema"),
    )


def _is_storable(text: str) -> bool:
    """PostgreSQL takes neither NUL nor lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


def _filled(template: str, values: Mapping[str, Any]) -> str:
    """Replace each `{name}` once: braces in a tenant's own text are text, and so are those around anything else."""
    return _PLACE.sub(lambda place: str(values.get(place[1], "")), template)
