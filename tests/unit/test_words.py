"""Plain words: replaced words stay out of code and prose, prose stays short, test names stay readable."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUFFIXES = ("py", "sql", "lua", "md", "yaml", "js", "toml", "html")

# Word -> the word to write instead.
REPLACED = {
    "crowd": "tenant heads",
    "crowds": "tenant heads",
    "contest": "push",
    "contend": "pop",
    "withdraw": "refund",
    "patience": "thresholds",
    "tell": "publish",
    "tells": "publishes",
    "telling": "publishing",
    "told": "sent",
    "news": "events",
    "hear": "receive",
    "hears": "receives",
    "heard": "received",
    "unheard": "silent",
    "losable": "async_commit",
    "tidy": "compact",
    "whoever": "the noun",
    "somebody": "the noun",
    "letters": "messages, dead letters, characters or envelope",
    "gate": "access check, or dependency wait",
}
CANDIDATE = re.compile("|".join(REPLACED), re.IGNORECASE)  # most lines have none, and need not be split
REPLACED_CLASSES = {"Book", "Finds", "Look", "Looks", "Acts", "Left", "Work"}

# Names that programs rely on. They are cut out of a text before its words are read.
WIRE_NAMES = re.compile(
    r"Gate(?:Function(?:Arn)?|Role|LogGroup|TimeoutSeconds)\b|TellPolicy\b"
    r"|EXECUTION_UNHEARD_S\b|execution_unheard_s\b"
    r"|functions[/.]gate\b|events/gate\b|/gate\b|`gate`|[\"']gate[\"']|\bgate\.wait\b"
)

# At most 20 lines: a path or a folder, or path:word, and the reason.
ALLOWED = {
    "layers/core/artiway/schema/migrations/": "an applied migration is never edited: its checksum is stored",
    "local/lambdas.py:tell": "the method of a file that gives its position",
    "local/servers.py:tell": "the method of a file that gives its position",
    "layers/core/artiway/schema/schema.sql:told": "PostgreSQL keeps the name of a NOT NULL constraint",
    "pyproject.toml:tidy": "ruff's name of a group of rules",
    "tests/unit/test_words.py": "lists the words",
}

PROSE_COLUMNS = 100
BULLET_LINES = 3
GLOSSARY_WORDS = 20
TEST_NAME_WORDS = 8
# The number of an acceptance case is no word of its name.
CASE = re.compile(r"^test_(case_\d+_)?")


@cache
def tracked() -> tuple[str, ...]:
    patterns = [*(f"*.{suffix}" for suffix in SUFFIXES), "Makefile", "*/Makefile"]
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return tuple(sorted(path for path in listed.stdout.split("\0") if path and (ROOT / path).is_file()))


def read(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


def words(text: str) -> list[str]:
    """Split at underscores, capitals and punctuation: `TellPolicy_of-HTTPNews` is tell, policy, of, http, news."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", text)]


def replaced_words(text: str) -> list[str]:
    if not CANDIDATE.search(text):
        return []
    found = words(WIRE_NAMES.sub(" ", text))
    return [
        word
        for before, word in zip(["", *found], found, strict=False)
        if word in REPLACED and not (word == "letters" and before == "dead")
    ]


def is_allowed(path: str, word: str) -> bool:
    return any(
        path == entry or (entry.endswith("/") and path.startswith(entry)) or entry == f"{path}:{word}"
        for entry in ALLOWED
    )


def complaints(path: str) -> list[str]:
    lines = [(0, path), *enumerate(read(path).splitlines(), start=1)]
    return [
        f"{path}:{number}: {word!r} (write: {REPLACED[word]})"
        for number, line in lines
        for word in replaced_words(line)
        if not is_allowed(path, word)
    ]


def test_replaced_words_do_not_come_back():
    found = [complaint for path in tracked() for complaint in complaints(path)]
    assert not found, f"{len(found)} replaced words\n" + "\n".join(found)


def test_replaced_class_names_do_not_come_back():
    found = [
        f"{path}: class {node.name}"
        for path in tracked()
        if path.endswith(".py") and not is_allowed(path, "")
        for node in ast.walk(ast.parse(read(path)))
        if isinstance(node, ast.ClassDef) and node.name in REPLACED_CLASSES
    ]
    assert not found, "\n".join(found)


def test_allow_list_is_short_and_in_use():
    assert len(ALLOWED) <= 20
    for entry in ALLOWED:
        place, _, word = entry.partition(":")
        files = [path for path in tracked() if path == place or (place.endswith("/") and path.startswith(place))]
        used = {found for path in files for found in replaced_words(path + "\n" + read(path))}
        assert (word in used) if word else used, f"{entry} allows what no longer occurs: delete the entry"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def tell_worker(): ...", ["tell"]),
        ("class ExpiredNews", ["news"]),
        ("-- whoever comes", ["whoever"]),
        ("dead letters, DeadLetters, dead_letters, DEAD_LETTERS", []),
        ("the letters of a queue", ["letters"]),
        ("intelligent newsletter, aggregate, API Gateway", []),
        ("GateFunction: functions/gate, the function `gate`", []),
        ("api = Api(gate=check)", ["gate"]),
    ],
)
def test_words_are_split_and_compared(text, found):
    assert replaced_words(text) == found


def prose(path: str) -> Iterator[tuple[int, str]]:
    """The lines of a Markdown file outside tables and code blocks; targets of links do not count."""
    is_code = False
    for number, line in enumerate(read(path).splitlines(), start=1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line.lstrip().startswith("|"):
            yield number, re.sub(r"\]\([^)]*\)", "]", line)


MARKDOWN = [path for path in tracked() if path.endswith(".md")]


@pytest.mark.parametrize("path", MARKDOWN)
def test_lines_of_prose_end_at_100_columns(path):
    long = [f"{path}:{number}: {len(line)} columns" for number, line in prose(path) if len(line) > PROSE_COLUMNS]
    assert not long, "\n".join(long)


@pytest.mark.parametrize("path", MARKDOWN)
def test_bullets_have_at_most_three_lines(path):
    started, lines, last, long = 0, 0, 0, []
    for number, line in prose(path):
        if re.match(r"\s*(?:[-*]|\d+\.) ", line):
            started, lines, last = number, 1, number
        elif started and line.startswith(" ") and line.strip() and number == last + 1:
            lines, last = lines + 1, number
            if lines == BULLET_LINES + 1:
                long.append(f"{path}:{started}")
        else:
            started = 0
    assert not long, "\n".join(long)


def test_glossary_explains_at_most_twenty_words():
    section = read("README.md").partition("## Glossary\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")][2:]
    assert 0 < sum(len(row.split(",")) for row in rows) <= GLOSSARY_WORDS


def test_names_of_tests_have_eight_words():
    long = [
        f"{path}: {node.name}"
        for path in tracked()
        if path.startswith("tests/") and Path(path).name.startswith("test_")
        for node in ast.walk(ast.parse(read(path)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        if len(CASE.sub("", node.name).split("_")) > TEST_NAME_WORDS
    ]
    assert not long, f"{len(long)} names are longer than eight words\n" + "\n".join(long)
