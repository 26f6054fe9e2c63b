"""`python -m worker`: connects the loop with AWS."""

from __future__ import annotations

import os
import secrets
import signal
import socket
from dataclasses import asdict
from pathlib import Path

from worker.aws import LambdaInternal, S3Store, SqsProgressQueue, SqsWorkQueue
from worker.engines.weights import Weights
from worker.loop import Worker
from worker.objects import HttpObjects
from worker.runner import Runner
from worker.sandbox import Sandbox
from worker.settings import WorkerSettings
from worker.transfer import Transfer

CUDA_DEVICE = Path("/dev/nvidia0")


def main() -> None:
    settings = WorkerSettings()
    config = {
        # CUDA maps a large address space, so there is no limit where it may be used.
        "memoryMb": 0 if "diffusers" in settings.engine_names or CUDA_DEVICE.exists() else settings.child_memory_mb,
        "modelMemoryMb": max(64, settings.model_memory_mb // settings.worker_slots),
        "threads": settings.threads,
        "limits": asdict(settings.limits),
        "comfyui": {
            "url": settings.comfyui_url,
            "checkpoint": settings.comfyui_checkpoint,
            "folder": settings.comfyui_workflows,
        },
        "imagesApi": {
            "url": settings.images_api_url,
            "key": settings.images_api_key.get_secret_value(),
            "model": settings.images_api_model,
        },
    }
    slots = [Sandbox(config, stop_grace_s=settings.stop_grace_s) for _ in range(settings.worker_slots)]
    for slot in slots:
        slot.start()  # load the libraries before the first node, which has a time limit
    worker = Worker(
        settings,
        worker_id=f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}",
        queue=SqsWorkQueue({str(key): url for key, url in settings.work_queue_urls.items()}),
        progress=SqsProgressQueue(settings.progress_queue_url),
        internal=LambdaInternal(settings.internal_function),
        runner=Runner(settings, Transfer(HttpObjects()), Weights(S3Store(settings.artefact_bucket), settings)),
        slots=slots,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    try:
        worker.run()
    finally:
        for slot in slots:
            slot.kill()


if __name__ == "__main__":
    main()
