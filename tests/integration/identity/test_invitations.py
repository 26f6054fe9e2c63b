"""Invitations by mail, on a real PostgreSQL."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from artiway.audit.repository import AuditLog
from artiway.errors import NotFound, Refused
from artiway.identity.invitations.repository import PostgresInvitations
from artiway.identity.invitations.service import InvitationService
from artiway.identity.model import (
    Actor,
    InvitationEnded,
    InvitationJustSent,
    InvitationOpen,
    InvitationStatus,
    LinkInvalid,
    LoginTaken,
    NotYours,
    PeopleLimits,
    TooManyInvitations,
    TooManyUsers,
    digest,
)
from artiway.platform.database import Database
from tests.fakes.outbox import unsent_outbox
from tests.integration.identity.conftest import make_auth

PASSWORD = "battery staple"


def rows(addresses, query, *parameters):
    with psycopg.connect(addresses.superuser) as connection:
        return connection.execute(query, parameters).fetchall()


def invite(identity, actor, name="bob", roles=("member",), language=None):
    return identity.invitations.invite(actor, email=f"{name}@example.com", roles=roles, language=language)


def join(auth, token, password=PASSWORD, display_name=None):
    return auth.join(token=token, password=password, display_name=display_name, address="192.0.2.7")


def statuses(identity, owner):
    found = identity.invitations.invitations(owner.tenant_id, before=None, limit=10)
    return [(one.email, one.status(identity.clock.now())) for one in found]


def test_invited_person_chooses_password_and_is_in(identity, postman, addresses):
    owner = identity.owner("ann")
    invitation = invite(identity, owner, roles=["viewer", "member"])
    (mail,) = postman.deliver()
    assert mail.to == "bob@example.com"
    assert mail.subject == "ann@example.com 邀请您加入“tenant ann”"
    assert mail.link.startswith("https://shop.example/#/invitation?token=inv_")
    seen = identity.auth.invited(token=mail.token, address="192.0.2.7")
    assert (seen.tenant_name, seen.email) == ("tenant ann", "bob@example.com")
    tokens = join(identity.auth, mail.token, display_name="Bob")
    assert tokens.tenant_id == owner.tenant_id
    claims = identity.verifier.verify(tokens.access_token)
    assert "task.submit" in claims.permissions
    assert "user.manage" not in claims.permissions
    identity.auth.refresh(tokens.refresh_token)
    identity.auth.login(login="bob@example.com", password=PASSWORD, address="")
    (bob,) = [user for user in identity.people.users(owner.tenant_id, after=None, limit=9) if user.email[0] == "b"]
    assert (bob.roles, bob.display_name) == (("member", "viewer"), "Bob")
    (accepted,) = identity.invitations.invitations(owner.tenant_id, before=None, limit=9)
    assert (accepted.invitation_id, accepted.user_id) == (invitation.invitation_id, bob.user_id)
    actions = rows(addresses, "SELECT action, actor_id FROM audit_log WHERE action LIKE 'invitation.%%' ORDER BY at")
    assert actions == [("invitation.sent", owner.user_id), ("invitation.accepted", bob.user_id)]


def test_link_is_used_once_stored_hashed_and_expires(identity, postman, addresses):
    owner = identity.owner("ann")
    invite(identity, owner)
    (mail,) = postman.deliver()
    assert rows(addresses, "SELECT token_hash FROM invitation") == [(digest(mail.token),)]
    identity.clock.advance(minutes=30)
    with pytest.raises(LinkInvalid):
        join(identity.auth, mail.token)
    assert statuses(identity, owner) == [("bob@example.com", InvitationStatus.EXPIRED)]
    identity.invitations.resend(
        owner, identity.invitations.invitations(owner.tenant_id, before=None, limit=1)[0].invitation_id
    )
    (again,) = postman.deliver()
    join(identity.auth, again.token)
    with pytest.raises(LinkInvalid):
        join(identity.auth, again.token)


def test_resent_link_ends_the_one_before_at_once(identity, postman):
    owner = identity.owner("ann")
    invitation = invite(identity, owner)
    (first,) = postman.deliver()
    with pytest.raises(InvitationJustSent) as refusal:
        identity.invitations.resend(owner, invitation.invitation_id)
    assert refusal.value.retry_after_s == 60
    identity.clock.advance(minutes=1)
    identity.invitations.resend(owner, invitation.invitation_id)
    with pytest.raises(LinkInvalid):  # before the next mail is made
        join(identity.auth, first.token)
    (second,) = postman.deliver()
    join(identity.auth, second.token)


def test_revoked_invitation_cannot_be_accepted_or_resent(identity, postman):
    owner = identity.owner("ann")
    invitation = invite(identity, owner)
    (mail,) = postman.deliver()
    identity.invitations.revoke(owner, invitation.invitation_id)
    identity.invitations.revoke(owner, invitation.invitation_id)
    with pytest.raises(LinkInvalid):
        join(identity.auth, mail.token)
    with pytest.raises(InvitationEnded):
        identity.invitations.resend(owner, invitation.invitation_id)
    assert statuses(identity, owner) == [("bob@example.com", InvitationStatus.REVOKED)]
    invite(identity, owner)  # a new one may follow


def test_revoked_before_its_mail_is_not_sent(identity, postman):
    owner = identity.owner("ann")
    identity.invitations.revoke(owner, invite(identity, owner).invitation_id)
    assert postman.deliver() == []


def test_open_invitation_is_not_repeated_expired_one_is(identity):
    owner = identity.owner("ann")
    first = invite(identity, owner)
    with pytest.raises(InvitationOpen) as refusal:
        invite(identity, owner)
    assert refusal.value.details["invitationId"] == f"inv_{first.invitation_id.hex}"
    identity.clock.advance(minutes=31)
    second = invite(identity, owner)
    assert second.invitation_id != first.invitation_id


def test_invitation_beyond_own_permissions_is_refused(identity):
    owner = identity.owner("ann")
    admin_user = identity.people.invite(owner, email="adam@example.com", password=PASSWORD, roles=["admin"])
    admin = Actor(owner.tenant_id, admin_user.user_id, admin_user.permissions)
    with pytest.raises(NotYours):
        invite(identity, admin, roles=["owner"])
    with pytest.raises(Refused):
        invite(identity, owner, roles=["platform_admin"])
    of_owner = invite(identity, owner, roles=["owner"])
    identity.clock.advance(minutes=2)
    with pytest.raises(NotYours):
        identity.invitations.resend(admin, of_owner.invitation_id)


def test_known_address_is_refused(identity, postman):
    owner = identity.owner("ann")
    with pytest.raises(LoginTaken):
        invite(identity, owner, "ann")
    identity.register("eve")  # of another tenant, which this one cannot see
    invite(identity, owner, "eve")
    (mail,) = postman.deliver()
    with pytest.raises(LoginTaken):
        join(identity.auth, mail.token)


def test_limits_of_users_and_open_invitations_hold(identity, postman, service_database, signer, database):
    owner = identity.owner("ann")
    limits = PeopleLimits(users=2, invitations=2)
    service = InvitationService(
        PostgresInvitations(database, AuditLog(), unsent_outbox()), identity.clock, limits=lambda: limits
    )
    for name in ("bob", "cleo"):
        service.invite(owner, email=f"{name}@example.com", roles=["member"], language=None)
    with pytest.raises(TooManyInvitations):
        service.invite(owner, email="dan@example.com", roles=["member"], language=None)
    bob, cleo = postman.deliver()
    auth = make_auth(service_database, identity.clock, signer, people_limits=limits)
    join(auth, bob.token)
    with pytest.raises(TooManyUsers):
        join(auth, cleo.token)
    with pytest.raises(TooManyUsers):
        service.invite(owner, email="dan@example.com", roles=["member"], language=None)


def test_last_place_is_taken_by_one_of_many(identity, postman, addresses, signer):
    owner = identity.owner("ann")
    for number in range(4):
        invite(identity, owner, f"user{number}")
    mails = postman.deliver()

    def accept(mail):
        with closing(Database(addresses.service)) as database:
            auth = make_auth(database, identity.clock, signer, people_limits=PeopleLimits(users=2))
            try:
                return join(auth, mail.token).tenant_id
            except TooManyUsers:
                return None

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(accept, mails))
    assert outcomes.count(owner.tenant_id) == 1
    assert rows(addresses, "SELECT count(*) FROM app_user") == [(2,)]
    assert rows(addresses, "SELECT count(*) FROM invitation WHERE accepted_at IS NOT NULL") == [(1,)]


def test_invitations_of_another_tenant_are_not_there(identity):
    ann, bob = identity.owner("ann"), identity.owner("bob")
    invitation = invite(identity, ann, "cleo")
    assert identity.invitations.invitations(bob.tenant_id, before=None, limit=9) == []
    for act in (identity.invitations.resend, identity.invitations.revoke):
        with pytest.raises(NotFound):
            act(bob, invitation.invitation_id)


def test_application_cannot_read_a_hash(identity, database):
    owner = identity.owner("ann")
    invite(identity, owner)
    with (
        pytest.raises(psycopg.errors.InsufficientPrivilege),
        database.tenant_transaction(owner.tenant_id) as tx,
    ):
        tx.all(b"SELECT token_hash FROM invitation")
