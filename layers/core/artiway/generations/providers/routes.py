"""The operator's providers and routes: one JSON document, the same on AWS (a secret) and on one machine (a file).

{providers: [{name, baseUrl, apiKey?, requestsPerMinute?, tokensPerMinute?, models: [{id, inputPoints, outputPoints}]}],
 routes: {<service>: {paid: ["name/model", …], free: [ … ]}}}
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from artiway.generations.providers.model import ApiKey, FailureCode, ProviderFailed, Target
from artiway.platform.logs import Logger

logger = Logger("providers")

LARGEST_DOCUMENT = 65_536  # bytes of a secret
MOST_PROVIDERS = 50
MOST_MODELS = 100
MOST_SERVICES = 100
MOST_TARGETS = 10
MOST_POINTS = 1_000_000
MOST_PER_MINUTE = 100_000_000
KEY_CHARACTERS = 4_096
TIERS = ("paid", "free")
RETRY_S = 60

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,127}")
_SERVICE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_KEY = re.compile(r"[\x21-\x7e]*")
_LOCAL_SUFFIXES = (".localhost", ".local", ".internal", ".home.arpa")


class ProvidersInvalid(Exception):
    """The operator's document cannot be used. The message names the place and never a key."""


@dataclass(frozen=True)
class Routes:
    """Every target of the document, and the ordered targets of (service, is paid)."""

    targets: Sequence[Target]
    by_service: Mapping[tuple[str, bool], tuple[Target, ...]]

    def of(self, service: str, *, is_paid: bool) -> tuple[Target, ...]:
        found = self.by_service.get((service, is_paid), ())
        if not found:
            tier = "paid" if is_paid else "free"
            raise ProviderFailed(FailureCode.NO_ROUTE, f"no provider is configured for {tier} texts of {service}")
        return found

    def named(self, model: str, services: Collection[str], *, is_paid: bool) -> tuple[Target, ...]:
        """The target of a caller who chose it. Only what the operator's routes of these services use can be chosen."""
        for target in self._routed(services, is_paid=is_paid):
            if target.name == model:
                return (target,)
        tier = "paid" if is_paid else "free"
        raise ProviderFailed(FailureCode.NO_ROUTE, f"{model} writes no {tier} texts")

    def models(self, services: Collection[str]) -> list[str]:
        """The names that `named` knows, of either tier."""
        found = [*self._routed(services, is_paid=True), *self._routed(services, is_paid=False)]
        return list(dict.fromkeys(target.name for target in found))

    def routed(self, services: Collection[str]) -> list[str]:
        """Those of the services that have a route."""
        return [one for one in services if any(self.by_service.get((one, is_paid)) for is_paid in (True, False))]

    def _routed(self, services: Collection[str], *, is_paid: bool) -> list[Target]:
        return [target for service in services for target in self.by_service.get((service, is_paid), ())]

    def places(self) -> frozenset[tuple[str, int]]:
        """Host and port of every provider: what the outbound client may call although it is private."""
        return frozenset(_place(target.base_url) for target in self.targets)


class StoredRoutes:
    """The routes of a document that may change. An empty document has none.

    A document that cannot be used leaves the last good one in force, so that an operator's slip stops no text.
    """

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text
        self._read: str | None = None
        self._routes: Routes | None = None

    def __call__(self) -> Routes:
        text = self._text()
        if text != self._read:
            self._read = text
            try:
                self._routes = parse(text) if text.strip() not in ("", "{}") else Routes((), {})
            except ProvidersInvalid as error:
                logger.error("providers of texts not valid", fault=str(error), is_last_used=self._routes is not None)
        if self._routes is None:
            message = "the providers of texts are not configured correctly"
            raise ProviderFailed(FailureCode.INVALID, message, retry_after_s=RETRY_S)
        return self._routes


def parse(text: str) -> Routes:
    """Raises ProvidersInvalid for what is missing, unknown or out of bounds: nothing is guessed."""
    if len(text.encode("utf-8", "replace")) > LARGEST_DOCUMENT:
        raise ProvidersInvalid(f"the document is larger than {LARGEST_DOCUMENT} bytes")
    try:
        document = json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except (ValueError, RecursionError):  # the error's own text would quote the document, and so a key
        raise ProvidersInvalid("the document is not JSON, or names a field twice") from None
    _has_fields(document, "the document", required={"providers", "routes"})
    targets: dict[str, Target] = {}
    names = set()
    for position, provider in enumerate(_list(document["providers"], "providers", MOST_PROVIDERS), 1):
        found = _provider(provider, f"provider {position}")
        if found[0].provider in names:
            raise ProvidersInvalid(f"provider {position}: another one has the same name")
        names.add(found[0].provider)
        targets |= {target.name: target for target in found}
    return Routes(tuple(targets.values()), _by_service(document["routes"], targets))


def _by_service(routes: Any, targets: Mapping[str, Target]) -> dict[tuple[str, bool], tuple[Target, ...]]:
    if not isinstance(routes, dict) or len(routes) > MOST_SERVICES:
        raise ProvidersInvalid(f"routes is an object with at most {MOST_SERVICES} services")
    found: dict[tuple[str, bool], tuple[Target, ...]] = {}
    for service, tiers in routes.items():
        if not _SERVICE.fullmatch(service):
            raise ProvidersInvalid("a route has a service of a to z, digits and _")
        _has_fields(tiers, f"route {service}", required=set(TIERS))
        for tier in TIERS:
            where = f"route {service}, {tier}"
            names = _list(tiers[tier], where, MOST_TARGETS, least=0)
            if unknown := [name for name in names if not isinstance(name, str) or name not in targets]:
                raise ProvidersInvalid(f"{where}: {str(unknown[0])[:200]!r} is no provider/model of this document")
            if len(set(names)) < len(names):
                raise ProvidersInvalid(f"{where}: a model stands there twice")
            found[service, tier == "paid"] = tuple(targets[name] for name in names)
    return found


def _provider(provider: Any, where: str) -> list[Target]:
    _has_fields(
        provider,
        where,
        required={"name", "baseUrl", "models"},
        optional={"apiKey", "requestsPerMinute", "tokensPerMinute"},
    )
    name = provider["name"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ProvidersInvalid(f"{where}: the name has up to 64 characters: a to z, digits, _, - and .")
    where = f"{where} ({name})"
    base_url, is_secure = _base_url(provider["baseUrl"], where)
    key = provider.get("apiKey")
    if key is not None and (not isinstance(key, str) or len(key) > KEY_CHARACTERS or not _KEY.fullmatch(key)):
        raise ProvidersInvalid(f"{where}: apiKey is a text of at most {KEY_CHARACTERS} printable ASCII characters")
    models = _list(provider["models"], f"{where}: models", MOST_MODELS)
    found = []
    for position, model in enumerate(models, 1):
        place = f"{where}, model {position}"
        _has_fields(model, place, required={"id", "inputPoints", "outputPoints"})
        if not isinstance(model["id"], str) or not _MODEL.fullmatch(model["id"]):
            raise ProvidersInvalid(f"{place}: the id is a text of up to 128 characters without spaces")
        found.append(
            Target(
                provider=name,
                base_url=base_url,
                model_id=model["id"],
                input_points=_points(model["inputPoints"], f"{place}: inputPoints"),
                output_points=_points(model["outputPoints"], f"{place}: outputPoints"),
                api_key=ApiKey(key) if key else None,
                # A hosted provider needs a key; a server of one's own, called by http, may have none.
                is_key_missing=key == "" or (key is None and is_secure),
                requests_per_minute=_per_minute(provider.get("requestsPerMinute"), f"{where}: requestsPerMinute"),
                tokens_per_minute=_per_minute(provider.get("tokensPerMinute"), f"{where}: tokensPerMinute"),
            )
        )
    if len({target.model_id for target in found}) < len(found):
        raise ProvidersInvalid(f"{where}: two models have the same id")
    return found


def _base_url(value: Any, where: str) -> tuple[str, bool]:
    """The address before `/chat/completions`, without a slash at its end, and whether it is https."""
    fault = f"{where}: baseUrl is an https URL without user, query and fragment"
    if not isinstance(value, str) or len(value) > 500 or not value.isascii() or not value.isprintable():
        raise ProvidersInvalid(fault)
    try:
        parts = urlsplit(value)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        raise ProvidersInvalid(fault) from None
    if parts.scheme not in ("http", "https") or not host or " " in value or "@" in parts.netloc:
        raise ProvidersInvalid(fault)
    if parts.query or parts.fragment or value.rstrip("/").endswith("/chat/completions"):
        raise ProvidersInvalid(f"{where}: baseUrl ends before /chat/completions")
    if parts.scheme == "http" and not _is_private(host):
        raise ProvidersInvalid(f"{where}: a baseUrl with http is for private hosts only")
    return value.rstrip("/"), parts.scheme == "https"


def _is_private(host: str) -> bool:
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith(_LOCAL_SUFFIXES)


def _place(base_url: str) -> tuple[str, int]:
    parts = urlsplit(base_url)
    host = (parts.hostname or "").lower()
    return f"[{host}]" if ":" in host else host, parts.port or (443 if parts.scheme == "https" else 80)


def _points(value: Any, where: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value <= MOST_POINTS:
        raise ProvidersInvalid(f"{where} is a number from 0 to {MOST_POINTS}")
    return Decimal(value)


def _per_minute(value: Any, where: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_PER_MINUTE:
        raise ProvidersInvalid(f"{where} is a whole number from 1 to {MOST_PER_MINUTE}")
    return value


def _list(value: Any, where: str, most: int, *, least: int = 1) -> list[Any]:
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise ProvidersInvalid(f"{where} is a list of {least} to {most} entries")
    return value


def _has_fields(value: Any, where: str, *, required: set[str], optional: set[str] | None = None) -> None:
    if not isinstance(value, dict):
        raise ProvidersInvalid(f"{where} is an object")
    if missing := sorted(required - set(value)):
        raise ProvidersInvalid(f"{where} lacks {', '.join(missing)}")
    if unknown := sorted(set(value) - required - (optional or set())):
        raise ProvidersInvalid(f"{where} has the unknown field {unknown[0][:100]!r}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a field stands there twice")
    return found


def _refuse_constant(_name: str) -> None:
    raise ValueError("not a number")
