from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artiway.generations.feed.model import BATCH_CHARACTERS, BATCH_MS, Entry, EntryId, Name, Text, TextBatch


class TestTextBatch:
    def test_first_text_leaves_at_once(self):
        assert TextBatch().add("a", now_ms=0) == Text("a", 0, is_first=True)

    def test_text_within_the_interval_waits(self):
        batch = TextBatch()
        batch.add("a", now_ms=0)
        assert batch.add("b", now_ms=BATCH_MS - 1) is None
        assert batch.wait_ms(now_ms=BATCH_MS - 1) == 1

    def test_waiting_text_leaves_as_one(self):
        batch = TextBatch()
        batch.add("a", now_ms=0)
        batch.add("b", now_ms=1)
        assert batch.add("c", now_ms=BATCH_MS) == Text("bc", 1)

    def test_full_batch_does_not_wait(self):
        batch = TextBatch()
        batch.add("a", now_ms=0)
        assert batch.add("b" * BATCH_CHARACTERS, now_ms=1) == Text("b" * BATCH_CHARACTERS, 1)

    def test_flush_of_nothing_is_no_event(self):
        assert TextBatch().flush(now_ms=0) is None

    @given(st.lists(st.tuples(st.text(max_size=80), st.integers(0, 120))))
    def test_offsets_join_to_the_text(self, pieces: list[tuple[str, int]]):
        batch, now_ms, texts = TextBatch(), 0, []
        for piece, gap_ms in pieces:
            now_ms += gap_ms
            texts.append(batch.add(piece, now_ms=now_ms))
        texts.append(batch.flush(now_ms=now_ms))
        joined = ""
        for text in filter(None, texts):
            assert text.offset == len(joined)
            joined += text.text
        assert joined == "".join(piece for piece, _ in pieces)


class TestEntryId:
    def test_id_contains_the_length_of_text(self):
        assert EntryId.parse(str(EntryId.of_text(3, 345))) == EntryId(3, 345_000)
        assert EntryId(3, 345_007).characters == 345

    def test_end_follows_all_notices(self):
        end = EntryId.of_end(3, 345)
        assert end.is_terminal
        assert EntryId(3, 345_998) < end < EntryId.of_text(3, 346)

    @pytest.mark.parametrize("text", [None, "", "1", "1-", "-1", "1-2-3", "1-x", "1-" + "9" * 30, "１-２"])
    def test_any_other_text_is_no_id(self, text: str | None):
        assert EntryId.parse(text) is None


def test_frame_keeps_data_on_one_line():
    frame = Entry.of(EntryId(1, 2), Text("a\r\nb\u2028字", 5)).as_frame()
    lines = frame.removesuffix("\n\n").split("\n")
    assert lines[:2] == ["id: 1-2", f"event: {Name.TOKEN_BATCH}"]
    assert json.loads(lines[2].removeprefix("data: ")) == {"text": "a\r\nb\u2028字", "offset": 5}
