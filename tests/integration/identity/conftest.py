"""Identity on a real PostgreSQL, with time and passwords in the test's hand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from artiway.audit.repository import AuditLog
from artiway.identity.keys.repository import PostgresKeys
from artiway.identity.keys.service import ApiKeyService
from artiway.identity.model import Actor, Throttle, Tokens
from artiway.identity.people.repository import PostgresPeople
from artiway.identity.people.service import PeopleService
from artiway.identity.repository import PostgresAccounts
from artiway.identity.service import AuthService
from artiway.identity.tenants.repository import PostgresTenants
from artiway.identity.tenants.service import TenantService
from artiway.identity.token_verifier import Verifier
from tests.fakes.clock import FixedClock
from tests.fakes.identity import FakeLocator, FakeWechatLogin, LocalSigner, QuickPasswords, RecordedRevocations

ISSUER = "artiway-test"


def make_auth(
    service_database, clock, signer, *, passwords=None, revocations=None, throttle=None, sessions_per_user=50
) -> AuthService:
    return AuthService(
        PostgresAccounts(service_database, AuditLog()),
        passwords or QuickPasswords(),
        signer,
        FakeWechatLogin(),
        FakeLocator(),
        revocations or RecordedRevocations(),
        clock,
        issuer=ISSUER,
        refresh_secret=lambda: b"a secret of the server",
        throttle=Throttle if throttle is None else lambda: throttle,
        sessions_per_user=lambda: sessions_per_user,
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
    )
