"""One process of the progress function, in its own module so that a spawned process can import it."""

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


def run(
    environment: Mapping[str, str], messages: multiprocessing.Queue[dict[str, Any] | None], ready: Semaphore
) -> None:
    """Pass batches of at most ten messages to the handler until None arrives."""
    os.environ.update(environment)
    spec = importlib.util.spec_from_file_location("progress_app", HANDLER)
    assert spec is not None
    assert spec.loader is not None
    app = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(app)
    ready.release()
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        while (first := messages.get()) is not None:
            records = [first]
            with contextlib.suppress(queue.Empty):
                while len(records) < BATCH:
                    following = messages.get_nowait()
                    if following is None:
                        messages.put(None)
                        break
                    records.append(following)
            for _ in range(RECEIVES):  # a failed batch is delivered again, as by SQS
                if not app.handler({"Records": records}, None)["batchItemFailures"]:
                    break
            else:
                raise RuntimeError(f"a batch failed {RECEIVES} times")
