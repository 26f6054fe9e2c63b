"""What WeChat tells us of its own accord. Believed when signed, answered when committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from artiway.payments.credit import Acts, CreditService
from artiway.payments.model import Answer, Forged, Notification, Source, Undecryptable
from artiway.platform import metrics
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger

logger = Logger("callbacks")


class Notary(Protocol):
    def open(self, headers: Mapping[str, str], body: bytes) -> Notification:
        """Raises Forged, Undecryptable."""


class CallbackService:
    def __init__(self, notary: Notary, credit: CreditService, acts: Acts, clock: Clock) -> None:
        self._notary, self._credit, self._acts, self._clock = notary, credit, acts, clock

    def receive(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Returns DONE only after whatever it says is in the database. Whatever is raised means: send it again."""
        try:
            notification = self._notary.open(headers, body)
        except Forged as forged:
            # WeChat tests us with bad signatures: counted apart, so that nobody is called for them.
            metrics.emit("CallbacksRefused", 1, reason=forged.reason)
            logger.warning("callback refused", reason=forged.reason)
            return Answer.NOT_FROM_WECHAT
        except Undecryptable:
            day = self._clock.now().date().isoformat()
            self._acts.alert(f"undecryptable:{day}", "CALLBACK_UNDECRYPTABLE", {"day": day})
            return Answer.UNREADABLE
        outcome = ""
        if notification.payment is not None:
            outcome = self._credit.record(notification.payment, Source.CALLBACK)
        if notification.refund is not None:
            self._credit.record_refund(notification.refund)
        event_type = notification.event_type[:50]
        logger.info("callback", event_type=event_type, outcome=outcome, notification_id=notification.notification_id)
        return Answer.DONE
