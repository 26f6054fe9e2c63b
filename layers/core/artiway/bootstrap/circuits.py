"""Circuits of steps and of providers of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.audit import audit
from artiway.bootstrap.live_settings import service_setting_values
from artiway.bootstrap.once import once

if TYPE_CHECKING:
    from artiway.circuits.model import Rules
    from artiway.circuits.service import CircuitService


@once
def circuits() -> CircuitService:
    from artiway.bootstrap.scheduling import scheduler
    from artiway.circuits.repository import PostgresCircuits
    from artiway.circuits.service import CircuitService

    return CircuitService(
        PostgresCircuits(base.service_database(), audit()),
        circuit_rules,
        mirror=lambda pool: scheduler().refresh(pool, is_forced=True),
    )


@once
def provider_circuits() -> CircuitService:
    """Of providers of texts. No fair queue follows them: the router reads them before each call."""
    from artiway.circuits.repository import PostgresCircuits
    from artiway.circuits.service import CircuitService

    return CircuitService(PostgresCircuits(base.service_database(), audit()), circuit_rules, mirror=lambda _pool: None)


def circuit_rules() -> Rules:
    """The rules in force now."""
    from artiway.circuits import settings

    return settings.rules(service_setting_values())
