"""Messages that commit with the change they announce, and the relay that sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.once import once

if TYPE_CHECKING:
    from artiway.outbox.repository import Outbox
    from artiway.outbox.service import Relay
    from artiway.platform.database import Database


def _relay(of: Database) -> Relay:
    from artiway.outbox.queue import SqsSender
    from artiway.outbox.repository import PostgresStore
    from artiway.outbox.service import Relay
    from artiway.tasks.queue import MachineSender, Senders

    queues = SqsSender({"push": base.settings().push_queue_url, **base.settings().queue_urls})
    return Relay(PostgresStore(of), Senders({"machine": MachineSender(base.settings().task_machine_arn)}, queues))


@once
def relay() -> Relay:
    """The sweep, over all tenants."""
    return _relay(base.service_database())


@once
def service_outbox() -> Outbox:
    """For changes made across tenants."""
    from artiway.outbox.repository import Outbox

    return Outbox(relay().deliver)


@once
def outbox() -> Outbox:
    """For changes made inside one tenant."""
    from artiway.outbox.repository import Outbox

    return Outbox(_relay(base.database()).deliver)
