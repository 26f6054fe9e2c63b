"""The calls of runs, against real servers on this machine: what is sent, and what becomes of each answer."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from artiway.delivery.webhooks.model import new_secret, standard_signature
from artiway.jobs import secrets
from artiway.jobs.caller import ANSWER_CHARACTERS, READ_BYTES, Caller, outcome_of, retry_after_s
from artiway.jobs.messages import Call, Outcome, Result
from artiway.jobs.outbound import HttpTarget
from artiway.platform.clock import SystemClock
from artiway.platform.outbound import Client
from tests.fakes.clock import NOON
from tests.fakes.targets import Script

TENANT, OTHER = UUID(int=1), UUID(int=2)
RUN, JOB = UUID(int=3), UUID(int=4)
CANARY = "canary-5f2c9e"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LONG_S = 60.0


class TextCipher:
    """As KMS: a ciphertext is of no use under another context."""

    def encrypt(self, plaintext, context):
        return json.dumps([plaintext.decode()[::-1], context], sort_keys=True).encode()

    def decrypt(self, ciphertext, context):
        try:
            text, stored = json.loads(ciphertext)
        except ValueError:
            raise ValueError("damaged") from None
        if stored != dict(context):
            raise ValueError("another context")
        return text[::-1].encode()


class KeptResults:
    def __init__(self):
        self.batches, self.is_away = [], False

    def send(self, results):
        if self.is_away:
            raise ConnectionError("SQS is away")
        self.batches.append(list(results))

    @property
    def all(self):
        return [result for batch in self.batches for result in batch]


def encrypted(value, name="TOKEN", tenant_id=TENANT):
    stored = secrets.SecretCipher(TextCipher()).encrypt(tenant_id=tenant_id, name=name, value=value)
    return base64.b64encode(stored).decode()


def a_call(url, **changes):
    now = datetime.now(UTC)
    call = Call(
        tenant_id=TENANT,
        run_id=RUN,
        job_id=JOB,
        generation=1,
        attempt=1,
        idempotency_key="job_4:2026",
        scheduled_at=NOON,
        not_after=now + timedelta(seconds=100),
        url=url,
        method="POST",
        headers={},
        body='{"a": 1}',
        timeout_s=20,
        success_statuses=[],
        secrets={},
        signing_keys=[],
        trace_id="1-00000001-000000000000000000000001",
    )
    return replace(call, **changes)


@pytest.fixture
def serve():
    with contextlib.ExitStack() as stack:

        def start(scene):
            if isinstance(scene, bytes):
                text = scene

                def scene(script, connection):
                    script.take(connection)
                    connection.sendall(text)

            return stack.enter_context(contextlib.closing(Script(scene)))

        yield start


@pytest.fixture
def results():
    return KeptResults()


@pytest.fixture
def make(results):
    def call_all(*calls, servers=(), time_left_s=LONG_S):
        client = Client(allowed=frozenset(("127.0.0.1", server.port) for server in servers))
        reader = secrets.SecretReader(TextCipher())
        Caller(HttpTarget(client), reader, results, SystemClock()).make(calls, time_left_s=time_left_s)
        return results.all

    return call_all


def url_of(server):
    return f"http://127.0.0.1:{server.port}/coupons"


def headers_of(server, place=0):
    lines, _ = server.requests[place]
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}


class TestRequest:
    def test_target_gets_key_attempt_and_trace(self, serve, make):
        server = serve(OK)
        (result,) = make(a_call(url_of(server), attempt=3), servers=[server])
        assert (result.outcome, result.http_status, result.answer) == (Outcome.SUCCEEDED, 200, "ok")
        assert (result.run_id, result.attempt, result.generation) == (RUN, 3, 1)
        assert result.elapsed_ms is not None
        headers, (lines, body) = headers_of(server), server.requests[0]
        assert lines[0] == "POST /coupons HTTP/1.1"
        assert body == b'{"a": 1}'
        assert headers["webhook-id"] == f"run_{RUN.hex}"
        assert headers["idempotency-key"] == "job_4:2026"
        assert headers["artiway-attempt"] == "3"
        assert headers["artiway-scheduled-time"] == "2026-03-02T04:00:00Z"
        assert headers["x-trace-id"].startswith("1-00000001")
        assert headers["content-type"] == "application/json"

    def test_replay_has_an_id_of_its_own(self, serve, make):
        server = serve(OK)
        make(a_call(url_of(server), generation=2), servers=[server])
        assert headers_of(server)["webhook-id"] == f"run_{RUN.hex}-2"

    def test_both_keys_sign_while_one_replaces_another(self, serve, make):
        server, keys = serve(OK), [new_secret(), new_secret()]
        stored = [encrypted(key, secrets.SIGNING_KEY) for key in keys]
        make(a_call(url_of(server), signing_keys=stored), servers=[server])
        headers = headers_of(server)
        wanted = [
            standard_signature(
                key,
                message_id=headers["webhook-id"],
                timestamp=int(headers["webhook-timestamp"]),
                body=server.requests[0][1],
            )
            for key in keys
        ]
        assert headers["webhook-signature"].split(" ") == wanted

    def test_tenant_cannot_replace_our_headers(self, serve, make):
        server = serve(OK)
        forged = {"Webhook-Id": "x", "IDEMPOTENCY-KEY": "y", "Content-Type": "text/csv", "X-Own": "z"}
        make(a_call(url_of(server), headers=forged), servers=[server])
        headers = headers_of(server)
        assert headers["webhook-id"].startswith("run_")
        assert headers["idempotency-key"] == "job_4:2026"
        assert (headers["content-type"], headers["x-own"]) == ("text/csv", "z")

    def test_get_without_body_sends_none(self, serve, make):
        server = serve(OK)
        make(a_call(url_of(server), method="GET", body=None), servers=[server])
        lines, body = server.requests[0]
        assert lines[0].startswith("GET ")
        assert (body, "content-type" in headers_of(server)) == (b"", False)


class TestSecrets:
    def test_secret_is_inserted_and_escaped_in_json(self, serve, make):
        server, value = serve(OK), 'say "hi" \\ ü'
        call = a_call(
            url_of(server),
            headers={"Authorization": "Bearer secret:KEY"},
            body='{"token": "secret:TOKEN", "other": "mysecret:TOKEN"}',
            secrets={"TOKEN": encrypted(value), "KEY": encrypted("k1", "KEY")},
        )
        make(call, servers=[server])
        assert headers_of(server)["authorization"] == "Bearer k1"
        assert json.loads(server.requests[0][1]) == {"token": value, "other": "mysecret:TOKEN"}

    @pytest.mark.parametrize(
        "stored",
        [{}, {"TOKEN": encrypted("x", tenant_id=OTHER)}, {"TOKEN": encrypted("x", "OTHER")}, {"TOKEN": "%%%"}],
        ids=["missing", "another tenant", "another name", "damaged"],
    )
    def test_secret_that_is_not_ours_stops_the_call(self, serve, make, stored):
        server = serve(OK)
        (result,) = make(a_call(url_of(server), body="secret:TOKEN", secrets=stored), servers=[server])
        assert (result.outcome, server.requests) == (Outcome.REFUSED, [])
        assert "the secret TOKEN" in result.error

    def test_kms_that_is_away_is_tried_again(self, serve, make, monkeypatch):
        def away(*_):
            raise ConnectionError("KMS")

        monkeypatch.setattr(TextCipher, "decrypt", away)
        server = serve(OK)
        call = a_call(url_of(server), body="secret:TOKEN", secrets={"TOKEN": encrypted("x")})
        (result,) = make(call, servers=[server])
        assert (result.outcome, server.requests) == (Outcome.FAILED, [])

    def test_values_are_kept_for_five_minutes(self, monkeypatch):
        asked, at = [], [0.0]
        monkeypatch.setattr(TextCipher, "decrypt", lambda _, stored, context: asked.append(stored) or b"v")
        reader = secrets.SecretReader(TextCipher(), now=lambda: at[0])
        for moment, count in ((0, 1), (299, 1), (300, 2), (301, 2)):
            at[0] = moment
            assert reader.decrypt(tenant_id=TENANT, name="A", ciphertext=b"c") == "v"
            assert len(asked) == count
        reader.decrypt(tenant_id=OTHER, name="A", ciphertext=b"c")
        assert len(asked) == 3

    def test_canary_is_in_no_log_or_result(self, serve, make, results, capsys, caplog):
        """The target repeats the secret, plain, as JSON and at the end of what is read; one target fails."""

        def echo(script, connection):
            script.take(connection)
            text = f"{CANARY} {json.dumps(CANARY)}".encode()
            text = text + b"x" * (READ_BYTES - len(text) - 6) + CANARY.encode() * 2
            head = f"HTTP/1.1 500 Oops\r\nContent-Length: {len(text)}\r\n\r\n"
            connection.sendall(head.encode() + text)

        caplog.set_level(logging.DEBUG)
        server, cut = serve(echo), serve(lambda script, connection: script.take(connection))
        stored = {"TOKEN": encrypted(CANARY)}
        calls = [
            a_call(url_of(one), body="secret:TOKEN", headers={"X-Key": "secret:TOKEN"}, secrets=stored)
            for one in (server, cut)
        ]
        calls.append(a_call("http://10.0.0.1/secret", body="secret:TOKEN", secrets=stored))
        calls.append(
            a_call(url_of(server), headers={"X-Key": "secret:TOKEN"}, secrets={"TOKEN": encrypted(f"{CANARY}\n")})
        )
        found = make(*calls, servers=[server, cut])
        assert CANARY in server.requests[0][1].decode()
        assert {result.outcome for result in found} == {Outcome.FAILED, Outcome.REFUSED}
        text = json.dumps([result.as_data() for result in found]) + capsys.readouterr().out + caplog.text
        assert "secret:TOKEN" in text
        assert CANARY not in text
        assert CANARY[:6] not in text

    def test_short_value_cut_at_the_end_is_hidden(self):
        assert secrets.hidden("a sesame ses", {"T": "sesame"}, is_cut=True) == "a secret:T "
        assert secrets.hidden("a sesame ses", {"T": "sesame"}, is_cut=False) == "a secret:T ses"


class TestAnswers:
    @pytest.mark.parametrize(
        ("status", "wanted", "outcome"),
        [
            (200, [], Outcome.SUCCEEDED),
            (299, [], Outcome.SUCCEEDED),
            (200, [202], Outcome.FAILED),
            (404, [404, 200], Outcome.SUCCEEDED),
            (302, [], Outcome.FAILED),
            (400, [], Outcome.REFUSED),
            (401, [], Outcome.REFUSED),
            (408, [], Outcome.FAILED),
            (409, [], Outcome.FAILED),
            (425, [], Outcome.FAILED),
            (429, [], Outcome.FAILED),
            (500, [], Outcome.FAILED),
            (503, [], Outcome.FAILED),
        ],
    )
    def test_status_decides_the_outcome(self, status, wanted, outcome):
        assert outcome_of(status, wanted) is outcome

    @pytest.mark.parametrize(
        ("text", "seconds"),
        [
            ("120", 120),
            (" 7 ", 7),
            ("99999999", 86_400),
            ("Mon, 02 Mar 2026 04:01:30 GMT", 90),
            ("Mon, 02 Mar 2026 03:00:00 GMT", 0),
            ("Monday, 02-Mar-26 04:01:30 GMT", 90),
            ("-5", None),
            ("soon", None),
            ("", None),
            (None, None),
            ("1" * 400, None),
        ],
    )
    def test_retry_after_is_seconds_or_date(self, text, seconds):
        assert retry_after_s(text, NOON) == seconds

    def test_throttled_target_names_its_wait(self, serve, make):
        server = serve(b"HTTP/1.1 429 No\r\nRetry-After: 17\r\nContent-Length: 4\r\n\r\nbusy")
        (result,) = make(a_call(url_of(server)), servers=[server])
        assert (result.outcome, result.http_status, result.retry_after_s) == (Outcome.FAILED, 429, 17)
        assert (result.answer, result.error) == ("busy", "the target answered 429")

    def test_redirect_to_private_place_is_not_followed(self, serve, make):
        hidden = serve(OK)
        location = f"Location: http://127.0.0.1:{hidden.port}/"
        server = serve(f"HTTP/1.1 302 Found\r\n{location}\r\nContent-Length: 0\r\n\r\n".encode())
        (result,) = make(a_call(url_of(server)), servers=[server])
        assert (result.outcome, result.http_status, hidden.requests) == (Outcome.FAILED, 302, [])
        assert "redirects are not followed" in result.error

    @pytest.mark.parametrize(
        "url", ["http://127.0.0.1:9/", "http://169.254.169.254/", "http://[::1]/", "ftp://x.example/"]
    )
    def test_private_target_is_refused_without_a_call(self, make, url):
        (result,) = make(a_call(url))
        assert (result.outcome, result.http_status) == (Outcome.REFUSED, None)
        assert result.error

    def test_dripping_target_ends_at_the_deadline(self, serve, make):
        def drip(script, connection):
            script.take(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            script.drip(connection)

        server = serve(drip)
        (result,) = make(a_call(url_of(server), timeout_s=1), servers=[server])
        assert (result.outcome, result.http_status) == (Outcome.FAILED, None)
        assert "deadline" in result.error

    def test_cut_connection_may_pass_later(self, serve, make):
        def cut(script, connection):
            script.take(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhal")

        server = serve(cut)
        (result,) = make(a_call(url_of(server)), servers=[server])
        assert (result.outcome, result.error) == (Outcome.FAILED, "the connection was closed inside the answer")

    def test_huge_answer_is_cut_and_cleaned(self, serve, make):
        def huge(script, connection):
            script.take(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n")
            with contextlib.suppress(OSError):
                for _ in range(90):
                    connection.sendall(b"\0\xff" * 50_000)

        server = serve(huge)
        (result,) = make(a_call(url_of(server)), servers=[server])
        assert result.outcome is Outcome.SUCCEEDED
        assert result.answer == "\ufffd" * ANSWER_CHARACTERS

    def test_result_travels_unchanged(self, serve, make):
        server = serve(OK)
        (result,) = make(a_call(url_of(server)), servers=[server])
        assert Result.from_data(json.loads(json.dumps(result.as_data()))) == result


class TestTime:
    def test_expired_call_is_not_made(self, serve, make):
        server = serve(OK)
        (result,) = make(a_call(url_of(server), not_after=datetime.now(UTC)), servers=[server])
        assert (result.outcome, server.requests) == (Outcome.EXPIRED, [])

    def test_call_ends_before_the_function_does(self, serve, make):
        """The function has four seconds left: three are kept for the results."""
        server = serve(lambda script, connection: (script.take(connection), script.drip(connection)))
        (result,) = make(a_call(url_of(server), timeout_s=60), servers=[server], time_left_s=3.8)
        assert (result.outcome, result.http_status) == (Outcome.FAILED, None)

    def test_no_time_left_makes_no_call(self, serve, make):
        server = serve(OK)
        (result,) = make(a_call(url_of(server)), servers=[server], time_left_s=2)
        assert (result.outcome, server.requests) == (Outcome.FAILED, [])

    def test_slow_call_does_not_delay_other_results(self, serve, results, make):
        seen = []

        def slow(script, connection):
            script.take(connection)
            while not results.all:  # it answers only after the result of the quick call was sent
                script._is_over.wait(0.01)
            seen.append(len(results.all))
            connection.sendall(OK)

        quick, late = serve(OK), serve(slow)
        found = make(a_call(url_of(late)), a_call(url_of(quick), run_id=UUID(int=9)), servers=[quick, late])
        assert seen == [1]
        assert [result.run_id for result in found] == [UUID(int=9), RUN]

    def test_many_calls_run_at_the_same_time(self, serve, make):
        import threading

        together = threading.Barrier(50, timeout=30)

        def meet(script, connection):
            script.take(connection)
            together.wait()
            connection.sendall(OK)

        server = serve(meet)
        found = make(*(a_call(url_of(server), run_id=UUID(int=n)) for n in range(50)), servers=[server])
        assert {result.outcome for result in found} == {Outcome.SUCCEEDED}


def test_results_that_are_not_sent_fail_the_message(serve, results, make):
    server = serve(OK)
    results.is_away = True
    with pytest.raises(ConnectionError):
        make(a_call(url_of(server)), servers=[server])
    assert len(server.requests) == 1


def test_one_unsent_result_does_not_stop_others(serve, results, make):
    class Once(KeptResults):
        def send(self, found):
            if not self.batches:
                self.batches.append([])
                raise ConnectionError("SQS is away")
            super().send(found)

    server = serve(OK)
    results.__class__ = Once

    def slow(script, connection):
        script.take(connection)
        while not results.batches:
            script._is_over.wait(0.01)
        connection.sendall(OK)

    late = serve(slow)
    with pytest.raises(ConnectionError):
        make(a_call(url_of(server)), a_call(url_of(late)), servers=[server, late])
    assert len(results.all) == 1
