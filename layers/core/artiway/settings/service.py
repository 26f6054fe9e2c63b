"""Live settings: an override in PostgreSQL, cached for an hour, in force everywhere within a minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypedDict, TypeVar
from uuid import UUID

from artiway.platform.logs import Logger
from artiway.platform.ports import Cache
from artiway.settings.model import NoSuchSetting, Override, Setting, SettingState

logger = Logger("settings")
T = TypeVar("T")

CACHE_KEY = "settings"
CACHE_S = 3_600
# A cached copy older than this is read again: an invalidation that Redis lost delays a change by no more.
CURRENT_S = 30
# A process asks the cache again after this time.
SNAPSHOT_S = 1
# After a failure the last known values stay in force for this time, so that requests do not wait again.
REST_S = 5


class SettingReader(Protocol):
    def overrides(self) -> Sequence[Override]: ...


class SettingStore(SettingReader, Protocol):
    def put(self, key: str, value: Any, *, actor_id: UUID | None) -> None: ...

    def delete(self, key: str, *, actor_id: UUID | None) -> None: ...


class Copy(TypedDict):
    """What the cache keeps: all overrides, and when they were read."""

    at: float
    values: dict[str, Any]


class LiveValues:
    """Reads settings. A failure of PostgreSQL or Redis leaves the last known values, or else the defaults, in force."""

    def __init__(self, store: SettingReader, cache: Cache, *, now: Callable[[], float] = time.time) -> None:
        self._store, self._cache, self._now = store, cache, now
        self._known: Mapping[str, Any] = {}
        self._until = float("-inf")
        self._reported: set[str] = set()

    def get(self, setting: Setting[T]) -> T:
        known = self._overrides()
        if setting.key not in known:
            return setting.default
        value = known[setting.key]
        if reason := setting.fault(value):
            if setting.key not in self._reported:
                self._reported.add(setting.key)
                logger.warning("override not used", setting=setting.key, reason=reason)
            return setting.default
        return setting.parsed(value)

    def items(self) -> list[tuple[str, Callable[[], Copy], float]]:
        """For the cache's warm-up: key, load and lifetime."""
        return [(CACHE_KEY, self._load, CACHE_S)]

    def forget(self) -> None:
        """Ask the cache at the next read."""
        self._until = float("-inf")

    def refresh(self) -> int:
        """Read the settings from PostgreSQL and replace the cached copy. Raises if PostgreSQL is away."""
        self._cache.refresh(CACHE_KEY, self._load, ttl_s=CACHE_S)
        self.forget()
        return 1

    def _overrides(self) -> Mapping[str, Any]:
        now = self._now()
        if self._until - REST_S <= now < self._until:  # also false after the clock was set back
            return self._known
        try:
            self._known = self._read()["values"]
            self._until = now + SNAPSHOT_S
        except Exception:
            logger.exception("settings not readable")
            self._until = now + REST_S
        return self._known

    def _read(self) -> Copy:
        copy = self._cache.get(CACHE_KEY, self._load, ttl_s=CACHE_S)
        if copy is None or not self._is_current(copy):
            try:
                copy = self._cache.refresh(CACHE_KEY, self._load, ttl_s=CACHE_S, is_current=self._is_current)
            except Exception:
                if copy is None:
                    raise
                logger.exception("settings not read again")  # the copy stays in force while PostgreSQL is away
        return copy or self._load()

    def _is_current(self, copy: Copy) -> bool:
        return self._now() - copy["at"] < CURRENT_S

    def _load(self) -> Copy:
        at = self._now()
        return {"at": at, "values": {override.key: override.value for override in self._store.overrides()}}


class SettingsService:
    """Lists and changes settings. A change is audited and then invalidates the cached copy."""

    def __init__(
        self, settings: Callable[[], Mapping[str, Setting[Any]]], store: SettingStore, cache: Cache, values: LiveValues
    ) -> None:
        self._settings, self._store, self._cache, self._values = settings, store, cache, values

    def states(self) -> list[SettingState]:
        stored = {override.key: override for override in self._store.overrides()}
        return [_state(setting, stored.get(key)) for key, setting in self._settings().items()]

    def put(self, key: str, value: object, *, actor_id: UUID | None) -> SettingState:
        """Raises SettingInvalid for a value of another type or out of bounds."""
        setting = self._setting(key)
        self._store.put(key, setting.parsed(value), actor_id=actor_id)
        return self._changed(setting)

    def restore(self, key: str, *, actor_id: UUID | None) -> SettingState:
        """Back to the default. Without an override nothing changes."""
        setting = self._setting(key)
        self._store.delete(key, actor_id=actor_id)
        return self._changed(setting)

    def _setting(self, key: str) -> Setting[Any]:
        try:
            return self._settings()[key]
        except KeyError:
            raise NoSuchSetting(key) from None

    def _changed(self, setting: Setting[Any]) -> SettingState:
        self._cache.invalidate(CACHE_KEY)
        self._values.forget()
        stored = {override.key: override for override in self._store.overrides()}
        return _state(setting, stored.get(setting.key))


def _state(setting: Setting[Any], override: Override | None) -> SettingState:
    fault = None if override is None else setting.fault(override.value)
    is_used = override is not None and fault is None
    return SettingState(setting, override.value if override and is_used else setting.default, override, fault)
