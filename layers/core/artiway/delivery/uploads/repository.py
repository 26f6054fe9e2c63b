"""Uploads and results in PostgreSQL, their objects in S3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode
from uuid import UUID

from artiway.audit.repository import AuditLog
from artiway.delivery.uploads.model import (
    CONTENT_TYPES,
    NoSuchResult,
    OpenLimits,
    TaskNotEnded,
    TooManyUploads,
    Upload,
)
from artiway.delivery.uploads.names import content_disposition
from artiway.errors import Unavailable
from artiway.ids import to_wire
from artiway.platform import sql
from artiway.platform.clock import Clock
from artiway.platform.database import Database
from artiway.platform.signed_urls import UrlSigner
from artiway.tasks.model import NoSuchTask, Requester

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

SQL = sql.load("artiway.delivery.uploads")
DELETE_BATCH = 1_000
# A picture never changes under its key: the attempt is part of it. A browser counts the time that CloudFront kept a
# picture (stacks/edge.yaml), so this is longer.
CACHE_CONTROL = "private, max-age=86400, immutable"


class PostgresUploads:
    def __init__(self, database: Database, audit: AuditLog) -> None:
        self._database, self._audit = database, audit

    def add(self, tenant_id: UUID, upload: Upload, limits: OpenLimits) -> None:
        with self._database.tenant_transaction(tenant_id) as tx:
            tx.run(SQL["lock_uploads"])
            opened = tx.one(SQL["count_open_uploads"], {"user_id": upload.user_id})
            assert opened is not None
            if opened["of_user"] >= limits.per_user:
                raise TooManyUploads("user", limits.per_user)
            if opened["of_tenant"] >= limits.per_tenant:
                raise TooManyUploads("tenant", limits.per_tenant)
            tx.run(
                SQL["insert_upload"],
                {
                    "input_id": upload.input_id,
                    "user_id": upload.user_id,
                    "key": upload.key,
                    "content_type": upload.content_type,
                    "bytes": upload.bytes,
                },
            )

    def uploads(self, tenant_id: UUID, input_ids: Sequence[UUID]) -> Sequence[Upload]:
        with self._database.tenant_transaction(tenant_id) as tx:
            return [Upload(**row) for row in tx.all(SQL["uploads"], {"input_ids": list(input_ids)})]

    def extend(self, tenant_id: UUID, sizes: Mapping[UUID, tuple[int, int]], input_ids: Sequence[UUID]) -> None:
        with self._database.tenant_transaction(tenant_id) as tx:
            for input_id, (width, height) in sizes.items():
                tx.run(SQL["note_size"], {"input_id": input_id, "width": width, "height": height})
            tx.run(SQL["extend_uploads"], {"input_ids": list(input_ids)})

    def request(self, tenant_id: UUID, task_id: UUID) -> Mapping[str, Any] | None:
        facts = {"task_id": task_id}
        with self._database.tenant_transaction(tenant_id) as tx:
            row = tx.one(SQL["request_of_task"], facts)
            if row is None:
                return None
            deleted = [one["name"] for one in tx.all(SQL["deleted_results"], facts)]
            return {**row, "originals": tx.all(SQL["originals_of_task"], facts), "deleted": deleted}

    def first_results(self, tenant_id: UUID, task_ids: Sequence[UUID]) -> Sequence[Mapping[str, Any]]:
        with self._database.tenant_transaction(tenant_id) as tx:
            return tx.all(SQL["first_results"], {"task_ids": list(task_ids)})

    def delete_result(self, tenant_id: UUID, task_id: UUID, name: str, requester: Requester) -> None:
        facts = {"task_id": task_id, "name": name}
        with self._database.tenant_transaction(tenant_id) as tx:
            task = tx.one(SQL["task_to_clean"], facts)
            if task is None:
                raise NoSuchTask
            requester.must_own(task["user_id"])
            if task["ended_at"] is None:
                raise TaskNotEnded
            if tx.one(SQL["result_exists"], facts) is None:
                raise NoSuchResult
            if tx.run(SQL["delete_result"], facts):
                self._audit.record(
                    tx,
                    actor_id=requester.user_id,
                    action="picture.deleted",
                    target=to_wire("task", task_id),
                    details={"name": name},
                )

    def results(self, tenant_id: UUID, task_id: UUID) -> Sequence[Mapping[str, Any]]:
        with self._database.tenant_transaction(tenant_id) as tx:
            return tx.all(SQL["results_of_task"], {"task_id": task_id})


class S3Objects:
    def __init__(self, bucket: str) -> None:
        self._bucket = bucket

    @cached_property
    def _s3(self) -> S3Client:
        import boto3
        from botocore.config import Config

        # Signature version 4 signs the headers; a checksum would be one more header that every client must send.
        config = Config(
            signature_version="s3v4",
            connect_timeout=2,
            read_timeout=10,
            retries={"mode": "standard", "max_attempts": 3},
            request_checksum_calculation="when_required",
        )
        return boto3.client("s3", config=config)

    def upload_url(self, key: str, *, content_type: str, size: int, ttl_s: int) -> tuple[str, Mapping[str, str]]:
        """Type and length are signed: S3 accepts no other content at this URL."""
        url = self._s3.generate_presigned_url(
            "put_object",
            Params={"Bucket": self._bucket, "Key": key, "ContentType": content_type, "ContentLength": size},
            ExpiresIn=ttl_s,
        )
        return url, {"Content-Type": content_type, "Content-Length": str(size)}

    def download_url(self, key: str, headers: Mapping[str, str], *, ttl_s: int) -> str:
        """S3 answers with these headers in place of the stored ones."""
        changed = {f"Response{name.title().replace('-', '')}": value for name, value in headers.items()}
        params = {"Bucket": self._bucket, "Key": key, **changed}
        return self._s3.generate_presigned_url("get_object", Params=params, ExpiresIn=ttl_s)

    def head(self, key: str, *, length: int) -> tuple[bytes, int] | None:
        from botocore.exceptions import ClientError

        try:
            answer = self._s3.get_object(Bucket=self._bucket, Key=key, Range=f"bytes=0-{length - 1}")
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in {"NoSuchKey", "404"}:
                return None
            if code in {"InvalidRange", "416"}:
                return b"", 0
            raise
        with answer["Body"] as body:
            head = body.read(length)
        total = answer.get("ContentRange", "").rpartition("/")[2]
        return head, int(total) if total.isdigit() else int(answer["ContentLength"])

    def read(self, key: str, *, most_bytes: int) -> bytes | None:
        """The whole object; None if it does not exist or is larger. Raises Unavailable."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            found = self.head(key, length=most_bytes)
        except (BotoCoreError, ClientError) as error:
            raise Unavailable("pictures cannot be read at the moment", retry_after_s=5) from error
        return None if found is None or found[1] > most_bytes else found[0]

    def delete(self, keys: Sequence[str]) -> list[str]:
        """Returns the keys that no longer exist, also those that did not exist before."""
        gone: list[str] = []
        for start in range(0, len(keys), DELETE_BATCH):
            batch = list(keys[start : start + DELETE_BATCH])
            answer = self._s3.delete_objects(
                Bucket=self._bucket, Delete={"Objects": [{"Key": key} for key in batch], "Quiet": True}
            )
            failed = {error["Key"] for error in answer.get("Errors", [])}
            gone += [key for key in batch if key not in failed]
        return gone


class CloudFrontPictures:
    """Addresses under the caller's own host. The path is the object's key (stacks/edge.yaml).

    The query names the headers with which S3 answers. It is signed with the address: a viewer cannot change it, and no
    picture is served as anything but a picture.
    """

    def __init__(self, signer: UrlSigner) -> None:
        self._signer = signer

    def address(
        self, key: str, *, base_url: str, content_type: str, expires_at: datetime, file_name: str | None = None
    ) -> str:
        headers = answer_headers(content_type, file_name)
        # Some clients decode %2F and %2C before they send an address, and then its signature would be wrong.
        query = urlencode({f"response-{name}": value for name, value in headers.items()}, quote_via=quote, safe="/,")
        return self._signer.sign(f"{base_url}/{quote(key)}?{query}", int(expires_at.timestamp()))


class S3Pictures:
    """Addresses of S3 itself, for a stack without CloudFront. No two are the same, so browsers keep none."""

    def __init__(self, objects: S3Objects, clock: Clock) -> None:
        self._objects, self._clock = objects, clock

    def address(
        self, key: str, *, base_url: str, content_type: str, expires_at: datetime, file_name: str | None = None
    ) -> str:
        headers = answer_headers(content_type, file_name)
        ttl_s = max(1, int((expires_at - self._clock.now()).total_seconds()))
        return self._objects.download_url(key, headers, ttl_s=ttl_s)


def stored_pictures(objects: S3Objects, signer: UrlSigner, clock: Clock) -> CloudFrontPictures | S3Pictures:
    """A stack without a distribution has no key in CloudFront."""
    return CloudFrontPictures(signer) if signer.key_id else S3Pictures(objects, clock)


def answer_headers(content_type: str, file_name: str | None) -> dict[str, str]:
    headers = {
        "cache-control": CACHE_CONTROL,
        "content-type": content_type if content_type in CONTENT_TYPES else "application/octet-stream",
    }
    return headers | ({} if file_name is None else {"content-disposition": content_disposition(file_name)})
