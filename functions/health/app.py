"""Public routes: health, the OpenAPI document, and the answer for unknown routes."""

from __future__ import annotations

import json
from typing import Literal

from aws_lambda_powertools.event_handler import Response

from artiway import bootstrap
from artiway.platform import http, openapi

api = http.Api("platform", origin=bootstrap.origin)
api.fallback(openapi.explain_missing)
handler = api.handler


class HealthBody(http.Wire):
    status: Literal["ok", "degraded"]
    checks: dict[str, str]


@api.get("/health", public=True)
def get_health() -> HealthBody:
    """Whether PostgreSQL and Redis answer."""
    health = bootstrap.health().check()
    return HealthBody(status="ok" if health.is_ok else "degraded", checks=dict(health.checks))


@api.get("/openapi.json", public=True)
def get_openapi() -> dict[str, object]:
    """This document."""
    document: dict[str, object] = json.loads(openapi.text())
    return document


@api.get("/docs", public=True, media="text/html")
def get_docs() -> Response[str]:
    """The document as a Swagger page."""
    return Response(status_code=200, content_type="text/html; charset=utf-8", body=openapi.page())
