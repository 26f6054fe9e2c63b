"""docs/runbook.md: a section for each alarm, and commands that name what exists."""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Iterator

from tests.unit.template.documents import Document
from tests.unit.template.facts import ROOT, Template, target

RUNBOOK = Document("runbook.md")
PARTS = ("Means", "Look", "Do")
# Lines that Lambda writes itself.
OF_LAMBDA = {"Task timed out", "Runtime exited", "ImportModuleError"}


def sections(below: str) -> dict[str, str]:
    """The text of each section of the third level, by heading."""
    part = RUNBOOK.text.partition(f"\n## {below}\n")[2].partition("\n## ")[0]
    headings = re.split(r"^### (.+)\n", part, flags=re.MULTILINE)
    return dict(zip(headings[1::2], headings[2::2], strict=True))


def named(section: str) -> dict[str, str]:
    """The alarms that a section names before its first bullet, with the severity that it gives them."""
    head = " ".join(section.partition("\n- ")[0].split())
    found, severity = {}, ""
    for name, given in reversed(re.findall(r"`(\w+Alarm)`(?: \(([^)]+)\))?", head)):
        severity = given or severity
        found[name] = severity.removeprefix("all: ")
    return found


def slug(heading: str) -> str:
    """The anchor that GitHub and GitLab give a heading."""
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))


def alarms(template: Template) -> dict[str, dict[str, object]]:
    """By the name that the runbook uses: without the stack that has nothing but alarms."""
    return {name.removeprefix("Alarms"): one for name, one in template.of_type("AWS::CloudWatch::Alarm").items()}


def test_alarms_and_sections_are_the_same(template: Template) -> None:
    documented = [name for text in sections("Alarms").values() for name in named(text)]
    assert len(documented) == len(set(documented)), "an alarm in two sections"
    assert set(documented) == set(alarms(template))


def test_sections_give_the_severity_of_alarms(template: Template) -> None:
    severities = {"AlarmTopic": "page", "TicketTopic": "ticket"}
    for text in sections("Alarms").values():
        for name, severity in named(text).items():
            (action,) = alarms(template)[name]["AlarmActions"]  # type: ignore[misc]
            assert severity == severities.get(target(action), "no person is notified"), name


def test_every_description_links_its_section(template: Template) -> None:
    for heading, text in sections("Alarms").items():
        for name in named(text):
            description = str(alarms(template)[name]["AlarmDescription"])
            assert description.endswith(f". docs/runbook.md#{slug(heading)}"), name


def test_every_section_has_the_same_parts() -> None:
    for heading, text in sections("Alarms").items():
        assert tuple(re.findall(r"^- \*\*(\w+)\.\*\*", text, re.MULTILINE)) == PARTS, heading


def test_links_lead_to_headings_and_files() -> None:
    headings = {slug(one) for one in re.findall(r"^#+ (.+)$", RUNBOOK.text, re.MULTILINE)}
    for file, anchor in re.findall(r"\]\(([\w.-]*)#?([\w-]*)\)", RUNBOOK.text):
        if file:
            text = (ROOT / "docs" / file).read_text("utf-8")
            known = {slug(one) for one in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
            assert not anchor or anchor in known, f"{file}#{anchor}"
        else:
            assert anchor in headings, anchor


def test_commands_exist_with_their_options(root: Template) -> None:
    assert list(RUNBOOK.shell_errors()) == []
    assert len(list(RUNBOOK.calls("aws"))) > 25
    assert list(RUNBOOK.unknown_aws_calls()) == []
    assert list(RUNBOOK.unknown_targets()) == []
    assert list(RUNBOOK.unknown_resources(root)) == []
    assert RUNBOOK.parameters() <= root.body["Parameters"].keys()


def routes() -> Iterator[tuple[str, str]]:
    """Every route that the runbook calls or names, with its method."""
    for _, method, path, *_ in RUNBOOK.calls("ops"):
        if method != "$1":
            yield method, path
    yield from re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`]+)`", RUNBOOK.text)


def test_every_route_exists() -> None:
    paths = json.loads((ROOT / "layers/core/artiway/openapi.json").read_text())["paths"]
    known = [
        (method.upper(), re.compile(re.sub(r"\{\w+\}", "[^/]+", path.removeprefix("/api/v1"))))
        for path, methods in paths.items()
        for method in methods
    ]
    found = set(routes())
    assert len(found) > 15
    for method, path in found:
        assert any(method == one and pattern.fullmatch(path.partition("?")[0]) for one, pattern in known), (
            f"{method} {path}"
        )


def test_lanes_queues_and_models_exist(template: Template) -> None:
    dead = json.loads(template.of_type("AWS::SSM::Parameter")["DeadLetters"]["Value"]["Fn::Sub"])
    lanes = {name.partition(":")[2] for _, name in dead.values() if name.startswith("lane:")}
    lanes |= set(dead["run_lanes"][1].split())
    for _, path in routes():
        match path.strip("/").split("/"):
            case ["ops", "dlq", queue, *_]:
                assert queue in dead, path
            case ["ops", "lanes", lane, *_]:
                assert lane in {*lanes, "$lane"}, path


@functools.cache
def written() -> set[str]:
    """Every message of a log line and every name of a metric in the code."""
    return {
        node.args[0].value
        for folder in ("functions", "layers/core/artiway", "worker")
        for file in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }  # fmt: skip


def test_every_line_that_is_searched_is_written(template: Template) -> None:
    groups = {
        str(one["LogGroupName"]["Fn::Sub"]).rpartition("/")[2]
        for one in template.of_type("AWS::Logs::LogGroup").values()
        if isinstance(one.get("LogGroupName", {}).get("Fn::Sub"), str)
    }
    groups |= {"worker-gpu", "worker-enterprise"}
    searched = [call for call in RUNBOOK.calls("logs") if len(call) == 3]
    assert len(searched) > 15
    for _, group, pattern in searched:
        assert group in groups, group
        for message in re.findall(r'"([^"]+)"', pattern):
            is_status = pattern.startswith("{ $.status")
            assert is_status or message in OF_LAMBDA or message in written(), message
