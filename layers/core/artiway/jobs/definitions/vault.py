"""Secrets of a tenant's jobs: written, listed and deleted, never read. And the key that signs its calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from artiway import ids
from artiway.delivery.webhooks.model import new_secret
from artiway.jobs.definitions.model import NoSuchSecret, Secret, SecretInUse, SigningSecret, TooManySecrets
from artiway.jobs.definitions.service import SecretBox
from artiway.jobs.definitions.validation import secrets_of
from artiway.jobs.model import InvalidJob, Job
from artiway.jobs.secrets import NAME, SIGNING_KEY, VALUE_BYTES
from artiway.jobs.settings import SECRETS_PER_TENANT
from artiway.settings.model import SettingValues

# Calls carry the signatures of both keys for so long after a rotation.
PREVIOUS_KEY_S = 86_400
MOST_JOBS_NAMED = 20


class SecretTransaction(Protocol):
    def lock_jobs(self) -> None: ...

    def secrets(self) -> list[Secret]: ...

    def unknown_secrets(self, names: Collection[str]) -> list[str]: ...

    def has_signing_key(self) -> bool: ...

    def add_signing_key(self, ciphertext: bytes) -> None: ...

    def count_other_secrets(self, name: str) -> int: ...

    def put_secret(self, name: str, ciphertext: bytes) -> Secret: ...

    def lock_secret(self, name: str) -> bool: ...

    def delete_secret(self, name: str) -> None: ...

    def jobs_naming(self, name: str) -> list[Job]: ...

    def rotate_signing_key(self, ciphertext: bytes, *, keep_s: int) -> datetime | None: ...

    def audit(self, actor_id: UUID, action: str, target: str, details: Mapping[str, Any]) -> None: ...


class SecretStore(Protocol):
    def open(self, tenant_id: UUID) -> AbstractContextManager[SecretTransaction]: ...


class SecretService:
    def __init__(self, store: SecretStore, box: SecretBox, values: SettingValues) -> None:
        self._store, self._box, self._values = store, box, values

    def secrets(self, tenant_id: UUID) -> list[Secret]:
        with self._store.open(tenant_id) as tx:
            return tx.secrets()

    def unknown(self, tenant_id: UUID, names: Collection[str]) -> list[str]:
        """Those that the tenant does not have."""
        if not names:
            return []
        with self._store.open(tenant_id) as tx:
            return tx.unknown_secrets(names)

    def ensure_signing_key(self, tenant_id: UUID) -> None:
        """For the calls of flows. Its secret is shown after a rotation."""
        with self._store.open(tenant_id) as tx:
            if not tx.has_signing_key():
                tx.add_signing_key(self._box.encrypt(tenant_id=tenant_id, name=SIGNING_KEY, value=new_secret()))

    def put(self, tenant_id: UUID, name: str, value: str, *, actor_id: UUID) -> Secret:
        """Runs that start from now on use the new value."""
        if NAME.fullmatch(name) is None:
            raise NoSuchSecret("a secret's name is A to Z, then A to Z, 0 to 9 and _, at most 64 together")
        if not 1 <= len(value.encode()) <= VALUE_BYTES:
            raise InvalidJob("value", f"1 to {VALUE_BYTES} bytes")
        ciphertext = self._box.encrypt(tenant_id=tenant_id, name=name, value=value)
        limit = self._values.get(SECRETS_PER_TENANT)
        with self._store.open(tenant_id) as tx:
            tx.lock_jobs()
            if tx.count_other_secrets(name) >= limit:
                raise TooManySecrets(limit)
            stored = tx.put_secret(name, ciphertext)
            tx.audit(actor_id, "secret.put", f"secret:{name}", {})
            return stored

    def delete(self, tenant_id: UUID, name: str, *, actor_id: UUID) -> None:
        with self._store.open(tenant_id) as tx:
            if NAME.fullmatch(name) is None or not tx.lock_secret(name):
                raise NoSuchSecret
            users = [job.job_id for job in tx.jobs_naming(name) if name in secrets_of(job.definition)]
            if users:
                raise SecretInUse([ids.to_wire("job", job_id) for job_id in users[:MOST_JOBS_NAMED]])
            tx.delete_secret(name)
            tx.audit(actor_id, "secret.delete", f"secret:{name}", {})

    def rotate_signing_secret(self, tenant_id: UUID, *, actor_id: UUID) -> SigningSecret:
        """A new key. For a day the calls carry the signature of the earlier one too."""
        secret = new_secret()
        ciphertext = self._box.encrypt(tenant_id=tenant_id, name=SIGNING_KEY, value=secret)
        with self._store.open(tenant_id) as tx:
            until = tx.rotate_signing_key(ciphertext, keep_s=PREVIOUS_KEY_S)
            tx.audit(actor_id, "job.signing_secret.rotate", ids.to_wire("tnt", tenant_id), {})
        return SigningSecret(secret, until)
