"""The operator's list of private targets becomes a parameter of the local stack."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from local.stack import CannotStart, Stack


@pytest.fixture
def stack(tmp_path):
    stack = Stack(home=tmp_path, port=1)
    stack._local = SimpleNamespace(body={"Parameters": {"AllowedTargets": {}}})
    return stack


@pytest.mark.parametrize(("text", "parameter"), [("", ""), (" Box:80, [::1]:9,box:80", "[::1]:9,box:80")])
def test_target_list_becomes_a_template_parameter(stack, monkeypatch, text, parameter):
    monkeypatch.setenv("ARTIWAY_ALLOWED_TARGETS", text)
    stack._allow_targets()
    assert stack._parameters["AllowedTargets"] == parameter


def test_invalid_target_list_stops_the_start(stack, monkeypatch):
    monkeypatch.setenv("ARTIWAY_ALLOWED_TARGETS", "127.1:80")
    with pytest.raises(CannotStart, match="ARTIWAY_ALLOWED_TARGETS"):
        stack._allow_targets()
