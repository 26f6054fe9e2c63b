"""What a deployment runs: migrations and token keys."""

from __future__ import annotations

from artiway.bootstrap import base


def migrate() -> list[int]:
    from artiway.platform import migrations

    return migrations.migrate(_owner_url())


def _owner_url() -> str:
    from artiway.platform.database import with_iam_password

    return with_iam_password(base.settings().owner_database_url.get_secret_value())


def token_jwks(key_ids: list[str]) -> str:
    from artiway.platform import kms

    return kms.public_jwks(key_ids)
