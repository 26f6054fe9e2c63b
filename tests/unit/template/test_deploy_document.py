"""docs/deploy.md: its commands parse and name what exists, its sums add up, its formula is the state machine's."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from local import template as local_template
from tests.unit.template.documents import Document
from tests.unit.template.facts import ROOT, Template, metrics_of

DEPLOY = Document("deploy.md")
TEXT = DEPLOY.text


def test_commands_are_valid_shell() -> None:
    assert list(DEPLOY.shell_errors()) == []


def test_every_aws_command_and_option_exists() -> None:
    assert len(list(DEPLOY.calls("aws"))) > 25
    assert list(DEPLOY.unknown_aws_calls()) == []


def test_make_targets_and_environments_exist() -> None:
    assert list(DEPLOY.calls("make"))
    assert list(DEPLOY.unknown_targets()) == []


def test_every_parameter_that_is_set_exists(root: Template) -> None:
    replica = local_template.read(ROOT / "stacks/replica.yaml")["Parameters"]
    names = DEPLOY.parameters()
    assert len(names) >= 5
    assert names <= root.body["Parameters"].keys() | replica.keys()


def test_the_table_of_parameters_is_of_the_template(root: Template) -> None:
    section = TEXT.partition("## Parameters\n")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| `")]
    assert rows
    for _, names, defaults, *_ in rows:
        found = re.findall(r"`(\w+)`", names)
        values = [one.strip().strip("`") for one in defaults.split(",")]
        for name, value in zip(found, values if len(values) > 1 else values * len(found), strict=True):
            default = str(root.body["Parameters"][name]["Default"])
            assert value == (default or "none"), name


def test_outputs_and_resources_that_are_asked_for_exist(root: Template) -> None:
    assert list(DEPLOY.unknown_resources(root)) == []


def table(heading: str) -> list[list[str]]:
    section = TEXT.partition(heading)[2].partition("**together**")
    rows = [*section[0].splitlines()[:-1], "| **together**" + section[2].splitlines()[0]]
    return [[cell.strip(" *") for cell in row.strip("|").split("|")] for row in rows if row.startswith("| ")]


def number(cell: str) -> float:
    return 0 if cell == "–" else float(cell)


@pytest.mark.parametrize(("heading", "columns"), [("At rest, per month", (2, 3, 4)), ("Per 1,000 tasks", (2, 3))])
def test_the_columns_of_costs_add_up(heading: str, columns: tuple[int, ...]) -> None:
    head, _, *rows, total = table(heading)
    assert head[-1] == "source"
    for row in rows:
        assert "$" in row[1], f"no unit price: {row[0]}"
        assert re.search(r"memory|\[\d\]", row[-1]), f"no source: {row[0]}"
    for column in columns:
        assert abs(sum(number(row[column]) for row in rows) - number(total[column])) < 0.02, head[column]


def test_dev_costs_less_than_51_dollars() -> None:
    *_, total = table("At rest, per month")
    assert number(total[2]) < 51


def test_the_metrics_of_alarms_are_counted(root: Template, template: Template) -> None:
    """CloudWatch charges for each metric that an alarm looks at. dev has those of the root stack, of runs and mails."""
    counts = {name: len(list(metrics_of(alarm))) for name, alarm in template.of_type("AWS::CloudWatch::Alarm").items()}
    dev = sum(count for name, count in counts.items() if name in root.resources or name.startswith(("Runs", "Mail")))
    every = sum(counts.values())
    assert f"| metrics of alarms: {dev}, {every}, {every} |" in TEXT


def visited(states: dict[str, Any], start: str, answers: dict[str, str]) -> int:
    """States that an execution enters, which AWS counts as transitions. `answers` has the way out of each choice."""
    count, name = 0, start
    while name:
        state = states[name]
        count, name = count + 1, answers.get(name) or state.get("Next", "")
    return count


def test_the_formula_counts_the_states_of_the_machine() -> None:
    machine = yaml.safe_load((ROOT / "statemachines/task_dag.asl.yaml").read_text())
    states = machine["States"]
    node = states["Nodes"]["ItemProcessor"]
    task = visited(states, machine["StartAt"], {"IsOver": "Done"})
    each = visited(node["States"], node["StartAt"], {})
    assert f"**{task} + {each} × nodes**" in " ".join(TEXT.split())
    assert (task + 3 * each, task + 7 * each) == (7, 11)
    assert "a chain of three nodes has 7" in " ".join(TEXT.split())
