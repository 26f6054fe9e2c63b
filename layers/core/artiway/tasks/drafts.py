"""Which steps are drafts: steps that need a network, in a pool whose workers serve them without one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from artiway.platform.clock import Clock
from artiway.settings.model import Setting, SettingValues
from artiway.tasks.catalogue import Catalogue
from artiway.tasks.model import Plan

DRAFT_PERCENT = Setting(
    "draft.percent",
    100,
    "Percent of its price that a draft costs, at least one point",
    minimum=1,
    maximum=100,
)


class Drafts:
    """Live workers report the steps that they serve with a network. A pool without one has the configured steps."""

    def __init__(
        self,
        catalogue: Catalogue,
        served: Callable[[str], frozenset[str] | None],
        values: SettingValues,
        clock: Clock,
        *,
        configured: Iterable[str],
        for_s: float,
    ) -> None:
        """`served` returns the steps with a network of a pool's live workers; None if it has no live worker."""
        self._steps = frozenset(step.name for step in catalogue.steps.values() if step.needs_network)
        self._served, self._values, self._clock = served, values, clock
        self._configured, self._for = frozenset(configured), timedelta(seconds=for_s)
        self._known: dict[str, tuple[datetime, frozenset[str]]] = {}

    def steps(self, pool: str) -> frozenset[str]:
        """The draft steps of a pool; may be seconds old."""
        now = self._clock.now()
        if pool not in self._known or self._known[pool][0] <= now:
            found = self._served(pool)
            served = self._configured if found is None else found
            self._known[pool] = (now + self._for, self._steps - served)
        return self._known[pool][1]

    def priced(self, plan: Plan, pool: str) -> Plan:
        """The plan, marked and priced as a draft if it is one."""
        drafts = self.steps(pool)
        if not any(node.step in drafts for node in plan.nodes):
            return plan
        percent = self._values.get(DRAFT_PERCENT)
        nodes = tuple(replace(node, price_points=-(-node.price_points * percent // 100)) for node in plan.nodes)
        return replace(plan, nodes=nodes, is_draft=True)
