"""The caller's profile and tenant, and the tenant's users, roles and API keys."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, Field, StringConstraints

from artiway import bootstrap
from artiway.errors import NotAllowed, Refused
from artiway.identity.model import (
    PASSWORD_LENGTH,
    Actor,
    ApiKey,
    Invitation,
    InvitationStatus,
    Me,
    Organisation,
    Permission,
    Role,
    User,
)
from artiway.ids import from_wire, to_wire
from artiway.platform import http

api = http.Api("users", origin=bootstrap.origin, access_check=bootstrap.access_check)
handler = api.handler

RoleName = Annotated[str, Field(min_length=1, max_length=40)]
OwnRoleName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{1,39}$")]
Permissions = Annotated[list[Permission], Field(max_length=64)]
TenantName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Concurrency = Annotated[int, Field(ge=0, le=100_000)]
DisplayName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80)]
Language = Literal["zh", "en"]


class PlaceBody(http.Wire):
    at: datetime
    location: str


class MeBody(http.Wire):
    user_id: str
    tenant_id: str
    tier: str
    email: str | None
    roles: list[str]
    permissions: list[str]
    phone: str | None
    display_name: str | None
    language: Language | None = Field(description="of mails; null: not chosen")
    email_notices: bool = Field(description="mails about low balances; mails about safety are always sent")
    tenant_name: str
    artefact_days: int = Field(description="days that pictures are kept")
    balance: int | None = Field(description="points; null without `points.read`")
    frozen: int | None = Field(description="points that are held for tasks; null without `points.read`")
    low_balance_points: int | None = Field(description="the tenant's warning level")
    low_balance: bool = Field(description="the balance is below the warning level")
    trial_points: int | None = Field(description="what `POST /points/trial` brings now; null: used, or there is none")
    new_place_login: PlaceBody | None = Field(description="a login from a new place that the user has not seen")


class MeChangeBody(http.Wire):
    """A field that is left out does not change."""

    display_name: DisplayName | None = None
    language: Language | None = None
    email_notices: bool | None = Field(default=None, description="null does not change it")
    seen_logins: bool | None = Field(default=None, description="true: logins from new places were seen")


class UserBody(http.Wire):
    user_id: str
    email: str | None
    phone: str | None
    status: str
    roles: list[str]
    concurrency: int | None = Field(description="the user's own limit of running nodes; null: as each user")
    created_at: datetime
    display_name: str | None
    last_login_at: datetime | None
    balance: int = Field(description="points")


class UsersBody(http.Wire):
    items: list[UserBody]
    next_cursor: str | None


class InviteBody(http.Wire):
    email: str = Field(min_length=3, max_length=254)
    password: str = Field(min_length=PASSWORD_LENGTH[0], max_length=PASSWORD_LENGTH[1])
    roles: list[RoleName] = Field(min_length=1, max_length=20)


class UserChangeBody(http.Wire):
    roles: list[RoleName] | None = Field(default=None, min_length=1, max_length=20)
    status: Literal["ACTIVE", "DISABLED"] | None = None
    concurrency: Concurrency | None = Field(
        default=None, description="running nodes at once; null: as the tenant allows each user; left out: unchanged"
    )


class OrganisationBody(http.Wire):
    tenant_id: str
    name: str
    tier: str
    concurrency: int = Field(description="running nodes of the whole tenant")
    user_concurrency: int | None = Field(description="running nodes of each user; null: no limit")
    low_balance_points: int | None = Field(description="below it a user gets a notice; null: no notice")


class OrganisationChangeBody(http.Wire):
    name: TenantName | None = None
    user_concurrency: Concurrency | None = Field(
        default=None, description="running nodes of each user; null: no limit; left out: unchanged"
    )
    low_balance_points: Annotated[int, Field(ge=0, le=1_000_000_000)] | None = Field(
        default=None, description="below it a user gets a notice; null: no notice; left out: unchanged"
    )


class InvitationBody(http.Wire):
    invitation_id: str
    email: str
    roles: list[str]
    status: InvitationStatus
    invited_by: str
    invited_by_email: str | None
    created_at: datetime
    sent_at: datetime
    expires_at: datetime
    accepted_at: datetime | None
    user_id: str | None = Field(description="the user who accepted it")


class InvitationsBody(http.Wire):
    items: list[InvitationBody]
    next_cursor: str | None


class NewInvitationBody(http.Wire):
    email: str = Field(min_length=3, max_length=254)
    roles: list[RoleName] = Field(min_length=1, max_length=20)
    language: Language | None = Field(default=None, description="of the mail; null: as the inviter's profile")


class SeenLoginBody(http.Wire):
    login_id: str
    method: str
    address: str
    location: str
    at: datetime
    is_new_place: bool = Field(description="no login of the months before came from this location")


class SeenLoginsBody(http.Wire):
    items: list[SeenLoginBody]
    next_cursor: str | None


class RoleBody(http.Wire):
    name: str
    permissions: list[str]
    is_built_in: bool


class RolesBody(http.Wire):
    items: list[RoleBody]
    next_cursor: str | None


class NewRoleBody(http.Wire):
    name: OwnRoleName
    permissions: Permissions


class RoleChangeBody(http.Wire):
    name: str | None = Field(default=None, max_length=40, description="if given, it must equal the name in the path")
    permissions: Permissions


class KeyBody(http.Wire):
    key_id: str
    user_id: str
    name: str
    permissions: list[str]
    signed: bool
    created_at: datetime
    expires_at: datetime | None
    parent_key_id: str | None = Field(description="the key that made it; deleted with that one")


class KeysBody(http.Wire):
    items: list[KeyBody]
    next_cursor: str | None


class NewKeyBody(http.Wire):
    name: str = Field(min_length=1, max_length=100)
    permissions: Permissions
    expires_at: AwareDatetime | None = Field(default=None, description="default: as the calling key, else never")
    signed: bool | None = Field(
        default=None, description="every request must have an HMAC-SHA256 signature; default: as the calling key"
    )


class KeyMadeBody(http.Wire):
    key_id: str
    key: str = Field(description="shown only here")
    signed: bool
    expires_at: datetime | None


@api.get("/me")
def get_me() -> MeBody:
    """The caller's profile and permissions."""
    return _me(bootstrap.people().me(api.identity.tenant_id, api.identity.user_id))


@api.patch("/me")
def change_me(body: MeChangeBody) -> MeBody:
    """Change the caller's name, language and notices."""
    _be_a_person()
    given = {name: getattr(body, name) for name in body.model_fields_set - {"seen_logins"}}
    if given.get("email_notices", True) is None:
        del given["email_notices"]
    return _me(bootstrap.people().change_me(_actor(), given, has_seen_logins=bool(body.seen_logins)))


@api.get("/me/logins")
def list_own_logins(cursor: http.Cursor = None, limit: http.Limit = 50) -> SeenLoginsBody:
    """The caller's logins with time, address and place, newest first."""
    return _logins(api.identity.user_id, cursor, limit)


@api.get("/users/<user_id>/logins", permission="user.manage")
def list_logins(user_id: str, cursor: http.Cursor = None, limit: http.Limit = 50) -> SeenLoginsBody:
    """The logins of a user of the tenant, newest first."""
    return _logins(from_wire("usr", user_id), cursor, limit)


@api.get("/invitations", permission="user.manage")
def list_invitations(cursor: http.Cursor = None, limit: http.Limit = 50) -> InvitationsBody:
    """The tenant's invitations, newest first."""
    found = bootstrap.invitations().invitations(api.identity.tenant_id, before=http.place_of(cursor), limit=limit + 1)
    next_place = found[limit - 1].invitation_id if len(found) > limit else None
    return InvitationsBody(items=[_invitation(one) for one in found[:limit]], next_cursor=http.cursor_of(next_place))


@api.post("/invitations", permission="user.manage", status=201, errors=[409])
def send_invitation(body: NewInvitationBody) -> tuple[InvitationBody, int]:
    """Send a link to a new user of the tenant, who sets a password. It is valid once, for 30 minutes."""
    invitation = bootstrap.invitations().invite(_actor(), email=body.email, roles=body.roles, language=body.language)
    return _invitation(invitation), 201


@api.post("/invitations/<invitation_id>/resend", permission="user.manage", errors=[409])
def resend_invitation(invitation_id: str) -> InvitationBody:
    """Send a new link. The one before ends at once."""
    return _invitation(bootstrap.invitations().resend(_actor(), from_wire("inv", invitation_id)))


@api.delete("/invitations/<invitation_id>", permission="user.manage", status=204, errors=[409])
def revoke_invitation(invitation_id: str) -> tuple[None, int]:
    """End an invitation that was not accepted."""
    bootstrap.invitations().revoke(_actor(), from_wire("inv", invitation_id))
    return None, 204


@api.get("/tenant", permission="user.manage")
def get_tenant() -> OrganisationBody:
    """The caller's tenant."""
    return _organisation(bootstrap.people().organisation(api.identity.tenant_id))


@api.patch("/tenant", permission="user.manage")
def change_own_tenant(body: OrganisationChangeBody) -> OrganisationBody:
    """Change the given fields of the caller's tenant. A limit acts within seconds on nodes that wait."""
    changes = {name: getattr(body, name) for name in body.model_fields_set}
    if changes.get("name", "") is None:
        del changes["name"]
    return _organisation(bootstrap.people().change_organisation(_actor(), changes))


@api.get("/users", permission="user.manage")
def list_users(cursor: http.Cursor = None, limit: http.Limit = 50) -> UsersBody:
    """The users of the tenant."""
    found = bootstrap.people().users(api.identity.tenant_id, after=http.place_of(cursor), limit=limit + 1)
    next_place = found[limit - 1].user_id if len(found) > limit else None
    return UsersBody(items=[_user(user) for user in found[:limit]], next_cursor=http.cursor_of(next_place))


@api.post("/users", permission="user.manage", status=201, errors=[409])
def invite_user(body: InviteBody) -> tuple[UserBody, int]:
    """Add a user with roles."""
    user = bootstrap.people().invite(_actor(), email=body.email, password=body.password, roles=body.roles)
    return _user(user), 201


@api.patch("/users/<user_id>", permission="user.manage", errors=[409])
def change_user(user_id: str, body: UserChangeBody) -> UserBody:
    """Set a user's roles or own concurrency, disable or enable the user."""
    limits: dict[str, Any] = {"concurrency": body.concurrency} if "concurrency" in body.model_fields_set else {}
    people = bootstrap.people()
    user = people.change(_actor(), from_wire("usr", user_id), roles=body.roles, status=body.status, **limits)
    return _user(user)


@api.delete("/users/<user_id>", permission="user.manage", status=204, errors=[409])
def disable_user(user_id: str) -> tuple[None, int]:
    """Disable a user. The user's data stays."""
    bootstrap.people().change(_actor(), from_wire("usr", user_id), status="DISABLED")
    return None, 204


@api.get("/roles", permission="user.manage")
def list_roles(cursor: http.Cursor = None, limit: http.Limit = 50) -> RolesBody:
    """Built-in roles and the tenant's own."""
    found, next_cursor = http.page_of(bootstrap.people().roles(api.identity.tenant_id), cursor, limit)
    return RolesBody(items=[_role(role) for role in found], next_cursor=next_cursor)


@api.post("/roles", permission="user.manage", status=201, errors=[409])
def add_role(body: NewRoleBody) -> tuple[RoleBody, int]:
    """Create a role of the tenant."""
    role = bootstrap.people().add_role(_actor(), name=body.name, permissions=frozenset(body.permissions))
    return _role(role), 201


@api.put("/roles/<name>", permission="user.manage", errors=[409])
def change_role(name: str, body: RoleChangeBody) -> RoleBody:
    """Replace the permissions of a role of the tenant."""
    if body.name is not None and body.name != name:
        raise Refused("the request is not valid", fields=[{"field": "name", "reason": "a role cannot be renamed"}])
    return _role(bootstrap.people().change_role(_actor(), name, permissions=frozenset(body.permissions)))


@api.delete("/roles/<name>", permission="user.manage", status=204, errors=[409])
def delete_role(name: str) -> tuple[None, int]:
    """Delete a role that no user has."""
    bootstrap.people().remove_role(_actor(), name)
    return None, 204


@api.get("/api-keys")
def list_api_keys(cursor: http.Cursor = None, limit: http.Limit = 50) -> KeysBody:
    """The caller's keys; with `user.manage` those of the tenant; for a key, itself and the keys that it made."""
    found = bootstrap.api_keys().keys(_actor(), after=http.place_of(cursor), limit=limit + 1)
    next_place = found[limit - 1].key_id if len(found) > limit else None
    return KeysBody(items=[_key(key) for key in found[:limit]], next_cursor=http.cursor_of(next_place))


@api.post("/api-keys", status=201, errors=[409])
def create_api_key(body: NewKeyBody) -> tuple[KeyMadeBody, int]:
    """Create an API key with at most the caller's permissions. A key made by a key cannot make keys."""
    key, text = bootstrap.api_keys().create(
        _actor(),
        name=body.name,
        permissions=frozenset(body.permissions),
        expires_at=body.expires_at,
        is_signed=body.signed,
    )
    made = KeyMadeBody(key_id=to_wire("key", key.key_id), key=text, signed=key.is_signed, expires_at=key.expires_at)
    return made, 201


@api.delete("/api-keys/<key_id>", status=204)
def delete_api_key(key_id: str) -> tuple[None, int]:
    """Delete a key and the keys that it made. They stop working within a minute."""
    bootstrap.api_keys().remove(_actor(), from_wire("key", key_id))
    return None, 204


def _be_a_person() -> None:
    if api.identity.key_id is not None:
        raise NotAllowed("an API key cannot change the profile of its user")


def _me(me: Me) -> MeBody:
    may_read = api.identity.may(Permission.POINTS_READ)
    place = None
    if me.new_place_at is not None:
        place = PlaceBody(at=me.new_place_at, location=me.new_place_location or "")
    return MeBody(
        user_id=to_wire("usr", me.user_id),
        tenant_id=to_wire("tnt", me.tenant_id),
        tier=me.tier,
        email=me.email,
        roles=list(me.roles),
        permissions=sorted(api.identity.permissions),
        phone=me.phone,
        display_name=me.display_name,
        language=me.language,
        email_notices=me.email_notices,
        tenant_name=me.tenant_name,
        artefact_days=me.artefact_days,
        balance=me.balance if may_read else None,
        frozen=me.frozen if may_read else None,
        low_balance_points=me.low_balance_points,
        low_balance=may_read and me.is_low,
        trial_points=bootstrap.trial_offer()(me.had_trial),
        new_place_login=place,
    )


def _logins(user_id: UUID, cursor: str | None, limit: int) -> SeenLoginsBody:
    found = bootstrap.people().logins(api.identity.tenant_id, user_id, before=http.place_of(cursor), limit=limit + 1)
    next_place = found[limit - 1].login_id if len(found) > limit else None
    items = [
        SeenLoginBody(
            login_id=to_wire("lgn", one.login_id),
            method=one.method,
            address=one.address,
            location=one.location,
            at=one.logged_at,
            is_new_place=one.is_new_place,
        )
        for one in found[:limit]
    ]
    return SeenLoginsBody(items=items, next_cursor=http.cursor_of(next_place))


def _invitation(invitation: Invitation) -> InvitationBody:
    return InvitationBody(
        invitation_id=to_wire("inv", invitation.invitation_id),
        email=invitation.email,
        roles=list(invitation.roles),
        status=invitation.status(bootstrap.clock().now()),
        invited_by=to_wire("usr", invitation.invited_by),
        invited_by_email=invitation.inviter_email,
        created_at=invitation.created_at,
        sent_at=invitation.sent_at,
        expires_at=invitation.expires_at,
        accepted_at=invitation.accepted_at,
        user_id=None if invitation.user_id is None else to_wire("usr", invitation.user_id),
    )


def _actor() -> Actor:
    return Actor(api.identity.tenant_id, api.identity.user_id, api.identity.permissions, api.identity.key_id)


def _user(user: User) -> UserBody:
    return UserBody(
        user_id=to_wire("usr", user.user_id),
        email=user.email,
        phone=user.phone,
        status=user.status,
        roles=list(user.roles),
        concurrency=user.concurrency,
        created_at=user.created_at,
        display_name=user.display_name,
        last_login_at=user.last_login_at,
        balance=user.balance,
    )


def _organisation(organisation: Organisation) -> OrganisationBody:
    return OrganisationBody(
        tenant_id=to_wire("tnt", organisation.tenant_id),
        name=organisation.name,
        tier=organisation.tier,
        concurrency=organisation.concurrency,
        user_concurrency=organisation.user_concurrency,
        low_balance_points=organisation.low_balance_points,
    )


def _role(role: Role) -> RoleBody:
    return RoleBody(name=role.name, permissions=sorted(role.permissions), is_built_in=role.is_built_in)


def _key(key: ApiKey) -> KeyBody:
    return KeyBody(
        key_id=to_wire("key", key.key_id),
        user_id=to_wire("usr", key.user_id),
        name=key.name,
        permissions=sorted(key.permissions),
        signed=key.is_signed,
        created_at=key.created_at,
        expires_at=key.expires_at,
        parent_key_id=None if key.parent_key_id is None else to_wire("key", key.parent_key_id),
    )
