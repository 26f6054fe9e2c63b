"""Identity on a real PostgreSQL, with time and passwords in the test's hand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from artiway.audit.repository import AuditLog
from artiway.identity.invitations.repository import InvitedAccounts, PostgresInvitations
from artiway.identity.invitations.service import InvitationService
from artiway.identity.keys.repository import PostgresKeys
from artiway.identity.keys.service import ApiKeyService
from artiway.identity.model import Actor, PeopleLimits, Throttle, Tokens
from artiway.identity.people.repository import PostgresPeople
from artiway.identity.people.service import PeopleService
from artiway.identity.repository import PostgresAccounts
from artiway.identity.resets.repository import PostgresResets
from artiway.identity.resets.service import ResetService
from artiway.identity.service import AuthService
from artiway.identity.tenants.repository import PostgresTenants
from artiway.identity.tenants.service import TenantService
from artiway.identity.token_verifier import Verifier
from tests.fakes.clock import FixedClock
from tests.fakes.identity import FakeLocator, FakeWechatLogin, LocalSigner, QuickPasswords, RecordedRevocations
from tests.fakes.mail import Postman
from tests.fakes.outbox import unsent_outbox

ISSUER = "artiway-test"
# Three requests of a login and ten of an address, then a quarter of an hour.
QUARTER = timedelta(minutes=15)
MAILS = Throttle(3, 10, QUARTER, first_wait=QUARTER, longest_wait=QUARTER)


def make_auth(
    service_database,
    clock,
    signer,
    *,
    passwords=None,
    revocations=None,
    throttle=None,
    sessions_per_user=50,
    locator=None,
    people_limits=None,
) -> AuthService:
    audit, outbox = AuditLog(), unsent_outbox()
    accounts = PostgresAccounts(service_database, audit, outbox)
    return AuthService(
        accounts,
        passwords or QuickPasswords(),
        signer,
        FakeWechatLogin(),
        locator or FakeLocator(),
        revocations or RecordedRevocations(),
        clock,
        issuer=ISSUER,
        refresh_secret=lambda: b"a secret of the server",
        throttle=Throttle if throttle is None else lambda: throttle,
        sessions_per_user=lambda: sessions_per_user,
        invitations=InvitedAccounts(service_database, audit, accounts),
        links=lambda: MAILS,
        people_limits=lambda: people_limits or PeopleLimits(),
    )


@dataclass
class Identity:
    """All services of identity over one database."""

    auth: AuthService
    people: PeopleService
    keys: ApiKeyService
    tenants: TenantService
    clock: FixedClock
    passwords: QuickPasswords
    revocations: RecordedRevocations
    verifier: Verifier
    resets: ResetService
    invitations: InvitationService

    def register(self, name: str = "") -> Tokens:
        return self.auth.register(
            tenant_name=f"tenant {name}",
            email=f"{name or uuid4().hex}@example.com",
            password="correct horse",
            phone=None,
            address="192.0.2.1",
        )

    def owner(self, name: str = "") -> Actor:
        tokens = self.register(name)
        claims = self.verifier.verify(tokens.access_token)
        return Actor(tokens.tenant_id, tokens.user_id, frozenset(claims.permissions))


@pytest.fixture
def postman(addresses, service_database, identity) -> Postman:
    return Postman(addresses.superuser, service_database, identity.clock)


@pytest.fixture(scope="session")
def signer() -> LocalSigner:
    return LocalSigner()


@pytest.fixture
def identity(database, service_database, signer) -> Identity:
    clock = FixedClock(datetime.now(UTC))  # a token's time is checked against the real clock
    passwords, revocations, audit = QuickPasswords(), RecordedRevocations(), AuditLog()
    return Identity(
        auth=make_auth(service_database, clock, signer, passwords=passwords, revocations=revocations),
        people=PeopleService(PostgresPeople(database, audit), passwords, revocations),
        keys=ApiKeyService(PostgresKeys(database, audit), revocations, clock),
        tenants=TenantService(PostgresTenants(service_database, audit), passwords, revocations),
        clock=clock,
        passwords=passwords,
        revocations=revocations,
        verifier=Verifier(json.dumps({"keys": [signer.jwk()]}), issuer=ISSUER),
        resets=ResetService(
            PostgresResets(service_database, audit, unsent_outbox()),
            passwords,
            revocations,
            clock,
            requests=lambda: MAILS,
            failures=Throttle,
        ),
        invitations=InvitationService(PostgresInvitations(database, audit, unsent_outbox()), clock),
    )
