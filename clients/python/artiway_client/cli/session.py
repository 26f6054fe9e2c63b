"""What every command needs: the output, the profile, and a client of the platform."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from artiway_client.async_client import AsyncClient
from artiway_client.cli.output import Exit, Output
from artiway_client.cli.profiles import Profile, ProfileFile, ProfileTokens, default_path, url_of_this_folder
from artiway_client.client import Client

BATCH_RETRY_S = 6 * 3_600.0
AWAY_S = 10.0  # longer than a restart of the one-machine stack takes


@dataclass
class Session:
    output: Output = field(default_factory=Output)
    profile_name: str | None = None
    url: str | None = None

    def __post_init__(self) -> None:
        self.file = ProfileFile(default_path())

    def name(self) -> str:
        return self.profile_name or os.environ.get("ARTIWAY_PROFILE") or self.file.names()[0]

    def profile(self) -> Profile:
        """Of the environment, else of the file."""
        stored = self.file.get(self.name())
        url = self.url or os.environ.get("ARTIWAY_URL") or (stored.url if stored else url_of_this_folder())
        if key := os.environ.get("ARTIWAY_API_KEY"):
            return Profile(url, api_key=key, is_signed=bool(os.environ.get("ARTIWAY_SIGNED")))
        if stored is None:
            self.output.fail(
                f"there is no profile {self.name()!r}",
                hint="Log in: artiway login, or set ARTIWAY_API_KEY and ARTIWAY_URL.",
                code=Exit.IDENTITY,
            )
        return Profile(url, stored.access_token, stored.refresh_token, stored.api_key, stored.is_signed)

    def _options(self) -> tuple[str, dict[str, Any]]:
        profile = self.profile()
        if profile.api_key:
            return profile.url, {"api_key": profile.api_key, "is_signed": profile.is_signed}
        return profile.url, {"tokens": ProfileTokens.of(self.file, self.name(), profile)}

    def client(self) -> Client:
        url, options = self._options()
        client = Client(url, **options)
        client.core.away_for_s = AWAY_S
        return client

    def batch_client(self) -> AsyncClient:
        """Waits for its turn as long as it takes: a full queue is no reason to stop a folder of pictures."""
        url, options = self._options()
        return AsyncClient(url, retry_for_s=BATCH_RETRY_S, **options)

    def anonymous(self) -> Client:
        stored = self.file.get(self.name())
        url = self.url or os.environ.get("ARTIWAY_URL") or (stored.url if stored else url_of_this_folder())
        return Client(url, retry_for_s=5)


# One command runs in a process; `app.run` replaces it.
session = Session()


def current() -> Session:
    return session


def begin(new: Session) -> None:
    global session
    session = new
