"""Each fault of a provider, through the real client and router: the event, the state, the points, the guards."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from artiway.audit.repository import AuditLog
from artiway.circuits.model import Rules
from artiway.circuits.repository import PostgresCircuits
from artiway.circuits.service import CircuitService
from artiway.generations import settings
from artiway.generations.feed.model import Name, UsageSource
from artiway.generations.model import FailureCode as GenerationFailure
from artiway.generations.model import Status
from artiway.generations.providers.model import FailureCode, Limits
from artiway.generations.providers.outbound import ChatProvider, OperatorsClient
from artiway.generations.providers.protocol import MESSAGES
from artiway.generations.providers.quota import RedisQuota
from artiway.generations.providers.router import ProviderRouter
from artiway.generations.providers.routes import StoredRoutes
from artiway.generations.worker import TextWorker
from local.text_standin import TextStandin, words
from tests.integration.generations.texts import Texts

POINTS = 1_000
TOKENS = 12
LONG_S = 30
SHORT_S = 0.3
LIMITS = Limits(connect_s=10, first_byte_s=LONG_S, first_token_s=LONG_S, idle_s=LONG_S, total_s=60, tick_s=0.05)
CANARY = "canary-key-31cc"


class Faults:
    """Texts whose providers are scenes of the stand-in."""

    def __init__(self, texts: Texts, standin: TextStandin) -> None:
        self.texts, self._standin = texts, standin
        self.document, self.limits = "{}", LIMITS
        self.routed_to("healthy")
        circuits = CircuitService(
            PostgresCircuits(texts.service_database, AuditLog()), lambda: Rules(failures=100), mirror=lambda _pool: None
        )
        routes = StoredRoutes(lambda: self.document)
        self.router = ProviderRouter(routes, ChatProvider(OperatorsClient(routes)), circuits, RedisQuota(texts.valkey))
        self.who = texts.user(points=POINTS)

    def routed_to(self, *models: str, **provider: object) -> None:
        """Each model is a provider of its own, so that its circuit and minute are."""
        self.document = json.dumps(
            {
                "providers": [
                    {
                        "name": f"p{place}",
                        "baseUrl": self._standin.base_url,
                        "apiKey": CANARY,
                        "models": [{"id": model, "inputPoints": 0, "outputPoints": 0}],
                        **provider,
                    }
                    for place, model in enumerate(models)
                ],
                "routes": {
                    "copywriting": {"paid": [f"p{place}/{model}" for place, model in enumerate(models)], "free": []}
                },
            }
        )

    def edit_provider(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the first provider of the document."""
        document = json.loads(self.document)
        change(document["providers"][0])
        self.document = json.dumps(document)

    def work(self, generation):
        """One claim of the lane, and the text after it."""
        texts = self.texts
        TextWorker(
            texts.workers,
            texts.lifecycle,
            texts.catalogue,
            self.router,
            texts.feed,
            texts.clock,
            pictures=texts.pictures,
            rules=lambda: settings.rules(texts.values),
            limits=lambda: settings.guard_limits(texts.values),
            phases=self.limits,
            worker_id="w1",
            cancel_check_s=0,
        ).serve_one("paid_stream")
        return texts.get(generation)

    def submit(self):
        return self.texts.submit(self.who, max_tokens=TOKENS)

    def held(self) -> int:
        """Texts that hold guards."""
        return self.texts.execute("SELECT count(*) AS n FROM generation WHERE status = 'RUNNING'")[0]["n"]

    def last_event(self, generation):
        return self.texts.events(generation)[-1]


@pytest.fixture(scope="module")
def standin() -> Iterator[TextStandin]:
    with TextStandin() as server:
        yield server


@pytest.fixture
def faults(texts, standin) -> Faults:
    return Faults(texts, standin)


# Before the first token: no second attempt can help.
FATAL = {
    "status_401": FailureCode.KEY,
    "status_403": FailureCode.KEY,
    "status_400": FailureCode.REFUSED,
    "status_413": FailureCode.REFUSED,
    "declined": FailureCode.REFUSED,
}
# Before the first token: another attempt may help.
RETRIED = {
    "status_500": FailureCode.ERROR,
    "error_in_json": FailureCode.ERROR,
    "html_page": FailureCode.ANSWER,
    "broken_utf8_whole": FailureCode.ANSWER,
    "half_whole_json": FailureCode.ANSWER,
    "closed_before_answer": FailureCode.ANSWER,
    "status_504": FailureCode.TIMEOUT,
}
WAITING = {"status_429": (FailureCode.BUSY, 7), "status_503": (FailureCode.AWAY, 2)}
# After tokens: the text so far stays.
BROKEN = {
    "error_after_text": (FailureCode.ERROR, words(3)),
    "broken_utf8": (FailureCode.ANSWER, ["A "]),
    "half_json": (FailureCode.ANSWER, ["A "]),
    "closed_in_text": (FailureCode.ANSWER, words(3)),
    "reset_in_text": (FailureCode.ANSWER, words(3)),
}
SLOW = {
    "silent": ("first_byte_s", ""),
    "endless_keep_alives": ("first_token_s", ""),
    "stall_after_text": ("idle_s", "".join(words(3))),
    "keep_alives_after_text": ("idle_s", "".join(words(3))),
}


def assert_failed(faults, generation, code):
    ended = faults.texts.get(generation)
    assert (ended.status, ended.error.code) == (Status.FAILED, code)
    assert faults.texts.balance(faults.who) == (POINTS, 0)  # a text that failed costs nothing
    assert faults.held() == 0
    last = faults.last_event(generation)
    assert (last.name, last.body["code"]) == (Name.ERROR, code)
    assert sum(entry.name in (Name.DONE, Name.ERROR, Name.CANCELLED) for entry in faults.texts.events(generation)) == 1
    assert CANARY not in json.dumps([entry.body for entry in faults.texts.events(generation)]) + str(ended)
    return ended


@pytest.mark.parametrize("model", FATAL)
def test_refused_text_fails_and_costs_nothing(faults, model):
    faults.routed_to(model)
    generation = faults.submit()
    faults.work(generation)
    assert_failed(faults, generation, FATAL[model])


def test_provider_with_empty_key_fails_at_once(faults, standin):
    before = len(standin.requests)
    faults.routed_to("healthy", apiKey="")
    generation = faults.submit()
    faults.work(generation)
    assert_failed(faults, generation, FailureCode.KEY)
    assert len(standin.requests) == before


def test_hosted_provider_without_key_is_never_called(faults):
    """By https, at a listening port that nobody may connect to."""
    with socket.create_server(("127.0.0.1", 0)) as hosted:
        hosted.setblocking(False)
        faults.routed_to("healthy", baseUrl=f"https://127.0.0.1:{hosted.getsockname()[1]}/v1")
        faults.edit_provider(lambda provider: provider.pop("apiKey"))
        generation = faults.submit()
        assert faults.texts.balance(faults.who)[1] > 0
        faults.work(generation)
        with pytest.raises(BlockingIOError):
            hosted.accept()
    ended = assert_failed(faults, generation, FailureCode.KEY)
    assert (ended.attempt, ended.text, ended.charged_points) == (1, "", 0)


def test_next_provider_writes_without_the_keyless_one(faults):
    faults.routed_to("healthy", "healthy")
    faults.edit_provider(lambda provider: provider.update(baseUrl="https://keyless.invalid/v1", apiKey=""))
    generation = faults.submit()
    ended = faults.work(generation)
    assert (ended.status, ended.provider) == (Status.COMPLETED, "p1")


def test_service_without_route_fails_at_once(faults):
    generation = faults.submit()
    faults.document = "{}"
    faults.work(generation)
    assert_failed(faults, generation, FailureCode.NO_ROUTE)


@pytest.mark.parametrize("model", RETRIED)
def test_failed_text_is_tried_three_times(faults, model):
    faults.routed_to(model)
    generation = faults.submit()
    states = []
    for _ in range(3):
        states.append(faults.work(generation).status)
        assert faults.held() == 0
        faults.texts.pass_time(60)
    assert states == [Status.QUEUED, Status.QUEUED, Status.FAILED]
    assert_failed(faults, generation, RETRIED[model])


@pytest.mark.parametrize("model", RETRIED)
def test_next_attempt_writes_whole_text(faults, model):
    faults.routed_to(model)
    generation = faults.submit()
    faults.work(generation)
    faults.routed_to("healthy")
    faults.texts.pass_time(60)
    ended = faults.work(generation)
    assert (ended.status, ended.text) == (Status.COMPLETED, "".join(words(TOKENS)))
    assert faults.texts.read(generation) == ended.text


@pytest.mark.parametrize("model", WAITING)
def test_busy_provider_lets_text_wait(faults, model):
    code, retry_after_s = WAITING[model]
    faults.routed_to(model)
    generation = faults.submit()
    for _ in range(4):  # more often than a text is tried: to wait is no attempt
        assert faults.work(generation).status is Status.QUEUED
        assert faults.held() == 0
        last = faults.last_event(generation)
        assert last.name is Name.BACKPRESSURE
        assert last.body["retryAfterSeconds"] == retry_after_s
        faults.texts.pass_time(10)
    faults.texts.pass_time(600)
    faults.work(generation)
    ended = assert_failed(faults, generation, GenerationFailure.WAITED_TOO_LONG)
    assert ended.error.message.endswith(MESSAGES[code])


def test_text_waits_for_a_valid_document(faults):
    generation = faults.submit()
    faults.document = "{not json"
    assert faults.work(generation).status is Status.QUEUED
    assert faults.held() == 0
    faults.routed_to("healthy")
    faults.texts.pass_time(120)
    assert faults.work(generation).status is Status.COMPLETED


@pytest.mark.parametrize("model", BROKEN)
def test_broken_text_is_kept_and_costs_nothing(faults, model):
    code, pieces = BROKEN[model]
    faults.routed_to(model)
    generation = faults.submit()
    faults.work(generation)
    ended = assert_failed(faults, generation, code)
    assert ended.text == faults.texts.read(generation) == "".join(pieces)
    assert ended.usage_source is UsageSource.ESTIMATED


@pytest.mark.parametrize("model", SLOW)
def test_slow_provider_ends_in_time_out(faults, standin, model):
    phase, text = SLOW[model]
    faults.routed_to(model)
    faults.limits = Limits(**{**vars(LIMITS), phase: SHORT_S})
    faults.texts.values.set(settings.ATTEMPTS, 1)
    generation = faults.submit()
    faults.work(generation)
    assert assert_failed(faults, generation, FailureCode.TIMEOUT).text == text
    assert standin.wait_until_left(model)


@pytest.mark.parametrize("model", ["status_500", "status_429", "silent", "status_401"])
def test_second_provider_writes_before_first_token(faults, model):
    faults.routed_to(model, "healthy")
    faults.limits = Limits(**{**vars(LIMITS), "first_byte_s": SHORT_S if model == "silent" else LONG_S})
    generation = faults.submit()
    ended = faults.work(generation)
    assert (ended.status, ended.provider, ended.text) == (Status.COMPLETED, "p1", "".join(words(TOKENS)))
    assert (ended.usage.output_tokens, ended.usage_source) == (TOKENS, UsageSource.PROVIDER)
    assert faults.texts.read(generation) == ended.text
    assert faults.held() == 0


def test_second_provider_does_not_finish_anothers_text(faults):
    faults.routed_to("error_after_text", "healthy")
    generation = faults.submit()
    ended = faults.work(generation)
    assert (ended.status, ended.text) == (Status.FAILED, "".join(words(3)))


def test_used_up_minute_lets_text_wait(faults):
    faults.routed_to("healthy", requestsPerMinute=1)
    first, second = faults.submit(), faults.submit()
    assert faults.work(first).status is Status.COMPLETED
    assert faults.work(second).status is Status.QUEUED
    assert faults.last_event(second).name is Name.BACKPRESSURE


@pytest.mark.parametrize(
    "model", ["utf8_split", "no_usage", "thoughts", "duplicate_finish", "no_end_mark", "surrogates", "json_for_stream"]
)
def test_odd_answer_completes(faults, model):
    faults.routed_to(model)
    generation = faults.submit()
    ended = faults.work(generation)
    assert ended.status is Status.COMPLETED
    assert faults.texts.read(generation) == ended.text != ""
    assert faults.last_event(generation).name is Name.DONE
    assert faults.texts.balance(faults.who) == (POINTS - ended.charged_points, 0)
