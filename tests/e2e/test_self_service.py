"""Trial points, profile, password reset, invitation and logins on the running stack, with the mails of its mailbox."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

import psycopg
import pytest

from tests.e2e.conftest import Platform, wait_for
from tests.e2e.people import PASSWORD, Client

NEW_PASSWORD = "another horse battery"


@pytest.fixture
def client(platform: Platform) -> Iterator[Client]:
    with closing(Client(platform.facts["apiUrl"])) as client:
        yield client


def mails_to(platform: Platform, address: str) -> list[dict[str, Any]]:
    with urlopen(f"{platform.facts['mailboxUrl']}.json", timeout=10) as answer:
        return [mail for mail in json.load(answer)["items"] if mail["to"] == [address]]


def token_of(mail: dict[str, Any]) -> str:
    found = re.search(r"[?]token=(\S+)", mail["text"])
    assert found is not None, mail
    return found[1]


def register(client: Client) -> tuple[str, dict[str, Any]]:
    email = f"{uuid4().hex}@example.com"
    body = {"tenantName": "A shop", "email": email, "password": PASSWORD}
    answer = client.call("POST", "/auth/register", body)
    assert answer.status == 201, answer
    return email, answer.body


def test_new_shop_takes_trial_points_once(client: Client, platform: Platform) -> None:
    _, made = register(client)
    token = made["accessToken"]
    me = client.call("GET", "/me", token=token).body
    assert (me["balance"], me["trialPoints"], me["tenantName"]) == (0, 50, "A shop")
    with psycopg.connect(platform.facts["databaseUrl"]) as connection:
        connection.execute("DELETE FROM login_failure")  # all tests of this stack come from one address
    taken = client.call("POST", "/points/trial", token=token)
    assert (taken.status, taken.body["kind"], taken.body["balance"]) == (201, "GIFT", 50)
    again = client.call("POST", "/points/trial", token=token)
    assert (again.status, again.body["code"]) == (409, "POINTS_409_TRIAL_USED")
    assert client.call("GET", "/me", token=token).body["trialPoints"] is None


def test_forgotten_password_is_reset_by_the_mail(client: Client, platform: Platform) -> None:
    email, made = register(client)
    assert client.call("PATCH", "/me", {"language": "en"}, token=made["accessToken"]).body["language"] == "en"
    for login in (email, f"{uuid4().hex}@example.com"):
        asked = client.call("POST", "/auth/password/forgot", {"login": login})
        assert (asked.status, asked.body) == (202, {})
    (mail,) = wait_for(lambda: mails_to(platform, email))
    assert mail["subject"] == "Reset your Artiway password"
    assert f"{platform.facts['consoleUrl']}#/reset?token=" in mail["text"]
    body = {"token": token_of(mail), "password": NEW_PASSWORD}
    assert client.call("POST", "/auth/password/reset", body).status == 204
    again = client.call("POST", "/auth/password/reset", body)
    assert (again.status, again.body["code"]) == (401, "AUTH_401_LINK_INVALID")
    refresh = client.call("POST", "/auth/refresh", {"refreshToken": made["refreshToken"]})
    assert refresh.status == 401
    token = client.log_in(email, NEW_PASSWORD)["token"]
    methods = [one["method"] for one in client.call("GET", "/me/logins", token=token).body["items"]]
    assert methods == ["password", "register"]


def test_colleague_joins_by_an_invitation(client: Client, platform: Platform) -> None:
    _, made = register(client)
    owner = made["accessToken"]
    address = f"{uuid4().hex}@example.com"
    sent = client.call("POST", "/invitations", {"email": address, "roles": ["member"], "language": "zh"}, token=owner)
    assert (sent.status, sent.body["status"]) == (201, "OPEN")
    (mail,) = wait_for(lambda: mails_to(platform, address))
    seen = client.call("POST", "/auth/invitations/look", {"token": token_of(mail)})
    assert (seen.status, seen.body["email"], seen.body["tenantName"]) == (200, address, "A shop")
    body = {"token": token_of(mail), "password": PASSWORD, "displayName": "Bob"}
    joined = client.call("POST", "/auth/invitations/accept", body)
    assert (joined.status, joined.body["tenantId"]) == (201, made["tenantId"])
    bob = client.call("GET", "/me", token=joined.body["accessToken"]).body
    assert (bob["displayName"], bob["roles"]) == ("Bob", ["member"])
    (listed,) = client.call("GET", "/invitations", token=owner).body["items"]
    assert (listed["status"], listed["userId"]) == ("ACCEPTED", bob["userId"])
    assert client.call("GET", f"/users/{bob['userId']}/logins", token=owner).body["items"][0]["method"] == "register"


def test_password_change_and_empty_lists_answer(client: Client) -> None:
    email, made = register(client)
    token = made["accessToken"]
    wrong = {"currentPassword": "wrong", "newPassword": NEW_PASSWORD}
    assert client.call("POST", "/me/password", wrong, token=token).body["code"] == "AUTH_401_BAD_CREDENTIALS"
    right = {"currentPassword": PASSWORD, "newPassword": NEW_PASSWORD}
    assert client.call("POST", "/me/password", right, token=token).status == 204
    assert client.call("GET", "/me", token=token).status == 200, "the caller's session stays"
    client.log_in(email, NEW_PASSWORD)
    usage = client.call("GET", "/usage?groupBy=day,tool,user", token=token)
    assert (usage.status, usage.body["items"], usage.body["scope"]) == (200, [], "tenant")
    assert client.call("GET", "/refunds", token=token).body["items"] == []


def test_operator_searches_tasks_and_audit_by_address(client: Client, platform: Platform) -> None:
    admin = client.log_in(platform.facts["admin"]["login"], platform.facts["admin"]["password"])["token"]
    assert client.call("GET", "/ops/tasks?status=QUEUED&limit=1", token=admin).status == 200
    assert client.call("GET", f"/ops/tasks/task_{uuid4().hex}", token=admin).status == 404
    unknown = f"task_{uuid4().hex}"
    handled = client.call("POST", "/ops/tasks/cancel", {"ids": [unknown]}, token=admin)
    assert handled.body["results"] == [{"id": unknown, "status": None, "errorCode": "TASK_404_NO_TASK"}]
    email, made = register(client)
    client.call("PATCH", "/me", {"displayName": "Ann"}, token=made["accessToken"])
    entries = client.call("GET", f"/ops/audit?actor={email}", token=admin).body["items"]
    assert {(one["actorEmail"], one["actorName"], one["tenantName"]) for one in entries} == {(email, "Ann", "A shop")}
    assert client.call("GET", "/ops/audit?actor=nobody@example.com", token=admin).body["items"] == []


def test_mailbox_page_shows_mails(platform: Platform) -> None:
    with urlopen(platform.facts["mailboxUrl"], timeout=10) as page:
        assert "Mailbox of this machine" in page.read().decode()
