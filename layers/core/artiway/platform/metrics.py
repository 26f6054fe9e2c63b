"""Metrics as CloudWatch EMF: CloudWatch extracts them from log lines, so no API call is made."""

from __future__ import annotations

import os
from typing import Literal

from aws_lambda_powertools.metrics import MetricUnit, single_metric

NAMESPACE = "Artiway"
# CloudWatch charges for each metric. A deployment without alarms writes only those that start and stop workers.
ESSENTIAL = frozenset({"NodesWaiting", "Slots", "SlotsInUse"})
Unit = Literal["Count", "Seconds", "Milliseconds", "Bytes", "Percent", "None"]


def emit(name: str, value: float, unit: Unit = "Count", **dimensions: str) -> None:
    """Write one measured value. Dimensions are few and bounded: never an id."""
    if os.environ.get("ARTIWAY_METRICS") == "essential" and name not in ESSENTIAL:
        return
    every = {"environment": os.environ.get("ARTIWAY_ENVIRONMENT", "local"), **dimensions}
    with single_metric(name, MetricUnit(unit), value, namespace=NAMESPACE, default_dimensions=every):
        pass  # each value has dimensions of its own, so each is a line
