"""Logins with time and place, profiles, and the notice about a new place."""

from __future__ import annotations

import pytest

from artiway.errors import NotFound
from tests.integration.identity.conftest import make_auth


class Places:
    """Each address is a place; those of 203.0.113 are not found."""

    def begin(self, address):
        return lambda: "unknown" if address.startswith("203.0.113.") else f"near {address}"


@pytest.fixture
def auth(service_database, identity, signer):
    return make_auth(service_database, identity.clock, signer, locator=Places())


def log_in(auth, address):
    return auth.login(login="ann@example.com", password="correct horse", address=address)


def places(identity, owner):
    found = identity.people.logins(owner.tenant_id, owner.user_id, before=None, limit=10)
    return [(one.location, one.is_new_place) for one in found]


def test_login_from_new_place_is_marked_and_mailed(identity, auth, postman):
    owner = identity.owner("ann")  # from 192.0.2.1
    for address in ("192.0.2.1", "198.51.100.7", "198.51.100.7", "192.0.2.1"):
        log_in(auth, address)
    assert places(identity, owner) == [
        ("near 192.0.2.1", False),
        ("near 198.51.100.7", False),
        ("near 198.51.100.7", True),
        ("near 192.0.2.1", False),
        ("near 192.0.2.1", False),
    ]
    (mail,) = postman.deliver()
    assert mail.to == "ann@example.com"
    assert "near 198.51.100.7" in mail.text
    assert "IP 地址：198.51.100.7" in mail.text


def test_unknown_place_is_no_new_place(identity, auth, postman):
    identity.owner("ann")
    log_in(auth, "203.0.113.5")
    assert postman.messages() == []


def test_new_place_is_shown_until_it_was_seen(identity, auth):
    owner = identity.owner("ann")
    assert identity.people.me(owner.tenant_id, owner.user_id).new_place_at is None
    log_in(auth, "198.51.100.7")
    assert identity.people.me(owner.tenant_id, owner.user_id).new_place_location == "near 198.51.100.7"
    seen = identity.people.change_me(owner, {}, has_seen_logins=True)
    assert seen.new_place_at is None


def test_logins_are_paged_newest_first(identity, auth):
    owner = identity.owner("ann")
    for number in range(4):
        log_in(auth, f"198.51.100.{number}")
    every = identity.people.logins(owner.tenant_id, owner.user_id, before=None, limit=10)
    first = identity.people.logins(owner.tenant_id, owner.user_id, before=None, limit=2)
    rest = identity.people.logins(owner.tenant_id, owner.user_id, before=first[-1].login_id, limit=10)
    assert [*first, *rest] == list(every)
    assert every[-1].method == "register"


def test_logins_of_another_tenants_user_are_not_there(identity):
    ann, bob = identity.owner("ann"), identity.owner("bob")
    with pytest.raises(NotFound):
        identity.people.logins(ann.tenant_id, bob.user_id, before=None, limit=10)


def test_profile_is_changed_and_audited(identity, addresses):
    owner = identity.owner("ann")
    changed = identity.people.change_me(owner, {"display_name": "Ann", "language": "en", "email_notices": False})
    assert (changed.display_name, changed.language, changed.email_notices) == ("Ann", "en", False)
    cleared = identity.people.change_me(owner, {"display_name": None})
    assert (cleared.display_name, cleared.language) == (None, "en")
    (user,) = identity.people.users(owner.tenant_id, after=None, limit=10)
    assert user.last_login_at is not None
