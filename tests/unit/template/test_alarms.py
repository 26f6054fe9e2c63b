"""Who learns of what, and whether what an alarm or the dashboard watches is ever written."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from artiway.payments.bill import Difference
from tests.unit.template.facts import ROOT, Template, metrics_of, target

# A failed deployment is reported by CloudFormation itself.
WITNESSED = {"DeployFunction"}
COLUMNS = 24


def sources() -> Iterator[ast.AST]:
    for folder in ("functions", "layers/core/artiway"):
        for file in sorted(Path(ROOT / folder).rglob("*.py")):
            yield from ast.walk(ast.parse(file.read_text()))


def calls(*names: str) -> Iterator[ast.Call]:
    for node in sources():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names:
            yield node


def written() -> dict[str, set[frozenset[str]]]:
    """Every metric that the code writes, with the dimensions that it has beside `environment`."""
    found: dict[str, set[frozenset[str]]] = defaultdict(set)
    for call in calls("emit", "guard"):
        match call.args:
            case [ast.Constant(value=str(name)), *_]:
                found[name].add(frozenset(str(keyword.arg) for keyword in call.keywords))
    return found


def alarms(template: Template) -> dict[str, dict[str, Any]]:
    return template.of_type("AWS::CloudWatch::Alarm")


def dashboard(template: Template) -> list[dict[str, Any]]:
    (one,) = template.of_type("AWS::CloudWatch::Dashboard").values()
    widgets: list[dict[str, Any]] = json.loads(one["DashboardBody"]["Fn::Sub"])["widgets"]
    return widgets


def drawn(template: Template) -> Iterator[tuple[str, str, dict[str, str]]]:
    for widget in dashboard(template):
        for namespace, name, *rest in widget["properties"]["metrics"]:
            words = [word for word in rest if isinstance(word, str)]
            yield namespace, name, dict(zip(words[::2], words[1::2], strict=True))


def test_every_alarm_notifies_or_scales_workers(template: Template) -> None:
    for name, alarm in alarms(template).items():
        actions = alarm["AlarmActions"]
        is_switch = all(template.resources[target(one)]["Type"].endswith("::ScalingPolicy") for one in actions)
        assert is_switch or {"Ref": "AlarmTopic"} in actions, name


def test_alarms_notify_their_end_where_possible(template: Template) -> None:
    for name, alarm in alarms(template).items():
        if "OKActions" in alarm:
            assert alarm["OKActions"] == alarm["AlarmActions"], name


def test_the_errors_of_every_function_raise_an_alarm(template: Template) -> None:
    watched = [
        target(dimensions["FunctionName"])
        for alarm in alarms(template).values()
        for namespace, name, dimensions in metrics_of(alarm)
        if (namespace, name) == ("AWS/Lambda", "Errors")
    ]
    assert len(watched) == len(set(watched)), "a function in two alarms"
    assert set(watched) == set(template.functions) - WITNESSED


def test_alarm_expression_uses_exactly_its_metrics(template: Template) -> None:
    computed = {name: alarm["Metrics"] for name, alarm in alarms(template).items() if "Metrics" in alarm}
    assert computed
    for name, queries in computed.items():
        fetched = [query["Id"] for query in queries if "MetricStat" in query]
        (result,) = [query for query in queries if query["ReturnData"]]
        assert set(re.findall(r"\b[a-z]\w*", result["Expression"])) == set(fetched), name
        assert len(fetched) == len(set(fetched)) <= 10, f"{name}: an alarm takes ten metrics at most"
        assert len({query["MetricStat"]["Period"] for query in queries if "MetricStat" in query}) == 1, name


def test_watched_metrics_are_written_by_the_code(template: Template) -> None:
    watched = [metric for alarm in alarms(template).values() for metric in metrics_of(alarm)]
    for policy in template.of_type("AWS::ApplicationAutoScaling::ScalingPolicy").values():
        if tracking := policy.get("TargetTrackingScalingPolicyConfiguration"):
            watched += metrics_of(tracking["CustomizedMetricSpecification"])
    watched += drawn(template)
    ours = [(name, frozenset(dimensions)) for namespace, name, dimensions in watched if namespace == "Artiway"]
    known = written()
    for name, dimensions in ours:
        assert "environment" in dimensions, name
        assert dimensions - {"environment"} in known[name], (name, sorted(dimensions))


def test_alarms_watch_exactly_the_recovery_sweeps(template: Template) -> None:
    swept = {str(keyword.arg) for call in calls("_counted") for keyword in call.keywords}
    swept |= {
        str(keyword.value.value)
        for call in calls("emit")
        for keyword in call.keywords
        if keyword.arg == "sweep" and isinstance(keyword.value, ast.Constant)
    }
    watched = [
        dimensions["sweep"]
        for name in ("AlarmsSweepFailuresAlarm", "AlarmsTaskSweepAlarm")
        for _, _, dimensions in metrics_of(alarms(template)[name])
    ]
    assert sorted(watched) == sorted(swept)


def test_every_difference_with_the_bill_raises_an_alarm(template: Template) -> None:
    watched = {
        name: {dimensions["kind"] for _, _, dimensions in metrics_of(alarms(template)[f"Alarms{name}"])}
        for name in ("PaymentDifferencesAlarm", "BillAlarm")
    }
    assert watched["PaymentDifferencesAlarm"] == {f"BILL_{kind}" for kind in Difference}
    assert watched["BillAlarm"] == {"BILL_BROKEN", "BILL_LATE"}


def test_dashboard_is_json_with_widgets_side_by_side(template: Template) -> None:
    taken: set[tuple[int, int]] = set()
    for widget in dashboard(template):
        left, top = widget["x"], widget["y"]
        assert left + widget["width"] <= COLUMNS
        cells = {(left + x, top + y) for x in range(widget["width"]) for y in range(widget["height"])}
        assert not taken & cells, widget["properties"]["title"]
        taken |= cells


def test_dashboard_names_only_resources_of_the_template(template: Template) -> None:
    (one,) = template.of_type("AWS::CloudWatch::Dashboard").values()
    named = {name.partition(".")[0] for name in re.findall(r"\$\{([^}]+)\}", one["DashboardBody"]["Fn::Sub"])}
    known = set(template.resources) | set(template.body["Parameters"])
    assert {name for name in named if not name.startswith("AWS::")} <= known
    shown = {name for name in named if name in template.functions}
    assert shown == set(template.functions) - WITNESSED
    dead = {name for name in template.of_type("AWS::SQS::Queue") if "DeadLetter" in name}
    assert dead <= named


def test_no_metric_gets_a_dimension_from_the_environment(template: Template) -> None:
    # Powertools adds the name of the service to each metric where this variable is set; no alarm would match.
    assert "POWERTOOLS_SERVICE_NAME" not in json.dumps(template.body)
