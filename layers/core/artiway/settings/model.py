"""Live settings: numbers and texts that an operator changes while the system runs. Each has a default in code."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar, cast
from uuid import UUID

from artiway.errors import NotFound, Refused

T = TypeVar("T")
LARGEST_VALUE = 16_384
_TYPES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
_UNITS: dict[type, str] = {str: "characters", list: "items", dict: "fields"}


class NoSuchSetting(NotFound):
    code = "SETTING_404_UNKNOWN"

    def __init__(self, key: str) -> None:
        super().__init__("there is no setting with this key", key=key[:100])


class SettingInvalid(Refused):
    code = "SETTING_422_INVALID"

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}", field="value", reason=reason)


@dataclass(frozen=True, eq=False)
class Setting(Generic[T]):
    """`minimum` and `maximum` bound a number, and the length of a text, list or object.

    `check` returns what is wrong with a value of the right type and size, or None.
    """

    key: str
    default: T
    description: str
    minimum: float | None = None
    maximum: float | None = None
    check: Callable[[Any], str | None] | None = None

    @property
    def type(self) -> str:
        return _TYPES[type(self.default)]

    def fault(self, value: object) -> str | None:
        """Why this value cannot be used, or None."""
        wanted = type(self.default)
        is_number = wanted is float and type(value) is int
        if type(value) is not wanted and not is_number:
            return f"is no {self.type}"
        if isinstance(value, int | float) and not isinstance(value, bool):
            if not math.isfinite(value):
                return "is not finite"
            return self._out_of_bounds(value, "") or self._checked(value)
        if isinstance(value, str | list | dict):
            fault = _unstorable(value) or self._out_of_bounds(len(value), f" {_UNITS[wanted]}")
            return fault or self._checked(value)
        return self._checked(value)

    def parsed(self, value: object) -> T:
        """The value in the setting's type. Raises SettingInvalid."""
        if reason := self.fault(value):
            raise SettingInvalid(self.key, reason)
        return cast("T", float(value) if isinstance(self.default, float) else value)  # type: ignore[arg-type]

    def _out_of_bounds(self, size: float, unit: str) -> str | None:
        if self.minimum is not None and size < self.minimum:
            return f"is less than {self.minimum}{unit}"
        if self.maximum is not None and size > self.maximum:
            return f"is more than {self.maximum}{unit}"
        return None

    def _checked(self, value: object) -> str | None:
        return self.check(value) if self.check is not None else None


class SettingValues(Protocol):
    """What a service needs to read its settings. It never raises: without a store it returns the default."""

    def get(self, setting: Setting[T]) -> T: ...


class Defaults:
    """Every setting has its default."""

    def get(self, setting: Setting[T]) -> T:
        return setting.default


class Fixed:
    """The given values; every other setting has its default."""

    def __init__(self, values: Mapping[Setting[Any], Any]) -> None:
        self._values = {setting.key: setting.parsed(value) for setting, value in values.items()}

    def get(self, setting: Setting[T]) -> T:
        return cast("T", self._values.get(setting.key, setting.default))


@dataclass(frozen=True)
class Override:
    key: str
    value: Any
    updated_at: datetime
    updated_by: UUID | None


@dataclass(frozen=True)
class SettingState:
    """A setting, the value in force, and the stored override. `fault` is why a stored override is not used."""

    setting: Setting[Any]
    value: Any
    override: Override | None
    fault: str | None


def _unstorable(value: object) -> str | None:
    """PostgreSQL's jsonb takes neither NUL nor lone surrogates nor NaN."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        size = len(text.encode("utf-8"))
    except (ValueError, RecursionError, TypeError):
        return "is not JSON text"
    if "\\u0000" in text:
        return "contains a NUL"
    return f"is larger than {LARGEST_VALUE} bytes" if size > LARGEST_VALUE else None
