"""Small files that are there whole or not at all, whenever the program that writes them is interrupted."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(file: Path, text: str, *, mode: int = 0o600) -> None:
    """Readable by its owner alone unless `mode` says otherwise. A reader sees the old text or the new one."""
    partial = file.with_name(f"{file.name}.partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as output:
        output.write(text)
    partial.rename(file)
