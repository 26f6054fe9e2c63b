"""The texts of mails in both languages."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from artiway.mail.model import LANGUAGES, AddressRefused, MailKind, Recipient, letter, placeholders, plain_words
from artiway.mail.service import MailService

FACTS = {
    "tenant": "Ann's shop",
    "inviter": "Ann",
    "link": "https://shop.example/#/invitation?token=inv_x",
    "at": "2026-11-18 01:00",
    "location": "Shanghai",
    "address": "192.0.2.1",
    "balance": 7,
}


@pytest.mark.parametrize("kind", MailKind)
def test_languages_use_the_same_facts(kind):
    zh, en = (placeholders(kind, language) for language in LANGUAGES)
    assert zh == en
    assert zh <= FACTS.keys()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", MailKind)
def test_every_text_is_filled_in(kind, language):
    written = letter(kind, language, FACTS)
    assert written.subject
    assert "\n" not in written.subject
    assert "{" not in written.subject + written.text
    if "link" in placeholders(kind, language):
        assert f"\n{FACTS['link']}\n" in written.text, "a link stands on a line of its own"


def test_unknown_language_is_chinese():
    assert letter(MailKind.LOW_BALANCE, None, FACTS) == letter(MailKind.LOW_BALANCE, "zh", FACTS)


@pytest.mark.parametrize(
    "name",
    [
        "Win now https://evil.example/x",
        "Visit www.evil.example",
        "two\nlines\r\nBcc: a@b.c",
        "\u202edesrever",
        "x" * 500,
    ],
)
def test_names_of_tenants_stay_plain_words(name):
    written = letter(MailKind.INVITATION, "en", {**FACTS, "tenant": name})
    assert "://evil" not in written.text
    assert "www.evil" not in written.text
    assert "\n" not in written.subject
    assert len(plain_words(name)) <= 80
    assert plain_words(name).isprintable()


class Store:
    """Everything is open; nobody is asked twice."""

    def recipient(self, tenant_id, user_id):
        return Recipient("ann@example.com", "en"), "shop"


class Refusing:
    def send(self, to, subject, text):
        raise AddressRefused


@pytest.mark.parametrize("mailer", [None, Refusing()])
def test_mail_that_cannot_be_sent_is_no_failure(mailer):
    service = MailService(Store(), mailer, console_url="https://shop.example")
    ids = {"tenantId": "01900000-0000-7000-8000-00000000000a", "userId": "01900000-0000-7000-8000-00000000000b"}
    service.deliver(MailKind.PASSWORD_CHANGED, ids)


def test_tokens_need_no_quoting():
    assert quote("rst_aZ09-_") == "rst_aZ09-_"
