"""The calls of HTTP runs and of HTTP nodes. No database: calls arrive as messages, results leave as messages.

A call is made at least once. All attempts of a run or node have one idempotency key, by which a target can drop a
repetition.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol
from uuid import UUID

from artiway import ids
from artiway.delivery.webhooks.model import standard_signature
from artiway.jobs import secrets
from artiway.jobs.messages import Call, Outcome, Result
from artiway.platform import metrics, tracing
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger

logger = Logger("caller")
PARALLEL_CALLS = 100  # ten messages of ten calls
ANSWER_CHARACTERS = 2_000
# More than is kept: a secret that the target repeats is removed before the text is cut.
READ_BYTES = 16_384
ERROR_CHARACTERS = 500
MOST_RETRY_AFTER_S = 86_400
# Results that end within this time travel together. It is short beside the time of a call.
GATHER_S = 0.03
# Time that is left for the results when the time of the function is over.
RESERVE_S = 3.0
SHORTEST_S = 0.5
# Answers of the target that another attempt may change: time-out, conflict, too early, too many requests.
RETRIED_STATUSES = frozenset({408, 409, 425, 429})
OWN_HEADERS = frozenset(
    {
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
        "idempotency-key",
        "artiway-attempt",
        "artiway-scheduled-time",
        "x-trace-id",
    }
)


class CallFailed(Exception):
    """A call without an answer. `reason` may be shown to the tenant."""

    def __init__(self, reason: str, *, is_retryable: bool) -> None:
        super().__init__(reason)
        self.reason, self.is_retryable = reason, is_retryable


@dataclass(frozen=True)
class TargetAnswer:
    """Header names are in lower case. `body` is the start of a long answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Target(Protocol):
    def call(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        deadline_s: float,
        answer_bytes: int,
    ) -> TargetAnswer:
        """Raises CallFailed. The deadline covers the whole call, from the name server to the last byte."""


class Secrets(Protocol):
    def decrypt(self, *, tenant_id: UUID, name: str, ciphertext: bytes) -> str:
        """Raises ValueError if the ciphertext is not of this tenant and name."""


class Results(Protocol):
    def send(self, results: Sequence[Result]) -> None:
        """Raises if one was not accepted."""


class _NotReadable(Exception):
    """A secret that this call needs is missing or cannot be decrypted."""

    def __init__(self, reason: str, *, is_retryable: bool) -> None:
        super().__init__(reason)
        self.reason, self.is_retryable = reason, is_retryable


class Caller:
    def __init__(self, target: Target, secret_reader: Secrets, results: Results, clock: Clock) -> None:
        self._target, self._secrets, self._results, self._clock = target, secret_reader, results, clock
        self._threads = ThreadPoolExecutor(PARALLEL_CALLS, thread_name_prefix="call")

    def make(self, calls: Sequence[Call], *, time_left_s: float) -> None:
        """Make all calls at the same time and send each result soon after its call has ended.

        Raises if a result was not sent: the messages come again, and their calls are made again or have expired.
        """
        ends_at = self._clock.now().timestamp() + time_left_s - RESERVE_S
        pending: set[Future[Result]] = {self._threads.submit(self._result, call, ends_at) for call in calls}
        counts: Counter[Outcome] = Counter()
        failure: Exception | None = None
        while pending:
            ended, pending = wait(pending, return_when=FIRST_COMPLETED)
            more, pending = wait(pending, timeout=GATHER_S)
            found = [one.result() for one in (*ended, *more)]
            counts.update(result.outcome for result in found)
            try:
                self._results.send(found)
            except Exception as error:  # the other calls are running: their results are sent
                logger.exception("results not sent", results=len(found))
                failure = error
        for outcome, count in counts.items():
            metrics.emit("JobCalls", count, outcome=outcome)
        logger.info("calls made", outcomes={outcome.value: count for outcome, count in counts.items()})
        if failure is not None:
            raise failure

    def _result(self, call: Call, ends_at: float) -> Result:
        with tracing.traced(call.trace_id or None):
            started_at = self._clock.now()
            if started_at >= call.not_after:
                return self._ended(call, Outcome.EXPIRED, error="not called: its time was over before the call began")
            deadline_s = min(float(call.timeout_s), ends_at - started_at.timestamp())
            if deadline_s < min(SHORTEST_S, call.timeout_s):
                return self._ended(call, Outcome.FAILED, error="not called: the caller's own time was over")
            try:
                return self._called(call, started_at, deadline_s)
            except (CallFailed, _NotReadable) as error:
                outcome = Outcome.FAILED if error.is_retryable else Outcome.REFUSED
                return self._ended(call, outcome, started_at, error=error.reason)
            except Exception as error:  # noqa: BLE001 (no traceback: it may hold what the call sends)
                logger.error("call not made", run_id=str(call.run_id), reason=type(error).__name__)
                return self._ended(call, Outcome.FAILED, started_at, error="an error on our side")

    def _called(self, call: Call, started_at: datetime, deadline_s: float) -> Result:
        values = self._values(call)
        body = None if call.body is None else secrets.inserted(call.body, values).encode()
        answer = self._target.call(
            call.method,
            call.url,
            headers=self._headers(call, values, body, started_at),
            body=body,
            deadline_s=deadline_s,
            answer_bytes=READ_BYTES,
        )
        outcome = outcome_of(answer.status, call.success_statuses)
        return self._ended(
            call,
            outcome,
            started_at,
            http_status=answer.status,
            error=None if outcome is Outcome.SUCCEEDED else _explained(answer.status),
            answer=_kept(answer.body, values),
            retry_after_s=None
            if outcome is Outcome.SUCCEEDED
            else retry_after_s(answer.headers.get("retry-after"), self._clock.now()),
        )

    def _values(self, call: Call) -> dict[str, str]:
        texts = [*call.headers.values(), call.body or ""]
        names = set[str]().union(*(secrets.names_in(text) for text in texts))
        return {name: self._decrypted(call, name, call.secrets.get(name), f"the secret {name}") for name in names}

    def _decrypted(self, call: Call, name: str, ciphertext: str | None, what: str) -> str:
        if ciphertext is None:
            raise _NotReadable(f"{what} does not exist", is_retryable=False)
        try:
            stored = base64.b64decode(ciphertext, validate=True)
            return self._secrets.decrypt(tenant_id=call.tenant_id, name=name, ciphertext=stored)
        except (ValueError, binascii.Error) as error:
            raise _NotReadable(f"{what} cannot be decrypted", is_retryable=False) from error
        except Exception as error:
            logger.exception("secret not read", run_id=str(call.run_id))
            raise _NotReadable(f"{what} cannot be read at the moment", is_retryable=True) from error

    def _headers(self, call: Call, values: Mapping[str, str], body: bytes | None, at: datetime) -> dict[str, str]:
        headers = {
            name: secrets.inserted(value, values)
            for name, value in call.headers.items()
            if name.lower() not in OWN_HEADERS
        }
        if body is not None and "content-type" not in {name.lower() for name in headers}:
            is_json = secrets.is_json(call.body or "")
            headers["Content-Type"] = "application/json" if is_json else "text/plain; charset=utf-8"
        message_id, timestamp = message_id_of(call), int(at.timestamp())
        keys = [self._decrypted(call, secrets.SIGNING_KEY, key, "the signing key") for key in call.signing_keys]
        signatures = [
            standard_signature(key, message_id=message_id, timestamp=timestamp, body=body or b"") for key in keys
        ]
        return {
            **headers,
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": " ".join(signatures),
            "Idempotency-Key": call.idempotency_key,
            "Artiway-Attempt": str(call.attempt),
            **({"Artiway-Scheduled-Time": _utc(call.scheduled_at)} if call.scheduled_at else {}),
            **({"X-Trace-Id": call.trace_id} if call.trace_id else {}),
        }

    def _ended(
        self,
        call: Call,
        outcome: Outcome,
        started_at: datetime | None = None,
        *,
        http_status: int | None = None,
        error: str | None = None,
        answer: str | None = None,
        retry_after_s: int | None = None,
    ) -> Result:
        at = self._clock.now()
        return Result(
            tenant_id=call.tenant_id,
            run_id=call.run_id,
            generation=call.generation,
            attempt=call.attempt,
            outcome=outcome,
            at=at,
            http_status=http_status,
            error=None if error is None else error[:ERROR_CHARACTERS],
            answer=answer,
            retry_after_s=retry_after_s,
            started_at=started_at,
            elapsed_ms=None if started_at is None else max(0, round((at - started_at).total_seconds() * 1_000)),
            node_of=call.node_of,
        )


def message_id_of(call: Call) -> str:
    """The same for every attempt. A replay is a new request of the user, which the receiver must not drop."""
    if call.node_of is not None:
        return call.idempotency_key
    run_id = ids.to_wire("run", call.run_id)
    return run_id if call.generation == 1 else f"{run_id}-{call.generation}"


def outcome_of(status: int, success_statuses: Iterable[int]) -> Outcome:
    """By default the target succeeds with 2xx."""
    wanted = frozenset(success_statuses)
    if status in wanted or (not wanted and 200 <= status < 300):
        return Outcome.SUCCEEDED
    if 400 <= status < 500 and status not in RETRIED_STATUSES:
        return Outcome.REFUSED
    return Outcome.FAILED


def retry_after_s(value: str | None, now: datetime) -> int | None:
    """Seconds, or a date of HTTP; None for anything else."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit() and len(text) <= 10:
        return min(int(text), MOST_RETRY_AFTER_S)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return min(max(0, round((at - now).total_seconds())), MOST_RETRY_AFTER_S)


def _explained(status: int) -> str:
    redirect = "; redirects are not followed" if 300 <= status < 400 else ""
    return f"the target answered {status}{redirect}"


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _kept(body: bytes, values: Mapping[str, str]) -> str:
    text = body.decode("utf-8", "replace").replace("\0", "")
    return secrets.hidden(text, values, is_cut=len(body) >= READ_BYTES)[:ANSWER_CHARACTERS]
