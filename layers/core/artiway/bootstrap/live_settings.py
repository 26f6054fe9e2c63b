"""Live settings, which an operator changes while the system runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.audit import audit
from artiway.bootstrap.once import once

if TYPE_CHECKING:
    from artiway.settings.service import LiveValues, SettingsService


@once
def setting_values() -> LiveValues:
    """For services on the tenants' database."""
    from artiway.settings.repository import PostgresSettingReader
    from artiway.settings.service import LiveValues

    return LiveValues(PostgresSettingReader(base.database()), base.cache())


@once
def service_setting_values() -> LiveValues:
    """For functions that have the service database only."""
    from artiway.settings.repository import PostgresSettingReader
    from artiway.settings.service import LiveValues

    return LiveValues(PostgresSettingReader(base.service_database()), base.cache())


@once
def live_settings() -> SettingsService:
    from artiway.settings import registry
    from artiway.settings.repository import PostgresSettings
    from artiway.settings.service import SettingsService

    store = PostgresSettings(base.service_database(), audit())
    return SettingsService(registry.settings, store, base.cache(), service_setting_values())
