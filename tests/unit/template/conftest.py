"""The template as SAM expands it, made once."""

from __future__ import annotations

from typing import Any

import pytest

from local import template as local_template
from tests.unit.template.facts import ROOT, Template


@pytest.fixture(scope="session")
def source() -> dict[str, Any]:
    return local_template.load(ROOT / "template.yaml")


@pytest.fixture(scope="session")
def template(source: dict[str, Any]) -> Template:
    """The whole platform, flat: the resource `Cache` of the nested stack `Data` is `DataCache`."""
    return Template(local_template.translate(source))


@pytest.fixture(scope="session")
def root() -> Template:
    """The root stack alone, as CloudFormation gets it."""
    return Template(local_template.translate(local_template.read(ROOT / "template.yaml")))
