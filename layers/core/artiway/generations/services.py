"""Reads services.toml: what each service costs and allows, and the prompt that it makes of a request."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from artiway.generations.model import (
    ASCII_PER_TOKEN,
    Generation,
    InvalidGeneration,
    Mode,
    NoSuchService,
    Price,
    PromptTooLarge,
    estimated_tokens,
)
from artiway.settings.model import Defaults, Setting, SettingValues
from artiway.tasks import parameters

HIGHEST_PRICE = 10_000
_PLACE = re.compile(r"\{([a-z_]+)\}")
HIGHEST_TOKENS = 128_000
# A common size of a picture for a model; providers count what it really is.
IMAGE_TOKENS = 1_000
TEXT_INPUT = {"text": True}
INPUTS: Mapping[str, Mapping[str, Any]] = {
    "text": {"type": "string", "minLength": 1},
    "inputId": {"type": "string", "description": "an upload"},
}


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
    # What a request has, and whether it must.
    inputs: Mapping[str, bool] = field(default_factory=lambda: TEXT_INPUT)
    # Of a chain: the service that runs first.
    after: str | None = None
    # Whether `POST /generations` takes it.
    is_listed: bool = True
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

    @property
    def input_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {name: dict(INPUTS[name]) for name in self.inputs},
            "required": [name for name, is_required in self.inputs.items() if is_required],
            "additionalProperties": False,
        }

    @property
    def sees_picture(self) -> bool:
        """Whether its prompt has the picture. A chain has what its first stage found."""
        return "inputId" in self.inputs and self.after is None

    @property
    def takes_chat(self) -> bool:
        """Whether the messages of a conversation can stand for its input."""
        return self.inputs == TEXT_INPUT and self.after is None

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
        """Without what is absent. Raises InvalidGeneration; whether the picture exists is not known here."""
        found: dict[str, Any] = {}
        if self.takes_chat and "messages" in given:  # of a chat request, whose edge has checked it
            return dict(given)
        for name, kind in (("text", "text"), ("inputId", "picture")):
            value = given.get(name)
            if name not in self.inputs and value is not None:
                raise InvalidGeneration(f"input.{name}", f"this service takes no {kind}")
            if not isinstance(value, str) or not value.strip():
                if self.inputs.get(name):
                    raise InvalidGeneration(f"input.{name}", "is required")
                continue
            if not _is_storable(value):
                raise InvalidGeneration(f"input.{name}", "contains a NUL or half of a character")
            found[name] = value
        return found

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
        *earlier, last = input_.get("messages") or [("user", input_.get("text", ""))]
        values = {**params, **input_, "text": last[1]}
        own = [("system", _filled(self.system, values))] if self.system else []
        return [*own, *((role, text) for role, text in earlier), ("user", _filled(self.prompt, values).strip())]

    def input_tokens(self, input_: Mapping[str, Any], params: Mapping[str, Any]) -> int:
        """About how many tokens the prompt has. Raises PromptTooLarge."""
        tokens = sum(estimated_tokens(text) for _, text in self.messages(input_, params))
        if self.sees_picture:
            tokens += IMAGE_TOKENS
        limit = self.values.get(self.limits.input)
        if tokens > limit:
            raise PromptTooLarge(tokens=tokens, limit=limit)
        return tokens


# What the second stage of a chain reads of the first, in tokens: so its prompt has a worst case before the first began.
FACTS_TOKENS = 600


def facts_of(result: Mapping[str, Any]) -> str:
    """The result of a first stage as lines of a prompt, cut to `FACTS_TOKENS`."""
    lines = []
    for name, value in result.items():
        text = ", ".join(str(one) for one in value) if isinstance(value, list) else str(value)
        if text.strip():
            lines.append(f"{name}: {text}")
    return clipped("\n".join(lines), FACTS_TOKENS)


def clipped(text: str, tokens: int) -> str:
    """The longest beginning that has about this many tokens at most."""
    quarters = 0
    for place, character in enumerate(text):
        quarters += 1 if character.isascii() else ASCII_PER_TOKEN
        if quarters > ASCII_PER_TOKEN * tokens:
            return text[:place]
    return text


class NotOfSchema(ValueError):
    """A model's answer is not what the service promises. The message may be shown."""


class Services:
    """All services, with prices and limits from the given settings."""

    def __init__(self, services: Mapping[str, Service], values: SettingValues) -> None:
        self._services = {name: replace(service, values=values) for name, service in services.items()}

    def listed(self) -> list[Service]:
        return [service for service in self._services.values() if service.is_listed]

    def chats(self) -> list[str]:
        """The services that take the messages of a conversation."""
        return [service.name for service in self._services.values() if service.takes_chat]

    def get(self, name: str) -> Service:
        """Raises NoSuchService."""
        if name not in self._services:
            raise NoSuchService(name)
        return self._services[name]

    def in_lane(self, mode: Mode) -> list[tuple[str, str]]:
        """The services whose texts wait in lanes of a mode, and whose route each uses there: a chain waits in two."""
        found = []
        for service in self._services.values():
            stages = [service.name] if service.after is None else [service.after, service.name]
            found += [(service.name, stage) for stage in stages if self._services[stage].mode is mode]
        return found

    def stage_of(self, generation: Generation) -> tuple[Service, Mapping[str, Any], Mapping[str, Any]]:
        """The service of the stage that a text is in, with its input and parameters. Raises NoSuchService."""
        service, chain = self.get(generation.service), generation.chain
        if chain is None:
            return service, generation.input, generation.params
        if chain.found is None:
            first = self.get(chain.dependency)
            return first, {"inputId": generation.input["inputId"]}, first.checked_params({})
        return service, {**generation.input, "facts": facts_of(chain.found.result)}, generation.params


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
        inputs=row.get("input", TEXT_INPUT),
        after=row.get("after"),
        is_listed=row.get("is_listed", True),
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
