"""The life of a text: accepted, claimed, written, settled; and every way in which it ends otherwise."""

from __future__ import annotations

import pytest

from artiway.generations import settings
from artiway.generations.feed.model import Name, UsageSource, sha256_of
from artiway.generations.model import (
    Cost,
    Failure,
    GenerationEnded,
    InvalidGeneration,
    LaneFull,
    LaneNotAllowed,
    NoSuchGeneration,
    NoSuchService,
    Outcome,
    PromptTooLarge,
    Refusal,
    Requester,
    Scope,
    Status,
    TenantQueueFull,
)
from artiway.generations.providers.model import FailureCode, Finish, FinishReason, ProviderFailed, Text, Usage
from artiway.points.model import InsufficientPoints
from tests.fakes.router import FIRST, SECOND, ScriptedRouter, whole

TEXT = "Red cotton dress."


class TestCompleted:
    def test_text_is_written_and_charged_once(self, texts):
        who = texts.user(points=100)
        accepted = texts.submit(who)
        assert (accepted.status, accepted.lane, accepted.is_free) == (Status.QUEUED, "paid_stream", False)
        assert texts.balance(who) == (100 - accepted.price_points, accepted.price_points)
        texts.work()
        done = texts.get(accepted)
        assert (done.status, done.text, done.usage_source) == (Status.COMPLETED, TEXT, UsageSource.PROVIDER)
        assert done.charged_points == 1  # 40 × 1 + 100 × 4 points per 1,000 tokens, rounded up
        assert texts.balance(who) == (99, 0)
        assert texts.work() is None

    def test_events_carry_lane_text_and_hash(self, texts):
        accepted = texts.submit(texts.user(points=100))
        texts.work()
        entries = texts.events(accepted)
        start, end = entries[0], entries[-1]
        assert (start.name, start.body["queueId"], start.body["provider"]) == (Name.START, "paid_stream", "alpha")
        assert texts.read(accepted) == TEXT
        assert (end.name, end.body["sha256"], end.body["points"]) == (Name.DONE, sha256_of(TEXT), 1)

    def test_missing_usage_is_estimated_and_marked(self, texts):
        texts.router = ScriptedRouter(whole(TEXT, usage=None))
        accepted = texts.submit(texts.user(points=100))
        texts.work()
        done = texts.get(accepted)
        assert done.usage_source is UsageSource.ESTIMATED
        assert done.usage.output_tokens == 5

    def test_charge_never_exceeds_the_hold(self, texts):
        texts.router = ScriptedRouter(whole(TEXT, usage=Usage(10**6, 10**6)))
        who = texts.user(points=100)
        accepted = texts.submit(who)
        texts.work()
        assert texts.get(accepted).charged_points == accepted.price_points
        assert texts.balance(who) == (100 - accepted.price_points, 0)

    def test_nothing_produced_is_nothing_charged(self, texts):
        texts.router = ScriptedRouter([Finish(FinishReason.STOP, Usage(40, 0))])
        who = texts.user(points=100)
        accepted = texts.submit(who)
        texts.work()
        assert texts.get(accepted).status is Status.COMPLETED
        assert texts.balance(who) == (100, 0)

    def test_text_without_nul_is_stored(self, texts):
        texts.router = ScriptedRouter(whole("a\x00b"))
        accepted = texts.submit(texts.user(points=100))
        texts.work()
        assert texts.get(accepted).text == texts.read(accepted) == "ab"


class TestRefused:
    def test_unknown_service(self, texts):
        with pytest.raises(NoSuchService):
            texts.submit(texts.user(points=100), service="poetry")

    @pytest.mark.parametrize("given", [{}, {"text": "  "}, {"text": "x", "inputId": "inp_1"}, {"text": "a\x00b"}])
    def test_input_that_is_no_text(self, texts, given):
        with pytest.raises(InvalidGeneration):
            texts.submit(texts.user(points=100), input=given)

    @pytest.mark.parametrize("params", [{"tone": "rude"}, {"colour": "red"}, {"tone": 1}])
    def test_parameter_that_is_not_declared(self, texts, params):
        with pytest.raises(InvalidGeneration):
            texts.submit(texts.user(points=100), params=params)

    def test_prompt_too_large_holds_nothing(self, texts):
        who = texts.user(points=100)
        with pytest.raises(PromptTooLarge):
            texts.submit(who, text="字" * 4_001)
        assert texts.balance(who) == (100, 0)

    def test_too_many_tokens_wanted(self, texts):
        with pytest.raises(InvalidGeneration):
            texts.submit(texts.user(points=100), max_tokens=2_049)

    def test_full_lane_holds_nothing(self, texts):
        texts.change_lane("paid_stream", depth_limit=1)
        who = texts.user(points=100)
        held = texts.submit(who).price_points
        with pytest.raises(LaneFull) as refused:
            texts.submit(who)
        assert refused.value.status == 429
        assert refused.value.retry_after_s > 0
        assert texts.balance(who) == (100 - held, held)

    def test_tenants_queue_depth_holds_nothing(self, texts):
        who = texts.user(points=100, tier="free")
        held = sum(texts.submit(who, max_tokens=10).price_points for _ in range(10))
        with pytest.raises(TenantQueueFull):
            texts.submit(who, max_tokens=10)
        assert texts.balance(who) == (100 - held, held)

    def test_another_tenants_text_is_unknown(self, texts):
        accepted = texts.submit(texts.user(points=100))
        stranger = texts.user(points=100)
        with pytest.raises(NoSuchGeneration):
            texts.service.get(tenant_id=stranger[0], generation_id=accepted.generation_id)
        with pytest.raises(NoSuchGeneration):
            texts.service.cancel(
                tenant_id=stranger[0],
                generation_id=accepted.generation_id,
                requester=Requester(stranger[1], may_manage=True),
            )


class TestLaneChoice:
    def test_points_pay_and_lead_to_paid_lane(self, texts):
        assert texts.submit(texts.user(points=100)).lane == "paid_stream"

    def test_without_points_allowance_serves_free_lane(self, texts):
        accepted = texts.submit(texts.user())
        assert (accepted.lane, accepted.is_free, accepted.price_points) == ("free_stream", True, 0)

    def test_used_up_allowance_is_402(self, texts):
        who = texts.user()
        for _ in range(3):
            texts.submit(who, max_tokens=500)
        with pytest.raises(InsufficientPoints) as refused:
            texts.submit(who, max_tokens=500)
        assert 0 < refused.value.details["freeTokens"] < 500

    def test_allowance_returns_on_next_day(self, texts):
        who = texts.user()
        texts.values.set(settings.FREE_TOKENS, 600)
        texts.submit(who, max_tokens=500)
        with pytest.raises(InsufficientPoints):
            texts.submit(who, max_tokens=500)
        texts.execute("UPDATE generation_allowance SET day = day - 1")
        assert texts.submit(who, max_tokens=500).is_free

    def test_unused_allowance_is_given_back(self, texts):
        who = texts.user()
        texts.submit(who, max_tokens=1_500)
        texts.work("free_stream")
        [row] = texts.execute("SELECT tokens FROM generation_allowance")
        assert row["tokens"] == 140

    def test_failed_free_text_uses_no_allowance(self, texts):
        texts.router = ScriptedRouter([ProviderFailed(FailureCode.KEY, "no key")])
        texts.submit(texts.user())
        texts.work("free_stream")
        [row] = texts.execute("SELECT tokens FROM generation_allowance")
        assert row["tokens"] == 0

    def test_allowance_is_a_live_setting(self, texts):
        texts.values.set(settings.FREE_TOKENS, 0)
        with pytest.raises(InsufficientPoints):
            texts.submit(texts.user())

    def test_paying_user_may_take_lower_lane(self, texts):
        assert texts.submit(texts.user(points=100), lane="free_stream").lane == "free_stream"

    def test_higher_lane_needs_permission(self, texts):
        who = texts.user()
        with pytest.raises(LaneNotAllowed):
            texts.submit(who, lane="paid_stream")
        assert texts.submit(who, lane="paid_stream", may_raise=True).lane == "paid_stream"

    @pytest.mark.parametrize("lane", ["paid_batch", "vip_short", "nowhere"])
    def test_lane_of_another_kind_is_refused(self, texts, lane):
        with pytest.raises(InvalidGeneration):
            texts.submit(texts.user(points=100), lane=lane)

    def test_paid_flag_without_points_is_402(self, texts):
        with pytest.raises(InsufficientPoints):
            texts.submit(texts.user(), is_paid=True)

    def test_flag_not_paid_uses_allowance(self, texts):
        who = texts.user(points=100)
        accepted = texts.submit(who, is_paid=False)
        assert (accepted.lane, accepted.is_free) == ("free_stream", True)
        assert texts.balance(who) == (100, 0)


class TestFailed:
    @pytest.mark.parametrize("code", [FailureCode.KEY, FailureCode.REFUSED, FailureCode.NO_ROUTE])
    def test_permanent_failure_releases_all_points(self, texts, code):
        texts.router = ScriptedRouter([ProviderFailed(code, "refused")])
        who = texts.user(points=100)
        accepted = texts.submit(who)
        texts.work()
        failed = texts.get(accepted)
        assert (failed.status, failed.error.code, failed.charged_points) == (Status.FAILED, code, 0)
        assert texts.balance(who) == (100, 0)
        assert texts.names(accepted)[-1] is Name.ERROR
        assert texts.running() == 0

    def test_service_without_route_fails(self, texts):
        texts.router = ScriptedRouter(targets=())
        accepted = texts.submit(texts.user(points=100))
        texts.work()
        assert texts.get(accepted).error.code == FailureCode.NO_ROUTE
        assert texts.names(accepted) == [Name.ERROR]

    @pytest.mark.parametrize("code", [FailureCode.ERROR, FailureCode.TIMEOUT, FailureCode.ANSWER])
    def test_failure_before_first_token_is_retried(self, texts, code):
        texts.router = ScriptedRouter([ProviderFailed(code, "broken")], whole(TEXT))
        accepted = texts.submit(texts.user(points=100))
        texts.work()
        waiting = texts.get(accepted)
        assert (waiting.status, waiting.failures) == (Status.QUEUED, 1)
        assert texts.work() == Refusal(Scope.DELAY)
        texts.pass_time(10)
        texts.work()
        assert texts.get(accepted).status is Status.COMPLETED
        assert texts.read(accepted) == TEXT
        assert texts.names(accepted).count(Name.RESTART) == 1

    def test_attempts_are_limited(self, texts):
        texts.router = ScriptedRouter([ProviderFailed(FailureCode.ERROR, "broken")])
        who = texts.user(points=100)
        accepted = texts.submit(who)
        for _ in range(3):
            texts.work()
            texts.pass_time(100)
        failed = texts.get(accepted)
        assert (failed.status, failed.error.code, failed.attempt) == (Status.FAILED, FailureCode.ERROR, 3)
        assert texts.balance(who) == (100, 0)

    def test_error_after_tokens_ends_without_charge(self, texts):
        error = ProviderFailed(FailureCode.ERROR, "overloaded", is_billable=True)
        texts.router = ScriptedRouter([Text("Red "), error])
        who = texts.user(points=100)
        accepted = texts.submit(who)
        texts.work()
        failed = texts.get(accepted)
        assert (failed.status, failed.text, failed.charged_points) == (Status.FAILED, "Red ", 0)
        assert texts.balance(who) == (100, 0)
        assert texts.events(accepted)[-1].body["sha256"] == sha256_of("Red ")

    def test_busy_provider_is_waited_for(self, texts):
        busy = ProviderFailed(FailureCode.BUSY, "later", retry_after_s=7)
        texts.router = ScriptedRouter([busy], whole(TEXT))
        accepted = texts.submit(texts.user(points=100))
        texts.work()
        waiting = texts.get(accepted)
        assert (waiting.status, waiting.failures) == (Status.QUEUED, 0)
        assert texts.events(accepted)[-1].body == {"scope": "provider", "retryAfterSeconds": 7}
        texts.pass_time(8)
        texts.work()
        assert texts.get(accepted).status is Status.COMPLETED

    def test_wait_for_providers_is_bounded(self, texts):
        texts.router = ScriptedRouter([ProviderFailed(FailureCode.AWAY, "nobody answers")])
        who = texts.user(points=100)
        accepted = texts.submit(who)
        texts.work()
        texts.pass_time(601)
        texts.work()
        failed = texts.get(accepted)
        assert (failed.status, failed.error.code) == (Status.FAILED, "GEN_504_WAITED_TOO_LONG")
        assert failed.error.message.endswith("nobody answers")
        assert texts.balance(who) == (100, 0)

    def test_service_that_was_removed_fails(self, texts):
        accepted = texts.submit(texts.user(points=100))
        texts.execute("UPDATE generation SET service = 'gone'")
        texts.work()
        assert texts.get(accepted).error.code == "GEN_422_INVALID"

    def test_retry_is_a_new_generation(self, texts):
        texts.router = ScriptedRouter([ProviderFailed(FailureCode.KEY, "no key")], whole(TEXT))
        who = texts.user(points=100)
        failed = texts.submit(who)
        texts.work()
        again = texts.service.retry(
            tenant_id=who[0], generation_id=failed.generation_id, requester=Requester(who[1], may_manage=False)
        )
        texts.work()
        assert texts.get(again).text == TEXT
        assert texts.names(failed).count(Name.ERROR) == 1


class TestCancelled:
    def test_waiting_text_ends_at_once(self, texts):
        who = texts.user(points=100)
        accepted = texts.submit(who)
        assert texts.cancel(accepted).status is Status.CANCELLED
        assert texts.balance(who) == (100, 0)
        assert texts.names(accepted) == [Name.CANCELLED]
        assert texts.work() is None

    def test_running_text_stops_and_charges_delivery(self, texts):
        who = texts.user(points=100)
        accepted = texts.submit(who)

        def cancel():
            texts.cancel(accepted)

        texts.router = ScriptedRouter([Text("Red " * 100), cancel, *[Text("x")] * 3, Finish(FinishReason.STOP)])
        texts.work()
        stopped = texts.get(accepted)
        assert (stopped.status, stopped.text, stopped.usage_source) == (
            Status.CANCELLED,
            "Red " * 100,
            UsageSource.ESTIMATED,
        )
        assert stopped.charged_points == 1
        assert texts.balance(who) == (99, 0)
        assert texts.names(accepted)[-1] is Name.CANCELLED
        assert texts.router.closed == 1

    def test_ended_text_cannot_be_cancelled(self, texts):
        accepted = texts.submit(texts.user(points=100))
        texts.work()
        with pytest.raises(GenerationEnded):
            texts.cancel(accepted)

    def test_cancel_twice_changes_nothing(self, texts):
        accepted = texts.submit(texts.user(points=100))
        texts.cancel(accepted)
        assert texts.cancel(accepted).status is Status.CANCELLED
        assert texts.names(accepted).count(Name.CANCELLED) == 1

    def test_cancel_of_a_lost_text_ends_it(self, texts):
        who = texts.user(points=100)
        accepted = texts.submit(who)
        texts.claim()
        texts.cancel(accepted)
        texts.pass_time(31)
        assert texts.sweeps.leases() == 1
        assert texts.get(accepted).status is Status.CANCELLED
        assert texts.balance(who) == (100, 0)


class TestLostWorker:
    def test_lost_text_is_written_again(self, texts):
        accepted = texts.submit(texts.user(points=100))
        texts.claim()
        texts.pass_time(31)
        assert texts.running() == 0
        assert texts.sweeps.leases() == 1
        assert texts.sweeps.leases() == 0
        texts.work()
        done = texts.get(accepted)
        assert (done.status, done.attempt, done.failures) == (Status.COMPLETED, 2, 1)
        assert texts.names(accepted)[0] is Name.RESTART

    def test_text_fails_after_too_many_losses(self, texts):
        who = texts.user(points=100)
        accepted = texts.submit(who)
        for _ in range(3):
            assert texts.claim() is not None
            texts.pass_time(31)
            texts.sweeps.leases()
        failed = texts.get(accepted)
        assert (failed.status, failed.error.code) == (Status.FAILED, "GEN_500_WORKER_LOST")
        assert texts.balance(who) == (100, 0)
        assert texts.names(accepted)[-1] is Name.ERROR

    def test_late_worker_changes_nothing(self, texts):
        accepted = texts.submit(texts.user(points=100))
        lost = texts.claim()
        texts.pass_time(31)
        texts.sweeps.leases()
        assert texts.workers.renew(lost, lease_s=30, text="old", first_token_at=None) is None
        texts.work()
        assert texts.lifecycle.finish(lost, Outcome(Status.COMPLETED, text="old")) is None
        assert texts.get(accepted).text == TEXT

    def test_late_end_leaves_newer_attempt_running(self, texts):
        accepted = texts.submit(texts.user(points=100))
        lost = texts.claim()
        texts.pass_time(31)
        texts.sweeps.leases()
        newer = texts.claim()
        assert texts.lifecycle.finish(lost, Outcome(Status.COMPLETED, text="old")) is None
        assert texts.lifecycle.put_back(lost, Failure("GEN_500_INTERNAL", "old"), is_counted=True) is None
        assert (texts.get(accepted).status, texts.get(accepted).attempt) == (Status.RUNNING, newer.attempt)

    def test_snapshot_is_stored_with_the_lease(self, texts):
        texts.submit(texts.user(points=100))
        claimed = texts.claim()
        assert texts.workers.renew(claimed, lease_s=30, text="Red", first_token_at=texts.clock.now()) is False
        assert texts.get(claimed).text == "Red"

    def test_waiting_text_without_message_gets_one(self, texts):
        accepted = texts.submit(texts.user(points=100))
        texts.sent.clear()
        assert texts.sweeps.messages() == 0
        texts.pass_time(31)
        assert texts.sweeps.messages() == 1
        assert texts.sent[0].destination == "lane:paid_stream"
        assert str(accepted.generation_id) in texts.sent[0].body
        assert texts.sent[0].tenant_id == accepted.tenant_id

    def test_full_lane_gets_no_message(self, texts):
        texts.change_lane("paid_stream", parallelism=1)
        who = texts.user(points=100)
        texts.submit(who)
        texts.submit(who)
        texts.claim()
        texts.execute("UPDATE generation SET message_at = message_at - interval '1 hour'")
        assert texts.sweeps.messages() == 0


class TestGuards:
    def test_parallelism_bounds_the_lane(self, texts):
        texts.change_lane("paid_stream", parallelism=2)
        for _ in range(3):
            texts.submit(texts.user(points=100))
        assert [type(texts.claim()).__name__ for _ in range(3)] == ["Generation", "Generation", "Refusal"]

    def test_parallelism_zero_stops_the_lane(self, texts):
        texts.change_lane("paid_stream", parallelism=0)
        texts.submit(texts.user(points=100))
        assert texts.claim() == Refusal(Scope.LANE)
        texts.change_lane("paid_stream", parallelism=1)
        assert texts.claim() is not None

    def test_paused_lane_keeps_accepting(self, texts):
        texts.change_lane("paid_stream", is_paused=True)
        accepted = texts.submit(texts.user(points=100))
        assert texts.claim() == Refusal(Scope.PAUSED)
        texts.change_lane("paid_stream", is_paused=False)
        assert texts.work().generation_id == accepted.generation_id

    def test_user_guard_lets_others_pass(self, texts):
        texts.values.set(settings.USER_TEXTS, 1)
        busy, other = texts.user(points=100), texts.user(points=100)
        texts.submit(busy)
        texts.submit(busy)
        later = texts.submit(other)
        texts.claim()
        assert texts.claim().generation_id == later.generation_id
        assert texts.claim() == Refusal(Scope.GUARD)

    def test_model_guard_counts_by_tier(self, texts):
        texts.values.set(settings.MODEL_TEXTS["paid"], 1)
        for _ in range(2):
            texts.submit(texts.user(points=100))
        texts.submit(texts.user())
        assert texts.claim() is not None
        assert texts.claim() == Refusal(Scope.GUARD)
        assert texts.claim("free_stream") is not None

    def test_operators_limit_counts_both_tiers(self, texts):
        texts.lanes.set_model_limit("alpha/small", 1, actor_id=None)
        texts.submit(texts.user(points=100))
        texts.submit(texts.user())
        assert texts.claim() is not None
        assert texts.claim("free_stream") == Refusal(Scope.GUARD)

    def test_guard_ends_with_its_lease(self, texts):
        texts.change_lane("paid_stream", parallelism=1)
        for _ in range(2):
            texts.submit(texts.user(points=100))
        texts.claim()
        assert texts.claim() == Refusal(Scope.LANE)
        texts.execute("UPDATE generation SET lease_until = now() - interval '1 s' WHERE status = 'RUNNING'")
        assert texts.claim() is not None

    def test_fall_over_takes_other_models_guard(self, texts):
        texts.router = ScriptedRouter(whole(TEXT), targets=(FIRST, SECOND))
        texts.submit(texts.user(points=100))
        claimed = texts.claim()
        limits = settings.guard_limits(texts.values)
        assert texts.workers.move_model(claimed, provider="beta", model_id="large", cost=Cost(), limits=limits)
        texts.lanes.set_model_limit("alpha/small", 0, actor_id=None)
        assert not texts.workers.move_model(claimed, provider="alpha", model_id="small", cost=Cost(), limits=limits)
        assert texts.get(claimed).provider == "beta"

    def test_refused_message_returns_with_delay(self, texts):
        texts.change_lane("paid_stream", parallelism=0)
        accepted = texts.submit(texts.user(points=100))
        served = [texts.serve(accepted, receive_count=count) for count in (1, 2, 10, 21)]
        assert [one.return_after_s for one in served] == [2, 4, 60, None]
        events = texts.events(accepted)
        assert {entry.name for entry in events} == {Name.BACKPRESSURE}
        assert events[0].body == {"scope": "lane", "retryAfterSeconds": 2}

    def test_worker_goes_on_with_waiting_texts(self, texts):
        texts.change_lane("paid_stream", parallelism=1)
        accepted = [texts.submit(texts.user(points=100)) for _ in range(3)]
        assert texts.serve(accepted[0]).texts == 3
        assert {texts.get(one).status for one in accepted} == {Status.COMPLETED}
        assert texts.serve(accepted[1]).return_after_s is None

    def test_worker_without_time_sends_a_message(self, texts):
        accepted = [texts.submit(texts.user(points=100)) for _ in range(2)]
        texts.sent.clear()
        assert texts.serve(accepted[0], remaining_s=100).texts == 1
        assert [one.destination for one in texts.sent] == ["lane:paid_stream"]


class TestFairness:
    def test_flood_delays_others_by_one_text(self, texts):
        texts.change_lane("paid_stream", parallelism=1)
        flood = texts.user(points=10_000)
        for _ in range(200):
            texts.submit(flood)
        for _ in range(5):
            texts.work()
        running = texts.claim()
        other = texts.submit(texts.user(points=100, tier="free"))
        texts.execute("UPDATE generation SET status = 'QUEUED', lease_until = NULL WHERE status = 'RUNNING'")
        assert running.tenant_id == flood[0]
        assert texts.claim().generation_id == other.generation_id

    def test_backlogged_tenants_share_by_weight(self, texts):
        heavy, light = texts.user(points=10_000), texts.user(points=10_000)
        texts.execute("UPDATE tenant SET weight = 5 WHERE tenant_id = %s", [heavy[0]])
        texts.execute("UPDATE tenant SET weight = 1 WHERE tenant_id = %s", [light[0]])
        for who in (heavy, light):
            for _ in range(60):
                texts.submit(who)
        served = [texts.work().tenant_id for _ in range(60)]
        assert served.count(heavy[0]) == pytest.approx(50, abs=1)

    def test_lanes_do_not_delay_each_other(self, texts):
        for _ in range(20):
            texts.submit(texts.user())
        paid = texts.submit(texts.user(points=100))
        assert texts.work("paid_stream").generation_id == paid.generation_id

    def test_message_group_is_the_tenant(self, texts):
        accepted = texts.submit(texts.user(points=100))
        assert [one.tenant_id for one in texts.sent] == [accepted.tenant_id]


class TestStructured:
    """A service with a JSON schema, on the batch lanes."""

    ANSWER = '{"title": "Red cotton dress", "keywords": ["dress", "red"]}'

    def submit(self, texts, who):
        return texts.submit(who, service="title")

    def test_answer_of_the_schema_is_the_result(self, texts):
        texts.router = ScriptedRouter(whole(self.ANSWER[:20], self.ANSWER[20:]))
        accepted = self.submit(texts, texts.user(points=100))
        assert accepted.lane == "paid_batch"
        texts.work("paid_batch")
        ended = texts.get(accepted)
        assert (ended.status, ended.text) == (Status.COMPLETED, self.ANSWER)
        assert ended.result == {"title": "Red cotton dress", "keywords": ["dress", "red"]}
        assert texts.names(accepted) == ["start", "token", "done"]
        assert texts.router.prompts[0].json_schema is not None
        assert not texts.router.prompts[0].is_streamed

    def test_wrong_answer_is_tried_again_unseen(self, texts):
        texts.router = ScriptedRouter(whole('{"title": 3}'), whole(self.ANSWER))
        who = texts.user(points=100)
        accepted = self.submit(texts, who)
        texts.work("paid_batch")
        waiting = texts.get(accepted)
        assert (waiting.status, waiting.failures, waiting.text) == (Status.QUEUED, 1, "")
        assert waiting.error.code == FailureCode.ANSWER
        assert texts.read(accepted) == ""
        texts.pass_time(60)
        texts.work("paid_batch")
        assert texts.get(accepted).status is Status.COMPLETED
        assert texts.read(accepted) == self.ANSWER

    def test_model_that_never_answers_so_costs_nothing(self, texts):
        texts.router = ScriptedRouter(whole("Sure! Here is a title."))
        who = texts.user(points=100)
        accepted = self.submit(texts, who)
        for _ in range(3):
            texts.work("paid_batch")
            texts.pass_time(60)
        failed = texts.get(accepted)
        assert (failed.status, failed.error.code) == (Status.FAILED, FailureCode.ANSWER)
        assert (failed.result, failed.text) == (None, "")
        assert texts.balance(who) == (100, 0)
        assert texts.running() == 0

    def test_cancelled_answer_has_no_result(self, texts):
        accepted = self.submit(texts, texts.user(points=100))
        texts.router = ScriptedRouter([Text(self.ANSWER[:9]), lambda: texts.cancel(accepted), *whole("x")])
        texts.work("paid_batch")
        ended = texts.get(accepted)
        assert (ended.status, ended.text, ended.result) == (Status.CANCELLED, "", None)
        assert ended.charged_points == 0
