"""The audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.once import once

if TYPE_CHECKING:
    from artiway.audit.repository import AuditLog, AuditTrail


@once
def audit() -> AuditLog:
    from artiway.audit.repository import AuditLog

    return AuditLog()


@once
def audit_trail() -> AuditTrail:
    from artiway.audit.repository import AuditTrail

    return AuditTrail(base.service_database(), base.reader_database(), audit())
