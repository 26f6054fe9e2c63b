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
from artiway.tasks import catalogue
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
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in names:
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


def is_switch(template: Template, alarm: dict[str, Any]) -> bool:
    return all(template.resources[target(one)]["Type"].endswith("::ScalingPolicy") for one in alarm["AlarmActions"])


def test_every_alarm_notifies_or_scales_workers(template: Template) -> None:
    topics = ([{"Ref": "AlarmTopic"}], [{"Ref": "TicketTopic"}])
    for name, alarm in alarms(template).items():
        assert is_switch(template, alarm) or alarm["AlarmActions"] in topics, name


def test_the_description_names_the_severity_first(template: Template) -> None:
    for name, alarm in alarms(template).items():
        if not is_switch(template, alarm):
            severity = {"AlarmTopic": "Page. ", "TicketTopic": "Ticket. "}[target(alarm["AlarmActions"][0])]
            assert alarm["AlarmDescription"].startswith(severity), name


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


def expression(query: dict[str, Any]) -> str:
    """The text of an expression, also of one that gets numbers from the parameters."""
    text = query["Expression"]
    return text if isinstance(text, str) else str(text["Fn::Sub"][0])


def test_alarm_expression_uses_exactly_its_metrics(template: Template) -> None:
    computed = {name: alarm["Metrics"] for name, alarm in alarms(template).items() if "Metrics" in alarm}
    assert computed
    for name, queries in computed.items():
        fetched = [query["Id"] for query in queries if "MetricStat" in query]
        (result,) = [query for query in queries if query["ReturnData"]]
        assert set(re.findall(r"\b[a-z]\w*", expression(result))) == set(fetched), name
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
        for name in ("SweepFailures", "TaskSweep", "RunSweep", "TextSweep")
        for _, _, dimensions in metrics_of(alarms(template)[f"Alarms{name}Alarm"])
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


def test_cache_alarms_watch_every_node(template: Template) -> None:
    most = max(template.resources["DataCache"]["Properties"]["NumCacheClusters"]["Fn::If"][1:])
    watched = [list(metrics_of(alarm)) for alarm in alarms(template).values()]
    cache = [metrics for metrics in watched if metrics[0][0] == "AWS/ElastiCache"]
    assert len(cache) == 3
    for metrics in cache:
        nodes = [json.dumps(dimensions["CacheClusterId"])[-6:-2] for _, _, dimensions in metrics]
        assert nodes == [f"-{number:03}" for number in range(1, most + 1)]


def test_every_queue_has_an_alarm_for_its_age(template: Template) -> None:
    watched = [
        target(value)
        for alarm in alarms(template).values()
        for _, name, dimensions in metrics_of(alarm)
        if name == "ApproximateAgeOfOldestMessage"
        for value in dimensions.values()
    ]
    queues = {name for name in template.of_type("AWS::SQS::Queue") if "DeadLetter" not in name}
    assert sorted(watched) == sorted(queues)


def test_the_inflow_of_every_dead_letter_queue_counts(template: Template) -> None:
    watched = [
        target(value)
        for name, alarm in alarms(template).items()
        if name.endswith("InflowAlarm")
        for _, _, dimensions in metrics_of(alarm)
        for value in dimensions.values()
    ]
    assert sorted(watched) == sorted(name for name in template.of_type("AWS::SQS::Queue") if "DeadLetter" in name)


def test_reserved_concurrency_is_watched_where_it_exists(template: Template) -> None:
    reserved = {name for name, one in template.functions.items() if "ReservedConcurrentExecutions" in one}
    alarm = alarms(template)["ReservedConcurrencyAlarm"]
    assert {target(dimensions["FunctionName"]) for _, _, dimensions in metrics_of(alarm)} == reserved
    (limits,) = [query["Expression"]["Fn::Sub"][1] for query in alarm["Metrics"] if query["ReturnData"]]
    for name, limit in limits.items():
        assert limit == template.functions[f"{name}Function"]["ReservedConcurrentExecutions"]["Fn::If"][1]


def test_durations_of_all_pools_and_types_are_watched(template: Template) -> None:
    watched = {
        (dimensions["pool"], dimensions["type"])
        for alarm in alarms(template).values()
        for _, name, dimensions in metrics_of(alarm)
        if name == "NodeSeconds"
    }
    assert watched == {(pool, kind) for pool in ("gpu", "enterprise") for kind in catalogue.load().types}
