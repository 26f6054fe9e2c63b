"""Random rows of all ages and states, and which of them must stay: an oracle that knows nothing of the SQL."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from artiway.retention import settings as days
from artiway.settings.model import Fixed

TENANT, USER = UUID(int=7), UUID(int=8)
# Just before and after each period, so that a mistake of a day shows.
USAGE_COUNTS = (
    *("calls", "estimated_calls", "input_tokens", "output_tokens", "estimated_tokens", "cost_points"),
    *("completed", "failed", "cancelled", "free_texts", "charged_points"),
)
AGES = (0.5, 1.5, 6, 8, 29, 31, 89, 91, 179, 181, 399, 401, 729, 731, 3_649, 3_651)
CLEARED = (
    "task_event, node_history, node_token, node_dependency, artefact, task_node, task, points_hold_lot, points_hold,"
    " points_lot, webhook_delivery, webhook, pay_alert, upload, session, login_event, login_failure, idempotency_key,"
    " outbox, audit_log, pay_refund, pay_transaction, pay_order, bill_difference, sweep_position,"
    " generation, generation_allowance, text_usage, job_change, job_fire_note"
)


@dataclass
class Rows:
    random: Random
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    kept: dict[str, set[Any]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        pick = self.random.choice
        self.values = Fixed(
            {
                days.TASK_DAYS: pick((30, 180, 400)),
                days.HISTORY_DAYS: pick((7, 90, 3_650)),
                days.EVENT_DAYS: pick((2, 30, 3_650)),
                days.HOLD_DAYS: pick((90, 400)),
            }
        )
        for _ in range(25):
            self.task()
        for _ in range(8):
            self.hold(named_by_task=False)
            self.webhook()
            self.flat()
        for _ in range(60):
            self.order()
        self.lots()
        for _ in range(20):
            self.text()
            self.allowance()
            self.usage()
            self.job_note()

    # One feature each: it adds rows, and the keys of those that must stay.

    def task(self) -> None:
        pick, chance = self.random.choice, self.random.random
        task_id, is_ended, age = uuid4(), chance() < 0.85, pick(AGES)
        hold_id, is_held = self.hold(named_by_task=True, is_held=chance() < 0.15)
        pictures = [chance() < 0.1 for _ in range(pick((0, 1, 2)))]
        delivery = pick((None, None, "DELIVERED", "FAILED", "PENDING"))
        nodes = [(uuid4(), is_ended and chance() < 0.97) for _ in range(pick((1, 2, 3)))]
        token = pick((None, None, None, None, None, "open", "answered"))
        task_days = self.values.get(days.TASK_DAYS)
        is_blocked = is_held or any(pictures) or delivery == "PENDING" or token == "open"
        is_gone = is_ended and age > task_days and not is_blocked and all(ended for _, ended in nodes)
        ended_at = self.ago(age) if is_ended else None
        events, changes = pick((1, 3)), pick((1, 4))
        self.add(
            "task",
            task_id,
            not is_gone,
            tenant_id=TENANT,
            task_id=task_id,
            user_id=USER,
            tool="flow",
            hold_id=hold_id,
            lane="vip_short",
            pool="gpu",
            price_points=1,
            status="COMPLETED" if is_ended else "QUEUED",
            created_at=self.ago(age),
            ended_at=ended_at,
            event_sequence=events,
        )
        if not is_gone:
            self.kept["points_hold"].add(hold_id)
        history_days = min(task_days, self.values.get(days.HISTORY_DAYS))
        event_days = min(history_days, self.values.get(days.EVENT_DAYS))
        for sequence in range(1, events + 1):
            is_trimmed = is_ended and age > event_days and sequence < events
            self.add(
                "task_event",
                (task_id, sequence),
                not is_gone and not is_trimmed,
                tenant_id=TENANT,
                task_id=task_id,
                sequence=sequence,
                event="x",
                body=Jsonb({}),
            )
        for number, (node_id, node_ended) in enumerate(nodes):
            self.add(
                "task_node",
                node_id,
                not is_gone,
                tenant_id=TENANT,
                node_id=node_id,
                task_id=task_id,
                user_id=USER,
                position=number,
                name=f"n{number}",
                type="cutout",
                step="s",
                lane="vip_short",
                pool="gpu",
                cost_us=1,
                is_result=False,
                in_degree=0,
                status="COMPLETED" if node_ended else "PENDING",
                version=changes,
                ended_at=self.ago(age) if node_ended else None,
            )
            for version in range(1, changes + 1):
                is_trimmed = is_ended and age > history_days and version < changes
                self.add(
                    "node_history",
                    (node_id, version),
                    not is_gone and not is_trimmed,
                    tenant_id=TENANT,
                    node_id=node_id,
                    version=version,
                    to_status="x",
                    attempt=0,
                    changed_at=self.ago(age),
                )
        for one, other in pairwise(nodes):
            self.add(
                "node_dependency",
                (other[0], one[0]),
                not is_gone,
                tenant_id=TENANT,
                node_id=other[0],
                depends_on_id=one[0],
            )
        if token is not None:
            token_id, answered = uuid4(), pick(AGES) if token == "answered" else None
            is_old = answered is not None and answered > days.TOKEN_DAYS.default
            self.add(
                "node_token",
                token_id,
                not is_gone and not is_old,
                tenant_id=TENANT,
                token_id=token_id,
                node_id=nodes[0][0],
                kind="ready",
                token=str(token_id),
                answered_at=None if answered is None else self.ago(answered),
            )
        for is_stored in pictures:
            artefact_id = uuid4()
            self.add(
                "artefact",
                artefact_id,
                not is_gone,
                tenant_id=TENANT,
                artefact_id=artefact_id,
                task_id=task_id,
                node_id=nodes[0][0],
                name="a",
                key=str(artefact_id),
                content_type="image/png",
                width=1,
                height=1,
                bytes=1,
                is_result=True,
                expires_at=self.ago(age),
                cleanup_status=0 if is_stored else 1,
            )
        if delivery is not None:
            self.delivery(self.webhook(), delivery, task_id)

    def hold(self, *, named_by_task: bool, is_held: bool = False) -> tuple[UUID, bool]:
        hold_id, age = uuid4(), self.random.choice(AGES)
        is_old = not is_held and age > self.values.get(days.HOLD_DAYS)
        status = "HELD" if is_held else self.random.choice(("CONFIRMED", "CANCELLED"))
        # A task that stays keeps its hold; `task` adds the key then.
        self.add(
            "points_hold",
            hold_id,
            not is_old,
            tenant_id=TENANT,
            hold_id=hold_id,
            user_id=USER,
            amount=5,
            status=status,
            created_at=self.ago(age),
            expires_at=self.ago(age),
            ended_at=None if is_held else self.ago(age),
        )
        return hold_id, is_held

    def text(self) -> None:
        pick, chance = self.random.choice, self.random.random
        generation_id, age, is_free = uuid4(), pick(AGES), chance() < 0.3
        status = pick(("QUEUED", "RUNNING", "COMPLETED", "COMPLETED", "FAILED", "CANCELLED"))
        hold_id, is_held = (None, False) if is_free else self.hold(named_by_task=False, is_held=chance() < 0.3)
        is_ended = status not in ("QUEUED", "RUNNING")
        self.add(
            "generation",
            generation_id,
            not (is_ended and age > self.values.get(days.TASK_DAYS) and not is_held),
            tenant_id=TENANT,
            generation_id=generation_id,
            user_id=USER,
            service="copywriting",
            lane="free_stream" if is_free else "paid_stream",
            is_free=is_free,
            status=status,
            input=Jsonb({}),
            max_tokens=1,
            input_tokens=1,
            input_price=1,
            output_price=1,
            price_points=0 if is_free else 5,
            hold_id=hold_id,
            allowance_day=self.ago(age).date() if is_free else None,
            created_at=self.ago(pick((age, AGES[-1]))),
            ended_at=self.ago(age) if is_ended else None,
            lease_until=self.ago(age) if status == "RUNNING" else None,
        )

    def allowance(self) -> None:
        user_id, age = uuid4(), self.random.choice(AGES)
        self.add(
            "generation_allowance",
            user_id,
            age < days.TOKEN_DAYS.default,
            tenant_id=TENANT,
            user_id=user_id,
            day=self.ago(age).date(),
            tokens=9,
        )

    def usage(self) -> None:
        model, age = uuid4().hex, self.random.choice(AGES)
        counts = dict.fromkeys(USAGE_COUNTS, 0)
        self.add(
            "text_usage",
            model,
            age < days.USAGE_DAYS.default,
            day=self.ago(age).date(),
            tenant_id=TENANT,
            user_id=USER,
            service="title",
            provider="alpha",
            model_id=model,
            **counts,
        )

    def job_note(self) -> None:
        """A job with three versions of its schedule, the last of them in force, and a fire that made no run."""
        job_id, ages = uuid4(), sorted((self.random.choice(AGES) for _ in range(3)), reverse=True)
        most = days.JOB_NOTE_DAYS.default
        for version, (age, next_age) in enumerate(pairwise([*ages, None]), start=1):
            self.add(
                "job_change",
                (job_id, version),
                next_age is None or next_age < most,
                tenant_id=TENANT,
                job_id=job_id,
                version=version,
                action="updated",
                schedule=Jsonb({}),
                at=self.ago(age),
                superseded_at=None if next_age is None else self.ago(next_age),
            )
        age = self.random.choice(AGES)
        self.add(
            "job_fire_note",
            job_id,
            age < most,
            tenant_id=TENANT,
            job_id=job_id,
            first_at=self.ago(AGES[-1]),
            last_at=self.now,
            outcome="MISFIRED",
            fires=1,
            reason="late",
            at=self.ago(age),
        )

    def webhook(self) -> UUID:
        webhook_id, deleted = uuid4(), self.random.choice((None, *AGES))
        is_old = deleted is not None and deleted > days.DELIVERY_DAYS.default
        self.add(
            "webhook",
            webhook_id,
            not is_old,
            tenant_id=TENANT,
            webhook_id=webhook_id,
            url=f"https://example.com/{webhook_id}",
            secret="s",
            deleted_at=None if deleted is None else self.ago(deleted),
        )
        for _ in range(self.random.choice((0, 1, 2))):
            self.delivery(webhook_id, self.random.choice(("PENDING", "DELIVERED", "FAILED")), None)
        return webhook_id

    def delivery(self, webhook_id: UUID, status: str, task_id: UUID | None) -> None:
        delivery_id, age = uuid4(), self.random.choice(AGES)
        is_kept = status == "PENDING" or age < days.DELIVERY_DAYS.default
        self.add(
            "webhook_delivery",
            delivery_id,
            is_kept,
            tenant_id=TENANT,
            delivery_id=delivery_id,
            webhook_id=webhook_id,
            event="e",
            body="{}",
            status=status,
            next_try_at=self.ago(age),
            task_id=task_id,
            run=None if task_id is None else 1,
        )
        if is_kept:
            self.kept["webhook"].add(webhook_id)

    def order(self) -> None:
        pick, chance = self.random.choice, self.random.random
        order_id, age = uuid4(), pick((*AGES[-2:], *AGES[-2:], *AGES[-4:], *AGES))
        status = pick(("CREATED", "PAYING", "CLOSED", "CLOSED", "COMPLETED", "COMPLETED", "REFUNDING", "REFUNDED"))
        is_paid = status in ("COMPLETED", "REFUNDING", "REFUNDED")
        flag = pick((None, None, None, "MISMATCH", "OVERPAID", "PAID_LATE"))
        payments = [("CREDITED", age)] if is_paid and chance() < 0.9 else []
        if chance() < 0.35:
            payments.append((pick(("MISMATCH", "OVERPAID")), age))
        refunds = [
            (pick(("SUCCESS", "SUCCESS", "CLOSED", "PROCESSING", "ABNORMAL")), pick((age, age, AGES[-2])))
            for _ in range(pick((0, 0, 1, 2)) if is_paid else 0)
        ]
        difference = pick((None, None, None, None, "OPEN", "REPAIRED"))
        kept_days = (days.ORDER_DAYS if is_paid else days.UNPAID_ORDER_DAYS).default
        is_settled = (
            status in ("COMPLETED", "REFUNDED")
            and flag in (None, "PAID_LATE")
            and all(outcome == "CREDITED" for outcome, _ in payments)
            and all(done in ("SUCCESS", "CLOSED") and at > kept_days for done, at in refunds)
        ) or (status == "CLOSED" and flag is None and not payments)
        is_kept = not (is_settled and age > kept_days and difference != "OPEN")
        self.add(
            "pay_order",
            order_id,
            is_kept,
            tenant_id=TENANT,
            order_id=order_id,
            user_id=USER,
            mchid="m",
            appid="a",
            out_trade_no=order_id.hex,
            package_id="p",
            amount_fen=9,
            points=9,
            channel="native",
            status=status,
            close_reason="EXPIRED" if status == "CLOSED" else None,
            flag=flag,
            prepay_body="{}",
            created_at=self.ago(age),
            expires_at=self.ago(age),
            next_query_at=self.ago(age),
            transaction_id=str(order_id) if is_paid else None,
            paid_at=self.ago(age) if is_paid else None,
        )
        for number, (outcome, at) in enumerate(payments):
            key = f"{order_id}" if number == 0 and is_paid else f"{order_id}:{number}"
            self.add(
                "pay_transaction",
                ("m", key),
                is_kept,
                mchid="m",
                transaction_id=key,
                tenant_id=TENANT,
                order_id=order_id,
                out_trade_no=order_id.hex,
                outcome=outcome,
                source="bill",
                seen_at=self.ago(at),
            )
        for done, at in refunds:
            refund_id = uuid4()
            is_ended = done in ("SUCCESS", "CLOSED")
            self.add(
                "pay_refund",
                refund_id,
                is_kept,
                tenant_id=TENANT,
                refund_id=refund_id,
                order_id=order_id,
                out_refund_no=refund_id.hex,
                amount_fen=1,
                points=1,
                is_debited=True,
                reason="r",
                request_body="{}",
                status=done,
                started_at=self.ago(at),
                ended_at=self.ago(at) if is_ended else None,
                next_query_at=self.ago(at),
            )
        if difference is not None:
            self.tables["bill_difference"].append(
                {
                    "day": self.ago(age).date(),
                    "kind": "AMOUNT",
                    "reference": order_id.hex,
                    "tenant_id": TENANT,
                    "order_id": order_id,
                    "resolution": difference,
                    "found_at": self.ago(age),
                }
            )

    def flat(self) -> None:
        """One row of each table without references."""
        pick = self.random.choice
        age, is_sent, is_cleaned, is_revoked = pick(AGES), pick((True, False)), pick((True, False)), pick((True, False))
        key, at = uuid4(), self.ago(age)
        self.add(
            "pay_alert",
            str(key),
            not (is_sent and age > days.ALERT_DAYS.default),
            alert_key=str(key),
            kind="k",
            details=Jsonb({}),
            created_at=at,
            sent_at=at if is_sent else None,
        )
        self.add(
            "upload",
            key,
            not (is_cleaned and age > days.UPLOAD_DAYS.default),
            tenant_id=TENANT,
            input_id=key,
            user_id=USER,
            key=str(key),
            content_type="image/png",
            bytes=1,
            expires_at=at,
            cleanup_status=int(is_cleaned),
        )
        is_over = age > days.SESSION_DAYS.default
        self.add(
            "session",
            key,
            not is_over,
            tenant_id=TENANT,
            session_id=key,
            user_id=USER,
            created_at=at,
            expires_at=self.ago(-9) if is_revoked else at,
            revoked_at=at if is_revoked else None,
            revoked_reason="logout" if is_revoked else None,
        )
        self.add(
            "session",
            other := uuid4(),
            True,
            tenant_id=TENANT,
            session_id=other,
            user_id=USER,
            created_at=at,
            expires_at=self.ago(-9),
        )
        self.add(
            "login_failure", key.bytes * 2, not is_over, subject=key.bytes * 2, failures=1, last_at=at, blocked_until=at
        )
        self.add(
            "login_event",
            key,
            age < days.LOGIN_DAYS.default,
            tenant_id=TENANT,
            login_id=key,
            user_id=USER,
            method="password",
            address="a",
            location="l",
            logged_at=at,
        )
        self.add(
            "idempotency_key",
            str(key),
            age < 1,
            tenant_id=TENANT,
            idempotency_key=str(key),
            request_hash="h",
            status=200,
            body="",
            created_at=at,
        )
        self.add(
            "outbox",
            str(key),
            not (is_sent and age > 1),
            aggregate=str(key),
            destination="push",
            body="b",
            created_at=at,
            sent_at=at if is_sent else None,
        )
        self.add("audit_log", key, age < days.AUDIT_DAYS.default, audit_id=key, action="a", target="t", at=at)

    def lots(self) -> None:
        """Lots of points, each with the parts that holds took of it."""
        for hold in self.tables["points_hold"]:
            lot_id, age, remaining = uuid4(), self.random.choice(AGES), self.random.choice((0, 0, 1))
            is_named = self.random.random() < 0.5
            is_hold_kept = hold["hold_id"] in self.kept["points_hold"]
            is_old = remaining == 0 and age > self.values.get(days.HOLD_DAYS)
            self.add(
                "points_lot",
                lot_id,
                not is_old or (is_named and is_hold_kept),
                tenant_id=TENANT,
                lot_id=lot_id,
                user_id=USER,
                granted=5,
                remaining=remaining,
                expires_at=self.ago(age),
            )
            if is_named:
                self.add(
                    "points_hold_lot",
                    (hold["hold_id"], lot_id),
                    is_hold_kept,
                    tenant_id=TENANT,
                    hold_id=hold["hold_id"],
                    lot_id=lot_id,
                    amount=1,
                )

    def add(self, table: str, key: Any, is_kept: bool, /, **row: Any) -> None:
        self.tables[table].append(row)
        if is_kept:
            self.kept[table].add(key)

    def ago(self, age: float) -> datetime:
        return self.now - timedelta(days=age)

    def insert(self, connection: psycopg.Connection[Any]) -> None:
        """In place of all rows."""
        connection.execute("SET session_replication_role = replica")  # neither history nor keys of users
        for table in CLEARED.split(","):
            connection.execute(f"DELETE FROM {table}".encode())
        with connection.cursor() as cursor, connection.transaction():
            self.tables["outbox"].sort(key=lambda row: row["created_at"])  # its numbers rise with time
            for table, rows in self.tables.items():
                names = sorted({name for row in rows for name in row})
                statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
                    sql.Identifier(table),
                    sql.SQL(",").join(map(sql.Identifier, names)),
                    sql.SQL(",").join(sql.Placeholder() for _ in names),
                )
                cursor.executemany(statement, [[row.get(name) for name in names] for row in rows])
        connection.execute("RESET session_replication_role")


KEYS = {
    "task": "task_id",
    "task_event": "task_id, sequence",
    "task_node": "node_id",
    "node_history": "node_id, version",
    "node_dependency": "node_id, depends_on_id",
    "node_token": "token_id",
    "artefact": "artefact_id",
    "points_hold": "hold_id",
    "points_hold_lot": "hold_id, lot_id",
    "points_lot": "lot_id",
    "webhook": "webhook_id",
    "webhook_delivery": "delivery_id",
    "pay_alert": "alert_key",
    "upload": "input_id",
    "session": "session_id",
    "login_event": "login_id",
    "login_failure": "subject",
    "idempotency_key": "idempotency_key",
    "outbox": "aggregate",
    "audit_log": "audit_id",
    "pay_order": "order_id",
    "pay_refund": "refund_id",
    "pay_transaction": "mchid, transaction_id",
    "generation": "generation_id",
    "generation_allowance": "user_id",
    "text_usage": "model_id",
    "job_change": "job_id, version",
    "job_fire_note": "job_id",
}


def present(connection: psycopg.Connection[Any]) -> dict[str, set[Any]]:
    found = {}
    for table, columns in KEYS.items():
        rows = connection.execute(f"SELECT {columns} FROM {table}".encode()).fetchall()
        found[table] = {row[0] if len(row) == 1 else row for row in rows}
    return found
