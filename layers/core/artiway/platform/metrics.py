"""Metrics as CloudWatch EMF: a log line that CloudWatch turns into numbers, so nothing is called and nothing waits."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Literal

NAMESPACE = "Artiway"
Unit = Literal["Count", "Seconds", "Milliseconds", "Bytes", "Percent", "None"]


def emit(name: str, value: float, unit: Unit = "Count", **dimensions: str) -> None:
    """Write one measured value. Dimensions are few and bounded: never an id."""
    dimensions = {"environment": os.environ.get("ARTIWAY_ENVIRONMENT", "local"), **dimensions}
    line = {
        "_aws": {
            "Timestamp": int(time.time() * 1000),
            "CloudWatchMetrics": [
                {
                    "Namespace": NAMESPACE,
                    "Dimensions": [sorted(dimensions)],
                    "Metrics": [{"Name": name, "Unit": unit}],
                }
            ],
        },
        **dimensions,
        name: value,
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
