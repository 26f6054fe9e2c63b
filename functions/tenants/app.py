"""Tenants, for the platform's administrators."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import Field, StringConstraints

from artiway import bootstrap
from artiway.identity.model import JOB_OVERRIDES, OVERRIDES, OWN_LIMITS, PASSWORD_LENGTH, TenantView, Tier
from artiway.ids import from_wire, to_wire
from artiway.platform import http

api = http.Api("tenants", origin=bootstrap.origin, access_check=bootstrap.access_check)
handler = api.handler

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Status = Literal["ACTIVE", "SUSPENDED"]


class Overrides(http.Wire):
    """A null means the tier's default."""

    weight: int | None = Field(default=None, ge=1, le=1_000)
    concurrency: int | None = Field(default=None, ge=0, le=100_000)
    queue_depth: int | None = Field(default=None, ge=0, le=1_000_000)
    rate_per_second: int | None = Field(default=None, ge=1, le=100_000)
    burst: int | None = Field(default=None, ge=1, le=200_000)
    job_concurrency: int | None = Field(default=None, ge=0, le=100_000, description="runs of jobs at once")
    job_per_minute: int | None = Field(
        default=None, ge=0, le=1_000_000, description="runs of jobs that start per minute"
    )
    job_period_s: int | None = Field(
        default=None, ge=1, le=86_400, alias="jobPeriodSeconds", description="shortest period of a job"
    )


class Limits(Overrides):
    user_concurrency: int | None = Field(
        default=None, ge=0, le=100_000, description="running nodes of one user; null: no limit"
    )


NULLABLE = {*OVERRIDES, *OWN_LIMITS, *JOB_OVERRIDES}


class OwnerBody(http.Wire):
    email: str = Field(min_length=3, max_length=254)
    password: str = Field(min_length=PASSWORD_LENGTH[0], max_length=PASSWORD_LENGTH[1])


class NewTenantBody(Limits):
    name: Name
    tier: Tier
    status: Status = "ACTIVE"
    owner: OwnerBody | None = Field(default=None, description="the tenant's first user")


class TenantChangeBody(Limits):
    name: Name | None = None
    tier: Tier | None = None
    status: Status | None = None


class TenantBody(http.Wire):
    tenant_id: str
    name: str
    tier: str
    status: str
    weight: int
    concurrency: int
    user_concurrency: int | None = Field(description="running nodes of one user; null: no limit")
    queue_depth: int
    rate_per_second: int
    burst: int
    job_concurrency: int = Field(description="runs of jobs at once")
    job_per_minute: int = Field(description="runs of jobs that start per minute")
    job_period_s: int = Field(alias="jobPeriodSeconds", description="shortest period of a job")
    priority: str
    artefact_days: int
    overrides: Overrides = Field(description="values that differ from the tier's")
    created_at: datetime


class TenantsBody(http.Wire):
    items: list[TenantBody]
    next_cursor: str | None


class TenantUserBody(http.Wire):
    user_id: str
    email: str | None
    phone: str | None
    display_name: str | None
    status: str
    roles: list[str]
    balance: int = Field(description="points")
    frozen: int
    created_at: datetime


class TenantUsersBody(http.Wire):
    items: list[TenantUserBody]
    next_cursor: str | None


class TenantOrderBody(http.Wire):
    order_id: str
    user_id: str
    email: str | None
    status: str
    package_id: str
    amount_fen: int
    points: int
    refunded_fen: int
    channel: str
    transaction_id: str | None
    flag: str | None
    created_at: datetime
    paid_at: datetime | None


class TenantOrdersBody(http.Wire):
    items: list[TenantOrderBody]
    next_cursor: str | None


@api.get("/tenants", permission="tenant.manage")
def list_tenants(
    q: Annotated[
        str | None, Query(min_length=1, max_length=254, description="a part of the name, an id, or a user's e-mail")
    ] = None,
    cursor: http.Cursor = None,
    limit: http.Limit = 50,
) -> TenantsBody:
    """All tenants and their limits."""
    found = bootstrap.tenants().list(after=http.place_of(cursor), limit=limit + 1, q=q)
    next_place = found[limit - 1].tenant.tenant_id if len(found) > limit else None
    return TenantsBody(items=[_tenant(view) for view in found[:limit]], next_cursor=http.cursor_of(next_place))


@api.post("/tenants", permission="tenant.manage", status=201, errors=[409])
def create_tenant(body: NewTenantBody) -> tuple[TenantBody, int]:
    """Create a tenant, and its first user if one is given."""
    view = bootstrap.tenants().create(
        body.model_dump(exclude={"owner"}),
        owner_email=body.owner.email if body.owner else None,
        owner_password=body.owner.password if body.owner else None,
        actor_id=api.identity.user_id,
    )
    return _tenant(view), 201


@api.patch("/tenants/<tenant_id>", permission="tenant.manage", errors=[409])
def change_tenant(tenant_id: str, body: TenantChangeBody) -> TenantBody:
    """Change the given fields. An override set to null falls back to the tier. Takes effect within a minute."""
    named: dict[str, Any] = body.model_dump(exclude_unset=True)
    changes = {name: value for name, value in named.items() if value is not None or name in NULLABLE}
    view = bootstrap.tenants().change(from_wire("tnt", tenant_id), changes, actor_id=api.identity.user_id)
    return _tenant(view)


@api.get("/tenants/<tenant_id>/users", permission="tenant.manage")
def list_tenant_users(tenant_id: str, cursor: http.Cursor = None, limit: http.Limit = 50) -> TenantUsersBody:
    """The users of a tenant with their points, to whom `POST /points/grants` can give."""
    found = bootstrap.tenants().users(from_wire("tnt", tenant_id), after=http.place_of(cursor), limit=limit + 1)
    next_place = found[limit - 1].user_id if len(found) > limit else None
    items = [
        TenantUserBody(**asdict(user) | {"user_id": to_wire("usr", user.user_id), "roles": list(user.roles)})
        for user in found[:limit]
    ]
    return TenantUsersBody(items=items, next_cursor=http.cursor_of(next_place))


@api.get("/tenants/<tenant_id>/orders", permission="tenant.manage")
def list_tenant_orders(tenant_id: str, cursor: http.Cursor = None, limit: http.Limit = 50) -> TenantOrdersBody:
    """The orders of a tenant, newest first, with what was refunded."""
    found = bootstrap.tenants().orders(from_wire("tnt", tenant_id), before=http.place_of(cursor), limit=limit + 1)
    next_place = found[limit - 1].order_id if len(found) > limit else None
    items = [
        TenantOrderBody(
            **asdict(order) | {"order_id": to_wire("ord", order.order_id), "user_id": to_wire("usr", order.user_id)}
        )
        for order in found[:limit]
    ]
    return TenantOrdersBody(items=items, next_cursor=http.cursor_of(next_place))


def _tenant(view: TenantView) -> TenantBody:
    tenant, policy = view.tenant, view.policy
    jobs = bootstrap.job_limits()(asdict(tenant) | asdict(policy))
    return TenantBody(
        tenant_id=to_wire("tnt", tenant.tenant_id),
        name=tenant.name,
        tier=tenant.tier,
        status=tenant.status,
        weight=policy.weight,
        concurrency=policy.concurrency,
        user_concurrency=tenant.user_concurrency,
        queue_depth=policy.queue_depth,
        rate_per_second=policy.rate_per_second,
        burst=policy.burst,
        job_concurrency=jobs.runs_at_once,
        job_per_minute=jobs.runs_per_minute,
        job_period_s=jobs.shortest_period_s,
        priority=policy.priority,
        artefact_days=policy.artefact_days,
        overrides=Overrides(**{name: getattr(tenant, name) for name in (*OVERRIDES, *JOB_OVERRIDES)}),
        created_at=view.created_at,
    )
