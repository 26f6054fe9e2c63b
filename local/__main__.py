"""`make run`: start the platform on this machine, say where it is, stop it all on Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

if sys.version_info < (3, 11):  # noqa: UP036 (whoever starts this by hand may have an old Python)
    sys.exit(f"Artiway needs Python 3.11 or newer; this is {sys.version.split()[0]}.")

from local.stack import CannotStart, Stack

DEFAULT_PORT = 8700
READY = """
  Artiway is running.

    console   {consoleUrl}
    API       {apiUrl}/docs
    health    {apiUrl}/health

  Next: open the console, or try `curl {apiUrl}/health`.
  Other programs find everything in {file}. Logs are in {logs}. Ctrl-C stops it all.
"""


def main() -> int:
    home = Path(os.environ.get("ARTIWAY_HOME", ".artiway"))
    try:
        port = int(os.environ.get("ARTIWAY_PORT") or DEFAULT_PORT)
    except ValueError:
        return _refuse("ARTIWAY_PORT must be a number")
    stack = Stack(
        home=home,
        port=port,
        database_url=os.environ.get("ARTIWAY_DATABASE_URL") or None,
        redis_url=os.environ.get("ARTIWAY_REDIS_URL") or None,
        report=lambda line: print(line, flush=True),
    )
    # One way out for all: while it starts, while it runs. What was started is stopped on the way.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        with stack:
            print(READY.format(**stack.facts, file=home / "stack.json", logs=home / "logs"), flush=True)
            threading.Event().wait()
    except CannotStart as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        pass
    print("stopped", flush=True)
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Only the first signal counts: an impatient second one must not leave servers behind."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    print("stopping ...", flush=True)
    raise KeyboardInterrupt


def _refuse(reason: str) -> int:
    print(f"Artiway did not start: {reason}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
