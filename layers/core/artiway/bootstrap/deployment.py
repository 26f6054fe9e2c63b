"""The address that a deployment migrates."""

from __future__ import annotations

from artiway.bootstrap import base


def owner_database_url() -> str:
    """The address with which migrations run. Not kept: an IAM password expires after 15 minutes."""
    from artiway.platform.database import owner_address
    from artiway.platform.secrets import OptionalSecret

    settings = base.settings()
    return owner_address(settings.owner_database_url.get_secret_value(), OptionalSecret(settings.owner_secret_arn))
