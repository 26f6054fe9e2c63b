"""Registration, logins, refresh and logout. Only this function signs tokens."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from artiway import bootstrap
from artiway.errors import NotAllowed
from artiway.identity.model import PASSWORD_LENGTH, Tokens
from artiway.ids import to_wire
from artiway.platform import http

api = http.Api("auth", origin=bootstrap.origin, access_check=bootstrap.access_check)
handler = api.handler

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Password = Annotated[str, Field(min_length=PASSWORD_LENGTH[0], max_length=PASSWORD_LENGTH[1])]

Token = Annotated[str, Field(min_length=1, max_length=256, description="of the link in the mail")]
Language = Literal["zh", "en"]
DisplayName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80)]


class RegisterBody(http.Wire):
    tenant_name: Name
    email: str = Field(min_length=3, max_length=254, description="unique on the whole platform")
    password: Password
    phone: str | None = Field(default=None, max_length=24, description="+<country><number>, or a Chinese mobile")


class LoginBody(http.Wire):
    login: str = Field(min_length=1, max_length=254, description="e-mail address or phone number")
    password: str = Field(min_length=1, max_length=PASSWORD_LENGTH[1])


class WechatBody(http.Wire):
    code: str = Field(min_length=1, max_length=256)
    app: Literal["mini", "web"]


class RefreshBody(http.Wire):
    refresh_token: str = Field(min_length=1, max_length=256)


class ForgotBody(http.Wire):
    login: str = Field(min_length=1, max_length=254, description="e-mail address or phone number")
    language: Language | None = Field(default=None, description="of the mail; null: as the user's profile")


class ForgottenBody(http.Wire):
    """The same whether the account exists or not."""


class ResetBody(http.Wire):
    token: Token
    password: Password


class OwnPasswordBody(http.Wire):
    current_password: str = Field(min_length=1, max_length=PASSWORD_LENGTH[1])
    new_password: Password


class LinkBody(http.Wire):
    token: Token


class InvitedBody(http.Wire):
    tenant_name: str
    email: str
    expires_at: datetime


class AcceptBody(http.Wire):
    token: Token
    password: Password
    display_name: DisplayName | None = None


class TokensBody(http.Wire):
    tenant_id: str
    user_id: str
    access_token: str
    refresh_token: str
    expires_in: int = Field(description="seconds that the access token lives")


class WechatTokensBody(TokensBody):
    is_new: bool


@api.post("/auth/register", public=True, status=201, errors=[409, 429])
def register(body: RegisterBody) -> tuple[TokensBody, int]:
    """Create a tenant and its owner, and log the owner in."""
    tokens = bootstrap.auth().register(
        tenant_name=body.tenant_name,
        email=body.email,
        password=body.password,
        phone=body.phone,
        address=api.client_address,
    )
    return TokensBody(**_wire(tokens)), 201


@api.post("/auth/login", public=True, errors=[401, 429])
def log_in(body: LoginBody) -> TokensBody:
    """Log in with e-mail or phone and password."""
    tokens = bootstrap.auth().login(login=body.login, password=body.password, address=api.client_address)
    return TokensBody(**_wire(tokens))


@api.post("/auth/wechat", public=True, errors=[401, 429])
def log_in_by_wechat(body: WechatBody) -> WechatTokensBody:
    """Log in with a code of the mini program or of the web's OAuth. The first login creates an account."""
    tokens = bootstrap.auth().login_by_wechat(app=body.app, code=body.code, address=api.client_address)
    return WechatTokensBody(**_wire(tokens), is_new=tokens.is_new)


@api.post("/auth/refresh", public=True, errors=[401, 429])
def refresh(body: RefreshBody) -> TokensBody:
    """A new pair of tokens for an unused refresh token. Reuse ends the session."""
    return TokensBody(**_wire(bootstrap.auth().refresh(body.refresh_token)))


@api.post("/auth/logout", status=204)
def log_out() -> tuple[None, int]:
    """End this session: refresh at once, access within a minute."""
    identity = api.identity
    if identity.session_id is None:
        raise NotAllowed("an API key has no session to end; delete the key instead")
    bootstrap.auth().logout(tenant_id=identity.tenant_id, session_id=identity.session_id)
    return None, 204


@api.post("/auth/password/forgot", public=True, status=202, errors=[429])
def forget_password(body: ForgotBody) -> tuple[ForgottenBody, int]:
    """Send a link to reset the password, valid once for 30 minutes. The answer is the same for an unknown login."""
    bootstrap.resets().forgot(login=body.login, language=body.language, address=api.client_address)
    return ForgottenBody(), 202


@api.post("/auth/password/reset", public=True, status=204, errors=[401, 429])
def reset_password(body: ResetBody) -> tuple[None, int]:
    """Set a password by the link in the mail. All sessions of the user end."""
    bootstrap.resets().reset(token=body.token, password=body.password, address=api.client_address)
    return None, 204


@api.post("/me/password", status=204)
def change_password(body: OwnPasswordBody) -> tuple[None, int]:
    """Change the caller's password. All other sessions of the user end."""
    identity = api.identity
    if identity.key_id is not None:
        raise NotAllowed("an API key cannot change its user's password")
    bootstrap.resets().change(
        tenant_id=identity.tenant_id,
        user_id=identity.user_id,
        session_id=identity.session_id,
        current_password=body.current_password,
        new_password=body.new_password,
    )
    return None, 204


@api.post("/auth/invitations/look", public=True, errors=[401, 429])
def look_at_invitation(body: LinkBody) -> InvitedBody:
    """Who invites whom, for the page that the link in the mail opens. Changes nothing."""
    found = bootstrap.auth().invited(token=body.token, address=api.client_address)
    return InvitedBody(tenant_name=found.tenant_name, email=found.email, expires_at=found.expires_at)


@api.post("/auth/invitations/accept", public=True, status=201, errors=[401, 409, 429])
def accept_invitation(body: AcceptBody) -> tuple[TokensBody, int]:
    """Accept an invitation by the link in the mail: set a password and log in."""
    tokens = bootstrap.auth().join(
        token=body.token, password=body.password, display_name=body.display_name, address=api.client_address
    )
    return TokensBody(**_wire(tokens)), 201


def _wire(tokens: Tokens) -> dict[str, object]:
    return {
        "tenant_id": to_wire("tnt", tokens.tenant_id),
        "user_id": to_wire("usr", tokens.user_id),
        "access_token": tokens.access_token,
        "refresh_token": tokens.refresh_token,
        "expires_in": tokens.expires_in_s,
    }
