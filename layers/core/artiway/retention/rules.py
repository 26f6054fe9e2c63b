"""Which rows leave, and after which time."""

from __future__ import annotations

from artiway.idempotency.model import KEEP_HOURS
from artiway.retention import settings
from artiway.retention.model import HOUR, Rule

FLAT, GROUPED = 5_000, 200
# A task is purged in three steps, so no step may wait longer than the next.
RULES = (
    Rule("task_events", (settings.EVENT_DAYS, settings.HISTORY_DAYS, settings.TASK_DAYS), GROUPED),
    Rule("node_history", (settings.HISTORY_DAYS, settings.TASK_DAYS), GROUPED),
    Rule("tasks", (settings.TASK_DAYS,), GROUPED, is_resumed=True),
    Rule("generations", (settings.TASK_DAYS,), FLAT),
    Rule("allowances", (settings.TOKEN_DAYS,), FLAT),
    Rule("text_usage", (settings.USAGE_DAYS,), FLAT),
    Rule("node_tokens", (settings.TOKEN_DAYS,), FLAT),
    Rule("webhook_deliveries", (settings.DELIVERY_DAYS,), FLAT),
    Rule("webhooks", (settings.DELIVERY_DAYS,), FLAT, is_resumed=True),
    Rule("payment_alerts", (settings.ALERT_DAYS,), FLAT),
    Rule("uploads", (settings.UPLOAD_DAYS,), FLAT),
    Rule("expired_sessions", (settings.SESSION_DAYS,), FLAT),
    Rule("revoked_sessions", (settings.SESSION_DAYS,), FLAT),
    Rule("login_failures", (settings.SESSION_DAYS,), FLAT),
    Rule("logins", (settings.LOGIN_DAYS,), FLAT),
    Rule("password_resets", (settings.SESSION_DAYS,), FLAT),
    Rule("invitations", (settings.LOGIN_DAYS,), FLAT),
    Rule("idempotency_keys", (), FLAT, fixed=KEEP_HOURS * HOUR),
    Rule("outbox_events", (settings.OUTBOX_HOURS,), FLAT, unit=HOUR, is_resumed=True),
    Rule("audit_entries", (settings.AUDIT_DAYS,), FLAT),
    Rule("job_changes", (settings.JOB_NOTE_DAYS,), FLAT),
    Rule("job_notes", (settings.JOB_NOTE_DAYS,), FLAT),
    Rule("holds", (settings.HOLD_DAYS,), FLAT, is_resumed=True),
    Rule("lots", (settings.HOLD_DAYS,), FLAT, is_resumed=True),
    Rule("unpaid_orders", (settings.UNPAID_ORDER_DAYS,), GROUPED, is_resumed=True),
    Rule("paid_orders", (settings.ORDER_DAYS,), GROUPED, is_resumed=True),
)
