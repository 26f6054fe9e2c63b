"""Retries, idempotency keys, tokens, signatures, paging."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import threading

import pytest

from artiway_client import (
    AnswerLost,
    AsyncClient,
    Client,
    InsufficientPoints,
    Invalid,
    Tokens,
    TokenStore,
    TooMany,
    Unavailable,
)
from artiway_client.core import Call, Core, Lost, Outgoing, Pace
from tests.clients.conftest import Reply, Server, refusal

ACCEPTED = Reply(202, {"taskId": "task_1", "status": "QUEUED"})
TASK = {"tool": "cutout", "inputs": {"product": "inp_1"}}


class TestRetries:
    def test_refused_submission_returns_under_same_key(self, server, client):
        server.says(refusal(429, "TASK_429_QUEUE_FULL", retry_after="0"), refusal(503, "X_503_AWAY"), ACCEPTED)
        assert client.submit_task(TASK)["taskId"] == "task_1"
        assert len({request.headers["idempotency-key"] for request in server.seen}) == 1
        assert [request.json for request in server.seen] == [TASK] * 3

    def test_two_submissions_have_different_keys(self, server, client):
        server.says(ACCEPTED)
        client.submit_task(TASK)
        client.submit_task(TASK)
        assert len({request.headers["idempotency-key"] for request in server.seen}) == 2

    def test_key_of_the_caller_is_sent(self, server, client):
        server.says(ACCEPTED)
        client.submit_task(TASK, idempotency_key="mine")
        assert server.seen[0].headers["idempotency-key"] == "mine"

    def test_request_in_progress_is_asked_again(self, server, client):
        server.says(refusal(409, "IDEM_409_IN_PROGRESS", retry_after="0"), ACCEPTED)
        assert client.submit_task(TASK)["status"] == "QUEUED"

    def test_broken_connection_repeats_keyed_request_only(self, server, client):
        server.says(Reply(202, {}, is_cut=True), ACCEPTED)
        assert client.submit_task(TASK)["taskId"] == "task_1"
        server.says(Reply(201, {}, is_cut=True), ACCEPTED)
        with pytest.raises(AnswerLost):  # the platform may have acted, and the route has no key
            client.create_webhook({"url": "https://example.com/"})

    def test_unkeyed_change_is_not_repeated_after_503(self, server, client):
        server.says(refusal(503, "X_503_AWAY"))
        with pytest.raises(Unavailable):
            client.create_webhook({"url": "https://example.com/"})
        assert len(server.seen) == 1

    def test_wait_beyond_budget_is_an_error(self, server, client):
        server.says(refusal(429, "AUTH_429_THROTTLED", retry_after="900"))
        with pytest.raises(TooMany) as caught:
            client.log_in({"login": "a", "password": "b"})
        assert (caught.value.retry_after_s, len(server.seen)) == (900, 1)

    def test_platform_that_is_away_is_named(self, server):
        with Client("http://127.0.0.1:1/api/v1", retry_for_s=0) as client, pytest.raises(AnswerLost, match=":1/api/v1"):
            client.get_health()

    def test_platform_that_is_away_is_given_up_earlier(self):
        """A lost answer is retried for all of the time, a connection that was never made is not."""
        now = [0.0]
        core = Core("http://host/api/v1", None, retry_for_s=120, away_for_s=10, clock=lambda: now[0])
        for was_sent, limit_s in ((False, 10), (True, 120)):
            now[0], steps, reply = 0.0, core.steps(Call("GET", "/points")), None
            with pytest.raises(AnswerLost):
                while True:
                    step = steps.send(reply)
                    reply = Lost("refused", was_sent=was_sent) if isinstance(step, Outgoing) else None
                    now[0] += step if isinstance(step, float) else 0
            assert limit_s / 2 < now[0] <= limit_s

    @pytest.mark.parametrize(
        ("status", "code", "kind"), [(402, "POINTS_402_INSUFFICIENT", InsufficientPoints), (422, "X_422_Y", Invalid)]
    )
    def test_error_carries_code_request_and_details(self, server, client, status, code, kind):
        server.says(refusal(status, code))
        with pytest.raises(kind) as caught:
            client.submit_task(TASK)
        assert (caught.value.code, caught.value.request_id) == (code, "r1")
        assert caught.value.details == {"field": "count"}


class TestTokens:
    PAIR = Reply(200, {"accessToken": "new", "refreshToken": "second"})
    ME = Reply(200, {"userId": "usr_1"})

    def test_expired_token_is_renewed_once(self, server):
        server.says(refusal(401, "AUTH_401_TOKEN_EXPIRED"), self.PAIR, self.ME)
        store = TokenStore(Tokens("old", "first"))
        with Client(server.url, tokens=store) as client:
            assert client.get_me()["userId"] == "usr_1"
        assert store.tokens == Tokens("new", "second")
        assert [request.target for request in server.seen] == ["/api/v1/me", "/api/v1/auth/refresh", "/api/v1/me"]
        assert server.seen[1].json == {"refreshToken": "first"}
        assert server.seen[2].headers["authorization"] == "Bearer new"

    def test_callers_share_one_renewal(self, server):
        """A refresh token that is used twice ends the session, so only one caller may use it."""
        store = TokenStore(Tokens("old", "first"))
        server.says(self.PAIR)
        with Client(server.url, tokens=store) as client:
            threads = [threading.Thread(target=client._renew, args=("old",)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert [request.json for request in server.seen] == [{"refreshToken": "first"}]

    def test_tasks_share_one_renewal(self, server):
        store = TokenStore(Tokens("old", "first"))
        server.says(self.PAIR)

        async def renew() -> None:
            async with AsyncClient(server.url, tokens=store) as client:
                await asyncio.gather(*(client._renew("old") for _ in range(5)))

        asyncio.run(renew())
        assert len(server.seen) == 1

    def test_signed_key_keeps_its_secret(self, server):
        server.says(self.ME)
        with Client(server.url, api_key="ak_abc_s3cret_with_underscore", is_signed=True) as client:
            client.list_tasks(status="FAILED", limit=5)
        seen = server.seen[0]
        text = "\n".join(
            [
                "GET",
                "/api/v1/tasks?status=FAILED&limit=5",
                seen.headers["x-artiway-timestamp"],
                seen.headers["x-artiway-nonce"],
                hashlib.sha256(b"").hexdigest(),
            ]
        )
        key = hashlib.sha256(b"s3cret_with_underscore").digest()
        assert seen.headers["x-artiway-signature"] == hmac.new(key, text.encode(), "sha256").hexdigest()
        assert seen.headers["authorization"] == "Bearer ak_abc"
        assert "s3cret" not in str(seen)


class TestLists:
    def test_every_page_is_read(self, server: Server, client):
        pages = [{"items": [1, 2], "nextCursor": "a b"}, {"items": [3], "nextCursor": None}]
        server.says(*(Reply(200, page) for page in pages))
        assert list(client.each(client.list_tasks, status="FAILED")) == [1, 2, 3]
        assert [request.target for request in server.seen] == [
            "/api/v1/tasks?status=FAILED&limit=100",
            "/api/v1/tasks?status=FAILED&cursor=a+b&limit=100",
        ]

    def test_ids_in_paths_are_quoted(self, server, client):
        server.says(Reply(200, {}))
        client.get_task("../points")
        assert server.seen[0].target == "/api/v1/tasks/..%2Fpoints"

    def test_yaml_is_sent_as_yaml(self, server, client):
        server.says(Reply(200, {}))
        client.import_jobs("jobs: []", dry_run=True)
        assert (server.seen[0].headers["content-type"], server.seen[0].body) == ("application/yaml", b"jobs: []")
        assert server.seen[0].target == "/api/v1/jobs/import?dryRun=true"


class TestPace:
    def test_empty_bucket_delays_requests_by_rate(self):
        now = 0.0
        pace = Pace(lambda: now)
        assert pace.delay_s() == 0  # nothing is known yet
        pace.learn({"ratelimit-limit": "10", "ratelimit-remaining": "1", "ratelimit-reset": "2"})  # 4.5 per second
        assert pace.delay_s() == 0
        assert pace.delay_s() == pytest.approx(1 / 4.5)
        assert pace.delay_s() == pytest.approx(2 / 4.5)
        now = 60.0
        assert [pace.delay_s() for _ in range(10)] == [0] * 10
        assert pace.delay_s() > 0

    def test_requests_of_other_programs_count(self):
        pace = Pace(lambda: 0.0)
        pace.learn({"ratelimit-limit": "10", "ratelimit-remaining": "9", "ratelimit-reset": "1"})
        pace.learn({"ratelimit-limit": "10", "ratelimit-remaining": "0", "ratelimit-reset": "2"})
        assert pace.delay_s() == pytest.approx(1 / 5)
