"""Uploads and results in S3: links, the first bytes of an object, deletion."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.exceptions import ClientError

from artiway.delivery.uploads.repository import CloudFrontPictures, S3Objects, S3Pictures, stored_pictures
from artiway.platform import aws
from artiway.platform.signed_urls import UrlSigner
from tests.fakes.clock import FixedClock

BUCKET = "artefacts"
NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


@pytest.fixture
def s3():
    client = aws.client("s3")
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    return client


@pytest.fixture(scope="module")
def one_client():
    return S3Objects(BUCKET)


@pytest.fixture
def objects(one_client, s3):
    return one_client


def test_upload_link_signs_type_and_length(objects):
    url, headers = objects.upload_url("in/1", content_type="image/png", size=123, ttl_s=900)
    query = parse_qs(urlsplit(url).query)
    assert {"content-type", "content-length"} <= set(query["X-Amz-SignedHeaders"][0].split(";"))
    assert (query["X-Amz-Expires"], query["X-Amz-Algorithm"]) == (["900"], ["AWS4-HMAC-SHA256"])
    assert headers == {"Content-Type": "image/png", "Content-Length": "123"}


def test_download_link_names_content_type(objects):
    query = parse_qs(urlsplit(objects.download_url("out/1", {"content-type": "image/png"}, ttl_s=60)).query)
    assert (query["response-content-type"], query["X-Amz-Expires"]) == (["image/png"], ["60"])


def test_stack_without_cloudfront_signs_with_s3(objects):
    clock = FixedClock(NOW)
    assert isinstance(stored_pictures(objects, UrlSigner("K1", str), clock), CloudFrontPictures)
    pictures = stored_pictures(objects, UrlSigner("", str), clock)
    assert isinstance(pictures, S3Pictures)
    until = NOW + timedelta(seconds=90)
    url = pictures.address(
        "out/1", base_url="https://x.example", content_type="image/png", expires_at=until, file_name="a-1.png"
    )
    query = parse_qs(urlsplit(url).query)
    assert query["X-Amz-Expires"] == ["90"]
    assert query["response-content-disposition"] == ['attachment; filename="a-1.png"']
    assert query["response-cache-control"] == ["private, max-age=86400, immutable"]


@pytest.mark.parametrize("content", [b"12345678", b"123456789abcdef", b"1234"])
def test_head_of_object_has_its_size(s3, objects, content):
    s3.put_object(Bucket=BUCKET, Key="in/1", Body=content)
    assert objects.head("in/1", length=8) == (content[:8], len(content))


def test_head_of_empty_object_is_empty(s3, objects):
    s3.put_object(Bucket=BUCKET, Key="in/1", Body=b"")
    assert objects.head("in/1", length=8) == (b"", 0)


def test_object_that_is_not_there_has_no_head(objects):
    assert objects.head("in/none", length=8) is None


def test_range_that_s3_refuses_is_empty_object(objects, answer):
    body = b"<Error><Code>InvalidRange</Code><Message>The requested range is not satisfiable</Message></Error>"
    answer(objects._s3, 416, body=body)
    assert objects.head("in/1", length=8) == (b"", 0)


def test_bucket_that_is_not_there_raises(s3):
    with pytest.raises(ClientError, match="NoSuchBucket"):
        S3Objects("elsewhere").head("in/1", length=8)


def test_objects_that_are_gone_count_as_deleted(s3, objects):
    s3.put_object(Bucket=BUCKET, Key="in/1", Body=b"1")
    assert objects.delete(["in/1", "in/none"]) == ["in/1", "in/none"]
    assert objects.head("in/1", length=8) is None


def test_more_objects_than_batch_are_all_deleted(s3, objects):
    s3.put_object(Bucket=BUCKET, Key="in/1000", Body=b"1")
    keys = [f"in/{number}" for number in range(1_001)]
    assert objects.delete(keys) == keys
    assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET)


def test_object_that_s3_keeps_is_not_reported(objects, answer):
    error = b"<Error><Key>in/2</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
    answer(objects._s3, 200, body=b"<DeleteResult>" + error + b"</DeleteResult>")
    assert objects.delete(["in/1", "in/2", "in/3"]) == ["in/1", "in/3"]
