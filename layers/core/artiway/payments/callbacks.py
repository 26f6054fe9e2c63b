"""WeChat's notifications: verified before they are read, answered after the commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from artiway.payments.credit import CreditService, OrderStore
from artiway.payments.model import Answer, Forged, Notification, Source, Undecryptable
from artiway.platform import metrics
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger

logger = Logger("callbacks")


class NotificationReader(Protocol):
    def read(self, headers: Mapping[str, str], body: bytes) -> Notification:
        """Raises Forged, Undecryptable."""


class CallbackService:
    def __init__(self, reader: NotificationReader, credit: CreditService, orders: OrderStore, clock: Clock) -> None:
        self._reader, self._credit, self._orders, self._clock = reader, credit, orders, clock

    def receive(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Returns DONE after the commit. Any exception makes WeChat send the notification again."""
        try:
            notification = self._reader.read(headers, body)
        except Forged as forged:
            # WeChat sends bad signatures as a test: a separate metric keeps them out of the alarms.
            metrics.emit("CallbacksRefused", 1, reason=forged.reason)
            logger.warning("callback refused", reason=forged.reason)
            return Answer.NOT_FROM_WECHAT
        except Undecryptable:
            day = self._clock.now().date().isoformat()
            self._orders.alert(f"undecryptable:{day}", "CALLBACK_UNDECRYPTABLE", {"day": day})
            return Answer.UNREADABLE
        outcome = ""
        if notification.payment is not None:
            outcome = self._credit.record(notification.payment, Source.CALLBACK)
        if notification.refund is not None:
            self._credit.record_refund(notification.refund)
        event_type = notification.event_type[:50]
        logger.info("callback", event_type=event_type, outcome=outcome, notification_id=notification.notification_id)
        return Answer.DONE
