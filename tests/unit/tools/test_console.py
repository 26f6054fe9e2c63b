"""The build of the console: only when its sources change, and never in the way of `make run`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools import console


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An empty console folder, and the npm commands that the build runs in it."""
    (tmp_path / "src").mkdir()
    (tmp_path / "node_modules").mkdir()
    for name in ("src/main.tsx", "src/main.test.ts", "package-lock.json", "index.html"):
        (tmp_path / name).write_text(name)
    commands: list[str] = []

    def run(*arguments: str) -> None:
        commands.append(arguments[0] if arguments[0] == "install" else arguments[2])
        (tmp_path / "dist").mkdir(exist_ok=True)

    monkeypatch.setattr(console, "CONSOLE", tmp_path)
    monkeypatch.setattr(console, "DIST", tmp_path / "dist")
    monkeypatch.setattr(console, "CLIENT", tmp_path / "client")
    monkeypatch.setattr(console, "npm", run)
    return commands


def test_second_build_of_same_sources_does_nothing(runs: list[str]) -> None:
    assert (console.build(), console.build()) == (0, 0)
    assert runs == ["install", "build"]


def test_changed_source_is_built_without_another_installation(runs: list[str], tmp_path: Path) -> None:
    console.build()
    (tmp_path / "src/main.tsx").write_text("changed")
    console.build()
    assert runs == ["install", "build", "build"]


def test_changed_client_is_built(runs: list[str], tmp_path: Path) -> None:
    console.build()
    (tmp_path / "client").mkdir()
    (tmp_path / "client/core.ts").write_text("changed")
    console.build()
    assert runs == ["install", "build", "build"]


def test_changed_test_is_no_reason_to_build(runs: list[str], tmp_path: Path) -> None:
    console.build()
    (tmp_path / "src/main.test.ts").write_text("changed")
    console.build()
    assert runs == ["install", "build"]


def test_failed_build_leaves_line_and_is_repeated(
    runs: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: str) -> None:
        raise OSError("no network")

    monkeypatch.setattr(console, "npm", fail)
    assert console.build() == 1
    assert "NOT BUILT (no network). The API runs without it" in capsys.readouterr().out
    assert console.build() == 1


@pytest.mark.parametrize(
    ("version", "is_enough"),
    [((18, 20), False), ((20, 18), False), ((20, 19), True), ((21, 9), False), ((24, 0), True)],
)
def test_old_node_is_replaced_by_the_wheel(version: tuple[int, int], is_enough: bool) -> None:
    assert console.is_new_enough(version) is is_enough


def test_packages_of_the_build_are_pinned() -> None:
    package = json.loads((console.CONSOLE / "package.json").read_text())
    pins = {**package["dependencies"], **package["devDependencies"]}
    assert [name for name, version in pins.items() if not version[0].isdigit()] == []
