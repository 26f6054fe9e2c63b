"""The sources of locations as a live setting."""

from __future__ import annotations

from typing import Any

from artiway.geo.model import sources_fault
from artiway.settings.model import Setting

_DEFAULT: list[dict[str, Any]] = [
    {
        "name": "pconline",
        "url": "https://whois.pconline.com.cn/ipJson.jsp?ip={ip}&json=true",
        "encoding": "gb18030",
        "location": [["addr"], ["pro", "city"]],
    },
    {
        "name": "baidu",
        "url": "https://opendata.baidu.com/api.php?query={ip}&resource_id=6006&oe=utf8",
        "encoding": "utf-8",
        "location": [["data.0.location"]],
        "success": {"path": "status", "equals": "0"},
    },
]
SOURCES = Setting(
    "geo.sources",
    _DEFAULT,
    "sources of an address's location, tried in order; without one every location is unknown",
    minimum=0,
    maximum=8,
    check=sources_fault,
)
