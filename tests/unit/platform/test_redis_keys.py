"""The registry of Redis keys: complete, unambiguous, and the only place that builds a name."""

from __future__ import annotations

import ast
from pathlib import Path
from uuid import UUID

import pytest

from artiway.platform import redis_keys
from artiway.platform.redis_keys import QUEUE_PARTS, REGISTRY, KeyPattern, pattern_of

LAYER = Path(__file__).parents[3] / "layers/core/artiway"
ID = UUID(int=1)
NAMES = {
    "lock:<name>": redis_keys.lock("order:17"),
    "lock-fence": redis_keys.LOCK_FENCE,
    "rate:<bucket>": redis_keys.rate("tenant:1"),
    "requests-since": redis_keys.REQUESTS_SINCE,
    "requests:<minute>": redis_keys.requests(29_540_160),
    "cache:value:<key>": redis_keys.cache_value("access:1:session:2"),
    "cache:loading:<key>": redis_keys.cache_loading("k"),
    "cache:statistics:<minute>": redis_keys.cache_statistics(29_000_000),
    "cache:head": redis_keys.CACHE_HEAD,
    "cache:log": redis_keys.CACHE_LOG,
    "nonce:<key_id>:<nonce>": redis_keys.nonce(ID, "n"),
    "task_events:<task_id>": redis_keys.task_events(ID),
    "task_progress:<task_id>": redis_keys.task_progress(ID),
    "task_written:<node_id>": redis_keys.task_written(ID),
    "task_listeners:<group>": redis_keys.task_listeners(f"user:{ID}"),
    "generation_events:<id>": redis_keys.generation_events(ID),
    "provider_quota:<provider>": redis_keys.provider_quota("local"),
    "forecast:<name>": redis_keys.forecast("gpu+pending"),
    "forecasting:<name>": redis_keys.forecast_claim("gpu"),
    "{artiway:wfq:<pool>}:epoch": redis_keys.queue_epoch("gpu"),
    "{artiway:wfq:<pool>}:loading": redis_keys.queue_loading("gpu"),
}
NAMES |= {f"{{artiway:wfq:<pool>}}:<epoch>:{part}": redis_keys.queue_part("gpu", "e", part) for part in QUEUE_PARTS}
QUEUE_NAMES = {"heads:<track>": "heads:1", "work:<track>": "work:1", "users:<tenant>": "users:1|t"}
QUEUE_NAMES |= {"nodes:<user>": "nodes:1|t|u", "held:<tenant>": "held:t", "service:<minute>": "service:9"}
NAMES |= {f"{{artiway:wfq:<pool>}}:<epoch>:{k}": redis_keys.queue_part("gpu", "e", v) for k, v in QUEUE_NAMES.items()}
MODULES = sorted(path for path in LAYER.rglob("*.py") if path.name != "redis_keys.py")
SCRIPTS = sorted(LAYER.rglob("*.lua"))


@pytest.mark.parametrize("pattern", REGISTRY, ids=lambda pattern: pattern.pattern)
def test_built_name_matches_exactly_its_pattern(pattern: KeyPattern) -> None:
    assert [one for one in REGISTRY if one.matches(NAMES[pattern.pattern])] == [pattern]


def test_unregistered_key_matches_no_pattern() -> None:
    assert [pattern_of(key) for key in ("", "lock:", "other:1", "xlock:1", "lock-fences")] == [None] * 5


def fixed_texts(path: Path) -> list[str]:
    """Every string of a module; of an f-string the text before its first value."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(LAYER)))
def test_no_other_module_builds_key(path: Path) -> None:
    prefixes = tuple(pattern.prefix for pattern in REGISTRY)
    assert [text for text in fixed_texts(path) if text.startswith(prefixes)] == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(LAYER)))
def test_no_script_builds_key(path: Path) -> None:
    """Scripts receive every key through KEYS."""
    text = path.read_text("utf-8")
    assert [pattern.prefix for pattern in REGISTRY if f'"{pattern.prefix}' in text] == []
