"""The catalogue is the one list of node types; every other place is derived from it or compared with it here."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase

import pytest

from artiway.scheduling.lanes import LANES
from artiway.scheduling.operations import IMAGE_POOLS
from artiway.tasks import catalogue
from local.workers import queue_of
from tests.unit.template.facts import ROOT, many, target

TYPES = tuple(catalogue.load().types)


def test_template_has_a_queue_per_pool_and_type(template):
    wanted = {queue_of(pool, node_type) for pool in IMAGE_POOLS for node_type in TYPES}
    found = {
        name
        for name in template.of_type("AWS::SQS::Queue")
        if re.fullmatch(r"Work(Gpu|Enterprise)\w+Queue", name) and not name.endswith("DeadLetterQueue")
    }
    assert found == wanted


def test_queue_map_names_every_pool_and_type(template):
    found = json.loads(template.of_type("AWS::SSM::Parameter")["Queues"]["Value"]["Fn::Sub"])
    work = {name: value for name, value in found.items() if name.startswith("work:")}
    wanted = {f"work:{pool}:{kind}": queue_of(pool, kind) for pool in IMAGE_POOLS for kind in TYPES}
    assert work == {name: f"${{{queue}.QueueName}}" for name, queue in wanted.items()}


def test_no_other_place_lists_the_destinations():
    text = (ROOT / "template.yaml").read_text("utf-8")
    assert text.count('"work:gpu:cutout"') == 1


def destinations_of(template) -> dict[str, str]:
    """The queue of each destination: by name, and the lanes of texts by the beginning of their names."""
    named = json.loads(template.of_type("AWS::SSM::Parameter")["Queues"]["Value"]["Fn::Sub"])
    prefix = template.variables_of("GenerationsFunction")["ARTIWAY_TEXT_QUEUES"]["Fn::Sub"]
    by_name = {
        queue["QueueName"]["Fn::Sub"]: f"${{{name}.QueueName}}"
        for name, queue in template.of_type("AWS::SQS::Queue").items()
        if "QueueName" in queue
    }
    return named | {f"lane:{lane}": by_name[f"{prefix}{lane}"] for lane, spec in LANES.items() if spec.pool == "text"}


def test_every_queue_is_a_destination_or_dead_letters(template):
    named = set(destinations_of(template).values())
    dead = json.loads(template.of_type("AWS::SSM::Parameter")["DeadLetters"]["Value"]["Fn::Sub"])
    named |= {queue for queue, _ in dead.values()}
    assert named == {f"${{{name}.QueueName}}" for name in template.of_type("AWS::SQS::Queue")}


@pytest.mark.parametrize("function", ["OpsFunction", "WatchdogFunction"])
def test_dead_letters_are_readable_where_named(template, function):
    assert template.variables_of(function)["ARTIWAY_DEAD_LETTERS_PARAMETER"] == {"Ref": "DeadLetters"}
    dead = {name for name in template.of_type("AWS::SQS::Queue") if "DeadLetter" in name}
    granted = [
        (action, json.dumps(one["Resource"])) for one in template.granted(function) for action in many(one["Action"])
    ]
    assert [place for action, place in granted if action == "ssm:GetParameter" and "${DeadLetters}" in place]
    counted = "".join(place for action, place in granted if action == "sqs:GetQueueAttributes")
    assert {name for name in dead if f'"{name}"' not in counted} == set()


def test_dead_letters_go_back_to_their_sources(template):
    """The destinations that a dead-letter queue serves are the queues whose redrive policy names it."""
    queues = template.of_type("AWS::SQS::Queue")
    destinations = destinations_of(template)
    dead = json.loads(template.of_type("AWS::SSM::Parameter")["DeadLetters"]["Value"]["Fn::Sub"])
    for name, (queue, served) in dead.items():
        sources = {
            source.removeprefix("${").removesuffix(".QueueName}")
            for to, source in destinations.items()
            if any(fnmatchcase(to, one) for one in served.split())
        }
        redriven = {
            source
            for source, one in queues.items()
            if "RedrivePolicy" in one
            and f"${{{target(one['RedrivePolicy']['deadLetterTargetArn'])}.QueueName}}" == queue
        }
        assert sources == redriven, name
        assert sources, name


def test_pools_of_pictures_have_lanes():
    assert set(IMAGE_POOLS) <= {spec.pool for spec in LANES.values()}
