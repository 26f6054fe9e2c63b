"""Prices and limits of the catalogue as live settings."""

from __future__ import annotations

from artiway.tasks import catalogue, drafts

_CATALOGUE = catalogue.load()
DRAFT_PERCENT = drafts.DRAFT_PERCENT
TOOL_PRICES = {tool.name: tool.price for tool in _CATALOGUE.tools.values()}
TOOL_LIMITS = {tool.name: tool.limit for tool in _CATALOGUE.tools.values() if tool.limit is not None}
FLOW_PRICES = {kind.name: kind.price for kind in _CATALOGUE.types.values()}
