"""Texts of pictures and chains of two stages: lanes, holds, bills, and every point where a worker can end."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from artiway.errors import Unavailable
from artiway.generations import settings
from artiway.generations.feed.model import Name, UsageSource
from artiway.generations.model import (
    FailureCode,
    Generation,
    GenerationFilter,
    InvalidGeneration,
    LaneFull,
    Requester,
    Status,
)
from artiway.generations.ports import PictureUnreadable
from artiway.generations.providers.model import FailureCode as ProviderFailure
from artiway.generations.providers.model import Finish, FinishReason, ProviderFailed, Text, Usage
from artiway.points.model import InsufficientPoints
from tests.fakes.router import ScriptedRouter, whole
from tests.integration.generations.texts import Texts

SEEN = {"tags": ["square"], "colours": ["red"], "text": "PURE COTTON"}
SEEN_USAGE, COPY_USAGE = Usage(900, 40), Usage(200, 100)
POINTS = 1_000


class Crash(BaseException):
    """The process of a worker ends."""


def crash() -> None:
    raise Crash


def answer() -> list:
    return whole(json.dumps(SEEN), usage=SEEN_USAGE)


def copy(*pieces: str) -> list:
    return whole(*(pieces or ("Red ", "dress.")), usage=COPY_USAGE)


def submit(texts: Texts, who, service: str = "listing", **more) -> Generation:
    return texts.submit(who, **{"service": service, "input": {"inputId": f"inp_{uuid4().hex}"}, **more})


def see(texts: Texts, *script) -> None:
    """One claim in the lane of pictures."""
    texts.router = ScriptedRouter(list(script) or answer())
    texts.work("paid_vision")


def write(texts: Texts, *script) -> None:
    texts.router = ScriptedRouter(list(script) or copy())
    texts.work("paid_stream")


@pytest.fixture
def who(texts):
    return texts.user(points=POINTS)


def test_picture_is_sent_with_schema_and_described(texts, who):
    made = submit(texts, who, "image_tags")
    assert (made.lane, made.shown_status, made.stages) == ("paid_vision", Status.QUEUED, ())
    see(texts)
    prompt = texts.router.prompts[0]
    assert prompt.messages[1].images == ("data:image/jpeg;base64,/9j/",)
    assert not prompt.messages[0].images
    assert prompt.json_schema["required"] == ["tags", "colours", "text"]
    ended = texts.get(made)
    assert (ended.status, ended.result, ended.text) == (Status.COMPLETED, SEEN, json.dumps(SEEN))
    # 900 × 1 + 40 × 4 points for 1,000 tokens
    assert (ended.charged_points, texts.balance(who)) == (2, (POINTS - 2, 0))


def test_hold_covers_both_stages_and_one_bill_settles(texts, who):
    made = submit(texts, who, max_tokens=400)
    worst = made.chain.reserved_tokens
    assert (made.lane, made.chain.lane, made.shown_status) == ("paid_vision", "paid_stream", Status.PENDING_OCR)
    assert worst == made.input_tokens + made.max_tokens + made.chain.input_tokens + 400
    read, written = made.input_tokens + made.chain.input_tokens, made.max_tokens + 400
    held = made.price.input * read + made.price.output * written
    assert made.price_points == -(-held // 1_000)
    assert texts.balance(who) == (POINTS - made.price_points, made.price_points)
    see(texts)
    between = texts.get(made)
    assert (between.status, between.shown_status, between.lane) == (Status.QUEUED, Status.QUEUED, "paid_stream")
    assert [stage.status for stage in between.stages] == [Status.COMPLETED, Status.QUEUED]
    assert texts.balance(who) == (POINTS - made.price_points, made.price_points)
    assert texts.sent[-1].destination == "lane:paid_stream"
    write(texts)
    assert "text: PURE COTTON" in texts.router.prompts[0].messages[1].text
    assert not texts.router.prompts[0].messages[1].images
    ended = texts.get(made)
    assert (ended.status, ended.text, ended.usage_source) == (Status.COMPLETED, "Red dress.", UsageSource.PROVIDER)
    assert (ended.usage.input_tokens, ended.usage.output_tokens) == (1_100, 140)
    assert (ended.charged_points, texts.balance(who)) == (2, (POINTS - 2, 0))  # 1,660 thousandths, rounded up once
    assert texts.events(made)[-1].body["points"] == 2
    names = texts.names(made)
    assert names[:3] == [Name.START, Name.INFO, Name.START]
    assert Name.RESTART not in names  # there was no text to drop
    assert (names.count(Name.DONE), texts.read(made)) == (1, "Red dress.")


def test_free_chain_returns_what_both_stages_left(texts):
    texts.values.set(settings.FREE_TOKENS, 5_000)
    who = texts.user()
    made = submit(texts, who)
    assert (made.lane, made.chain.lane, made.is_free) == ("free_vision", "free_stream", True)

    def used() -> int:
        return texts.execute("SELECT tokens FROM generation_allowance WHERE user_id = %s", [who[1]])[0]["tokens"]

    assert used() == made.chain.reserved_tokens
    texts.router = ScriptedRouter(answer())
    texts.work("free_vision")
    assert used() == made.chain.reserved_tokens
    texts.router = ScriptedRouter(copy())
    texts.work("free_stream")
    assert (texts.get(made).status, used()) == (Status.COMPLETED, 900 + 40 + 200 + 100)


def test_allowance_must_cover_both_stages(texts):
    texts.values.set(settings.FREE_TOKENS, 2_000)  # enough for either stage alone
    with pytest.raises(InsufficientPoints) as refused:
        submit(texts, texts.user(), max_tokens=100)
    assert refused.value.details["wantedTokens"] > 2_000


UNREADABLE = {
    "broken": (PictureUnreadable("it is broken or incomplete"), FailureCode.PICTURE),
    "refused": (None, ProviderFailure.REFUSED),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_second_stage_fails_with_the_first(texts, who, case):
    fault, code = UNREADABLE[case]
    made = submit(texts, who)
    texts.pictures.fault = fault
    see(texts, ProviderFailed(ProviderFailure.REFUSED, "the provider does not accept the request"))
    ended = texts.get(made)
    assert (ended.status, ended.error.code, ended.charged_points) == (Status.FAILED, code, 0)
    assert ended.error.message.startswith("image_tags failed: ")
    assert [(stage.service, stage.status) for stage in ended.stages] == [
        ("image_tags", Status.FAILED),
        ("listing", Status.FAILED),
    ]
    assert {stage.error.code for stage in ended.stages} == {code}
    assert texts.balance(who) == (POINTS, 0)
    assert texts.events(made)[-1].body["code"] == code
    texts.pictures.fault = None
    assert texts.work("paid_stream") is None


def test_answer_of_another_schema_is_tried_again(texts, who):
    made = submit(texts, who)
    for _ in range(3):
        see(texts, *whole('{"tags": "red"}'))
        texts.pass_time(60)
    ended = texts.get(made)
    assert (ended.status, ended.error.code) == (Status.FAILED, ProviderFailure.ANSWER)
    assert texts.balance(who) == (POINTS, 0)


def test_failed_copy_is_free_and_keeps_findings(texts, who):
    made = submit(texts, who)
    see(texts)
    write(texts, Text("Red "), ProviderFailed(ProviderFailure.ERROR, "failed", is_billable=True))
    ended = texts.get(made)
    assert (ended.status, ended.charged_points) == (Status.FAILED, 0)
    assert [stage.status for stage in ended.stages] == [Status.COMPLETED, Status.FAILED]
    assert not ended.error.message.startswith("image_tags")
    assert texts.balance(who) == (POINTS, 0)


def test_picture_that_cannot_be_fetched_lets_chain_wait(texts, who):
    made = submit(texts, who)
    texts.pictures.fault = Unavailable("away", retry_after_s=5)
    see(texts)
    assert texts.get(made).shown_status is Status.PENDING_OCR
    texts.pictures.fault = None
    texts.pass_time(60)
    see(texts)
    assert texts.get(made).chain.found is not None


def test_cancel_before_the_tags_costs_nothing(texts, who):
    made = submit(texts, who)
    assert texts.cancel(made).status is Status.CANCELLED
    assert texts.balance(who) == (POINTS, 0)


def test_cancel_while_picture_is_read_costs_nothing(texts, who):
    made = submit(texts, who)

    def cancel() -> None:
        texts.cancel(made)

    see(texts, Text(json.dumps(SEEN)), cancel, Finish(FinishReason.STOP, SEEN_USAGE))
    ended = texts.get(made)
    assert (ended.status, ended.charged_points, ended.chain.found) == (Status.CANCELLED, 0, None)
    assert texts.balance(who) == (POINTS, 0)


def test_cancel_between_stages_charges_what_was_read(texts, who):
    made = submit(texts, who)
    see(texts)
    ended = texts.cancel(made)
    assert (ended.status, ended.charged_points, ended.text) == (Status.CANCELLED, 2, "")
    assert texts.balance(who) == (POINTS - 2, 0)


def test_cancel_in_copy_charges_both_stages(texts, who):
    made = submit(texts, who)
    see(texts)

    def cancel() -> None:
        texts.cancel(made)

    write(texts, Text("Red " * 500), cancel, Text("never"), Finish(FinishReason.STOP))
    ended = texts.get(made)
    assert (ended.status, ended.usage_source) == (Status.CANCELLED, UsageSource.ESTIMATED)
    assert ended.usage.output_tokens == 40 + 500
    assert ended.charged_points == min(ended.price_points, ended.price.points(ended.usage)) > 2
    assert texts.balance(who) == (POINTS - ended.charged_points, 0)


# --- a worker ends at each point of the chain


def test_worker_lost_while_picture_is_read(texts, who):
    made = submit(texts, who)
    with pytest.raises(Crash):
        see(texts, Text("{"), crash)
    assert texts.get(made).status is Status.RUNNING
    texts.pass_time(31)
    texts.sweeps.leases()
    waiting = texts.get(made)
    assert (waiting.lane, waiting.failures, waiting.chain.found) == ("paid_vision", 1, None)
    see(texts)
    write(texts)
    assert (texts.get(made).charged_points, texts.read(made)) == (2, "Red dress.")


def test_worker_lost_before_the_change_of_stage(texts, who, monkeypatch):
    made = submit(texts, who)
    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr(texts.lifecycle, "advance", lambda *_args, **_more: crash())
        see(texts)
    texts.pass_time(31)
    texts.sweeps.leases()
    see(texts)
    write(texts)
    assert (texts.get(made).status, texts.get(made).charged_points) == (Status.COMPLETED, 2)


def test_rolled_back_change_of_stage_is_repeated(texts, who, monkeypatch):
    """The process ends inside the transaction: neither the stage nor its message is there."""
    from artiway.generations.repository import PostgresGenerationTransaction

    made = submit(texts, who)
    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr(PostgresGenerationTransaction, "correct_share", lambda *_args, **_more: crash())
        see(texts)
    assert (texts.get(made).lane, texts.get(made).chain.found) == ("paid_vision", None)
    assert [one.destination for one in texts.sent] == ["lane:paid_vision"]
    texts.pass_time(31)
    texts.sweeps.leases()
    see(texts)
    write(texts)
    assert (texts.get(made).status, texts.get(made).charged_points) == (Status.COMPLETED, 2)


def test_lost_message_of_second_stage_is_sent_again(texts, who):
    made = submit(texts, who)
    see(texts)
    texts.sent.clear()
    texts.pass_time(31)
    texts.sweeps.messages()
    assert [one.destination for one in texts.sent] == ["lane:paid_stream"]
    write(texts)
    assert texts.get(made).status is Status.COMPLETED


def test_worker_lost_in_copy_leaves_first_stage_done(texts, who):
    made = submit(texts, who)
    see(texts)
    with pytest.raises(Crash):
        write(texts, Text("Blue "), crash)
    texts.pass_time(31)
    texts.sweeps.leases()
    waiting = texts.get(made)
    assert (waiting.lane, waiting.failures) == ("paid_stream", 1)
    assert texts.work("paid_vision") is None  # the picture is not read again
    write(texts)
    ended = texts.get(made)
    assert (ended.text, ended.charged_points, texts.read(made)) == ("Red dress.", 2, "Red dress.")


def test_late_first_stage_changes_nothing(texts, who):
    """A worker that was lost comes back after another has read the picture."""
    made = submit(texts, who)
    late = texts.claim("paid_vision")
    texts.pass_time(31)
    texts.sweeps.leases()
    see(texts)
    before = texts.get(made)
    assert texts.lifecycle.advance(late, before.chain.found, input_tokens=9) is None
    assert texts.get(made) == before


def test_lost_workers_fail_the_chain(texts, who):
    made = submit(texts, who)
    for _ in range(3):
        assert isinstance(texts.claim("paid_vision"), Generation)
        texts.pass_time(31)
        texts.sweeps.leases()
    ended = texts.get(made)
    assert (ended.status, ended.error.code) == (Status.FAILED, FailureCode.WORKER_LOST)
    assert ended.error.message == "image_tags failed: the worker was lost"
    assert texts.balance(who) == (POINTS, 0)


# --- requests


@pytest.mark.parametrize(
    ("service", "given"),
    [
        ("image_tags", {}),
        ("image_tags", {"text": "a dress"}),
        ("image_tags", {"inputId": "inp_1", "text": "a dress"}),
        ("listing", {"text": "a dress"}),
        ("copywriting", {"text": "a dress", "inputId": "inp_1"}),
    ],
)
def test_wrong_inputs_are_refused(texts, who, service, given):
    with pytest.raises(InvalidGeneration):
        texts.submit(who, service=service, input=given)
    assert texts.balance(who) == (POINTS, 0)


@pytest.mark.parametrize("lane", ["paid_vision", "paid_stream"])
def test_full_lane_of_either_stage_refuses(texts, who, lane):
    texts.change_lane(lane, depth_limit=0)
    with pytest.raises(LaneFull):
        submit(texts, who)
    assert texts.balance(who) == (POINTS, 0)


def test_lists_find_chains_by_their_shown_status(texts, who):
    reading, ready = submit(texts, who), submit(texts, who)

    def found(status: Status) -> set:
        wanted = GenerationFilter(status=status)
        rows = texts.service.list(tenant_id=who[0], wanted=wanted, before=None, limit=10)
        return {one.generation_id for one in rows}

    assert found(Status.PENDING_OCR) == {reading.generation_id, ready.generation_id}
    see(texts)
    assert found(Status.PENDING_OCR) == {ready.generation_id}
    assert found(Status.QUEUED) == {reading.generation_id}
    texts.cancel(ready)
    assert found(Status.PENDING_OCR) == set()


def test_retry_of_failed_chain_begins_with_picture(texts, who):
    made = submit(texts, who, max_tokens=77)
    see(texts, ProviderFailed(ProviderFailure.REFUSED, "no"))
    requester = Requester(who[1], may_manage=False)
    again = texts.service.retry(tenant_id=who[0], generation_id=made.generation_id, requester=requester)
    assert (again.lane, again.chain.max_tokens, again.input) == ("paid_vision", 77, made.input)


def test_facts_are_cut_to_what_was_held(texts, who):
    made = submit(texts, who)
    long = {**SEEN, "text": "净" * 4_000}
    see(texts, *whole(json.dumps(long, ensure_ascii=False), usage=SEEN_USAGE))
    later = texts.get(made)
    assert later.chain.found is not None
    assert later.input_tokens <= later.chain.input_tokens
