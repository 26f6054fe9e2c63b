"""Transfers by presigned addresses: real signatures at an emulated S3, and servers that break off."""

from __future__ import annotations

import contextlib
import socket
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest

from artiway.platform.object_urls import ObjectUrls
from tests.worker.emulator import ministack
from worker.attempt import Stop, Stopped
from worker.objects import CHUNK, HttpObjects
from worker.ports import AddressRefused, ObjectExists, ObjectMissing, ObjectTooLarge, ServiceFailed

HEADERS = {"content-type": "image/png", "if-none-match": "*"}
TTL_S = 35
SIGNER = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}


class LateClock:
    def __init__(self, late_s: float = 0) -> None:
        self._late = timedelta(seconds=late_s)

    def now(self) -> datetime:
        return datetime.now(UTC) - self._late


class Bucket:
    def __init__(self, url: str) -> None:
        self.url, self.name = url, f"artefacts-{uuid.uuid4().hex[:8]}"
        self.s3: Any = boto3.Session("test", "test", region_name="us-east-1").client("s3", endpoint_url=url)
        self.s3.create_bucket(Bucket=self.name)

    def urls(self, *, late_s: float = 0, **changes: str) -> ObjectUrls:
        return ObjectUrls(self.name, LateClock(late_s), {**SIGNER, "AWS_ENDPOINT_URL": self.url, **changes})

    def add(self, key: str, data: bytes) -> str:
        self.s3.put_object(Bucket=self.name, Key=key, Body=data)
        return self.urls().get(key, ttl_s=TTL_S)

    def keys(self) -> list[str]:
        return [one["Key"] for one in self.s3.list_objects_v2(Bucket=self.name).get("Contents", [])]


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ministack(tmp_path_factory.mktemp("emulator")) as url:
        yield url


@pytest.fixture
def bucket(aws: str) -> Bucket:
    return Bucket(aws)


@pytest.fixture(scope="module")
def objects() -> HttpObjects:
    return HttpObjects()


def go_on() -> None:
    return


def read(objects: HttpObjects, url: str, max_bytes: int = 10_000_000) -> bytes:
    return objects.read(url, max_bytes=max_bytes, check=go_on)


def write(objects: HttpObjects, url: str, data: bytes, headers: dict[str, str] = HEADERS) -> None:
    objects.write(url, data, headers, check=go_on)


class TestSignatures:
    def test_address_reads_its_own_object(self, objects, bucket):
        data = bytes(range(256)) * 4_000  # several pieces
        assert len(data) > 2 * CHUNK
        assert read(objects, bucket.add("inputs/t/a", data)) == data

    def test_address_reads_no_other_object(self, objects, bucket):
        own = bucket.add("inputs/t/a", b"own")
        bucket.add("inputs/t/b", b"of another node")
        with pytest.raises(AddressRefused, match="SignatureDoesNotMatch"):
            read(objects, own.replace("inputs/t/a", "inputs/t/b"))

    def test_address_ends_with_its_time(self, objects, bucket):
        bucket.add("inputs/t/a", b"own")
        assert read(objects, bucket.urls(late_s=TTL_S - 5).get("inputs/t/a", ttl_s=TTL_S)) == b"own"
        with pytest.raises(AddressRefused, match="AccessDenied"):
            read(objects, bucket.urls(late_s=TTL_S + 1).get("inputs/t/a", ttl_s=TTL_S))

    def test_longer_time_in_the_address_is_refused(self, objects, bucket):
        bucket.add("inputs/t/a", b"own")
        expired = bucket.urls(late_s=TTL_S + 1).get("inputs/t/a", ttl_s=TTL_S)
        with pytest.raises(AddressRefused, match="SignatureDoesNotMatch"):
            read(objects, expired.replace(f"X-Amz-Expires={TTL_S}", "X-Amz-Expires=3600"))

    def test_signature_of_another_secret_is_refused(self, objects, bucket):
        bucket.add("inputs/t/a", b"own")
        with pytest.raises(AddressRefused):
            read(objects, bucket.urls(AWS_SECRET_ACCESS_KEY="guessed").get("inputs/t/a", ttl_s=TTL_S))

    def test_reading_address_cannot_write(self, objects, bucket):
        with pytest.raises(AddressRefused):
            write(objects, bucket.urls().get("outputs/t/a.png", ttl_s=TTL_S), b"picture")
        assert bucket.keys() == []

    def test_writing_address_cannot_read(self, objects, bucket):
        bucket.add("outputs/t/a.png", b"picture")
        with pytest.raises(AddressRefused):
            read(objects, bucket.urls().put("outputs/t/a.png", HEADERS, ttl_s=TTL_S))

    @pytest.mark.parametrize(
        "headers",
        [{**HEADERS, "content-type": "text/html"}, {"content-type": "image/png"}],
        ids=["another type", "without the condition"],
    )
    def test_upload_with_other_headers_is_refused(self, objects, bucket, headers):
        with pytest.raises(AddressRefused):
            write(objects, bucket.urls().put("outputs/t/a.png", HEADERS, ttl_s=TTL_S), b"picture", headers)
        assert bucket.keys() == []

    def test_missing_object_is_not_a_refusal(self, objects, bucket):
        with pytest.raises(ObjectMissing):
            read(objects, bucket.urls().get("inputs/t/none", ttl_s=TTL_S))


class TestUploads:
    @pytest.fixture
    def url(self, bucket) -> str:
        return bucket.urls().put("outputs/t/a.png", HEADERS, ttl_s=TTL_S)

    def stored(self, bucket: Bucket) -> bytes:
        return bytes(bucket.s3.get_object(Bucket=bucket.name, Key="outputs/t/a.png")["Body"].read())

    def test_picture_is_stored_whole_with_its_type(self, objects, bucket, url):
        data = bytes(range(256)) * 4_000
        write(objects, url, data)
        assert self.stored(bucket) == data
        assert bucket.s3.head_object(Bucket=bucket.name, Key="outputs/t/a.png")["ContentType"] == "image/png"

    def test_stored_picture_is_never_replaced(self, objects, bucket, url):
        write(objects, url, b"first")
        with pytest.raises(ObjectExists):
            write(objects, url, b"second")
        assert self.stored(bucket) == b"first"

    def test_damaged_upload_is_not_stored(self, objects, bucket, url):
        damaged = {**HEADERS, "content-length": "7", "content-md5": "1B2M2Y8AsgTpgAmY7PhCfg=="}
        response = objects._pool.request("PUT", url, body=b"picture", headers=damaged)
        assert (response.status, b"BadDigest" in response.data) == (400, True)
        assert bucket.keys() == []

    def test_upload_that_breaks_off_is_not_stored(self, bucket, url):
        target = urlsplit(url)
        lines = [f"PUT {target.path}?{target.query} HTTP/1.1", f"host: {target.netloc}", "content-length: 1000000"]
        head = "\r\n".join([*lines, *(f"{name}: {value}" for name, value in HEADERS.items())])
        with socket.create_connection((target.hostname or "", target.port or 0)) as connection:
            connection.sendall(head.encode() + b"\r\n\r\n" + b"half a picture")
        assert bucket.keys() == []

    def test_stopped_attempt_ends_its_upload(self, objects, bucket, url):
        pieces: list[int] = []

        def check() -> None:
            pieces.append(1)
            if len(pieces) > 2:
                raise Stopped(Stop.FENCED)

        with pytest.raises(Stopped):
            objects.write(url, bytes(5_000_000), HEADERS, check=check)
        assert bucket.keys() == []


class TestDownloads:
    def test_large_object_is_refused_by_its_length(self, objects, bucket):
        with pytest.raises(ObjectTooLarge, match="2000"):
            read(objects, bucket.add("inputs/t/a", bytes(2_000)), max_bytes=1_999)

    def test_download_that_breaks_off_is_a_failure(self, objects):
        with server(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf") as url, pytest.raises(ServiceFailed):
            read(objects, url)

    def test_body_without_length_is_bounded(self, objects):
        with server(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(5_000)) as url, pytest.raises(ObjectTooLarge):
            read(objects, url, max_bytes=1_000)

    def test_redirect_is_not_followed(self, objects):
        answer = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
        with server(answer) as url, pytest.raises(ServiceFailed, match="302"):
            read(objects, url)

    @pytest.mark.parametrize(
        ("status", "code", "kind"),
        [
            (503, "SlowDown", ServiceFailed),
            (400, "ExpiredToken", AddressRefused),
            (400, "RequestTimeout", ServiceFailed),
            (404, "NoSuchKey", ObjectMissing),
        ],
    )
    def test_answer_of_the_store_decides_on_retry(self, objects, status, code, kind):
        body = f"<Error><Code>{code}</Code></Error>".encode()
        answer = b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)
        with server(answer) as url, pytest.raises(kind, match=code):
            read(objects, url)

    def test_unreachable_store_is_a_failure_without_address(self, objects):
        with pytest.raises(ServiceFailed) as failure:
            read(objects, "http://127.0.0.1:1/a?X-Amz-Signature=secret")
        assert "secret" not in str(failure.value)


@contextlib.contextmanager
def server(answer: bytes) -> Iterator[str]:
    """Sends these bytes to one request, then closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, answer), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/object"
        thread.join(10)


def _serve(listener: socket.socket, answer: bytes) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65_536)
        connection.sendall(answer)
