"""What a deployment starts at once instead of waiting for the next schedule."""

from __future__ import annotations

from pathlib import Path

from artiway.platform import deployment
from tools.openapi import load_handler

ROOT = Path(__file__).parents[3]


def test_deployment_calls_the_watchdog_and_the_trigger(monkeypatch):
    called = []
    monkeypatch.setattr(deployment, "call_later", lambda arn, event: called.append((arn, event)))
    deploy = load_handler(ROOT / "functions/deploy")
    deploy.handler({"action": "recover", "FunctionArn": "watchdog", "TriggerArn": "trigger"}, None)
    passes = [("watchdog", {"pass": name}) for name in ("quick", "slow", "changes")]
    assert called == [*passes, ("trigger", {"once": True})]
