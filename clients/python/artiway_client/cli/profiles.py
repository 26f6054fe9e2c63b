"""Profiles: where the platform is and who the caller is, in one file that only its owner can read."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from artiway_client.credentials import Tokens, TokenStore

DEFAULT_URL = "http://127.0.0.1:8700/api/v1"
OWNER_ONLY = 0o600


@dataclass(frozen=True)
class Profile:
    url: str
    access_token: str = ""
    refresh_token: str = ""
    api_key: str = ""
    is_signed: bool = False


def default_path() -> Path:
    if named := os.environ.get("ARTIWAY_CONFIG"):
        return Path(named)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "artiway" / "profiles.json"


def url_of_this_folder() -> str:
    """The stack that `make run` started here, else the default port of this machine."""
    file = Path(os.environ.get("ARTIWAY_HOME", ".artiway")) / "stack.json"
    try:
        return str(json.loads(file.read_text())["apiUrl"])
    except (OSError, ValueError, KeyError):
        return DEFAULT_URL


class ProfileFile:
    """Reads and writes the file under a lock, so that commands in parallel do not lose each other's tokens."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def locked(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with Path(f"{self.path}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _read(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.path.read_text())
        except FileNotFoundError:
            return {"current": "default", "profiles": {}}
        return found

    def names(self) -> tuple[str, list[str]]:
        found = self._read()
        return found["current"], sorted(found["profiles"])

    def get(self, name: str | None) -> Profile | None:
        found = self._read()
        fields = found["profiles"].get(name or found["current"])
        return Profile(**fields) if fields else None

    def put(self, name: str, profile: Profile | None, *, is_current: bool = False) -> None:
        """Store a profile, or delete it. Call it under the lock."""
        found = self._read()
        if profile is None:
            found["profiles"].pop(name, None)
        else:
            found["profiles"][name] = asdict(profile)
        if is_current:
            found["current"] = name
        part = Path(f"{self.path}.part")
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "w") as file:
            json.dump(found, file, indent=1)
        part.replace(self.path)

    def use(self, name: str) -> bool:
        with self.locked():
            profile = self.get(name)
            if profile is not None:
                self.put(name, profile, is_current=True)
        return profile is not None


class ProfileTokens(TokenStore):
    """Tokens of a profile. Another command may have renewed them: the file is read again under its lock."""

    def __init__(self, file: ProfileFile, name: str, profile: Profile) -> None:
        super().__init__(Tokens(profile.access_token, profile.refresh_token))
        self._file, self._name, self._profile = file, name, profile

    @classmethod
    def of(cls, file: ProfileFile, name: str, profile: Profile) -> Self:
        return cls(file, name, profile)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        with super().exclusive(), self._file.locked():
            if (now := self._file.get(self._name)) is not None and now.access_token:
                self.tokens = Tokens(now.access_token, now.refresh_token)
            yield

    def save(self, tokens: Tokens) -> None:
        super().save(tokens)
        self._file.put(self._name, Profile(self._profile.url, access_token=tokens.access, refresh_token=tokens.refresh))
