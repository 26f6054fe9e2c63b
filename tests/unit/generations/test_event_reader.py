"""Server-sent events from bytes that are cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artiway.generations.providers import sse
from artiway.generations.providers.sse import Event, EventReader, EventUnreadable


def read(*chunks):
    reader = EventReader()
    return [event for chunk in chunks for event in reader.feed(chunk)]


@pytest.mark.parametrize(
    ("text", "events"),
    [
        (b"data: one\n\ndata:two\n\n", [Event("one"), Event("two")]),
        (b"data: one\r\n\r\ndata: two\r\rdata: three\n\n", [Event("one"), Event("two"), Event("three")]),
        (b"\xef\xbb\xbfdata: one\n\n", [Event("one")]),
        (b"data: one\ndata:  two\ndata\n\n", [Event("one\n two\n")]),
        (b": keep-alive\n\n\n\nid: 4\nretry: 9\n\n", []),
        (b"event: error\ndata: {}\n\ndata: x\n\n", [Event("{}", "error"), Event("x")]),
        (b"data: one\n", []),
        (b"data: one", []),
    ],
)
def test_events_are_those_of_the_standard(text, events):
    assert read(text) == events


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=8), max_size=6),
    st.sampled_from([b"\n", b"\r", b"\r\n"]),
    st.data(),
)
def test_cuts_do_not_change_events(texts, end, data):
    whole = b"".join(b": note" + end + b"data: " + text.encode() + end + end for text in texts) + b"\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    chunks = [whole[begin:stop] for begin, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert [event.data for event in read(*chunks)] == texts


@pytest.mark.parametrize("text", [b"data: \xff\n\n", b"data: caf\xc3\n\n", b"data: \xed\xa0\x80\n\n"])
def test_text_that_is_not_utf8_is_unreadable(text):
    with pytest.raises(EventUnreadable, match="UTF-8"):
        read(text)


def test_line_beyond_its_bound_is_unreadable(monkeypatch):
    monkeypatch.setattr(sse, "LARGEST_LINE", 10)
    assert read(b"data: four\n\n", b"data", b": ok\n\n") == [Event("four"), Event("ok")]
    with pytest.raises(EventUnreadable, match="line"):
        read(b"data: ", b"fours", b"x")


def test_event_beyond_its_bound_is_unreadable(monkeypatch):
    monkeypatch.setattr(sse, "LARGEST_EVENT", 5)
    with pytest.raises(EventUnreadable, match="event"):
        read(b"data: abc\n" * 2)
