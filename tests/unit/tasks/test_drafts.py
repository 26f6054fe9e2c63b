"""Which steps are drafts, what they cost, and which results were made without a network."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import UUID, uuid4

import pytest

from artiway.settings.model import Defaults
from artiway.tasks import catalogue
from artiway.tasks.drafts import DRAFT_PERCENT, Drafts

CATALOGUE = catalogue.load()
NEEDED = {"cutout", "figure", "scene", "img2img", "derive", "extend", "erase", "repaint", "hd_fix", "upscale"}


class Clock:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time


class Percent(Defaults):
    def __init__(self, percent: int) -> None:
        self.percent = percent

    def get(self, setting):
        return self.percent if setting is DRAFT_PERCENT else super().get(setting)


def drafts(pools, *, percent=100, configured=(), clock=None):
    return Drafts(CATALOGUE, pools.get, Percent(percent), clock or Clock(), configured=configured, for_s=5)


def plan(tool, count=None):
    params = {"regions": [[0, 0, 0.5, 0.5]]} if tool == "erase" else {}
    return CATALOGUE.plan(tool, inputs={"product": uuid4()}, params=params, count=count, seed=1)


def test_steps_without_a_network_are_drafts():
    found = drafts({"gpu": frozenset({"cutout", "crop", "hd_fix", "upscale"})}).steps("gpu")
    assert found == NEEDED - {"cutout", "hd_fix", "upscale"}


def test_workers_that_serve_everything_leave_no_draft():
    assert drafts({"gpu": frozenset(NEEDED)}).steps("gpu") == frozenset()


def test_pool_without_workers_has_configured_steps():
    found = drafts({}, configured=["cutout", "scene"]).steps("gpu")
    assert found == NEEDED - {"cutout", "scene"}


def test_new_network_is_seen_after_a_moment():
    pools, clock = {"gpu": frozenset()}, Clock()
    service = drafts(pools, clock=clock)
    assert "cutout" in service.steps("gpu")
    pools["gpu"] = frozenset({"cutout"})
    clock.time += timedelta(seconds=6)
    assert "cutout" not in service.steps("gpu")


@pytest.mark.parametrize(("percent", "price"), [(100, 30), (50, 15), (33, 12), (1, 3)])
def test_draft_costs_its_percent_rounded_up(percent, price):
    priced = drafts({"gpu": frozenset({"cutout"})}, percent=percent).priced(plan("model_photo", 3), "gpu")
    assert (priced.is_draft, priced.price_points) == (True, price)


def test_full_price_where_every_step_is_served():
    priced = drafts({"gpu": frozenset({"cutout"})}, percent=10).priced(plan("cutout"), "gpu")
    assert (priced.is_draft, priced.price_points) == (False, 2)


def test_steps_that_need_no_network_are_never_drafts():
    assert not drafts({}, percent=10).priced(plan("style"), "gpu").is_draft


def node(name: str, step: str, engine: dict[str, object] | None, position: int) -> SimpleNamespace:
    return SimpleNamespace(node_id=UUID(int=position), name=name, step=step, engine=engine, position=position)


NETWORK, PREVIEW = {"isNeural": True}, {"isNeural": False}


@pytest.mark.parametrize(
    ("figure", "cut", "expected"),
    [
        (PREVIEW, NETWORK, {"model_1", "compose_1"}),
        (NETWORK, PREVIEW, {"cutout", "model_1", "compose_1"}),
        (NETWORK, NETWORK, set()),
        (None, NETWORK, set()),
    ],
)
def test_result_after_a_step_without_network_is_draft(figure, cut, expected):
    nodes = [
        node("cutout", "cutout", cut, 1),
        node("model_1", "figure", figure, 2),
        node("compose_1", "compose", PREVIEW, 3),
    ]
    edges = {UUID(int=2): [UUID(int=1)], UUID(int=3): [UUID(int=2)]}
    assert CATALOGUE.drafts_of(nodes, edges) == expected


def test_every_draft_step_says_what_it_can_do():
    for step in CATALOGUE.steps.values():
        assert set(step.draft) == ({"en", "zh"} if step.needs_network else set()), step.name
        assert all(text for text in step.draft.values())


def test_notes_are_those_of_the_draft_steps():
    steps = drafts({"gpu": frozenset({"cutout"})}).steps("gpu")
    notes = CATALOGUE.draft_notes(steps & CATALOGUE.tools["model_photo"].steps)
    assert [note["en"] for note in notes] == [CATALOGUE.steps["figure"].draft["en"]]
    assert CATALOGUE.draft_notes(steps & CATALOGUE.tools["style"].steps) == []
