"""`make run`: starts the platform on this machine, prints its addresses and stops it on Ctrl-C."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 (a user may start this with an older Python)
    sys.exit(f"Artiway needs Python 3.11 or newer; this is {sys.version.split()[0]}.")

from local.supervisor import supervised

DEFAULT_PORT = 8700
LARGEST_NUMBER = 65_535
READY = """
  Artiway is running.

    console   {consoleUrl}
    API       {apiUrl}/docs
    payments  {wechatSimUrl}  (the WeChat Pay simulator)
    mails     {mailboxUrl}  (what the platform would send by SES)
    log in    {login}

  Next: open the console and log in, or try `curl {apiUrl}/health`.
  Other programs find everything in {file}. Logs are in {logs}. Ctrl-C stops it all.
"""


def main(interrupted: threading.Event) -> int:
    # Imported after the signal handlers are set: these imports take long enough to be interrupted.
    from local.lambdas import DEFAULT_SANDBOXES
    from local.stack import CannotStart, Stack
    from local.text_model import PICTURES, TextModel
    from local.weights import Weights
    from local.workers import Workers

    home = Path(os.environ.get("ARTIWAY_HOME", ".artiway"))

    def say(line: str) -> None:
        print(line, flush=True)

    try:
        port, sandboxes = _number("ARTIWAY_PORT", DEFAULT_PORT), _number("ARTIWAY_SANDBOXES", DEFAULT_SANDBOXES)
        workers = Workers(home, per_type=_number("WORKERS", 1))
    except ValueError as error:
        return _refuse(str(error))
    stack = Stack(
        home=home,
        port=port,
        sandboxes=sandboxes,
        database_url=os.environ.get("ARTIWAY_DATABASE_URL") or None,
        redis_url=os.environ.get("ARTIWAY_REDIS_URL") or None,
        services=[workers, Weights(home, say)],
        text_model=TextModel(home),
        picture_model=TextModel(home, PICTURES),
        interrupted=interrupted,
        report=say,
    )
    try:
        with stack:
            admin = stack.facts["admin"]
            login = f"{admin['login']}  password {admin['password']}" if admin else "-"
            places = {"file": home / "stack.json", "logs": home / "logs"}
            print(READY.format(**stack.facts, **places, login=login), flush=True)
            interrupted.wait()
    except CannotStart as error:
        return _refuse(str(error))
    except KeyboardInterrupt:  # a signal arrived during the start
        pass
    print("stopped", flush=True)
    return 0


def _number(name: str, default: int) -> int:
    text = os.environ.get(name) or str(default)
    if not text.isdecimal() or not 1 <= int(text) <= LARGEST_NUMBER:
        raise ValueError(f"{name} must be a number from 1 to {LARGEST_NUMBER}, not {text!r}")
    return int(text)


def _refuse(reason: str) -> int:
    print(f"Artiway did not start: {reason}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(supervised(main))
