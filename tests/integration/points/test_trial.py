"""Trial points: once per tenant, a few per address."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from artiway.audit.repository import AuditLog
from artiway.identity.repository import PostgresAccounts
from artiway.ids import new_id
from artiway.platform.database import Database
from artiway.points.model import Kind
from artiway.points.repository import PostgresLedger
from artiway.points.service import PointsService
from artiway.points.trial import TrialAddress, TrialOff, TrialService, TrialTerms, TrialUsed, offer
from tests.fakes.clock import FixedClock
from tests.fakes.outbox import unsent_outbox
from tests.fakes.users import add_users

TERMS = TrialTerms(points=50, per_address=3, window_s=3_600)


def trial(database, service_database, terms=TERMS):
    points = PointsService(PostgresLedger(database, AuditLog()), FixedClock())
    return TrialService(points, PostgresAccounts(service_database, AuditLog(), unsent_outbox()), lambda: terms)


def newcomer(addresses):
    tenant_id, user_id = new_id(), new_id()
    add_users(addresses.superuser, tenant_id, [user_id])
    return {"tenant_id": tenant_id, "user_id": user_id}


def test_trial_is_given_once_per_tenant(addresses, database, service_database):
    service = trial(database, service_database)
    ann = newcomer(addresses)
    colleague = new_id()
    add_users(addresses.superuser, ann["tenant_id"], [colleague])
    entry = service.take(**ann, address="192.0.2.1")
    assert (entry.kind, entry.balance_delta, entry.balance, entry.reference) == (Kind.GIFT, 50, 50, "trial")
    for user_id in (ann["user_id"], colleague):
        with pytest.raises(TrialUsed):
            service.take(tenant_id=ann["tenant_id"], user_id=user_id, address="192.0.2.2")


def test_trials_of_an_address_are_bounded(addresses, database, service_database):
    service = trial(database, service_database)
    for _ in range(3):
        service.take(**newcomer(addresses), address="192.0.2.1")
    refused = newcomer(addresses)
    with pytest.raises(TrialAddress) as refusal:
        service.take(**refused, address="192.0.2.1")
    assert 3_590 <= refusal.value.retry_after_s <= 3_600
    service.take(**refused, address="192.0.2.2")


def test_trial_can_be_switched_off(addresses, database, service_database):
    with pytest.raises(TrialOff):
        trial(database, service_database, TrialTerms(0, 3, 3_600)).take(**newcomer(addresses), address="192.0.2.1")
    assert offer(TrialTerms(0, 3, 3_600), had_trial=False) is None
    assert offer(TERMS, had_trial=True) is None
    assert offer(TERMS, had_trial=False) == 50


def test_requests_at_once_bring_the_points_once(addresses):
    ann = newcomer(addresses)

    def take(number):
        with closing(Database(addresses.app)) as app, closing(Database(addresses.service)) as service:
            try:
                return trial(app, service).take(**ann, address=f"192.0.2.{number}").entry_id
            except TrialUsed:
                return None

    with ThreadPoolExecutor(8) as pool:
        entries = {entry for entry in pool.map(take, range(8)) if entry is not None}
    assert len(entries) == 1
    with closing(Database(addresses.app)) as app:
        assert PostgresLedger(app, AuditLog()).account(**ann).balance == 50
