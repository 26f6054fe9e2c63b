"""Files of jobs: what is read, and what is refused before anything is made of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from artiway.jobs.definitions import files
from artiway.jobs.definitions.model import InvalidFile

YAML, JSON = "application/yaml", "application/json"
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abcdef*&!#-: ", max_size=6), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(st.text("abc", min_size=1), VALUES, max_size=4), min_size=1, max_size=3))
@example([{"a": "0E0", "b": "1e5", "c": "null", "d": "~", "e": "", "f": "on", "g": "0o7", "h": 1e-7}])
@example([{"a": "\x85", "b": "one\u2028two", "c": "\ufeff"}])
def test_written_file_is_read_as_the_same(jobs):
    for is_yaml, media_type in ((True, YAML), (False, JSON)):
        found, is_dry_run = files.read(files.written(jobs, is_yaml=is_yaml).encode(), media_type)
        assert (found, is_dry_run) == (jobs, False)


def test_words_and_dates_stay_texts():
    text = b"jobs: [{name: on, a: no, b: 2026-01-01, c: 0x10, d: 1_000, e: 12:30:00, f: .inf, g: 010}]"
    (job,), _ = files.read(text, YAML)
    assert job == {
        "name": "on",
        "a": "no",
        "b": "2026-01-01",
        "c": "0x10",
        "d": "1_000",
        "e": "12:30:00",
        "f": ".inf",
        "g": "010",
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("jobs: [&a {name: x}, *a]", "not allowed"),
        ("jobs:\n  - expr: */5 * * * *", "aliases"),
        ("jobs: [!!python/object/apply:os.system [ls]]", "tags"),
        ("jobs: [{name: a, name: b}]", "twice"),
        ("jobs: [{? [a] : b}]", "no text"),
        ("jobs: " + "[" * 40 + "]" * 40, "deeply"),
        ("jobs: [{a: [" + "1," * 100_001 + "]}]", "too many"),
        ("jobs: []", "1 to 500"),
        ("jobs: [1]", "object"),
        ("other: 1", "list `jobs`"),
        ("jobs: [{}]\nmore: 1", "unknown field more"),
        ("jobs: [{}]\nversion: 2", "version 1"),
        ("jobs: [{}]\ndryRun: 1", "dryRun"),
        ("{", "not valid YAML in line 1"),
        ("jobs: [{name: a}]\n---\njobs: []", "not valid YAML"),
        ('jobs: [{name: "a\\0b"}]', "NUL"),
    ],
)
def test_bad_file_is_refused_with_reason(text: str, reason: str):
    with pytest.raises(InvalidFile, match=reason):
        files.read(text.encode(), YAML)


def test_bad_json_is_refused():
    for text in (b"{", b"\xff", b'{"jobs": [NaN]}', b"[" * 100_000):
        with pytest.raises(InvalidFile):
            files.read(text, JSON)


def test_plain_list_is_a_file():
    assert files.read(json.dumps([{"name": "a"}]).encode(), JSON) == ([{"name": "a"}], False)
