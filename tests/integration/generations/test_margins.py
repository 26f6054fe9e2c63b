"""The margin report against the ledger, and against what a scripted provider counted itself."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest

from artiway.circuits.model import StoppedSteps
from artiway.errors import Refused
from artiway.generations import settings
from artiway.generations.margins.model import DIMENSIONS, Margin, MarginLine, margin_query
from artiway.generations.margins.repository import SQL, PostgresMargins
from artiway.generations.model import Failure, Generation, GenerationEnded, Status
from artiway.generations.ports import PictureUnreadable
from artiway.generations.providers.model import (
    FailureCode,
    Finish,
    FinishReason,
    Item,
    Limits,
    Prompt,
    ProviderFailed,
    Target,
    Text,
    Usage,
)
from artiway.generations.providers.protocol import failed
from artiway.generations.providers.router import ProviderRouter
from artiway.generations.providers.routes import Routes
from artiway.usage.model import LONGEST_DAYS
from tests.conftest import soaked
from tests.fakes.router import SECOND, ScriptedRouter, whole
from tests.integration.generations.texts import Texts

# Alpha counts every call, beta leaves out the usage of some and loses workers, gamma reads pictures.
ALPHA = Target("alpha", "http://alpha.test/v1", "small", Decimal("0.3"), Decimal("1.25"))
BETA = Target("beta", "http://beta.test/v1", "large", Decimal(2), Decimal("7.5"))
GAMMA = Target("gamma", "http://gamma.test/v1", "eyes", Decimal("0.125"), Decimal(1))
SEEN = {"tags": ["square"], "colours": ["red"], "text": "PURE COTTON"}
TITLE = {"title": "Red dress", "keywords": ["red"]}
LANES = [f"{tier}_{mode}" for tier in ("paid", "free") for mode in ("vision", "batch", "stream")]
TEXTS = 500
POINTS = 100_000


class Crash(BaseException):
    """The process of a worker ends."""


@dataclass
class Counted:
    """What a provider would send a bill for: the calls that it counted, and how many it did not."""

    calls: int = 0
    uncounted: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass
class ScriptedProvider:
    """Answers each call as chance decides, and counts by model what it used."""

    random: random.Random
    cancel: Callable[[], object] = lambda: None
    models: dict[str, Counted] = field(default_factory=lambda: defaultdict(Counted))
    endings: Counter[str] = field(default_factory=Counter)
    # Of the attempt that runs: models that failed before their first token, and so counted nothing.
    passed: list[str] = field(default_factory=list)

    def stream(
        self, target: Target, prompt: Prompt, _limits: Limits, is_cancelled: Callable[[], bool]
    ) -> Iterator[Item]:
        model = self.models[target.name]
        model.calls += 1
        ending = self._ending(target)
        self.endings[ending] += 1
        if ending in ("error", "busy", "refused"):
            code = {"error": FailureCode.ERROR, "busy": FailureCode.BUSY, "refused": FailureCode.REFUSED}[ending]
            self.passed.append(target.name)
            raise failed(target, code, "not now")
        yield from self._content(target, prompt, ending, is_cancelled)

    def _content(self, target: Target, prompt: Prompt, ending: str, is_cancelled: Callable[[], bool]) -> Iterator[Item]:
        usage = Usage(self.random.randint(20, 900), self.random.randint(1, 80))
        if ending == "crash":
            self.models[target.name].uncounted += 1
            yield Text("lost ")
            for name in self.passed:  # only the lost worker knew of them
                self.models[name].calls -= 1
            raise Crash
        if target is BETA and self.random.random() < 0.3:
            self.models[target.name].uncounted += 1
            reported = None
        else:
            reported = usage
            self.models[target.name].input_tokens += usage.input_tokens
            self.models[target.name].output_tokens += usage.output_tokens
        for piece in self._pieces(prompt, ending):
            if is_cancelled():
                yield Finish(FinishReason.CANCELLED, reported)
                return
            yield Text(piece)
            if ending == "cancel":
                self.cancel()
        if is_cancelled():
            yield Finish(FinishReason.CANCELLED, reported)
            return
        if ending == "broken":
            raise failed(target, FailureCode.ERROR, "broke off", is_billable=True, usage=reported)
        yield Finish(FinishReason.STOP, reported)

    def _pieces(self, prompt: Prompt, ending: str) -> list[str]:
        if prompt.json_schema is None:
            return ["Red ", "cotton ", "dress."]
        if ending == "odd":
            return ['{"tags": 1}']
        return [json.dumps(SEEN if "tags" in prompt.json_schema["required"] else TITLE)]

    def _ending(self, target: Target) -> str:
        endings = {"whole": 10, "error": 2, "busy": 1, "refused": 1, "broken": 1, "cancel": 3, "odd": 2}
        if target is BETA:
            endings["crash"] = 2
        return self.random.choices(list(endings), list(endings.values()))[0]


class NoCircuits:
    def stopped(self) -> StoppedSteps:
        return StoppedSteps(datetime.now(UTC))

    def record(self, attempts: object) -> None: ...


class NoQuota:
    def take(self, target: Target, tokens: int) -> int:
        return 0

    def give_back(self, target: Target, tokens: int) -> None: ...


class Shop:
    """Random texts of some users, until each of them has ended."""

    def __init__(self, texts: Texts, seed: int) -> None:
        self.texts, self.random = texts, random.Random(seed)
        self.provider = ScriptedProvider(self.random)
        routes = {"copywriting": (ALPHA, BETA), "title": (BETA, ALPHA), "image_tags": (GAMMA,), "listing": (BETA,)}
        by_service = {(name, is_paid): found for name, found in routes.items() for is_paid in (True, False)}
        document = Routes((ALPHA, BETA, GAMMA), by_service)
        texts.router = ProviderRouter(lambda: document, self.provider, NoCircuits(), NoQuota())
        texts.values.set(settings.FREE_TOKENS, 10**9)
        tenants = [uuid4() for _ in range(3)]
        self.users = [texts.user(points=POINTS, tenant_id=tenant) for tenant in tenants for _ in range(2)]

    def run(self, count: int) -> None:
        for _ in range(count // 10):
            made = [self._submit() for _ in range(10)]
            if self.random.random() < 0.5:
                self.texts.cancel(made[0])
            for _ in range(40):
                if not self._round():
                    break
            else:
                raise AssertionError("a text does not end")

    def _submit(self) -> Generation:
        service = self.random.choice(["copywriting", "copywriting", "title", "image_tags", "listing"])
        has_picture = service in ("image_tags", "listing")
        given = {"inputId": f"inp_{uuid4().hex}"} if has_picture else {"text": "a red dress"}
        is_paid = self.random.random() < 0.8
        return self.texts.submit(self.random.choice(self.users), service=service, input=given, is_paid=is_paid)

    def _round(self) -> bool:
        """Serve each lane until nothing can be claimed, then let time pass. False: all have ended."""
        for lane in LANES:
            while self._serve(lane):
                pass
        live = self.texts.pass_time(70)
        self.texts.sweeps.leases()
        self.texts.sweeps.cancels()
        return live > 0

    def _serve(self, lane: str) -> bool:
        self.texts.pictures.fault = PictureUnreadable("it is broken") if self.random.random() < 0.05 else None
        self.provider.cancel, self.provider.passed = self._cancel_running, []
        try:
            return isinstance(self.texts.work(lane), Generation)
        except Crash:
            return True

    def _cancel_running(self) -> None:
        """The text that is written now: the one with the newest lease."""
        query = (
            "SELECT tenant_id, generation_id FROM generation WHERE status = 'RUNNING' ORDER BY lease_until DESC LIMIT 1"
        )
        (row,) = self.texts.execute(query)
        try:
            self.texts.cancel(self.texts.service.get(**row))
        except GenerationEnded:  # pragma: no cover (the text runs)
            raise AssertionError from None


def report(texts: Texts, by: str, **more: Any) -> list[MarginLine]:
    today = datetime.now(UTC).date()
    query = margin_query(first=today - timedelta(days=3), last=None, today=today, by=by, **more)
    return PostgresMargins(texts.service_database).report(query).lines


def total(texts: Texts) -> Margin:
    (line,) = report(texts, "")
    return line.margin


def charged(texts: Texts) -> dict[tuple[UUID, UUID], int]:
    """By user, from the ledger alone."""
    rows = texts.execute(
        "SELECT tenant_id, user_id, -sum(balance_delta + frozen_delta)::bigint AS points FROM points_ledger"
        " WHERE kind = 'CONFIRM' AND reference LIKE 'generation:%%' GROUP BY 1, 2"
    )
    return {(row["tenant_id"], row["user_id"]): row["points"] for row in rows}


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(soaked(1)))
def test_report_agrees_with_ledger_and_providers(texts: Texts, seed: int) -> None:
    shop = Shop(texts, seed)
    shop.run(TEXTS // 2)
    first = sum(charged(texts).values())
    texts.execute("UPDATE text_usage SET day = day - 1")  # a night passes
    shop.run(TEXTS // 2)

    # Every ending came about, and every text is in the report once.
    assert set(shop.provider.endings) == {"whole", "error", "busy", "refused", "broken", "cancel", "odd", "crash"}
    ends = texts.execute("SELECT status, is_free, count(*) AS n FROM generation GROUP BY 1, 2")
    by_status: Counter[str] = Counter()
    for row in ends:
        by_status[row["status"]] += row["n"]
    found = total(texts)
    assert (found.completed, found.failed, found.cancelled) == tuple(
        by_status[status] for status in (Status.COMPLETED, Status.FAILED, Status.CANCELLED)
    )
    assert found.completed + found.failed + found.cancelled == TEXTS
    assert min(by_status.values()) > 20
    assert found.free_texts == sum(row["n"] for row in ends if row["is_free"]) > 0

    # The ledger.
    ledger = charged(texts)
    assert {(one.tenant_id, one.user_id): one.margin.charged_points for one in report(texts, "user")} == ledger
    assert found.charged_points == sum(ledger.values()) > 100
    assert [one.margin.charged_points for one in report(texts, "day")] == [first, found.charged_points - first]

    # The providers.
    lines = {one.model: one.margin for one in report(texts, "model") if one.model is not None}
    assert lines.keys() == shop.provider.models.keys() == {ALPHA.name, BETA.name, GAMMA.name}
    for name, counted in shop.provider.models.items():
        line = lines[name]
        assert (line.calls, line.estimated_calls) == (counted.calls, counted.uncounted)
        read = line.input_tokens + line.output_tokens - line.estimated_tokens
        assert read == counted.input_tokens + counted.output_tokens
    for target in (ALPHA, GAMMA):  # they counted every call, so the cost is exact
        counted, line = shop.provider.models[target.name], lines[target.name]
        assert (line.input_tokens, line.output_tokens) == (counted.input_tokens, counted.output_tokens)
        cost = counted.input_tokens * target.input_points + counted.output_tokens * target.output_points
        assert line.cost_points == cost / 1_000
    assert shop.provider.models[BETA.name].uncounted > 20
    beta = lines[BETA.name]
    assert beta.cost_points == (2 * beta.input_tokens + Decimal("7.5") * beta.output_tokens) / 1_000

    # Whatever the groups, the sums are the same, and no user is left with held points.
    for by in ("day,model", "service", "tenant", "user", "day,model,service,tenant,user"):
        sums = [one.margin for one in report(texts, by)]
        assert sum(one.cost_points for one in sums) == found.cost_points
        assert sum(one.charged_points for one in sums) == found.charged_points
    assert all(texts.balance(who) == (POINTS - ledger.get(who, 0), 0) for who in shop.users)


def test_charge_of_chain_is_shared_by_its_models(texts: Texts) -> None:
    who = texts.user(points=1_000)
    texts.submit(who, service="listing", input={"inputId": f"inp_{uuid4().hex}"})
    texts.router = ScriptedRouter(whole(json.dumps(SEEN), usage=Usage(3_000, 500)), targets=[GAMMA])
    texts.work("paid_vision")
    texts.router = ScriptedRouter(whole("Red dress.", usage=Usage(1_000, 250)), targets=[ALPHA])
    texts.work("paid_stream")
    lines = {one.model: one.margin for one in report(texts, "model")}
    gamma, alpha = lines[GAMMA.name], lines[ALPHA.name]
    # 7,000 thousandths at the service's price, 5,000 of them by the picture; the hold was less.
    points = -texts.balance(who)[0] + 1_000
    assert gamma.charged_points == points * 5_000 // 7_000
    assert gamma.charged_points + alpha.charged_points == points
    assert (gamma.completed, alpha.completed) == (0, 1)
    assert (gamma.cost_points, alpha.cost_points) == (Decimal("0.875"), Decimal("0.6125"))


def test_unpaid_attempts_cost_us(texts: Texts) -> None:
    """A failed text is free for its user, and its provider is paid."""
    who = texts.user(points=1_000)
    broken = ProviderFailed(FailureCode.ERROR, "broke off", is_billable=True, usage=Usage(100, 10))
    texts.router = ScriptedRouter([Text("Red "), broken], targets=[ALPHA])
    texts.submit(who)
    texts.work()
    found = total(texts)
    assert (found.failed, found.charged_points, texts.balance(who)) == (1, 0, (1_000, 0))
    assert (found.cost_points, found.margin_points) == (Decimal("0.0425"), Decimal("-0.0425"))


def test_lost_attempt_is_counted_once(texts: Texts) -> None:
    who = texts.user(points=1_000)
    made = texts.submit(who)
    texts.router = ScriptedRouter(targets=[ALPHA])
    late = texts.claim()
    assert isinstance(late, Generation)
    texts.pass_time(31)
    texts.sweeps.leases()
    (line,) = report(texts, "model")
    assert (line.model, line.margin.calls, line.margin.estimated_calls) == (ALPHA.name, 1, 1)
    assert (line.margin.input_tokens, line.margin.output_tokens) == (made.input_tokens, 0)
    assert line.margin.cost_points == made.input_tokens * Decimal("0.3") / 1_000
    texts.work()
    # The worker that was lost comes back: its end changes nothing, and so its calls are not added.
    assert texts.lifecycle.put_back(late, texts.get(made).error or _failure(), is_counted=True) is None
    assert (total(texts).calls, total(texts).completed) == (2, 1)


def test_text_without_model_has_no_model(texts: Texts) -> None:
    texts.cancel(texts.submit(texts.user(points=1_000)))
    (line,) = report(texts, "model,service")
    assert (line.model, line.service, line.margin.cancelled, line.margin.calls) == (None, "copywriting", 1, 0)


def test_filters_and_names(texts: Texts) -> None:
    who, other = texts.user(points=1_000), texts.user(points=1_000)
    texts.submit(who)
    texts.submit(other, service="title", input={"text": "a dress"})
    texts.router = ScriptedRouter(whole("Red."), targets=[SECOND])
    texts.work()
    texts.router = ScriptedRouter(whole(json.dumps(TITLE)), targets=[ALPHA])
    texts.work("paid_batch")
    (mine,) = report(texts, "user", tenant_id=who[0])
    assert (mine.tenant_id, mine.user_id, mine.tenant_name, mine.email) == (*who, "a tenant", f"{who[1]}@x.test")
    assert [one.service for one in report(texts, "service", model=ALPHA.name)] == ["title"]
    assert [one.model for one in report(texts, "model", service="copywriting")] == [SECOND.name]


@pytest.mark.parametrize(
    ("field_name", "more"),
    [("groupBy", {"by": "day,provider"}), ("from", {"days": LONGEST_DAYS}), ("from", {"days": -1})],
)
def test_wrong_questions_are_refused(field_name: str, more: dict[str, Any]) -> None:
    today = datetime.now(UTC).date()
    first = today - timedelta(days=more.get("days", 1))
    with pytest.raises(Refused) as refused:
        margin_query(first=first, last=today, today=today, by=more.get("by", "day"))
    assert refused.value.details["fields"][0]["field"] == field_name


def test_report_reads_only_its_days(texts: Texts) -> None:
    """Two years of usage, of which a week is asked for."""
    tenant, user = texts.user()
    texts.execute(
        "INSERT INTO text_usage"
        " SELECT current_date - day, %s, %s, 'title', 'alpha', 'm' || model, 1, 0, 9, 9, 0, 1, 1, 0, 0, 0, 1"
        "   FROM generate_series(1, 730) AS day, generate_series(1, 30) AS model",
        [tenant, user],
    )
    texts.execute("ANALYZE text_usage")
    today = datetime.now(UTC).date()
    facts: dict[str, Any] = {f"by_{name}": name == "model" for name in DIMENSIONS}
    facts |= {"first": today - timedelta(days=6), "last": today, "limit": 10_001}
    facts |= {"tenant_id": None, "service": None, "model": None}
    with texts.service_database.service_transaction() as tx:
        (row,) = tx.all(b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + SQL["margins"], facts)
    scans = [node for node in _nodes(row["QUERY PLAN"][0]["Plan"]) if node.get("Relation Name") == "text_usage"]
    assert scans
    assert all("Scan" in node["Node Type"] and node["Node Type"] != "Seq Scan" for node in scans)
    assert sum(node["Actual Rows"] for node in scans) == 6 * 30


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", []) for node in _nodes(child))]


def _failure() -> Failure:
    return Failure("GEN_500_WORKER_LOST", "the worker was lost")
