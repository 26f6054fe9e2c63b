"""The address that a deployment migrates."""

from __future__ import annotations

from artiway.bootstrap import base


def owner_database_url() -> str:
    """The address with which migrations run. Not kept: an IAM password expires after 15 minutes."""
    from artiway.platform.database import with_iam_password

    return with_iam_password(base.settings().owner_database_url.get_secret_value())
