"""`make demo` by itself, on a stack that runs already: the story of the specification, its books and its pictures."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys

import pytest

from local.workers import ROOT
from tests.e2e.studio import Studio

pytestmark = pytest.mark.xdist_group("e2e")
LIMIT_S = 600


def test_the_story_plays_to_its_end_and_leaves_the_pictures_that_it_names(studio: Studio) -> None:
    home = studio.stack.home
    paths = f"{ROOT / 'layers/core'}{os.pathsep}{ROOT}"
    played = subprocess.run(
        [sys.executable, "-m", "local.demo"],
        cwd=ROOT,
        env={**os.environ, "ARTIWAY_HOME": str(home), "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    told = played.stdout
    assert played.returncode == 0, told + played.stderr
    assert re.search(r"A  VIP shop, weight 5 .*price 30, frozen 30, left 70\n", told)
    assert re.search(r"B  free shop, weight 1 .*price 10, frozen 10, left 90\n", told)
    assert told.count("neural: False") == 2
    kinds = re.findall(r"ledger   (\w+) +balance +([+-]\d+)  frozen +([+-]\d+)", told)
    assert kinds == [
        *(("GIFT", "+100", "+0"), ("FREEZE", "-30", "+30"), ("CONFIRM", "+0", "-30")),
        *(("GIFT", "+100", "+0"), ("FREEZE", "-10", "+10"), ("CONFIRM", "+0", "-10")),
    ]

    rows = re.findall(r"^  (cutout|model|compose) +([AB]:.*)$", told, re.MULTILINE)
    assert {kind: sorted(row.split()) for kind, row in rows} == {
        "cutout": ["A:cutout", "B:cutout"],
        "model": ["A:model_1", "A:model_2", "A:model_3", "B:model_1"],
        "compose": ["A:compose_1", "A:compose_2", "A:compose_3", "B:compose_1"],
    }
    # Where the free shop went first anywhere, the reason stands there.
    was_passed = any(re.search(r"B:.*A:", row) for _, row in rows)
    assert was_passed == ("On every worker A's nodes went before B's." not in told)

    named = re.findall(r"picture  (\S+)  960 x 1280", told)
    pictures = {str(file): file.read_bytes() for file in (home / "demo").glob("?-compose_*.png")}
    assert sorted(named) == sorted(pictures)
    assert len(set(pictures.values())) == 4
    assert {struct.unpack(">II", picture[16:24]) for picture in pictures.values()} == {(960, 1280)}
