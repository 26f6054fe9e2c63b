"""Messages that commit with the change they announce, and the relay that sends them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.once import once

if TYPE_CHECKING:
    from artiway.outbox.model import Message, Sender
    from artiway.outbox.repository import Outbox
    from artiway.outbox.service import Relay
    from artiway.platform.database import Database


@once
def queue_urls() -> dict[str, str]:
    """The address of each queue by its destination."""
    address = base.settings().queue_address
    return {destination: f"{address}/{name}" for destination, name in base.settings().queues.items()}


@once
def sender() -> Sender:
    """Sends to SQS, and to Step Functions for destinations of `machine`."""
    from artiway.outbox.queue import SqsSender
    from artiway.tasks.queue import MachineSender, Senders

    return Senders({"machine": MachineSender(base.settings().task_machine_arn, queue_urls())}, SqsSender(queue_urls()))


@once
def direct_push() -> Callable[[Message], None]:
    """Sends one message to the push queue, past the outbox."""
    from artiway.outbox.queue import send_directly

    return send_directly(queue_urls()["push"], base.clock())


def _relay(of: Database) -> Relay:
    from artiway.outbox.repository import PostgresStore
    from artiway.outbox.service import Relay

    return Relay(PostgresStore(of), sender())


@once
def relay() -> Relay:
    """The sweep, over all tenants."""
    return _relay(base.service_database())


@once
def service_outbox() -> Outbox:
    """For changes made across tenants."""
    from artiway.outbox.repository import Outbox

    return Outbox(relay().deliver, base.clock())


@once
def outbox() -> Outbox:
    """For changes made inside one tenant."""
    from artiway.outbox.repository import Outbox

    return Outbox(_relay(base.database()).deliver, base.clock())


@once
def text_queue_urls() -> dict[str, str]:
    """The address of each lane of texts. Their queues have names of their own."""
    from artiway.scheduling.lanes import LANES

    address, names = base.settings().queue_address, base.settings().text_queues
    return {f"lane:{lane}": f"{address}/{names}{lane}" for lane, spec in LANES.items() if spec.pool == "text"}


@once
def text_sender() -> Sender:
    """Sends to the lanes of texts only."""
    from artiway.outbox.queue import SqsSender

    return SqsSender(text_queue_urls())


def text_outbox(of: Database) -> Outbox:
    """For messages of the lanes of texts, which rows stand for: none is stored."""
    from artiway.outbox.repository import Outbox, PostgresStore
    from artiway.outbox.service import Relay

    return Outbox(Relay(PostgresStore(of), text_sender()).deliver, base.clock())


@once
def mail_sender() -> Sender:
    """Sends to SQS only, for functions that start no task."""
    from artiway.outbox.queue import SqsSender

    return SqsSender(queue_urls())


def mail_outbox(of: Database) -> Outbox:
    """For changes that send a mail."""
    from artiway.outbox.repository import Outbox, PostgresStore
    from artiway.outbox.service import Relay

    return Outbox(Relay(PostgresStore(of), mail_sender()).deliver, base.clock())
