"""The push service over the fake and over PostgreSQL, with the users and sockets that a test needs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from artiway.outbox.repository import Outbox
from artiway.push.model import Notice, Scope, parse_cursor
from artiway.push.repository import PostgresConnections
from artiway.push.service import PushService, notice_message
from tests.fakes.push import ROOMY, FakeConnections, FakeSockets

TENANT, ANN, BOB, PHONE = uuid4(), uuid4(), uuid4(), uuid4()
LATER = datetime.now(UTC) + timedelta(days=1)
QUIET = Outbox(lambda *_: None)


class FixedClock:
    def __init__(self, at):
        self.at = at

    def now(self):
        return self.at


class Killed(BaseException):
    """The process was killed: no exception handler and no clean-up of it runs."""


class Postgres:
    """Connections in the database, their users, and the users' events in the outbox."""

    def __init__(self, database, *, settling_s=0, lease_s=60, resume_s=60, limits=ROOMY):
        self._database = database
        self.connections = PostgresConnections(
            database, QUIET, settling_s=settling_s, lease_s=lease_s, resume_s=resume_s, limits=limits
        )

    def add_user(self, tenant_id, user_id, session_id):
        """A user with an open session."""
        with self._database.service_transaction() as tx:
            facts = {"tenant": tenant_id, "user": user_id, "session": session_id, "until": LATER}
            tx.run(b"INSERT INTO tenant (tenant_id, name) VALUES (%(tenant)s, 'T') ON CONFLICT DO NOTHING", facts)
            tx.run(
                b"INSERT INTO app_user (tenant_id, user_id) VALUES (%(tenant)s, %(user)s) ON CONFLICT DO NOTHING", facts
            )
            tx.run(
                b"INSERT INTO session (tenant_id, session_id, user_id, created_at, expires_at)"
                b" VALUES (%(tenant)s, %(session)s, %(user)s, now(), %(until)s) ON CONFLICT DO NOTHING",
                facts,
            )

    def log_out(self, session_id):
        self._run(
            b"UPDATE session SET revoked_at = now(), revoked_reason = 'logout' WHERE session_id = %(id)s", session_id
        )

    def disable(self, user_id):
        self._run(b"UPDATE app_user SET status = 'DISABLED' WHERE user_id = %(id)s", user_id)

    def suspend(self, tenant_id):
        self._run(b"UPDATE tenant SET status = 'SUSPENDED' WHERE tenant_id = %(id)s", tenant_id)

    def make_operator(self, user_id):
        self._run(
            b"INSERT INTO user_role (tenant_id, user_id, role) SELECT tenant_id, user_id, 'operator' FROM app_user"
            b" WHERE user_id = %(id)s ON CONFLICT DO NOTHING",
            user_id,
        )

    def make_member(self, user_id):
        self._run(b"DELETE FROM user_role WHERE user_id = %(id)s", user_id)

    def _run(self, query, about):
        with self._database.service_transaction() as tx:
            tx.run(query, {"id": about})

    def publish(self, tenant_id, user_id, payload):
        with self._database.service_transaction() as tx:
            QUIET.publish(tx, [notice_message(Notice(tenant_id, user_id, payload))])

    def wake_messages(self):
        with self._database.service_transaction() as tx:
            return tx.all(b"SELECT tenant_id, delay_s FROM outbox WHERE body LIKE '%%\"wake\"%%' ORDER BY outbox_id")


class Fake:
    def __init__(self, _database, *, lease_s=60, resume_s=60, limits=ROOMY):
        self.connections = FakeConnections(lease_s=lease_s, resume_s=resume_s, limits=limits)
        self.log_out = self.disable = self.suspend = self.connections.closed_for.add
        self.make_operator, self.make_member = self.connections.managers.add, self.connections.managers.discard

    def add_user(self, tenant_id, user_id, session_id):
        pass

    def publish(self, tenant_id, user_id, payload):
        self.connections.add_event(tenant_id, user_id, payload)

    def wake_messages(self):
        return [{"tenant_id": message.tenant_id, "delay_s": message.delay_s} for message in self.connections.messages]


class Desk:
    """A push service with its sockets: opens them, stores events, starts deliveries, reads what was received."""

    def __init__(self, store, sockets=None):
        self.store, self.sockets = store, sockets or FakeSockets()
        self.push = PushService(store.connections, self.sockets, FixedClock(datetime.now(UTC)), ttl_s=60, lease_s=7)

    def open(self, name, user_id=ANN, tenant_id=TENANT, session_id=None, after=None, scope=Scope.USER):
        session_id = session_id or (PHONE if user_id == ANN else uuid4())
        self.store.add_user(tenant_id, user_id, session_id)
        self.push.connect(
            connection_id=name,
            tenant_id=tenant_id,
            user_id=user_id,
            session_id=session_id,
            scope=scope,
            after=after,
        )
        self.sockets.open.setdefault(name, [])

    def add_events(self, *names, user_id=ANN):
        for name in names:
            self.store.publish(TENANT, user_id, {"type": "task.started", "node": name})

    def deliver(self, user_id=ANN, **options):
        return self.push.deliver(Notice(TENANT, user_id), **options)

    def received(self, name):
        return [payload["node"] for payload in self.sockets.open[name] if "node" in payload]

    def cursor(self, name):
        return parse_cursor(self.sockets.open[name][-1]["cursor"])
