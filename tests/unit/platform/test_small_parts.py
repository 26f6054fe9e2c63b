from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import UUID

import boto3
import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from artiway import ids
from artiway.errors import NotFound
from artiway.platform import iam_token, redis, sql, tracing
from artiway.platform.consumer import PoisonMessage, consume, consume_batch
from artiway.platform.database import with_iam_password


def record(message_id: str, body: object, **attributes: object) -> dict[str, object]:
    text = body if isinstance(body, str) else json.dumps(body)
    return {"messageId": message_id, "body": text, "attributes": {}, "messageAttributes": attributes}


class TestIds:
    def test_ids_made_later_sort_later(self):
        made = [ids.new_id() for _ in range(5_000)]  # hundreds of them in one millisecond
        assert all(value.version == 7 and value.variant == "specified in RFC 4122" for value in made)
        assert made == sorted(set(made))

    def test_ids_can_use_another_source(self):
        with ids.drawn_from(lambda: (1, 2)):
            assert ids.new_id() == ids.new_id() == UUID("00000000-0001-7000-8000-000000000002")
        assert ids.new_id() != ids.new_id()

    def test_id_survives_wire(self):
        value = ids.new_id()
        assert ids.from_wire("task", ids.to_wire("task", value)) == value

    @pytest.mark.parametrize(
        "text", ["", "task_", "task", "usr_" + "0" * 32, "task_" + "g" * 32, "task_" + "A" * 32, "task_" + "0" * 33]
    )
    def test_word_that_is_no_id_is_not_found(self, text):
        with pytest.raises(NotFound):
            ids.from_wire("task", text)

    @given(st.text(max_size=60))
    def test_any_other_text_is_not_found(self, text):
        with pytest.raises(NotFound):
            ids.from_wire("task", "x" + text)


class TestTracing:
    def test_trace_id_is_parsed_from_header_or_text(self):
        assert tracing.parse("Root=1-65f00000-0123456789abcdef01234567;Parent=53;Sampled=1") is not None
        assert tracing.parse("1-65f00000-0123456789abcdef01234567") is not None
        assert tracing.parse("Root=evil\nheader") is None

    def test_followed_trace_ends_with_its_block(self):
        trace = "1-65f00000-0123456789abcdef01234567"
        with tracing.traced(None) as before:
            with tracing.restored():
                tracing.follow("")
                assert tracing.current() == before
                tracing.follow(trace)
                assert tracing.current() == trace
            assert tracing.current() == before

    def test_new_trace_is_made_where_none_came_along(self):
        with tracing.traced(None) as trace_id:
            assert tracing.parse(trace_id) == trace_id == tracing.current()


class TestConsumer:
    def test_one_poison_message_fails_alone(self):
        handled: list[str] = []
        event = {
            "Records": [
                record("1", {"type": "t", "data": {"n": 1}}),
                record("2", "{not json"),
                record("3", {"no": "type"}),
                record("4", {"type": "t", "data": []}),
                record("5", "[" * 100_000),
                record("6", {"type": "t", "data": {"n": 6}}),
            ]
        }
        answer = consume(event, lambda message: handled.append(message.message_id))
        assert handled == ["1", "6"]
        assert [failure["itemIdentifier"] for failure in answer["batchItemFailures"]] == ["2", "3", "4", "5"]

    def test_handler_that_raises_fails_its_own_record_only(self):
        def handle(message):
            if message.data["n"] == 2:
                raise ZeroDivisionError

        event = {"Records": [record(str(n), {"type": "t", "data": {"n": n}}) for n in (1, 2, 3)]}
        assert consume(event, handle) == {"batchItemFailures": [{"itemIdentifier": "2"}]}

    def test_trace_of_the_sender_is_kept(self):
        seen: list[str] = []
        trace = "1-65f00000-0123456789abcdef01234567"
        event = {"Records": [record("1", {"type": "t"}, traceId={"stringValue": trace})]}
        consume(event, lambda _: seen.append(tracing.current()))
        assert seen == [trace]

    def test_body_names_the_trace_before_the_header(self):
        seen: list[str] = []
        trace, header = (f"1-65f0000{number}-0123456789abcdef01234567" for number in (1, 2))
        with_body, with_header = record("1", {"type": "t", "traceId": trace}), record("2", {"type": "t", "traceId": 7})
        for one in (with_body, with_header):
            one["attributes"] = {**(one.get("attributes") or {}), "AWSTraceHeader": f"Root={header};Sampled=1"}
        consume({"Records": [with_body, with_header]}, lambda message: seen.append(message.trace_id))
        assert seen == [trace, header]


class TestBatchConsumer:
    def number(self, message):
        if "n" not in message.data:
            raise PoisonMessage("no number")
        return message.data["n"]

    def test_decoded_records_are_handled_in_one_call(self):
        handled: list[list[int]] = []
        records = [record("1", {"type": "t", "data": {"n": 1}}), record("2", "{"), record("3", {"type": "t"})]
        records.append(record("4", {"type": "t", "data": {"n": 4}}))
        answer = consume_batch({"Records": records}, handled.append, decode=self.number)
        assert handled == [[1, 4]]
        assert [failure["itemIdentifier"] for failure in answer["batchItemFailures"]] == ["2", "3"]

    def test_failed_batch_call_returns_all_messages(self):
        records = [record(str(n), {"type": "t", "data": {"n": n}}) for n in (1, 2)]
        answer = consume_batch({"Records": records}, lambda _: 1 / 0, decode=self.number)
        assert [failure["itemIdentifier"] for failure in answer["batchItemFailures"]] == ["1", "2"]


class TestDatabasePassword:
    @pytest.mark.parametrize("session_token", [None, "a/b+c=="])
    def test_iam_token_is_one_that_botocore_makes(self, session_token, monkeypatch):
        environment = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG"}
        if session_token:
            environment["AWS_SESSION_TOKEN"] = session_token
        at = datetime(2026, 11, 16, 2, 30, tzinfo=UTC)
        monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: at.replace(tzinfo=None))
        rds = boto3.client(
            "rds",
            region_name="eu-central-1",
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
            aws_session_token=session_token,
        )
        theirs = rds.generate_db_auth_token("proxy.example", 5432, "artiway_app")
        ours = iam_token.database_token(
            host="proxy.example", port=5432, user="artiway_app", region="eu-central-1", at=at, environment=environment
        )
        assert sorted(ours.partition("?")[2].split("&")) == sorted(theirs.partition("?")[2].split("&"))

    def test_cache_token_is_one_that_botocore_signs(self, monkeypatch):
        environment = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG"}
        at = datetime(2026, 11, 16, 2, 30, tzinfo=UTC)
        monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: at.replace(tzinfo=None))
        request = AWSRequest("GET", "http://artiway-dev/", params={"Action": "connect", "User": "artiway-dev"})
        credentials = Credentials(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])
        SigV4QueryAuth(credentials, "elasticache", "eu-central-1", expires=900).add_auth(request)
        ours = iam_token.cache_token(
            cache="artiway-dev", user="artiway-dev", region="eu-central-1", at=at, environment=environment
        )
        theirs = request.url.removeprefix("http://")
        assert sorted(ours.partition("?")[2].split("&")) == sorted(theirs.partition("?")[2].split("&"))

    def test_redis_user_without_password_uses_iam_tokens(self, monkeypatch):
        for name, value in {"AWS_REGION": "r", "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}.items():
            monkeypatch.setenv(name, value)
        client = redis.connect("rediss://artiway-dev@cache.example:6379/0", timeout_s=1)
        user, token = client.connection_pool.connection_kwargs["credential_provider"].get_credentials()
        assert user == "artiway-dev"
        assert token.startswith("artiway-dev/?Action=connect&User=artiway-dev&X-Amz-Algorithm")
        plain = redis.connect("redis://127.0.0.1:6379/0", timeout_s=1)
        assert plain.connection_pool.connection_kwargs["credential_provider"] is None

    def test_address_with_password_is_left_alone(self, monkeypatch):
        monkeypatch.setenv("AWS_REGION", "eu-central-1")
        url = "postgresql://artiway_app:pw@127.0.0.1:5/artiway"
        assert with_iam_password(url) == url


class TestNamedSql:
    def test_array_is_one_text(self):
        made = ids.new_id()
        assert sql.array([made, made]) == f"{{{made},{made}}}"
        assert sql.array([1, -2]) == "{1,-2}"
        assert sql.array(()) == "{}"

    def test_queries_are_found_by_name(self):
        queries = sql.load("artiway.outbox")
        assert b"FROM outbox" in queries["lock_overdue"]
        assert not any(b"-- name:" in query for query in queries.values())
