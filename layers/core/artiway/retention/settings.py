"""How long finished rows stay. docs/retention.md has the reasons."""

from __future__ import annotations

from artiway.settings.model import Setting

TASK_DAYS = Setting(
    key="retention.task_days",
    default=180,
    minimum=30,
    maximum=3_650,
    description="Days after its end that a task stays, with its nodes; longer while it has a picture or an open hold",
)
HISTORY_DAYS = Setting(
    key="retention.history_days",
    default=90,
    minimum=7,
    maximum=3_650,
    description="Days after a task's end that the history of its nodes stays; the last row of a node stays with it",
)
EVENT_DAYS = Setting(
    key="retention.event_days",
    default=30,
    minimum=2,
    maximum=3_650,
    description="Days after a task's end that its events can be read again; the last event stays with the task",
)
TOKEN_DAYS = Setting(
    key="retention.token_days",
    default=7,
    minimum=1,
    maximum=90,
    description="Days after its answer that a task token of Step Functions stays",
)
USAGE_DAYS = Setting(
    key="retention.usage_days",
    default=730,
    minimum=120,
    maximum=3_650,
    description="Days that the daily usage of text models stays, from which margins are reported",
)
# SQS and its dead letters keep a message for 14 days. The row of a delivery makes a repeated message harmless.
DELIVERY_DAYS = Setting(
    key="retention.delivery_days",
    default=30,
    minimum=15,
    maximum=3_650,
    description="Days after its last attempt that a webhook delivery stays, and a webhook after it was deleted",
)
# A bill is compared for up to 90 days, and the row of an alert prevents a second alert for the same finding.
ALERT_DAYS = Setting(
    key="retention.alert_days",
    default=400,
    minimum=120,
    maximum=3_650,
    description="Days that a payment alert stays after it was sent",
)
UPLOAD_DAYS = Setting(
    key="retention.upload_days",
    default=30,
    minimum=1,
    maximum=3_650,
    description="Days that the row of an upload stays after its picture expired and was deleted",
)
SESSION_DAYS = Setting(
    key="retention.session_days",
    default=1,
    minimum=1,
    maximum=90,
    description="Days that an ended session stays with its refresh tokens, and a count of failed logins",
)
LOGIN_DAYS = Setting(
    key="retention.login_days",
    default=180,
    minimum=30,
    maximum=3_650,
    description="Days that the record of a login stays",
)
OUTBOX_HOURS = Setting(
    key="retention.outbox_hours",
    default=24,
    minimum=1,
    maximum=720,
    description="Hours that a sent event stays for sockets that reconnect",
)
# A row policy of the database refuses to delete younger entries.
AUDIT_DAYS = Setting(
    key="retention.audit_days",
    default=180,
    minimum=180,
    maximum=3_650,
    description="Days that an audit entry stays",
)
# Row policies of the database refuse to delete younger ones.
JOB_NOTE_DAYS = Setting(
    key="retention.job_note_days",
    default=180,
    minimum=30,
    maximum=3_650,
    description="Days that a replaced version of a job's schedule stays, and the note of a fire that made no run",
)
HOLD_DAYS = Setting(
    key="retention.hold_days",
    default=400,
    minimum=90,
    maximum=3_650,
    description="Days that an ended hold and a spent lot of points stay; longer while the task of the hold stays",
)
UNPAID_ORDER_DAYS = Setting(
    key="retention.unpaid_order_days",
    default=730,
    minimum=180,
    maximum=3_650,
    description="Days that an order stays that was closed without a payment",
)
ORDER_DAYS = Setting(
    key="retention.order_days",
    default=3_650,
    minimum=1_095,
    maximum=36_500,
    description="Days that a paid order stays with its payments and refunds; longer while one of them is open",
)
