"""The limit of a model that texts use: set by an operator, counted by the next claim."""

from __future__ import annotations

from uuid import uuid4

import pytest

from artiway.errors import NotFound
from artiway.generations import settings
from artiway.generations.model import Generation, TextModel
from artiway.generations.operations import TextModels
from artiway.generations.ports import Decision
from artiway.generations.steps.decide import decide
from tests.fakes.router import FIRST, SECOND, ScriptedRouter
from tests.integration.generations.texts import Texts


@pytest.fixture
def models(texts: Texts) -> TextModels:
    def wake() -> None:
        texts.workers.wake(lane=None, age_s=0, parallelism=10, limit=100)

    return TextModels(texts.workers, texts.lanes, wake=wake)


def known(texts: Texts) -> dict[str, TextModel]:
    return {model.wire_name: model for model in texts.workers.models()}


def test_workers_make_their_models_known(texts: Texts) -> None:
    assert texts.workers.models() == []
    texts.router = ScriptedRouter(targets=[FIRST, SECOND])
    assert texts.work("paid_stream") is None
    assert texts.work("free_stream") is None
    found = known(texts)
    assert list(found) == ["alpha:small", "beta:large"]
    assert "copywriting" in found["alpha:small"].services
    texts.router = ScriptedRouter(targets=[SECOND])  # the operator changed the document
    for lane in ("paid_stream", "free_stream"):
        texts.work(lane)
    assert list(known(texts)) == ["beta:large"]


def test_texts_beyond_a_limit_wait(texts: Texts, models: TextModels) -> None:
    who = texts.user(points=1_000)
    for _ in range(3):
        texts.submit(who)
    texts.workers.note_routes(decision(texts))
    texts.claim()
    limited = models.limit("alpha:small", 1, actor_id=uuid4())
    assert (limited.limit, limited.running) == (1, 1)
    assert not isinstance(texts.claim(), Generation)
    texts.sent.clear()
    assert models.limit("alpha:small", 2, actor_id=uuid4()).limit == 2
    assert texts.sent, "a higher limit sends wake-ups"
    assert isinstance(texts.claim(), Generation)
    assert not isinstance(texts.claim(), Generation)
    models.limit("alpha:small", None, actor_id=uuid4())
    assert isinstance(texts.claim(), Generation)


def test_limit_counts_both_tiers(texts: Texts, models: TextModels) -> None:
    texts.submit(texts.user(points=1_000))
    texts.submit(texts.user())
    texts.workers.note_routes(decision(texts))
    models.limit("alpha:small", 1, actor_id=uuid4())
    assert isinstance(texts.claim("free_stream"), Generation)
    assert not isinstance(texts.claim("paid_stream"), Generation)


def test_waiting_texts_count_for_their_first_model(texts: Texts) -> None:
    who = texts.user(points=1_000)
    texts.router = ScriptedRouter(targets=[FIRST, SECOND])
    texts.workers.note_routes(decision(texts))
    texts.submit(who)
    texts.submit(who)
    assert (known(texts)["alpha:small"].waiting, known(texts)["beta:large"].waiting) == (2, 0)
    texts.claim()
    assert (known(texts)["alpha:small"].waiting, known(texts)["alpha:small"].running) == (1, 1)


def test_unknown_model_of_texts_is_not_found(texts: Texts, models: TextModels) -> None:
    with pytest.raises(NotFound):
        models.limit("alpha:tiny", 1, actor_id=uuid4())


def decision(texts: Texts) -> Decision:
    return decide("paid_stream", texts.catalogue, texts.router, settings.guard_limits(texts.values))
