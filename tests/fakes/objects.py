"""Objects of the archive in memory."""

from __future__ import annotations


class StoredObjects:
    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    def put(self, key: str, content: bytes) -> None:
        self.contents[key] = content

    def get(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes | None:
        content = self.contents.get(key)
        return None if content is None else content[offset : None if length is None else offset + length]

    def delete(self, key: str) -> None:
        self.contents.pop(key, None)
