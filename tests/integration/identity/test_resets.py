"""Passwords that are changed and reset, on a real PostgreSQL, with the mails that the transactions publish."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from artiway.audit.repository import AuditLog
from artiway.identity.model import (
    BadCredentials,
    LinkInvalid,
    LoginThrottled,
    RequestsThrottled,
    Throttle,
    TokenNotAccepted,
    digest,
)
from artiway.identity.resets.repository import PostgresResets
from artiway.identity.resets.service import ResetService
from artiway.platform.database import Database
from tests.fakes.identity import QuickPasswords, RecordedRevocations
from tests.fakes.outbox import unsent_outbox
from tests.integration.identity.conftest import MAILS

OLD, NEW = "correct horse", "battery staple"


def rows(addresses, query, *parameters):
    with psycopg.connect(addresses.superuser) as connection:
        return connection.execute(query, parameters).fetchall()


def log_in(identity, name, password):
    return identity.auth.login(login=f"{name}@example.com", password=password, address="192.0.2.1")


def forgot(identity, login="ann@example.com", *, language=None, address="192.0.2.9"):
    identity.resets.forgot(login=login, language=language, address=address)


def reset(identity, token, password=NEW, *, address="192.0.2.9"):
    identity.resets.reset(token=token, password=password, address=address)


class TestLinks:
    def test_link_sets_the_password_and_ends_all_sessions(self, identity, postman, addresses):
        before = identity.register("ann")
        forgot(identity)
        (mail,) = postman.deliver()
        assert mail.to == "ann@example.com"
        assert mail.link.startswith("https://shop.example/#/reset?token=rst_")
        reset(identity, mail.token)
        with pytest.raises(TokenNotAccepted):
            identity.auth.refresh(before.refresh_token)
        with pytest.raises(BadCredentials):
            log_in(identity, "ann", OLD)
        assert log_in(identity, "ann", NEW).user_id == before.user_id
        assert rows(addresses, "SELECT revoked_reason FROM session WHERE revoked_at IS NOT NULL") == [("password",)]
        assert any(entry.startswith("session") for entry in identity.revocations.dropped)
        assert rows(addresses, "SELECT actor_id, details FROM audit_log WHERE action = 'password.reset'") == [
            (before.user_id, {"endedSessions": 1})
        ]

    def test_link_works_once(self, identity, postman):
        identity.register("ann")
        forgot(identity)
        (mail,) = postman.deliver()
        reset(identity, mail.token)
        with pytest.raises(LinkInvalid):
            reset(identity, mail.token, "another password")
        log_in(identity, "ann", NEW)

    def test_link_expires_after_thirty_minutes(self, identity, postman):
        identity.register("ann")
        forgot(identity)
        (mail,) = postman.deliver()
        identity.clock.advance(minutes=30)
        with pytest.raises(LinkInvalid):
            reset(identity, mail.token)
        log_in(identity, "ann", OLD)

    def test_late_mail_of_an_expired_request_is_dropped(self, identity, postman):
        identity.register("ann")
        forgot(identity)
        identity.clock.advance(minutes=31)
        assert postman.deliver() == []

    def test_newest_link_replaces_the_one_before(self, identity, postman):
        identity.register("ann")
        forgot(identity)
        (first,) = postman.deliver()
        forgot(identity)
        (second,) = postman.deliver()
        with pytest.raises(LinkInvalid):
            reset(identity, first.token)
        reset(identity, second.token)

    def test_of_two_uses_at_once_one_wins(self, identity, postman, addresses):
        identity.register("ann")
        forgot(identity)
        (mail,) = postman.deliver()

        def use(password):
            with closing(Database(addresses.service)) as database:
                store = PostgresResets(database, AuditLog(), unsent_outbox())
                service = ResetService(
                    store,
                    QuickPasswords(),
                    RecordedRevocations(),
                    identity.clock,
                    requests=lambda: MAILS,
                    failures=Throttle,
                )
                try:
                    service.reset(token=mail.token, password=password, address=password)
                except LinkInvalid:
                    return "refused"
                return password

        with ThreadPoolExecutor(4) as pool:
            outcomes = list(pool.map(use, [f"password {n}" for n in range(4)]))
        (winner,) = [one for one in outcomes if one != "refused"]
        log_in(identity, "ann", winner)

    def test_only_the_hash_of_a_token_is_stored(self, identity, postman, addresses):
        identity.register("ann")
        forgot(identity)
        (mail,) = postman.deliver()
        assert rows(addresses, "SELECT token_hash FROM password_reset") == [(digest(mail.token),)]
        stored = [
            text
            for (text,) in rows(addresses, "SELECT o::text FROM outbox o UNION ALL SELECT a::text FROM audit_log a")
        ]
        assert stored
        assert not [text for text in stored if mail.token in text or ("ann@example.com" in text and "mail" in text)]

    def test_user_of_a_disabled_account_gets_no_mail(self, identity, postman):
        owner = identity.owner("ann")
        bob = identity.people.invite(owner, email="bob@example.com", password=OLD, roles=["member"])
        identity.people.change(owner, bob.user_id, status="DISABLED")
        forgot(identity, "bob@example.com")
        assert postman.deliver() == []

    def test_mail_is_in_the_language_of_the_request(self, identity, postman):
        owner = identity.owner("ann")
        identity.people.change_me(owner, {"language": "en"})
        forgot(identity)
        forgot(identity, language="zh")
        english, chinese = postman.deliver()
        assert (english.subject, chinese.subject) == ("Reset your Artiway password", "重置您的 Artiway 密码")


class TestAnswers:
    def test_unknown_login_is_answered_alike_and_sends_nothing(self, identity, postman, addresses):
        identity.register("ann")
        for login in ("ann@example.com", "nobody@example.com", "+8613800000000", "no login at all"):
            forgot(identity, login)
        kinds = [message["type"] for message in postman.messages()]
        assert kinds == ["password_reset"] * 3, "a known and an unknown login make the same row and message"
        assert [mail.to for mail in postman.deliver()] == ["ann@example.com"]

    @pytest.mark.parametrize("login", ["ann@example.com", "nobody@example.com"])
    def test_requests_of_a_login_are_throttled_alike(self, identity, login):
        identity.register("ann")
        for number in range(3):
            forgot(identity, login, address=f"198.51.100.{number}")
        with pytest.raises(RequestsThrottled) as refusal:
            forgot(identity, login, address="198.51.100.9")
        assert 890 <= refusal.value.retry_after_s <= 900

    def test_requests_of_an_address_are_throttled(self, identity):
        for number in range(10):
            forgot(identity, f"user{number}@example.com")
        with pytest.raises(RequestsThrottled):
            forgot(identity, "another@example.com")

    def test_guesses_of_links_are_throttled_per_address(self, identity):
        for number in range(10):
            with pytest.raises(LinkInvalid):
                reset(identity, f"rst_{number}")
        with pytest.raises(RequestsThrottled):
            reset(identity, "rst_another")


class TestChanges:
    def change(self, identity, tokens, current=OLD, new=NEW, session_id=None):
        identity.resets.change(
            tenant_id=tokens.tenant_id,
            user_id=tokens.user_id,
            session_id=session_id,
            current_password=current,
            new_password=new,
        )

    def test_change_keeps_this_session_and_ends_others(self, identity, postman):
        mine = identity.register("ann")
        other = log_in(identity, "ann", OLD)
        claims = identity.verifier.verify(mine.access_token)
        self.change(identity, mine, session_id=claims.family_id)
        identity.auth.refresh(mine.refresh_token)
        with pytest.raises(TokenNotAccepted):
            identity.auth.refresh(other.refresh_token)
        log_in(identity, "ann", NEW)
        assert [mail.subject for mail in postman.deliver()] == ["您的 Artiway 密码已更改"]

    def test_wrong_current_password_changes_nothing(self, identity, postman):
        mine = identity.register("ann")
        with pytest.raises(BadCredentials):
            self.change(identity, mine, current="wrong")
        identity.auth.refresh(mine.refresh_token)
        log_in(identity, "ann", OLD)
        assert postman.messages() == []

    def test_guesses_of_the_current_password_are_throttled(self, identity):
        mine = identity.register("ann")
        for _ in range(5):
            with pytest.raises(BadCredentials):
                self.change(identity, mine, current="wrong")
        with pytest.raises(LoginThrottled):
            self.change(identity, mine)
