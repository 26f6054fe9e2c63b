"""Any interleaving of crash, duplicate delivery, retry, cancel, reconnect and lost Redis: one end, one text."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
from uuid import UUID, uuid4

import pytest

from artiway.generations import settings
from artiway.generations.feed.model import TERMINAL, EntryId, Info, Restart, Usage, UsageSource, sha256_of
from artiway.generations.feed.model import Text as Written
from artiway.generations.model import Found, Generation, GenerationEnded, Outcome, Status, end_of
from artiway.generations.providers.model import FailureCode, Finish, FinishReason, ProviderFailed, Text
from tests.conftest import soaked
from tests.fakes.router import ScriptedRouter, whole
from tests.integration.generations.clients import Client
from tests.integration.generations.texts import Texts

WORDS = ("Red ", "cotton ", "dress, ", "café ", "服装 ", "🧵")


SEEN = {"tags": ["square"], "colours": ["red"], "text": "COTTON"}
FOUND = Found(SEEN, Usage(900, 30), UsageSource.PROVIDER, "alpha", "small", 1)


class Crash(BaseException):
    """The process of a worker ends in mid-text."""


class Reader:
    """A client that keeps only the text and the last id between two connections."""

    def __init__(self, texts: Texts, generation: Generation) -> None:
        self.texts, self.generation, self.client = texts, generation, Client()

    def read(self, most: int = 1_000) -> None:
        frames = self.texts.reader.frames(
            tenant_id=self.generation.tenant_id,
            user_id=self.generation.user_id,
            generation_id=self.generation.generation_id,
            last=EntryId.parse(self.client.last),
            life_ms=0,  # what is there, without a wait
        )
        with contextlib.closing(frames):
            for frame in itertools.islice(frames, most):
                self.client.receive(frame)


class Story:
    """Random steps on some texts of two users. Time passes by changing rows."""

    LANES: tuple[str, ...] = ("paid_stream", "free_stream")
    ROUTER: type[ScriptedRouter] = ScriptedRouter

    def __init__(self, texts: Texts, seed: int) -> None:
        self.texts, self.random = texts, random.Random(seed)
        self.users = [texts.user(points=200), texts.user()]
        self.made: list[Generation] = []
        self.lost: list[Generation] = []
        self.readers: list[Reader] = []
        self.erased: set[UUID] = set()  # texts whose stream was lost after their end

    def submit(self) -> None:
        if len(self.made) < 10:
            self._submit(self.random.choice(self.users))

    def write(self) -> None:
        self._work(whole(*self._pieces(), usage=None if self.random.random() < 0.3 else whole("x")[-1].usage))

    def crash(self) -> None:
        def end() -> None:
            raise Crash

        self._work([*(Text(piece) for piece in self._pieces()), end])

    def fail(self) -> None:
        code = self.random.choice(list(FailureCode))
        pieces = self._pieces() if self.random.random() < 0.5 else ()
        failure = ProviderFailed(code, "failed", is_billable=bool(pieces), retry_after_s=self.random.choice([None, 5]))
        self._work([*(Text(piece) for piece in pieces), failure])

    def cancel_in_mid_text(self) -> None:
        def cancel() -> None:
            self.cancel()

        pieces = [Text(piece) for piece in self._pieces()]
        self._work([*pieces, cancel, *pieces, Finish(FinishReason.STOP)])

    def lose(self) -> None:
        """A worker claims a text and is not seen again until `finish_late`."""
        claimed = self.texts.claim(self.random.choice(self.LANES))
        if isinstance(claimed, Generation):
            self.lost.append(claimed)

    def finish_late(self) -> None:
        """A worker that was lost comes back: its end counts only if no newer attempt has begun."""
        if self.lost:
            self._come_back(self.lost.pop(self.random.randrange(len(self.lost))))

    def overtake(self) -> None:
        """A lost worker comes back in mid-text of a newer attempt, which goes on."""
        lane = self.random.choice(self.LANES)
        late = self._claim(lane)
        if late is None:
            return
        if self.random.random() < 0.5:
            self._write_as(late, "la")
        self.texts.pass_time(31)
        self.sweep()
        self.texts.pass_time(3)

        def come_back() -> None:
            now = self.texts.get(late)
            self._watch(late)  # a viewer sees the newer attempt
            if now.status is Status.RUNNING and now.attempt > late.attempt:
                self._come_back(late)

        pieces = [Text(piece) for piece in self._pieces()]
        self.texts.router = self.ROUTER([*pieces, come_back, *pieces, *whole("end")])
        for _ in range(len(self.made)):  # texts of the lane that were there before have their turn first
            if self.texts.get(late).attempt > late.attempt:
                break
            self.texts.work(lane)

    def reconnect(self) -> None:
        """A reader connects with the last id that it has, and is cut after some frames."""
        if self.readers:
            self.random.choice(self.readers).read(most=self.random.choice([1, 3, 1_000]))

    def end_again(self) -> None:
        """A worker whose commit had no answer repeats it, with what it has written since."""
        if self.made:
            now = self.texts.get(self.random.choice(self.made))
            if now.is_ended:
                usage = Usage(now.input_tokens, self.random.randint(1, 100))
                again = Outcome(Status.COMPLETED, text="again", usage=usage, usage_source=UsageSource.PROVIDER)
                self.texts.lifecycle.finish(now, again)
                self.texts.feed.append(now.generation_id, now.attempt, [Info("stream_idle")])

    def deliver_again(self) -> None:
        if self.made:
            self.texts.router = self.ROUTER(whole(*self._pieces()))
            self.texts.serve(self.random.choice(self.made), receive_count=self.random.randint(1, 25))

    def cancel(self) -> None:
        if self.made:
            with contextlib.suppress(GenerationEnded):
                self.texts.cancel(self.random.choice(self.made))

    def pass_time(self) -> None:
        self.texts.pass_time(self.random.choice([3, 31, 700]))

    def sweep(self) -> None:
        self.texts.sweeps.leases()
        self.texts.sweeps.cancels()
        self.texts.sweeps.messages()

    def flush(self) -> None:
        if self.random.random() < 0.3:
            self.texts.valkey.flushdb()
            self.erased |= {one.generation_id for one in self.made if self.texts.get(one).is_ended}

    STEPS = (
        submit,
        submit,
        write,
        write,
        crash,
        fail,
        cancel_in_mid_text,
        lose,
        finish_late,
        overtake,
        overtake,
        reconnect,
        reconnect,
        reconnect,
        end_again,
        deliver_again,
        cancel,
        pass_time,
        sweep,
        flush,
    )

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self.random.choice(self.STEPS)(self)
        for _ in range(20):  # the platform goes on until nothing is left
            if all(self.texts.get(one).is_ended for one in self.made):
                break
            self.texts.pass_time(700)
            self.sweep()
            for lane in self.LANES:
                self.texts.router = self.ROUTER(whole(*self._pieces()))
                while isinstance(self.texts.work(lane), Generation):
                    pass
        self.texts.sweeps.holds()

    def _submit(self, who: tuple[UUID, UUID]) -> None:
        made = self.texts.submit(who, max_tokens=100)
        self.made.append(made)
        self.readers += [Reader(self.texts, made), Reader(self.texts, made)]

    def _claim(self, lane: str) -> Generation | None:
        """A text of the lane; if none waits, a new one."""
        claimed = self.texts.claim(lane)
        if claimed is None and len(self.made) < 14:
            self._submit(self.users[lane.startswith("free_")])
            claimed = self.texts.claim(lane)
        return claimed if isinstance(claimed, Generation) else None

    def _watch(self, generation: Generation) -> None:
        next(one for one in self.readers if one.generation.generation_id == generation.generation_id).read()

    def _come_back(self, late: Generation) -> None:
        """It writes on and ends the text, as if its lease had not ended."""
        if late.is_in_first_stage:
            self.texts.lifecycle.advance(late, FOUND, input_tokens=50)
            return
        self._write_as(late, "late")
        ended = self.texts.lifecycle.finish(late, Outcome(Status.COMPLETED, text="late"))
        if ended is not None:
            self.texts.lifecycle.publish(ended, ended.attempt, [end_of(ended)])

    def _write_as(self, late: Generation, text: str) -> None:
        if late.is_in_first_stage:  # it has no text of its own
            return
        begun = [Restart()] if late.attempt > 1 else []
        self.texts.feed.append(late.generation_id, late.attempt, [*begun, Written(text, 0)])

    def _work(self, script: list) -> None:
        self.texts.router = self.ROUTER(script)
        with contextlib.suppress(Crash):
            self.texts.work(self.random.choice(self.LANES))

    def _pieces(self) -> list[str]:
        return [self.random.choice(WORDS) for _ in range(self.random.randint(1, 5))]


class SeeingRouter(ScriptedRouter):
    """A prompt with a picture is answered by what is seen in it, whatever the script's words are."""

    def stream(self, targets, prompt, limits, is_cancelled, admit=lambda _target: True):  # type: ignore[no-untyped-def]
        if prompt.json_schema is not None:
            for place, script in enumerate(self.scripts):
                seen = [item for item in script if not isinstance(item, Text)]
                self.scripts[place] = [
                    piece
                    for item in seen
                    for piece in ([Text(json.dumps(SEEN)), item] if isinstance(item, Finish) else [item])
                ]
        yield from super().stream(targets, prompt, limits, is_cancelled, admit)


class ChainStory(Story):
    """The same with chains, which wait in two lanes one after the other."""

    LANES = ("paid_vision", "free_vision", "paid_stream", "free_stream")
    ROUTER = SeeingRouter

    def _submit(self, who: tuple[UUID, UUID]) -> None:
        made = self.texts.submit(who, service="listing", input={"inputId": f"inp_{uuid4().hex}"}, max_tokens=100)
        self.made.append(made)
        self.readers += [Reader(self.texts, made), Reader(self.texts, made)]


@pytest.mark.parametrize("seed", range(soaked(10)))
def test_each_text_ends_and_settles_once(texts: Texts, seed: int) -> None:
    story = Story(texts, seed)
    story.play(50)
    assert_settled(texts, story)


@pytest.mark.parametrize("seed", range(soaked(8)))
def test_each_chain_ends_and_settles_once(texts: Texts, seed: int) -> None:
    texts.values.set(settings.FREE_TOKENS, 100_000)
    story = ChainStory(texts, seed)
    story.play(60)
    assert_settled(texts, story)
    used = 0
    for made in story.made:
        ended = texts.get(made)
        assert ended.chain is not None
        assert ended.lane == (made.lane if ended.chain.found is None else ended.chain.lane)
        first, second = ended.stages
        assert (first.status, second.status) == (Status.COMPLETED if ended.chain.found else ended.status, ended.status)
        if ended.status is Status.FAILED or ended.chain.found is None:
            assert (ended.status is not Status.COMPLETED, ended.charged_points) == (True, 0)
            continue
        assert ended.usage is not None
        assert ended.usage.input_tokens >= ended.chain.found.usage.input_tokens
        assert ended.is_free or ended.charged_points == min(ended.price_points, ended.price.points(ended.usage))
        used += (ended.usage.input_tokens + ended.usage.output_tokens) * ended.is_free
    rows = texts.execute("SELECT tokens FROM generation_allowance WHERE user_id = %s", [story.users[1][1]])
    assert sum(row["tokens"] for row in rows) == used


def assert_settled(texts: Texts, story: Story) -> None:
    for made in story.made:
        ended = texts.get(made)
        assert ended.is_ended, ended
        events = texts.events(made)
        terminal = [entry for entry in events if entry.name in TERMINAL]
        assert len(terminal) <= 1
        if terminal:
            assert events[-1] is terminal[0]
            assert terminal[0].name == end_of(ended).name
            assert terminal[0].body["points"] == ended.charged_points
            assert terminal[0].body["sha256"] == sha256_of(ended.text)
        if made.generation_id not in story.erased:
            assert terminal, texts.names(made)
            assert texts.read(made) == ended.text
        if not ended.is_free:
            settled = texts.execute(
                "SELECT -(balance_delta + frozen_delta) AS charged FROM points_ledger WHERE idempotency_key = %s",
                [f"settle:{made.generation_id}"],
            )
            assert [row["charged"] for row in settled] == [ended.charged_points]
    for reader in story.readers:
        reader.read()
        assert reader.client.end is not None, reader.client.names
        assert reader.client.text == texts.get(reader.generation).text
    assert texts.running() == 0
    for user in story.users:
        assert texts.balance(user)[1] == 0
