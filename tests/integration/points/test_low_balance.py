"""The notice about a low balance: once, until the balance has risen."""

from __future__ import annotations

import psycopg
import pytest

from artiway.audit.repository import AuditLog
from artiway.ids import new_id
from artiway.points.model import Change, Kind
from artiway.points.repository import PostgresLedger, PostgresOverview
from artiway.points.service import PointsService
from tests.fakes.clock import NOON, FixedClock
from tests.fakes.mail import Postman
from tests.fakes.outbox import unsent_outbox
from tests.fakes.users import add_users


@pytest.fixture
def shop(addresses, database, service_database):
    return Shop(addresses, database, service_database)


class Shop:
    def __init__(self, addresses, database, service_database):
        self.tenant_id, self.user_id = new_id(), new_id()
        add_users(addresses.superuser, self.tenant_id, [self.user_id])
        self._url = addresses.superuser
        self.run("UPDATE app_user SET email = 'ann@example.com', language = 'en'")
        self.points = PointsService(PostgresLedger(database, AuditLog()), FixedClock())
        self.overview = PostgresOverview(service_database)
        self.postman = Postman(addresses.superuser, service_database, FixedClock())

    def run(self, query):
        with psycopg.connect(self._url) as connection:
            connection.execute(query)

    def move(self, amount):
        change = Change(self.user_id, Kind.RECHARGE if amount > 0 else Kind.ADJUST, abs(amount), "test", str(new_id()))
        act = self.points.credit if amount > 0 else self.points.debit
        act(tenant_id=self.tenant_id, change=change)

    def sweep(self):
        self.overview.publish_low_balances(unsent_outbox(), now=NOON, limit=10)
        return [mail.subject for mail in self.postman.deliver()]


def test_notice_comes_once_until_the_balance_rises(shop):
    shop.move(100)
    assert shop.sweep() == [], "the tenant has no warning level"
    shop.run("UPDATE tenant SET low_balance_points = 50")
    assert shop.sweep() == []
    shop.move(-60)
    assert shop.sweep() == ["Your Artiway points run low"]
    assert "40 points" in shop.postman.box.mails[-1].text
    shop.move(-10)
    assert shop.sweep() == []
    shop.move(100)
    assert shop.sweep() == []
    shop.move(-100)
    assert shop.sweep() == ["Your Artiway points run low"]


def test_user_without_notices_gets_no_mail(shop):
    shop.run("UPDATE tenant SET low_balance_points = 50")
    shop.run("UPDATE app_user SET email_notices = false")
    shop.move(10)
    assert shop.sweep() == []


def test_balance_that_rose_before_the_mail_sends_none(shop):
    shop.run("UPDATE tenant SET low_balance_points = 50")
    shop.move(10)
    shop.overview.publish_low_balances(unsent_outbox(), now=NOON, limit=10)
    shop.move(100)
    assert shop.postman.deliver() == []
