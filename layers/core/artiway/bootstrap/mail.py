"""Mail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.once import once

if TYPE_CHECKING:
    from artiway.mail.service import MailService


@once
def mail() -> MailService:
    from artiway.mail.outbound import mailer_of
    from artiway.mail.repository import PostgresMail
    from artiway.mail.service import MailService

    settings = base.settings()
    store = PostgresMail(base.service_database(), base.clock())
    return MailService(store, mailer_of(settings.mail_from), console_url=settings.public_url)
