"""Series as OpenMetrics text, which Prometheus reads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from artiway.series.model import Point, Series

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@dataclass(frozen=True)
class Page:
    text: str
    content_type: str = CONTENT_TYPE


_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def page(found: Iterable[tuple[Series, Sequence[Point]]], *, closed: datetime) -> Page:
    """Each measured series is a gauge: its value in the minute that ended at `closed`."""
    lines = [
        "# TYPE artiway_series_closed_seconds gauge",
        "# UNIT artiway_series_closed_seconds seconds",
        "# HELP artiway_series_closed_seconds End of the minute that this page shows, in seconds since 1970.",
        f"artiway_series_closed_seconds {closed.timestamp():.0f}",
    ]
    for series, points in found:
        if not series.is_measured:
            continue
        name = f"artiway_{series.name}"
        if series.unit == "seconds":
            name += "_seconds"
        lines.append(f"# TYPE {name} gauge")
        if series.unit == "seconds":
            lines.append(f"# UNIT {name} seconds")
        lines.append(f"# HELP {name} {series.description.translate(_ESCAPED)}.")
        lines += [f"{name}{_labels(point.labels)} {_number(point.value)}" for point in points]
    return Page("\n".join([*lines, "# EOF", ""]))


def _labels(labels: Mapping[str, str]) -> str:
    inner = ",".join(f'{_snake(name)}="{value.translate(_ESCAPED)}"' for name, value in sorted(labels.items()))
    return f"{{{inner}}}" if inner else ""


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _number(value: float) -> str:
    return repr(int(value)) if math.isfinite(value) and value == int(value) else repr(value)
