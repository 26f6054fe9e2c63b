"""Builds layers/core/artiway/openapi.json from the routes of all functions: `make openapi`."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from artiway.platform import http, openapi
from artiway.tasks import catalogue
from tools import openapi_text

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "layers/core/artiway/openapi.json"


def load_handler(folder: Path) -> Any:
    """Import functions/<name>/app.py under a unique module name."""
    spec = importlib.util.spec_from_file_location(f"functions_{folder.name}", folder / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # pydantic resolves annotations there
    spec.loader.exec_module(module)
    return module


def apis() -> dict[str, http.Api]:
    """The HTTP functions by folder name."""
    modules = {folder.name: load_handler(folder) for folder in sorted((ROOT / "functions").iterdir())}
    return {name: module.api for name, module in modules.items() if hasattr(module, "api")}


def document() -> str:
    tools = {name: tool.json_schema for name, tool in catalogue.load().tools.items()}
    completed = openapi_text.complete(openapi.merged(apis().values()), tools)
    return json.dumps(completed, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    TARGET.write_text(document(), "utf-8")
