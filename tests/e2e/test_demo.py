"""`make demo` on a running stack: its output, the ledgers and the pictures."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys

from local.workers import ROOT
from local.writing import TOKENS_A_PIECE
from tests.e2e.studio import Studio

LIMIT_S = 600


def test_demo_ends_and_saves_the_named_pictures(studio: Studio) -> None:
    home = studio.stack.home
    paths = f"{ROOT / 'layers/core'}{os.pathsep}{ROOT}"
    done = subprocess.run(
        [sys.executable, "-m", "local.demo"],
        cwd=ROOT,
        env={**os.environ, "ARTIWAY_HOME": str(home), "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    output = done.stdout
    assert done.returncode == 0, output + done.stderr
    assert re.search(r"A  VIP shop, weight 5 .*price 30, frozen 30, balance 70\n", output)
    assert re.search(r"B  free shop, weight 1 .*price 10, frozen 10, balance 90\n", output)
    assert output.count("neural: False") == 2
    assert re.search(r"A schedules a job: .*\n( .*\n){3}   run SUCCESS, attempt 1, task COMPLETED", output)
    kinds = re.findall(r"ledger   (\w+) +balance +([+-]\d+)  frozen +([+-]\d+)", output)
    assert kinds == [
        *(("GIFT", "+100", "+0"), ("FREEZE", "-30", "+30"), ("CONFIRM", "+0", "-30")),
        *(("GIFT", "+100", "+0"), ("FREEZE", "-10", "+10"), ("CONFIRM", "+0", "-10")),
    ]

    written = re.search(r"done: local/smollm2-135m in lane paid_stream, (\d+) pieces", output)
    used = re.search(r"'outputTokens': (\d+)} by the provider, ([1-9]) of \d+ points", output)
    assert written is not None
    assert used is not None
    # The model chooses the length of its text, so a short one may come in fewer pieces.
    assert int(written[1]) >= min(5, int(used[1]) // TOKENS_A_PIECE)

    rows = re.findall(r"^  (cutout|model|compose) +([AB]:.*)$", output, re.MULTILINE)
    assert {kind: sorted(row.split()) for kind, row in rows} == {
        "cutout": ["A:cutout", "B:cutout"],
        "model": ["A:model_1", "A:model_2", "A:model_3", "B:model_1"],
        "compose": ["A:compose_1", "A:compose_2", "A:compose_3", "B:compose_1"],
    }
    # The demo gives a reason where the free shop went first.
    has_reason = any(re.search(r"B:.*A:", row) for _, row in rows)
    assert has_reason == ("On every worker A's nodes went before B's." not in output)

    named = re.findall(r"picture  (\S+)  960 x 1280", output)
    pictures = {str(file): file.read_bytes() for file in (home / "demo").glob("?-compose_*.png")}
    assert sorted(named) == sorted(pictures)
    assert len(set(pictures.values())) == 4
    assert {struct.unpack(">II", picture[16:24]) for picture in pictures.values()} == {(960, 1280)}
