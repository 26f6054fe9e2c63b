"""Tenants and users as bare rows, for tests whose subject is something else."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import psycopg


def add_users(superuser_url: str, tenant_id: UUID, user_ids: Sequence[UUID]) -> None:
    with psycopg.connect(superuser_url) as connection:
        connection.execute(
            "INSERT INTO tenant (tenant_id, name, tier) VALUES (%s, 'a tenant', 'enterprise') ON CONFLICT DO NOTHING",
            [tenant_id],
        )
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO app_user (tenant_id, user_id, email) VALUES (%s, %s, %s)",
                [(tenant_id, user_id, f"{user_id}@example.com") for user_id in user_ids],
            )
