"""One process of the progress function. A module of its own, so that a spawned process can import it."""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import os
import queue
from collections.abc import Mapping
from multiprocessing.synchronize import Semaphore
from pathlib import Path
from typing import Any

HANDLER = Path(__file__).parents[2] / "functions/progress/app.py"
BATCH = 10
RECEIVES = 3


def run(environment: Mapping[str, str], work: multiprocessing.Queue[dict[str, Any] | None], ready: Semaphore) -> None:
    """Take what has come, ten at most, and hand it to the handler, until there is nothing more."""
    os.environ.update(environment)
    spec = importlib.util.spec_from_file_location("progress_app", HANDLER)
    assert spec is not None
    assert spec.loader is not None
    app = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(app)
    ready.release()
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        while (first := work.get()) is not None:
            records = [first]
            with contextlib.suppress(queue.Empty):
                while len(records) < BATCH:
                    following = work.get_nowait()
                    if following is None:
                        work.put(None)
                        break
                    records.append(following)
            for _ in range(RECEIVES):  # what fails comes again, as from SQS
                if not app.handler({"Records": records}, None)["batchItemFailures"]:
                    break
            else:
                raise RuntimeError(f"a batch failed {RECEIVES} times")
