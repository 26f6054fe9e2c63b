"""Every key that the platform keeps in Redis: its name, type, expiry, owner and purpose.

All names are built here and nowhere else, so that an operator who finds a key finds its owner.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from uuid import UUID

LOCK_FENCE = "lock-fence"
CACHE_HEAD = "cache:head"
CACHE_LOG = "cache:log"
REQUESTS_SINCE = "requests-since"


class KeyType(StrEnum):
    """As Redis's TYPE answers."""

    STRING = "string"
    HASH = "hash"
    STREAM = "stream"
    ZSET = "zset"
    LIST = "list"
    SET = "set"


@dataclass(frozen=True)
class KeyPattern:
    """`<name>` in a pattern stands for any text. A key that expires always has a TTL; any other never has one."""

    pattern: str
    type: KeyType
    expires: bool
    owner: str
    purpose: str

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        return re.compile("".join(".+" if part.startswith("<") else re.escape(part) for part in self._parts), re.DOTALL)

    @property
    def _parts(self) -> list[str]:
        return re.split(r"(<\w+>)", self.pattern)

    @property
    def prefix(self) -> str:
        """The fixed text before the first placeholder."""
        return self._parts[0]

    def matches(self, key: str) -> bool:
        return self._regex.fullmatch(key) is not None


_QUEUE = "{artiway:wfq:<pool>}"
# The parts of a fair queue that its scripts get as KEYS, in their order.
QUEUE_PARTS = ("pool", "tenants", "where", "running", "leases", "user_running", "user_caps", "decisions")

REGISTRY = (
    KeyPattern("lock:<name>", KeyType.HASH, True, "platform.lock", "a lock's token, fence and deadline"),
    KeyPattern(LOCK_FENCE, KeyType.STRING, False, "platform.lock", "counter: each lock that is taken gets the next"),
    KeyPattern("rate:<bucket>", KeyType.HASH, True, "platform.ratelimit", "a token bucket; it expires once it is full"),
    KeyPattern(REQUESTS_SINCE, KeyType.STRING, False, "platform.request_counts", "start of whole counts"),
    KeyPattern("requests:<minute>", KeyType.HASH, True, "platform.request_counts", "requests and 5xx answers"),
    KeyPattern("cache:value:<key>", KeyType.STRING, True, "platform.cache", "a cached value with its time of expiry"),
    KeyPattern("cache:loading:<key>", KeyType.STRING, True, "platform.cache", "token of the reader that loads a value"),
    KeyPattern("cache:statistics:<minute>", KeyType.HASH, True, "platform.cache", "reads of all processes by name"),
    KeyPattern(CACHE_HEAD, KeyType.STRING, False, "platform.cache", "id of the last invalidation"),
    KeyPattern(CACHE_LOG, KeyType.STREAM, False, "platform.cache", "the last invalidations, trimmed by length"),
    KeyPattern("nonce:<key_id>:<nonce>", KeyType.STRING, True, "identity.access", "nonce of a signed request"),
    KeyPattern("task_events:<task_id>", KeyType.STREAM, True, "delivery.feed", "events of a task"),
    KeyPattern("task_progress:<task_id>", KeyType.HASH, True, "delivery.feed", "progress of a task's nodes"),
    KeyPattern("task_written:<node_id>", KeyType.STRING, True, "delivery.feed", "the database has recent progress"),
    KeyPattern("task_listeners:<group>", KeyType.ZSET, True, "delivery.feed", "leases of waiting event requests"),
    KeyPattern("generation_events:<id>", KeyType.STREAM, True, "generations.feed", "events of a generation"),
    KeyPattern("provider_quota:<provider>", KeyType.HASH, True, "generations.providers", "a minute of a provider"),
    KeyPattern("forecast:<name>", KeyType.HASH, True, "scheduling", "a pool's forecast, with a row for each tenant"),
    KeyPattern("forecasting:<name>", KeyType.STRING, True, "scheduling", "claim of the caller that computes it"),
    KeyPattern(f"{_QUEUE}:epoch", KeyType.STRING, False, "scheduling", "the epoch of the fair queue that is in force"),
    KeyPattern(f"{_QUEUE}:loading", KeyType.STRING, False, "scheduling", "the epoch that a rebuild fills"),
    KeyPattern(f"{_QUEUE}:<epoch>:pool", KeyType.HASH, False, "scheduling", "clock, switches and tracks"),
    KeyPattern(f"{_QUEUE}:<epoch>:tenants", KeyType.HASH, False, "scheduling", "weight, caps and clock of each tenant"),
    KeyPattern(f"{_QUEUE}:<epoch>:where", KeyType.HASH, False, "scheduling", "the place of each waiting node"),
    KeyPattern(f"{_QUEUE}:<epoch>:running", KeyType.HASH, False, "scheduling", "the nodes that hold a slot"),
    KeyPattern(f"{_QUEUE}:<epoch>:leases", KeyType.ZSET, False, "scheduling", "when an unconfirmed node comes back"),
    KeyPattern(f"{_QUEUE}:<epoch>:user_running", KeyType.HASH, False, "scheduling", "running nodes of each user"),
    KeyPattern(f"{_QUEUE}:<epoch>:user_caps", KeyType.HASH, False, "scheduling", "caps of single users"),
    KeyPattern(f"{_QUEUE}:<epoch>:decisions", KeyType.LIST, False, "scheduling", "the last 1,000 dispatches"),
    KeyPattern(f"{_QUEUE}:<epoch>:heads:<track>", KeyType.ZSET, False, "scheduling", "first node of each tenant"),
    KeyPattern(f"{_QUEUE}:<epoch>:work:<track>", KeyType.HASH, False, "scheduling", "each tenant's counts and head"),
    KeyPattern(f"{_QUEUE}:<epoch>:users:<tenant>", KeyType.ZSET, False, "scheduling", "a tenant's users on a track"),
    KeyPattern(f"{_QUEUE}:<epoch>:nodes:<user>", KeyType.ZSET, False, "scheduling", "a user's nodes on a track"),
    KeyPattern(f"{_QUEUE}:<epoch>:held:<tenant>", KeyType.SET, False, "scheduling", "users that wait at their cap"),
    KeyPattern(f"{_QUEUE}:<epoch>:service:<minute>", KeyType.HASH, True, "scheduling", "GPU time by tenant"),
)


def pattern_of(key: str) -> KeyPattern | None:
    return next((pattern for pattern in REGISTRY if pattern.matches(key)), None)


def lock(name: str) -> str:
    return f"lock:{name}"


def rate(bucket: str) -> str:
    return f"rate:{bucket}"


def requests(minute: int) -> str:
    """`minute` is counted from 1970."""
    return f"requests:{minute}"


def cache_value(key: str) -> str:
    return f"cache:value:{key}"


def cache_loading(key: str) -> str:
    return f"cache:loading:{key}"


def cache_statistics(minute: int) -> str:
    return f"cache:statistics:{minute}"


def nonce(key_id: UUID, nonce: str) -> str:
    return f"nonce:{key_id.hex}:{nonce}"


def task_events(task_id: UUID) -> str:
    return f"task_events:{task_id}"


def task_progress(task_id: UUID) -> str:
    return f"task_progress:{task_id}"


def task_written(node_id: UUID) -> str:
    return f"task_written:{node_id}"


def task_listeners(group: str) -> str:
    return f"task_listeners:{group}"


def generation_events(generation_id: UUID) -> str:
    return f"generation_events:{generation_id}"


def provider_quota(provider: str) -> str:
    return f"provider_quota:{provider}"


def forecast(name: str) -> str:
    return f"forecast:{name}"


def forecast_claim(name: str) -> str:
    return f"forecasting:{name}"


def queue_tag(pool: str) -> str:
    """A Redis hash tag: a cluster keeps all keys of a pool in one slot."""
    return f"{{artiway:wfq:{pool}}}"


def queue_epoch(pool: str) -> str:
    return f"{queue_tag(pool)}:epoch"


def queue_loading(pool: str) -> str:
    return f"{queue_tag(pool)}:loading"


def queue_part(pool: str, epoch: str, part: str) -> str:
    return f"{queue_tag(pool)}:{epoch}:{part}"
