"""The keys with which the one-machine stack checks addresses follow the parameters of the template."""

from __future__ import annotations

from pathlib import Path

import pytest

from local import template
from local.stack import Stack

DECLARED = template.read(Path(__file__).parents[3] / "template.yaml")


@pytest.mark.parametrize(
    ("parameters", "keys"),
    [
        ({}, ["first-1", "second-1"]),
        ({"PictureKeySlot": "second"}, ["second-1", "first-1"]),
        ({"PictureKeySlot": "second", "FirstPictureKey": "none"}, ["second-1"]),
        ({"PictureKeySlot": "second", "FirstPictureKey": "2"}, ["second-1", "first-2"]),
    ],
)
def test_signing_key_comes_first_in_each_step(tmp_path: Path, parameters: dict[str, str], keys: list[str]) -> None:
    stack = Stack(home=tmp_path, port=1, parameters=parameters)
    assert list(stack._picture_keys(DECLARED).values()) == keys


def test_template_without_keys_has_none(tmp_path: Path) -> None:
    assert Stack(home=tmp_path, port=1)._picture_keys({"Resources": {}}) == {}
