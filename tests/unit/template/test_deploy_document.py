"""docs/deploy.md: its commands parse and name what exists, its sums add up, its formula is the state machine's."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Any

import botocore.session
import pytest
import yaml
from botocore import xform_name

from local import template as local_template
from tests.unit.template.facts import ROOT, Template, metrics_of

TEXT = (ROOT / "docs/deploy.md").read_text("utf-8")
BLOCKS = re.findall(r"^ *```sh\n(.*?)^ *```", TEXT, re.MULTILINE | re.DOTALL)
INLINE = re.findall(r"`((?:aws|sam|make|docker) [^`]+)`", TEXT)
# Options of the command line itself, of any operation.
GLOBAL = {"query", "output", "region", "cli-binary-format", "no-paginate"}
# Commands that the command line adds to the operations of a service.
ADDED = {
    ("s3", "sync"), ("s3", "cp"), ("ecr", "get-login-password"), ("cloudformation", "deploy"),
    ("cloudformation", "wait"),
}  # fmt: skip
# Options that the command line gives another name than the service.
RENAMED = {("sns", "subscribe"): {"notification-endpoint"}, ("cloudfront", "create-invalidation"): {"paths"}}
WORDS_OF_SHELL = {"|", "||", "&&", ";", "do", "done", "then"}


@cache
def operations(service: str) -> dict[str, set[str]]:
    """Operation -> its options, as the command line names them."""
    model = botocore.session.get_session().get_service_model(service)
    found = {}
    for name in model.operation_names:
        shape = model.operation_model(name).input_shape
        members = shape.members if shape else {}
        options = {xform_name(member, "-") for member in members}
        flags = {f"no-{one}" for one in options}
        found[xform_name(name, "-")] = options | flags
    return found


def calls(program: str) -> Iterator[list[str]]:
    """Each call of a program in the document, also inside $(…), as a list of words."""
    for block in [*BLOCKS, *(" ".join(one.split()) for one in INLINE)]:
        text = re.sub(r"<[^>\n]+>", "placeholder", block).replace("\\\n", " ")
        for start in re.finditer(rf"(?:^|[\s(;&|])({program}) ", text):
            rest = re.split(r"[)\n]|&& |; | \| ", _without_quotes(text[start.start(1) :]))[0]
            words = shlex.split(text[start.start(1) : start.start(1) + len(rest)])
            yield [word for word in words if word not in WORDS_OF_SHELL]


def _without_quotes(text: str) -> str:
    """The text with quoted parts and $(…) blanked, so that separators in them are not found."""
    text = re.sub(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"", lambda found: "x" * len(found[0]), text)
    while found := re.search(r"\$\([^()]*\)|\$\{[^}]*\}", text):
        text = text[: found.start()] + "x" * len(found[0]) + text[found.end() :]
    return text


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip()[:40])
def test_commands_are_valid_shell(block: str) -> None:
    done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_aws_command_and_option_exists() -> None:
    seen = 0
    for _, service, operation, *rest in calls("aws"):
        if (service, operation) in ADDED:
            continue
        seen += 1
        known = operations({"deploy": "codedeploy"}.get(service, service))
        assert operation in known, f"aws {service} {operation}"
        options = {word[2:].partition("=")[0] for word in rest if word.startswith("--")}
        options -= RENAMED.get((service, operation), set())
        assert options - known[operation] - GLOBAL == set(), f"aws {service} {operation}"
    assert seen > 25


def test_make_targets_and_environments_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    sections = set(re.findall(r"^\[(\w+)\.deploy", (ROOT / "samconfig.toml").read_text(), re.MULTILINE))
    found = list(calls("make"))
    assert found
    for _, target, *rest in found:
        assert target in targets, target
        named = {word.partition("=")[2] for word in rest if word.startswith("ENV=")}
        assert {one for one in named if not one.startswith("$")} <= sections


def test_every_parameter_that_is_set_exists(root: Template) -> None:
    replica = local_template.read(ROOT / "stacks/replica.yaml")["Parameters"]
    given = re.findall(r"(?:PARAMETERS=\"?|--parameter-overrides )((?:[A-Z]\w+=[^\s\"`]* ?)+)", TEXT)
    names = {pair.partition("=")[0] for text in given for pair in text.split()}
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
    outputs = set(re.findall(r"\$\(out (\w+)\)|`out (\w+)`", TEXT))
    assert {first or second for first, second in outputs} <= root.body["Outputs"].keys()
    nested = {
        name: local_template.read(ROOT / one["Properties"]["Location"])["Resources"]
        for name, one in local_template.read(ROOT / "template.yaml")["Resources"].items()
        if one["Type"] == "AWS::Serverless::Application"
    }
    for name, inside in re.findall(r"\$\(id (\w+)(?: \$(\w+))?\)", TEXT):
        assert name in (nested[inside.capitalize()] if inside else root.resources), name


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


def test_dev_costs_no_more_than_fifty_dollars() -> None:
    *_, total = table("At rest, per month")
    assert number(total[2]) <= 50


def test_the_metrics_of_alarms_are_counted(root: Template, template: Template) -> None:
    """CloudWatch charges for each metric that an alarm looks at. dev has the alarms of the root stack only."""

    def count(of: Template) -> int:
        return sum(len(list(metrics_of(alarm))) for alarm in of.of_type("AWS::CloudWatch::Alarm").values())

    assert f"| metrics of alarms: {count(root)}, {count(template)}, {count(template)} |" in TEXT


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
    entry = visited(node["States"], node["StartAt"], {"HasDependencies": "Ready"})
    other = visited(node["States"], node["StartAt"], {"HasDependencies": "AwaitDependencies"})
    assert f"**{task} + {entry} × entry nodes + {other} × other nodes**" in " ".join(TEXT.split())
    assert (task + entry + 2 * other, task + entry + 6 * other) == (12, 24)
    assert "a chain of three nodes has 12" in " ".join(TEXT.split())
