"""Any interleaving of crash, duplicate delivery, retry, cancel and lost Redis: one end, one settlement, one text."""

from __future__ import annotations

import contextlib
import random

import pytest

from artiway.generations.feed.model import TERMINAL, sha256_of
from artiway.generations.feed.model import Text as Written
from artiway.generations.model import Generation, GenerationEnded, Outcome, Status, end_of
from artiway.generations.providers.model import FailureCode, Finish, FinishReason, ProviderFailed, Text
from tests.conftest import soaked
from tests.fakes.router import ScriptedRouter, whole
from tests.integration.generations.texts import Texts

LANES = ("paid_stream", "free_stream")
WORDS = ("Red ", "cotton ", "dress, ", "café ", "服装 ", "🧵")


class Crash(BaseException):
    """The process of a worker ends in mid-text."""


class Story:
    """Random steps on some texts of two users. Time passes by changing rows."""

    def __init__(self, texts: Texts, seed: int) -> None:
        self.texts, self.random = texts, random.Random(seed)
        self.users = [texts.user(points=200), texts.user()]
        self.made: list[Generation] = []
        self.lost: list[Generation] = []
        self.is_flushed = False

    def submit(self) -> None:
        if len(self.made) < 6:
            self.made.append(self.texts.submit(self.random.choice(self.users), max_tokens=100))

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
        claimed = self.texts.claim(self.random.choice(LANES))
        if isinstance(claimed, Generation):
            self.lost.append(claimed)

    def finish_late(self) -> None:
        """A worker that was lost comes back: its end counts only if no newer attempt has begun."""
        if self.lost:
            late = self.lost.pop(self.random.randrange(len(self.lost)))
            ended = self.texts.lifecycle.finish(late, Outcome(Status.COMPLETED, text="late"))
            if ended is not None:
                self.texts.lifecycle.publish(ended, ended.attempt, [*self._late_text(ended), end_of(ended)])

    def overtake(self) -> None:
        """A lost worker comes back while a newer attempt has written and holds its lease."""
        self.lose()
        self.texts.pass_time(31)
        self.sweep()
        for _ in range(2):
            self.crash()
        self.finish_late()

    def deliver_again(self) -> None:
        if self.made:
            self.texts.router = ScriptedRouter(whole(*self._pieces()))
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
            self.is_flushed = True

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
            for lane in LANES:
                self.texts.router = ScriptedRouter(whole(*self._pieces()))
                while isinstance(self.texts.work(lane), Generation):
                    pass
        self.texts.sweeps.holds()

    def _work(self, script: list) -> None:
        self.texts.router = ScriptedRouter(script)
        with contextlib.suppress(Crash):
            self.texts.work(self.random.choice(LANES))

    def _pieces(self) -> list[str]:
        return [self.random.choice(WORDS) for _ in range(self.random.randint(1, 5))]

    def _late_text(self, ended: Generation) -> list:
        return [Written(ended.text, 0)]


@pytest.mark.parametrize("seed", range(soaked(10)))
def test_each_text_ends_and_settles_once(texts: Texts, seed: int) -> None:
    story = Story(texts, seed)
    story.play(40)
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
        if not story.is_flushed:
            assert terminal, texts.names(made)
            assert texts.read(made) == ended.text
        if not ended.is_free:
            settled = texts.execute(
                "SELECT -(balance_delta + frozen_delta) AS charged FROM points_ledger WHERE idempotency_key = %s",
                [f"settle:{made.generation_id}"],
            )
            assert [row["charged"] for row in settled] == [ended.charged_points]
    assert texts.running() == 0
    for user in story.users:
        assert texts.balance(user)[1] == 0
