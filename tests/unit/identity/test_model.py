"""Spelling, and the judgement about a refresh token."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artiway.errors import Refused
from artiway.identity.model import (
    BadCredentials,
    RefreshState,
    email_of,
    judge_refresh,
    login_of,
    phone_of,
)
from tests.fakes.clock import NOON

GRACE = timedelta(seconds=10)


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("13800138000", "+8613800138000"),
        ("138-0013-8000", "+8613800138000"),
        ("+86 13800138000", "+8613800138000"),
        ("+1 415 555 0100", "+14155550100"),
    ],
)
def test_number_has_one_spelling(typed, kept):
    assert phone_of(typed) == kept


@pytest.mark.parametrize(
    "typed", ["", "123", "23800138000", "+12", "13800138000x", "+1234567890123456", "+1 \n2345678"]
)
def test_invalid_phone_number_is_refused(typed):
    with pytest.raises(Refused):
        phone_of(typed)


def test_address_has_one_spelling():
    assert email_of("Ann.B+shop@Example.COM") == "ann.b+shop@example.com"


@given(st.text())
def test_any_text_is_a_normal_login_or_refused(text):
    try:
        spelled = login_of(text)
    except BadCredentials:
        return
    assert login_of(spelled) == spelled
    assert spelled == spelled.lower()


def state(**changes):
    facts = {
        "tenant_id": uuid4(),
        "session_id": uuid4(),
        "user_id": uuid4(),
        "used_at": None,
        "expires_at": NOON + timedelta(days=7),
        "session_expires_at": NOON + timedelta(days=30),
        "is_revoked": False,
        "is_open": True,
        "permissions": (),
        "is_suspended": False,
        "is_successor_known": True,
        "is_successor_used": False,
    }
    return RefreshState(**{**facts, **changes})


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "rotate"),
        ({"used_at": NOON}, "repeat"),
        ({"used_at": NOON - GRACE}, "repeat"),
        ({"used_at": NOON, "is_successor_used": True}, "reused"),
        ({"used_at": NOON, "is_successor_known": False}, "refused"),
        ({"is_suspended": True}, "suspended"),
        ({"used_at": NOON, "is_suspended": True}, "suspended"),
        ({"is_suspended": True, "is_open": False}, "refused"),
        ({"is_suspended": True, "is_revoked": True}, "refused"),
        ({"used_at": NOON - GRACE - timedelta(microseconds=1)}, "reused"),
        ({"used_at": NOON - timedelta(days=1), "is_revoked": True}, "reused"),
        ({"is_revoked": True}, "refused"),
        ({"is_open": False}, "refused"),
        ({"used_at": NOON, "is_revoked": True}, "refused"),
        ({"expires_at": NOON}, "expired"),
        ({"session_expires_at": NOON}, "expired"),
        ({"expires_at": NOON, "used_at": NOON - timedelta(days=1)}, "reused"),
    ],
    ids=str,
)
def test_refresh_verdict_follows_the_token_state(changes, verdict):
    assert judge_refresh(state(**changes), now=NOON, grace=GRACE) == verdict
