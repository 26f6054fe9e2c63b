"""The catalogue is the one list of node types; every other place is derived from it or compared with it here."""

from __future__ import annotations

import json
import re

from artiway.scheduling.lanes import LANES
from artiway.scheduling.operations import IMAGE_POOLS
from artiway.tasks import catalogue
from local.workers import queue_of
from tests.unit.template.facts import ROOT

TYPES = tuple(catalogue.load().types)


def test_template_has_a_queue_per_pool_and_type(template):
    wanted = {queue_of(pool, node_type) for pool in IMAGE_POOLS for node_type in TYPES}
    found = {
        name
        for name in template.of_type("AWS::SQS::Queue")
        if re.fullmatch(r"Work(Gpu|Enterprise)\w+Queue", name) and not name.endswith("DeadLetterQueue")
    }
    assert found == wanted


def test_queue_maps_name_every_pool_and_type():
    text = (ROOT / "template.yaml").read_text("utf-8")
    maps = [json.loads(found) for found in re.findall(r"!Sub '(\{\"work:[^']+\})'", text)]
    assert maps
    for found in maps:
        work = {name: value for name, value in found.items() if name.startswith("work:")}
        assert work == {f"work:{pool}:{kind}": f"${{{queue_of(pool, kind)}}}" for pool in IMAGE_POOLS for kind in TYPES}


def test_pools_of_pictures_have_lanes():
    assert set(IMAGE_POOLS) <= {spec.pool for spec in LANES.values()}
