from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tools import docs

PAGES = sorted((docs.ROOT / "docs").rglob("*.md"))


def test_every_page_is_in_the_navigation():
    text = docs.CONFIG.read_text("utf-8")
    config = yaml.safe_load(text.format(docs_dir="docs", site_dir="site"))
    named = set(re.findall(r"[\w/-]+\.md", yaml.safe_dump(config["nav"])))
    generated = {"reference/api.md", "reference/cli.md", "contributing.md"}
    assert named - generated == {str(page.relative_to(docs.ROOT / "docs")) for page in PAGES}


@pytest.mark.parametrize("page", [*PAGES, *sorted(docs.ROOT.glob("README*.md"))], ids=lambda page: page.name)
def test_links_and_pictures_exist(page):
    generated = {"reference/api.md", "reference/cli.md"}
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        assert target in generated or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "README.md"])
def test_named_files_exist(page):
    """Paths in backquotes, unless a part of them is a placeholder."""
    text = (docs.ROOT / page).read_text("utf-8")
    named = set(re.findall(r"`([a-z][\w-]*/[\w./-]+\.(?:py|md|toml|yaml|ts|json|sql|jpg))`", text))
    assert len(named) > 1
    starts = [docs.ROOT, docs.ROOT / "layers/core/artiway"]
    assert [one for one in named if not any((start / one).exists() for start in starts)] == []


def test_api_reference_has_every_operation():
    text = docs.api_reference()
    assert "### POST /tasks\n" in text
    assert "`POINTS_402_INSUFFICIENT`" in text
    assert '"tool": "cutout"' in text


def test_pictures_load_nothing_from_other_hosts():
    for picture in (docs.ROOT / "docs/pictures").glob("*.svg"):
        assert "http" not in picture.read_text("utf-8").replace("http://www.w3.org/", "")


def test_page_that_loads_from_another_host_is_found(tmp_path: Path):
    (tmp_path / "a.html").write_text('<a href="https://example.com/">link</a><script src="app.js"></script>')
    assert list(docs.loads_from_others(tmp_path)) == []
    (tmp_path / "b.html").write_text('<script src="https://cdn.example.com/x.js"></script>')
    assert list(docs.loads_from_others(tmp_path)) == ['b.html: <script src="https://cdn.example.com/x.js']
