"""Writes small files atomically: an interrupted program leaves the old file or the new one."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(file: Path, text: str, *, mode: int = 0o600) -> None:
    """Replace a file by renaming a complete one. Only the owner can read it, unless `mode` says otherwise."""
    partial = file.with_name(f"{file.name}.partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as output:
        output.write(text)
    partial.rename(file)
