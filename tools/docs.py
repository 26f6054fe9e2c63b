"""Builds the documentation site into `site/`: `make docs`. It needs no network and loads nothing from another host.

The pages of docs/ are copied beside the generated references, so that both are one site.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "site"
CONFIG = ROOT / "tools/mkdocs.yml"
# Files of the repository that pages refer to, and their place in the site.
ALSO = {"CONTRIBUTING.md": "contributing.md", "README.md": "readme.md"}
FOREIGN = re.compile(r"""<(?:script|link|img|iframe|source|video|audio)\b[^>]*?(?:src|href)=["'](https?:)?//[^"']*""")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="artiway-docs-") as place:
        pages = Path(place) / "docs"
        gather(pages)
        config = Path(place) / "mkdocs.yml"
        config.write_text(CONFIG.read_text("utf-8").format(docs_dir=pages, site_dir=SITE), "utf-8")
        # Not --quiet: it drops warnings before --strict counts them.
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "-f", str(config)]
        environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # an announcement of the theme
        done = subprocess.run(command, check=False, cwd=place, env=environment, capture_output=True, text=True)
        if done.returncode or "WARNING" in done.stderr:
            print(done.stderr.replace(f"{pages}/", "docs/"), end="", file=sys.stderr)
            return done.returncode or 1
    if foreign := list(loads_from_others(SITE)):
        print("these pages load from another host:", *foreign, sep="\n  ", file=sys.stderr)
        return 1
    print(f"{len(list(SITE.rglob('*.html')))} pages in {SITE}/index.html")
    return 0


def gather(pages: Path) -> None:
    shutil.copytree(ROOT / "docs", pages)
    for source, target in ALSO.items():
        (pages / target).write_text(_moved((ROOT / source).read_text("utf-8")), "utf-8")
    for page in pages.rglob("*.md"):
        text = page.read_text("utf-8")
        for source, target in ALSO.items():
            text = text.replace(f"](../{source}", f"]({target}")
        page.write_text(text, "utf-8")
    reference = pages / "reference"
    reference.mkdir()
    (reference / "api.md").write_text(api_reference(), "utf-8")
    (reference / "cli.md").write_text(cli_reference(), "utf-8")


def _moved(text: str) -> str:
    """Links of a page of the repository's root, from the site's root."""
    text = text.replace("](docs/", "](").replace("](CONTRIBUTING.md", "](contributing.md")
    return re.sub(r"\[([^\]]*)\]\((?:clients|worker|LICENSE|README\.zh)[^)]*\)", r"\1", text)


def api_reference() -> str:
    document = json.loads((ROOT / "layers/core/artiway/openapi.json").read_text("utf-8"))
    areas: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            areas.setdefault(operation["tags"][0], []).append("\n".join(_operation(method, path, operation)))
    parts = [
        "# API",
        "",
        "Generated from the OpenAPI document, which every stack serves at `/api/v1/openapi.json`, and",
        "",
    ]
    parts[2] += "\nas a page to try it at `/api/v1/docs`."
    for area, entries in sorted(areas.items()):
        parts += [f"## {area}", "", *entries]
    return "\n".join(parts) + "\n"


def _operation(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"### {method.upper()} {path.removeprefix('/api/v1')}"
    yield ""
    yield operation["description"]
    yield ""
    success = next((status, answer) for status, answer in operation["responses"].items() if status.startswith("2"))
    for title, content in (("Request", operation.get("requestBody", {})), (f"Answer {success[0]}", success[1])):
        example = content.get("content", {}).get("application/json", {}).get("example")
        if example not in (None, {}):
            yield f"{title}:\n\n```json\n{json.dumps(example, ensure_ascii=False, indent=1)}\n```\n"


def cli_reference() -> str:
    command = [sys.executable, "-m", "typer", "artiway_client.cli.app", "utils", "docs", "--name", "artiway"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT / "clients/python")
    return done.stdout.replace("# `artiway`", "# Command line", 1)


def loads_from_others(site: Path) -> Iterator[str]:
    for page in sorted(site.rglob("*.html")):
        for found in FOREIGN.finditer(page.read_text("utf-8")):
            if 'rel="canonical"' not in found[0]:
                yield f"{page.relative_to(site)}: {found[0]}"


if __name__ == "__main__":
    sys.exit(main())
