"""Alerts for operators: a row in the transaction of the change, published to SNS once after the commit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from artiway.platform import aws, metrics, sql
from artiway.platform.clock import Clock
from artiway.platform.database import Database, Transaction
from artiway.platform.logs import Logger

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient

logger = Logger("alerts")
SQL = sql.load("artiway.payments")
BATCH = 50


class Topic(Protocol):
    def publish(self, subject: str, message: str) -> None: ...


class SnsTopic:
    def __init__(self, arn: str) -> None:
        self._arn = arn

    def publish(self, subject: str, message: str) -> None:
        client: SNSClient = aws.client("sns")
        client.publish(TopicArn=self._arn, Subject=subject, Message=message)


class Alerts:
    """Publishes each key at least once. `database` uses the service role, because alerts cross tenants."""

    def __init__(self, database: Database, topic: Topic, clock: Clock) -> None:
        self._database, self._topic, self._clock = database, topic, clock

    def write(self, tx: Transaction, key: str, kind: str, details: Mapping[str, Any]) -> bool:
        """Store the alert in the transaction of the change. False if the key is stored already."""
        text = json.dumps(details, ensure_ascii=False, default=str)
        if not tx.run(SQL["add_alert"], {"key": key, "kind": kind, "details": text, "now": self._clock.now()}):
            return False
        logger.error("payment alert", kind=kind, key=key, details=details)
        metrics.emit("PaymentAlerts", 1, kind=kind)
        tx.after_commit(lambda: self.deliver([key]))
        return True

    def deliver(self, keys: Sequence[str] | None = None) -> int:
        """Publish unsent alerts: those of `keys`, or all of them."""
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["unsent_alerts"], {"keys": list(keys) if keys is not None else None, "limit": BATCH})
            for row in rows:
                message = {"kind": row["kind"], "at": row["created_at"].isoformat(), "details": row["details"]}
                self._topic.publish(f"Artiway: {row['kind']}", json.dumps(message, ensure_ascii=False, default=str))
                tx.run(SQL["mark_alert_sent"], {"key": row["alert_key"], "now": self._clock.now()})
        return len(rows)
