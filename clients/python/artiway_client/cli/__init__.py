"""The command `artiway`."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from artiway_client.cli.app import run
    except ModuleNotFoundError as error:
        sys.exit(f"artiway: {error.name} is missing. Install the command with: pip install 'artiway-client[cli]'")
    sys.exit(run(sys.argv[1:]))
