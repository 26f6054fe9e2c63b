"""Client of Artiway: `Client` for plain code, `AsyncClient` for asyncio, `artiway_client.models` for types of bodies.

The platform's own package is named `artiway`; this one has another name so that both can be imported in one process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway_client.errors import (
    AnswerLost,
    ApiError,
    Conflict,
    Forbidden,
    InsufficientPoints,
    Invalid,
    NotAuthenticated,
    NotFound,
    TooMany,
    Unavailable,
)

if TYPE_CHECKING:
    from artiway_client.async_client import AsyncClient
    from artiway_client.client import Client
    from artiway_client.credentials import Tokens, TokenStore
    from artiway_client.webhooks import InvalidSignature, verify

__version__ = "0.1.0"
__all__ = [
    "AnswerLost",
    "ApiError",
    "AsyncClient",
    "Client",
    "Conflict",
    "Forbidden",
    "InsufficientPoints",
    "Invalid",
    "InvalidSignature",
    "NotAuthenticated",
    "NotFound",
    "TokenStore",
    "Tokens",
    "TooMany",
    "Unavailable",
    "verify",
]

# Imported at first use: a program needs one of the two clients, and a receiver of webhooks needs neither.
_PLACES = {
    "AsyncClient": "artiway_client.async_client",
    "Client": "artiway_client.client",
    "TokenStore": "artiway_client.credentials",
    "Tokens": "artiway_client.credentials",
    "InvalidSignature": "artiway_client.webhooks",
    "verify": "artiway_client.webhooks",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)
