"""WebSocket delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.once import once
from artiway.bootstrap.outbox import service_outbox

if TYPE_CHECKING:
    from artiway.push.service import PushService, Sockets


@once
def sockets() -> Sockets:
    from artiway.push.repository import ApiGatewaySockets

    return ApiGatewaySockets(base.settings().websocket_endpoint)


@once
def push() -> PushService:
    from artiway.push.model import SocketLimits
    from artiway.push.repository import PostgresConnections
    from artiway.push.service import GREETING_DELAY_S, PushService

    lease_s = base.settings().connection_lease_s
    connections = PostgresConnections(
        base.service_database(),
        service_outbox(),
        settling_s=GREETING_DELAY_S,
        lease_s=lease_s,
        resume_s=base.settings().connection_resume_s,
        limits=SocketLimits(base.settings().connections_per_user, base.settings().connections_per_tenant),
    )
    return PushService(connections, sockets(), base.clock(), ttl_s=base.settings().connection_ttl_s, lease_s=lease_s)
