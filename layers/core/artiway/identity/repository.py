"""Accounts and sessions across the platform, as `artiway_service`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from uuid import UUID

from artiway.audit.repository import AuditLog
from artiway.identity.model import (
    OWNER,
    PLATFORM_ADMIN,
    Account,
    LoginEvent,
    LoginTaken,
    NewSession,
    NewUser,
    RefreshState,
    Tenant,
    Throttle,
    Tier,
    WechatPerson,
    as_details,
)
from artiway.ids import new_id, to_wire
from artiway.mail.model import new_place_message
from artiway.outbox.repository import Outbox
from artiway.platform import sql
from artiway.platform.database import Database, Row, Transaction

SQL = sql.load("artiway.identity")
# A place is new if no login of these months came from it. Records of logins stay for six months.
PLACE_MONTHS = 3


class PostgresAccounts:
    """A login names no tenant, so these queries cross all tenants."""

    def __init__(self, database: Database, audit: AuditLog, outbox: Outbox | None = None) -> None:
        """Without an outbox no mail is sent about a new place: for functions that log nobody in."""
        self._database, self._audit, self._outbox = database, audit, outbox

    def add_tenant(
        self,
        tenant: Tenant,
        owner: NewUser,
        session: NewSession | None,
        login: LoginEvent | None,
        wechat: WechatPerson | None = None,
    ) -> None:
        taken = LoginTaken("this e-mail address or phone number has an account already")
        with self._database.service_transaction() as tx:
            if wechat is not None:
                tx.run(SQL["lock_wechat"], {"person": wechat.unionid or wechat.openid})
                if self._user_of_wechat(tx, wechat) is not None:
                    raise taken
            add_tenant(tx, self._audit, tenant, actor_id=owner.user_id, action="tenant.registered")
            insert_user(tx, owner, taken)
            if wechat is not None:
                tx.run(SQL["insert_wechat"], asdict(wechat) | _ids(owner), on_duplicate=taken)
            if session is not None and login is not None:
                self.open(tx, session, login)

    def put_administrator(self, *, email: str, password_hash: str) -> UUID:
        """Create the platform's tenant and this administrator as far as they do not exist, and set the password."""
        with self._database.service_transaction() as tx:
            tx.run(SQL["lock_platform"])
            row = tx.one(SQL["platform_tenant"])
            tenant_id: UUID = row["tenant_id"] if row else new_id()
            known = tx.one(SQL["account_by_login"], {"login": email})
            if known is not None and known["tenant_id"] != tenant_id:
                raise LoginTaken("this e-mail address belongs to another tenant")
            user_id: UUID = known["user_id"] if known else new_id()
            if row is None:
                tenant = Tenant(tenant_id, "Artiway", Tier.ENTERPRISE, is_platform=True)
                add_tenant(tx, self._audit, tenant, actor_id=user_id, action="tenant.created")
            if known is None:
                roles = (OWNER, PLATFORM_ADMIN)
                insert_user(tx, NewUser(tenant_id, user_id, email, None, password_hash, roles), LoginTaken("taken"))
            else:
                tx.run(SQL["set_password_hash"], {"user_id": user_id, "password_hash": password_hash})
                tx.run(SQL["revoke_sessions_of_user"], {"user_id": user_id, "reason": "password"})
            self._audit.record(
                tx,
                actor_id=None,
                action="administrator.set",
                target=to_wire("usr", user_id),
                tenant_id=tenant_id,
            )
            return user_id

    def account_by_login(self, login: str) -> Account | None:
        with self._database.service_transaction() as tx:
            return _account(tx.one(SQL["account_by_login"], {"login": login}))

    def account_by_user(self, user_id: UUID) -> Account | None:
        with self._database.service_transaction() as tx:
            return _account(tx.one(SQL["account_by_user"], {"user_id": user_id}))

    def account_by_wechat(self, person: WechatPerson) -> Account | None:
        with self._database.service_transaction() as tx:
            user_id = self._user_of_wechat(tx, person)
            return None if user_id is None else _account(tx.one(SQL["account_by_user"], {"user_id": user_id}))

    def permissions_of_role(self, name: str) -> tuple[str, ...]:
        with self._database.service_transaction() as tx:
            row = tx.one(SQL["permissions_of_built_in"], {"name": name})
        return tuple(sorted(row["permissions"])) if row else ()

    def open_session(self, session: NewSession, login: LoginEvent, *, most: int) -> Sequence[UUID] | None:
        with self._database.service_transaction() as tx:
            if not self.open(tx, session, login):
                return None
            ended = tx.all(SQL["end_oldest_sessions"], asdict(session) | {"most": most})
        return [row["session_id"] for row in ended]

    def set_password_hash(self, user_id: UUID, password_hash: str) -> None:
        with self._database.service_transaction() as tx:
            tx.run(SQL["set_password_hash"], {"user_id": user_id, "password_hash": password_hash})

    def refresh_state(self, token_hash: bytes, *, successor_hash: bytes) -> RefreshState | None:
        with self._database.service_transaction() as tx:
            row = tx.one(SQL["refresh_state"], {"token_hash": token_hash, "successor_hash": successor_hash})
        return None if row is None else RefreshState(**row | {"permissions": tuple(row["permissions"])})

    def rotate(self, token_hash: bytes, successor: NewSession) -> bool:
        with self._database.service_transaction() as tx:
            facts = asdict(successor)
            if tx.one(SQL["lock_session"], facts) is None:
                return False
            if tx.run(SQL["use_refresh_token"], {"token_hash": token_hash, "now": successor.created_at}) == 0:
                return False
            tx.run(SQL["insert_refresh_token"], facts)
            return True

    def revoke_session(self, tenant_id: UUID, session_id: UUID, reason: str) -> None:
        with self._database.service_transaction() as tx:
            tx.run(SQL["revoke_session"], {"tenant_id": tenant_id, "session_id": session_id, "reason": reason})

    def count_attempt(self, subjects: Sequence[tuple[bytes, int]], throttle: Throttle) -> int:
        """All attempts lock the subjects in the same order, so that they cannot deadlock."""
        with self._database.service_transaction() as tx:
            for subject, free in subjects:
                facts = {
                    "subject": subject,
                    "free": free,
                    "window": throttle.window,
                    "first": throttle.first_wait,
                    "longest": throttle.longest_wait,
                }
                if tx.run(SQL["count_attempt"], facts) == 0:
                    row = tx.one(SQL["wait_of"], facts)
                    return max(1, row["wait_s"]) if row else 1
        return 0

    def forgive(self, *, account: bytes, address: bytes) -> None:
        with self._database.service_transaction() as tx:
            tx.run(SQL["forgive_address"], {"subject": address})
            tx.run(SQL["forgive_account"], {"subject": account})

    def open(self, tx: Transaction, session: NewSession, login: LoginEvent) -> bool:
        """False if the user or the tenant was closed meanwhile."""
        if tx.run(SQL["insert_session"], asdict(session)) == 0:
            return False
        tx.run(SQL["insert_refresh_token"], asdict(session))
        self.add_login(tx, login)
        return True

    def add_login(self, tx: Transaction, login: LoginEvent) -> None:
        """Store the login. One from a new place and its mail are one transaction."""
        row = tx.one(SQL["insert_login"], asdict(login) | {"months": PLACE_MONTHS})
        if row is not None and row["is_new_place"] and self._outbox is not None:
            self._outbox.publish(tx, [new_place_message(login.tenant_id, login.login_id)])

    def _user_of_wechat(self, tx: Transaction, person: WechatPerson) -> UUID | None:
        known = tx.one(SQL["wechat_identity"], asdict(person))
        if known is not None:
            if person.unionid is not None and known["unionid"] is None:
                tx.run(SQL["learn_unionid"], asdict(person))
            return UUID(str(known["user_id"]))
        if person.unionid is None:
            return None
        tx.run(SQL["lock_wechat"], {"person": person.unionid})
        sibling = tx.one(SQL["wechat_by_unionid"], asdict(person))
        if sibling is None:
            return None
        if tx.one(SQL["wechat_identity"], asdict(person)) is None:
            tx.run(SQL["insert_wechat"], asdict(person) | sibling)
        return UUID(str(sibling["user_id"]))


def add_tenant(tx: Transaction, audit: AuditLog, tenant: Tenant, *, actor_id: UUID, action: str) -> None:
    tx.run(SQL["insert_tenant"], asdict(tenant), on_duplicate=LoginTaken("the platform's tenant is there already"))
    audit.record(
        tx,
        actor_id=actor_id,
        action=action,
        target=to_wire("tnt", tenant.tenant_id),
        details=as_details({"name": tenant.name, "tier": tenant.tier}),
        tenant_id=tenant.tenant_id,
    )


def insert_user(tx: Transaction, user: NewUser, taken: LoginTaken) -> None:
    facts = asdict(user) | {"roles": list(user.roles)}
    tx.run(SQL["insert_user"], facts, on_duplicate=taken)
    tx.run(SQL["insert_roles"], facts)


def _ids(user: NewUser) -> Row:
    return {"tenant_id": user.tenant_id, "user_id": user.user_id}


def _account(row: Row | None) -> Account | None:
    return None if row is None else Account(**row | {"permissions": tuple(row["permissions"])})
