"""Streams that break and continue, texts, pictures, webhooks."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import time

import pytest

from artiway_client import AsyncClient, Client, InvalidSignature, verify, webhooks
from artiway_client.pictures import content_type, input_names
from artiway_client.streams import Event, EventParser, IncompleteText, TextBuilder, TextFailed
from tests.clients.conftest import Reply, refusal

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


def frames(*events: tuple[str, str, dict], tail: str = "") -> bytes:
    text = "retry: 0\n\n: hello\n\n"
    for number, name, data in events:
        text += f"id: {number}\nevent: {name}\ndata: {json.dumps(data)}\n\n"
    return (text + tail).encode()


class TestTaskEvents:
    def test_broken_stream_continues_without_repetition(self, server, client):
        half = 'id: 3-0\nevent: progress\ndata: {"progress"'
        server.says(
            Reply(200, frames(("1-0", "queued", {}), ("2-0", "started", {}), tail=half), is_cut=True),
            refusal(503, "X_503_AWAY", retry_after="0"),
            Reply(200, frames(("3-0", "progress", {"progress": 5}))),  # the server ends each stream after a while
            Reply(200, frames(("4-0", "settled", {"chargedPoints": 2}))),
        )
        events = list(client.task_events("task_1"))
        assert [event.id for event in events] == ["1-0", "2-0", "3-0", "4-0"]
        assert [request.headers.get("last-event-id") for request in server.seen] == [None, "2-0", "2-0", "3-0"]

    def test_resume_starts_after_given_id(self, server, client):
        server.says(Reply(200, frames(("9-0", "settled", {}))))
        assert [event.name for event in client.task_events("task_1", last_event_id="8-0")] == ["settled"]
        assert server.seen[0].headers["last-event-id"] == "8-0"

    def test_wait_polls_where_no_stream_is_free(self, server, client):
        busy = refusal(429, "TASK_429_LISTENERS", retry_after="0")
        server.says(busy, Reply(200, {"status": "PROCESSING"}), Reply(200, {"status": "COMPLETED"}))
        assert client.wait("task_1")["status"] == "COMPLETED"

    def test_wait_ends_with_its_time_limit(self, server, client):
        server.says(refusal(429, "TASK_429_LISTENERS"), Reply(200, {"status": "PROCESSING"}))
        with pytest.raises(TimeoutError, match="task_1"):
            client.wait("task_1", timeout_s=0)

    def test_asynchronous_stream_continues_too(self, server):
        server.says(Reply(200, frames(("1-0", "queued", {})), is_cut=True), Reply(200, frames(("2-0", "settled", {}))))

        async def read() -> list[str]:
            async with AsyncClient(server.url, api_key="ak_1") as client:
                return [event.id async for event in client.task_events("task_1")]

        assert asyncio.run(read()) == ["1-0", "2-0"]


class TestTexts:
    def token(self, offset: int, text: str) -> Event:
        return Event("1-1", "token_batch", {"offset": offset, "text": text})

    def test_overlap_is_shown_once(self):
        builder = TextBuilder()
        assert [builder.take(self.token(0, "好茶")), builder.take(self.token(0, "好茶壶"))] == ["好茶", "壶"]
        assert builder.text == "好茶壶"

    def test_restart_drops_the_text(self):
        builder = TextBuilder()
        builder.take(self.token(0, "one"))
        builder.take(Event("2-0", "restart", {"from": 0}))
        assert builder.take(self.token(0, "two")) == "two"
        assert builder.text == "two"

    def test_gap_is_an_error(self):
        with pytest.raises(IncompleteText):
            TextBuilder().take(self.token(3, "x"))

    def test_end_proves_the_text(self):
        builder = TextBuilder()
        builder.take(self.token(0, "tea"))
        builder.take(Event("1-9", "done", {"sha256": hashlib.sha256(b"tea").hexdigest()}))
        with pytest.raises(IncompleteText):
            builder.take(Event("1-9", "done", {"sha256": hashlib.sha256(b"coffee").hexdigest()}))

    def test_text_arrives_in_pieces_across_connections(self, server, client):
        server.says(
            Reply(202, {"generationId": "gen_1"}),
            Reply(200, frames(("1-0", "start", {}), ("1-3", "token", {"offset": 0, "text": "red"})), is_cut=True),
            Reply(200, frames(("1-7", "token_batch", {"offset": 3, "text": " tea"}), ("1-8", "done", {}))),
        )
        assert list(client.write("copywriting", "a pot")) == ["red", " tea"]
        assert server.seen[0].json == {"service": "copywriting", "input": {"text": "a pot"}}
        assert server.seen[2].headers["last-event-id"] == "1-3"

    def test_failed_text_raises_its_code(self, server, client):
        failed = ("1-0", "error", {"code": "GEN_502_PROVIDER", "message": "away"})
        server.says(Reply(202, {"generationId": "gen_1"}), Reply(200, frames(failed)))
        with pytest.raises(TextFailed) as caught:
            list(client.write("copywriting", "a pot"))
        assert caught.value.code == "GEN_502_PROVIDER"

    def test_frame_with_several_data_lines_is_joined(self):
        parser = EventParser()
        assert [parser.feed(line) for line in ("id: 7", "data: {", 'data: "a": 1}')] == [None] * 3
        assert parser.feed("") == Event("7", "message", {"a": 1})


class TestPictures:
    def test_upload_sends_ticket_headers_without_credentials(self, server, client, tmp_path):
        storage = server.url.replace("/api/v1", "/bucket/key?signature=1")
        ticket = {"inputId": "inp_1", "url": storage, "method": "PUT", "headers": {"content-type": "image/png"}}
        server.says(Reply(201, ticket), Reply(500, {}), Reply(200, b""))
        (tmp_path / "photo.jpg").write_bytes(PNG)
        assert client.upload(tmp_path / "photo.jpg") == "inp_1"
        assert server.seen[0].json == {"contentType": "image/png", "bytes": len(PNG)}
        for request in server.seen[1:]:
            assert (request.method, request.body) == ("PUT", PNG)
            assert "authorization" not in request.headers

    def test_expired_address_of_result_is_renewed(self, server, client, tmp_path):
        fresh = server.url.replace("/api/v1", "/fresh")
        result = {"name": "cutout", "contentType": "image/png", "url": fresh}
        server.says(Reply(403, b""), Reply(200, {"taskId": "task_1", "results": [result]}), Reply(200, PNG))
        stale = {**result, "url": server.url.replace("/api/v1", "/stale")}
        saved = client.download({"taskId": "task_1", "results": [stale]}, tmp_path / "out", prefix="photo-")
        assert [path.name for path in saved] == ["photo-cutout.png"]
        assert saved[0].read_bytes() == PNG

    @pytest.mark.parametrize(
        ("head", "kind"),
        [(PNG, "image/png"), (b"\xff\xd8\xff\xe0", "image/jpeg"), (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp")],
    )
    def test_type_is_read_from_first_bytes(self, head, kind):
        assert content_type(head) == kind

    def test_other_files_are_refused_before_any_request(self, server, client):
        server.says(Reply())
        with pytest.raises(ValueError, match="not a PNG"):
            client.upload(b"%PDF-1.7")
        assert server.seen == []

    def test_batch_inputs_are_numbered(self):
        batch = {"tool": "batch_cutout", "group": "batch", "inputs": ["picture_1"], "optionalInputs": []}
        assert input_names(batch, 3) == ["picture_1", "picture_2", "picture_3"]
        erase = {"tool": "erase", "group": "smart_edit", "inputs": ["product"], "optionalInputs": ["mask"]}
        assert input_names(erase, 2) == ["product", "mask"]
        with pytest.raises(ValueError, match="3 pictures"):
            input_names(erase, 3)


class TestWebhooks:
    SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()

    def signed(self, body: bytes, at: int) -> dict[str, str]:
        import hmac

        digest = hmac.new(b"k" * 32, f"msg_1.{at}.".encode() + body, "sha256").digest()
        other = base64.b64encode(b"x" * 32).decode()
        signatures = f"v1,{other} v1,{base64.b64encode(digest).decode()}"
        return {"Webhook-Id": "msg_1", "Webhook-Timestamp": str(at), "Webhook-Signature": signatures}

    def test_published_example_of_the_standard_verifies(self):
        headers = {
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        }
        secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        assert verify(secret, headers, b'{"test": 2432232314}', now=1614265330) == {"test": 2432232314}

    def test_altered_old_or_foreign_delivery_is_refused(self):
        now = int(time.time())
        headers = self.signed(b'{"a": 1}', now)
        assert verify(self.SECRET, headers, '{"a": 1}') == {"a": 1}
        foreign = "whsec_" + base64.b64encode(b"y" * 32).decode()
        for secret, given, body, at in (
            (self.SECRET, headers, b'{"a": 2}', now),
            (foreign, headers, b'{"a": 1}', now),
            (self.SECRET, headers, b'{"a": 1}', now + 301),
            (self.SECRET, headers, b'{"a": 1}', now - 301),
            (self.SECRET, {}, b'{"a": 1}', now),
            ("whsec_*", headers, b'{"a": 1}', now),
        ):
            with pytest.raises(InvalidSignature):
                webhooks.verify(secret, given, body, now=at)


def test_closed_client_leaves_no_connection(server):
    server.says(Reply(200, {}))
    with Client(server.url) as client:
        client.get_health()
    assert client._http.is_closed
