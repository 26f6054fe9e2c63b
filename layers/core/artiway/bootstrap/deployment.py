"""The address that a deployment migrates."""

from __future__ import annotations

from artiway.bootstrap import base


def owner_database_url() -> str:
    """The address with which migrations run. Not kept: an IAM password expires after 15 minutes.

    The owner signs in with IAM. Before its first migration RDS does not accept that, and the owner has the password
    that RDS created.
    """
    import json

    from psycopg.conninfo import make_conninfo

    from artiway.platform.database import is_sign_in_accepted, with_iam_password
    from artiway.platform.secrets import Secret

    url, secret_arn = base.settings().owner_database_url.get_secret_value(), base.settings().owner_secret_arn
    with_token = with_iam_password(url)
    if not secret_arn or is_sign_in_accepted(with_token):
        return with_token
    return make_conninfo(url, password=json.loads(Secret(secret_arn).text())["password"])
