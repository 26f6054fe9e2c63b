"""A mailbox, and a postman who delivers the mail messages that transactions left in the outbox."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from urllib.parse import unquote

import psycopg

from artiway.mail.model import MailKind
from artiway.mail.repository import PostgresMail
from artiway.mail.service import MailService
from artiway.platform.clock import Clock
from artiway.platform.database import Database

CONSOLE = "https://shop.example"


@dataclass(frozen=True)
class Mail:
    to: str
    subject: str
    text: str

    @property
    def link(self) -> str:
        found = re.search(r"https://\S+", self.text)
        assert found is not None, self.text
        return found[0]

    @property
    def token(self) -> str:
        return unquote(self.link.partition("?token=")[2])


@dataclass
class Mailbox:
    mails: list[Mail] = field(default_factory=list)

    def send(self, to: str, subject: str, text: str) -> None:
        self.mails.append(Mail(to, subject, text))


class Postman:
    """Plays relay, queue and function: each message of the outbox is delivered once."""

    def __init__(self, superuser_url: str, service_database: Database, clock: Clock) -> None:
        self.box = Mailbox()
        self._url = superuser_url
        self.service = MailService(PostgresMail(service_database, clock), self.box, console_url=f"{CONSOLE}/")
        self._done: set[int] = set()

    def messages(self) -> list[dict[str, object]]:
        """The bodies of all mail messages, as they are stored."""
        return [json.loads(body) for _, body in self._rows()]

    def deliver(self) -> list[Mail]:
        """Deliver the new messages. Returns the mails that they became."""
        before = len(self.box.mails)
        for number, body in self._rows():
            if number not in self._done:
                self._done.add(number)
                message = json.loads(body)
                self.service.deliver(MailKind(message["type"]), message["data"])
        return self.box.mails[before:]

    def _rows(self) -> list[tuple[int, str]]:
        query = "SELECT outbox_id, body FROM outbox WHERE destination = 'mail' ORDER BY outbox_id"
        with psycopg.connect(self._url) as connection:
            return connection.execute(query).fetchall()
