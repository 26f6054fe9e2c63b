"""Orders, WeChat Pay, daily bills."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.audit import audit
from artiway.bootstrap.live_settings import setting_values
from artiway.bootstrap.once import once
from artiway.bootstrap.points import points

if TYPE_CHECKING:
    from artiway.payments.alerts import Alerts
    from artiway.payments.callbacks import CallbackService
    from artiway.payments.credit import CreditService
    from artiway.payments.reconciliation import ReconciliationService
    from artiway.payments.repository import PostgresBills, PostgresOrders
    from artiway.payments.service import OrderService
    from artiway.payments.sweep import SweepService
    from artiway.payments.wechat import Merchant, WechatPay


@once
def merchant() -> Callable[[], Merchant]:
    """Read again every five minutes, so that keys rotate without a deployment."""
    from artiway.payments.wechat import merchant_from_json
    from artiway.platform.secrets import Secret

    secret = Secret(base.settings().wechat_pay_secret_arn)
    return lambda: merchant_from_json(secret.text())


@once
def wechat_pay() -> WechatPay:
    from artiway.payments.wechat import WechatPay

    return WechatPay(merchant(), base.clock())


@once
def alerts() -> Alerts:
    from artiway.payments.alerts import Alerts, SnsTopic

    return Alerts(base.service_database(), SnsTopic(base.settings().alarm_topic_arn), base.clock())


@once
def _orders() -> PostgresOrders:
    from artiway.payments.repository import PostgresOrders

    query_after_s = base.settings().order_query_after_s
    return PostgresOrders(base.database(), base.service_database(), alerts(), audit(), query_after_s=query_after_s)


@once
def _credit() -> CreditService:
    from artiway.payments.credit import CreditService

    ttl_s, wait_s = base.settings().order_lock_ttl_s, base.settings().order_lock_wait_s
    return CreditService(_orders(), points(), base.locks(), base.clock(), lock_ttl_s=ttl_s, lock_wait_s=wait_s)


@once
def orders() -> OrderService:
    from artiway.payments.packages import packages
    from artiway.payments.service import OrderService
    from artiway.payments.settings import open_limits

    return OrderService(
        _orders(),
        wechat_pay(),
        _credit(),
        points(),
        base.clock(),
        packages=packages(base.settings().packages),
        order_life_s=base.settings().order_life_s,
        expiry_grace_s=base.settings().order_grace_s,
        query_after_s=base.settings().order_query_after_s,
        poll_spacing_s=base.settings().order_poll_spacing_s,
        open_limits=lambda: open_limits(setting_values()),
    )


@once
def callbacks() -> CallbackService:
    from artiway.payments.callbacks import CallbackService
    from artiway.payments.wechat import NotificationReader

    return CallbackService(NotificationReader(merchant(), base.clock()), _credit(), _orders(), base.clock())


@once
def order_sweep() -> SweepService:
    from artiway.payments.sweep import SweepLimits, SweepService

    limits = SweepLimits(
        batch=base.settings().sweep_batch,
        concurrency=base.settings().sweep_concurrency,
        work_s=base.settings().sweep_work_s,
        interval_s=base.settings().order_query_after_s,
        lease_s=base.settings().sweep_lease_s,
    )
    return SweepService(_orders(), orders(), base.clock(), limits)


@once
def bills() -> PostgresBills:
    from artiway.payments.repository import PostgresBills

    return PostgresBills(base.service_database(), alerts())


@once
def reconciliation() -> ReconciliationService:
    from artiway.payments.reconciliation import ReconciliationService

    return ReconciliationService(
        wechat_pay(),
        bills(),
        _credit(),
        base.clock(),
        alarm_hour=base.settings().bill_alarm_hour,
        back_fill_days=base.settings().bill_back_fill_days,
    )
