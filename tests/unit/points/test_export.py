"""A ledger that is opened in a spreadsheet runs nothing."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from uuid import UUID

import pytest

from artiway.points.model import Entry, Kind
from tests.fakes.clock import NOON
from tools.openapi import load_handler

FOLDER = Path(__file__).parents[3] / "functions/points"


@pytest.mark.parametrize("reference", ["=1+1", "+cmd", "-2", "@SUM(A1)", "\tx"])
def test_reference_that_looks_like_formula_is_defused(reference: str):
    entry = Entry(UUID(int=1), UUID(int=2), 1, Kind.GIFT, 5, 0, 5, 0, reference, NOON)
    answer = load_handler(FOLDER)._csv([entry], "next")
    header, row = csv.reader(io.StringIO(answer.body))
    assert dict(zip(header, row, strict=True))["reference"] == f"'{reference}"
    assert answer.headers["x-next-cursor"] == "next"
