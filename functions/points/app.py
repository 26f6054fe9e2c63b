"""A user's points: balance, ledger, gifts and transfers."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated, Literal
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import AwareDatetime, Field

from artiway import bootstrap
from artiway.errors import NotAllowed
from artiway.idempotency.model import KeyReused
from artiway.ids import from_wire, new_id, to_wire
from artiway.platform import http
from artiway.points.model import Entry, Kind, LedgerFilter, Terms
from artiway.usage.model import usage_query

api = http.Api("points", origin=bootstrap.origin, access_check=bootstrap.access_check)
handler = api.handler

CSV_ROWS = 10_000
Amount = Annotated[int, Field(gt=0, le=1_000_000_000, strict=True)]


class AccountBody(http.Wire):
    balance: int
    frozen: int


class EntryBody(http.Wire):
    entry_id: str
    kind: Kind
    balance_delta: int
    frozen_delta: int
    balance: int
    frozen: int
    reference: str
    created_at: datetime


class LedgerBody(http.Wire):
    items: list[EntryBody]
    next_cursor: str | None


class GrantBody(http.Wire, populate_by_name=False):
    user_id: str = Field(max_length=64)
    amount: Amount
    campaign: str | None = Field(default=None, min_length=1, max_length=100)
    expires_at: AwareDatetime | None = None
    reason: str = Field(min_length=1, max_length=200)


class TransferBody(http.Wire, populate_by_name=False):
    to_user_id: str = Field(max_length=64)
    amount: Amount


@api.get("/points", permission="points.read")
def get_points() -> AccountBody:
    """The caller's balance, and the points that are held for tasks."""
    account = bootstrap.points().account(tenant_id=api.identity.tenant_id, user_id=api.identity.user_id)
    return AccountBody(balance=account.balance, frozen=account.frozen)


@api.get("/points/ledger", permission="points.read", also="text/csv")
def list_entries(
    kind: Kind | None = None,
    since: Annotated[AwareDatetime | None, Query(alias="from")] = None,
    until: Annotated[AwareDatetime | None, Query(alias="to")] = None,
    cursor: http.Cursor = None,
    limit: http.Limit = 50,
    form: Annotated[Literal["json", "csv"], Query(alias="format")] = "json",
) -> LedgerBody | str:
    """Every change of the caller's points, newest first. A CSV page has 10,000 lines and an X-Next-Cursor."""
    size = CSV_ROWS if form == "csv" else limit
    place = http.place_of(cursor)
    found = bootstrap.points().entries(
        tenant_id=api.identity.tenant_id,
        user_id=api.identity.user_id,
        wanted=LedgerFilter(kind, since, until),
        before_version=None if place is None else min(place.int, http.INTEGER_LIMIT),
        limit=size + 1,
    )
    items, next_cursor = found[:size], None
    if len(found) > size:
        next_cursor = http.cursor_of(UUID(int=items[-1].version))
    if form == "csv":
        return _csv(items, next_cursor)  # type: ignore[return-value]  # OpenAPI describes the JSON body
    return LedgerBody(items=[_entry(entry) for entry in items], next_cursor=next_cursor)


class UsageLineBody(http.Wire):
    day: date | None = Field(description="null unless grouped by day, as the other two")
    tool: str | None = Field(description="a tool, `flow`, or `text:` and a service")
    user_id: str | None
    email: str | None
    display_name: str | None
    tasks: int = Field(description="that ended")
    texts: int
    points: int = Field(description="charged")


class UsageBody(http.Wire):
    items: list[UsageLineBody]
    next_cursor: str | None
    since: date = Field(alias="from")
    until: date = Field(alias="to", description="inclusive")
    scope: Literal["own", "tenant"]
    total_tasks: int
    total_texts: int
    total_points: int


@api.get("/usage", permission="points.read", errors=[404], slow=True)
def list_usage(
    since: Annotated[date | None, Query(alias="from", description="30 days if left out")] = None,
    until: Annotated[date | None, Query(alias="to", description="inclusive; today if left out")] = None,
    group_by: Annotated[str, Query(alias="groupBy", max_length=40, description="of day, tool, user")] = "day",
    user_id: Annotated[str | None, Query(alias="userId", max_length=64)] = None,
    time_zone: Annotated[str, Query(alias="timeZone", max_length=64)] = "Asia/Shanghai",
    cursor: http.Cursor = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 1_000,
) -> UsageBody:
    """Tasks, texts and points by day, tool and person, at most 92 days. With `user.manage` of the whole tenant."""
    is_manager = api.identity.may("user.manage")
    whose: UUID | None = None if is_manager else api.identity.user_id
    if user_id is not None:
        wanted_user = from_wire("usr", user_id)
        if not is_manager and wanted_user != api.identity.user_id:
            raise NotAllowed("this needs a permission that you do not have", permission="user.manage")
        whose = wanted_user
    query = usage_query(
        first=since,
        last=until,
        today=bootstrap.clock().now().date(),
        time_zone=time_zone,
        by=group_by,
        user_id=whose,
    )
    lines = bootstrap.usage().lines(api.identity.tenant_id, query)
    page, next_cursor = http.page_of(lines, cursor, limit)
    return UsageBody(
        items=[
            UsageLineBody(
                day=line.day,
                tool=line.tool,
                user_id=None if line.user_id is None else to_wire("usr", line.user_id),
                email=line.email,
                display_name=line.display_name,
                tasks=line.tasks,
                texts=line.texts,
                points=line.points,
            )
            for line in page
        ],
        next_cursor=next_cursor,
        since=query.first,
        until=query.last,
        scope="own" if whose == api.identity.user_id and not is_manager else "tenant",
        total_tasks=sum(line.tasks for line in lines),
        total_texts=sum(line.texts for line in lines),
        total_points=sum(line.points for line in lines),
    )


@api.post("/points/grants", permission="points.grant", status=201, errors=[404, 409], idempotent=True)
def grant_points(body: GrantBody) -> tuple[EntryBody, int]:
    """Grant points to a user of any tenant. A campaign grants to each user once."""
    user_id = from_wire("usr", body.user_id)
    # The gift commits in the receiver's tenant before the answer is stored in ours: a retry finds it by its ledger key.
    key = f"grant:{api.identity.user_id.hex}:{api.idempotency_key or new_id()}"
    entry = bootstrap.grants().grant(
        tenant_id=bootstrap.points_overview().tenant_of_user(user_id),
        user_id=user_id,
        amount_points=body.amount,
        idempotency_key=key,
        reference=body.campaign or body.reason,
        terms=Terms(body.campaign, body.expires_at, granted_by=api.identity.user_id),
    )
    if (entry.user_id, entry.balance_delta) != (user_id, body.amount):
        raise KeyReused
    return _entry(entry), 201


@api.post("/points/trial", status=201, errors=[409])
def take_trial() -> tuple[EntryBody, int]:
    """Trial points for a new tenant, once. A new tenant has none before it asks."""
    if api.identity.key_id is not None:
        raise NotAllowed("an API key cannot ask for trial points")
    entry = bootstrap.trial().take(
        tenant_id=api.identity.tenant_id, user_id=api.identity.user_id, address=api.client_address
    )
    return _entry(entry), 201


@api.post("/points/transfers", permission="points.transfer", status=201, errors=[402, 404, 409], idempotent=True)
def transfer_points(body: TransferBody) -> tuple[EntryBody, int]:
    """Transfer points to another user of the tenant."""
    entry = bootstrap.points().transfer(
        tenant_id=api.identity.tenant_id,
        from_user_id=api.identity.user_id,
        to_user_id=from_wire("usr", body.to_user_id),
        amount_points=body.amount,
        idempotency_key=str(new_id()),
    )
    return _entry(entry), 201


def _entry(entry: Entry) -> EntryBody:
    return EntryBody(
        entry_id=to_wire("ent", entry.entry_id),
        kind=entry.kind,
        balance_delta=entry.balance_delta,
        frozen_delta=entry.frozen_delta,
        balance=entry.balance,
        frozen=entry.frozen,
        reference=entry.reference,
        created_at=entry.created_at,
    )


def _csv(entries: Sequence[Entry], next_cursor: str | None) -> Response[str]:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(field.alias for field in EntryBody.model_fields.values())
    for entry in entries:
        body = _entry(entry).model_dump(mode="json")
        # A spreadsheet would run a reference that starts like this as a formula.
        if body["reference"].startswith(("=", "+", "-", "@", "\t", "\r")):
            body["reference"] = "'" + body["reference"]
        writer.writerow(body.values())
    return Response(
        status_code=200,
        content_type="text/csv; charset=utf-8",
        body=text.getvalue(),
        headers={
            "content-disposition": 'attachment; filename="points.csv"',
            **({"x-next-cursor": next_cursor} if next_cursor else {}),
        },
    )
