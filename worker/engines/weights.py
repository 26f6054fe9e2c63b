"""Weights from S3 onto the disk, checked by their checksum each time they are put there or found there."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

from worker.errors import ModelChecksum, ModelUnknown, StoreUnavailable
from worker.ports import ObjectMissing, ObjectTooLarge, OutsideFailed, Store
from worker.settings import ModelSpec, WorkerSettings

MAX_BYTES = 32 * 1024 * 1024 * 1024
CHUNK = 1024 * 1024


class Weights:
    """Runs in the parent, which has the credentials; the child is given a path."""

    def __init__(self, store: Store, settings: WorkerSettings) -> None:
        self._store, self._models = store, settings.models
        self._folder = Path(settings.model_folder)
        self._checked: set[Path] = set()
        self._lock = threading.Lock()

    def spec(self, model: str) -> ModelSpec:
        if model not in self._models:
            raise ModelUnknown(f"the model {model!r} is not configured on this worker")
        return self._models[model]

    def choose(self, engine: str, step: str, wanted: str | None) -> str | None:
        """The model a node asks for if this engine has it for the step, otherwise the first that serves the step."""
        if engine == "preview":
            return None
        fitting = [name for name, spec in self._models.items() if step in spec.steps]
        if wanted in fitting:
            return wanted
        if not fitting:
            raise ModelUnknown(f"no model is configured for the step {step!r}")
        return fitting[0]

    def fetch(self, model: str) -> Path:
        spec = self.spec(model)
        path = self._folder / spec.sha256
        with self._lock:  # two slots that need one model load it once
            if path in self._checked and path.exists():
                return path
            if not path.exists() or digest(path) != spec.sha256:
                self._download(spec, path)
            self._checked.add(path)
        return path

    def _download(self, spec: ModelSpec, path: Path) -> None:
        try:
            data = self._store.read(spec.key, max_bytes=MAX_BYTES, bucket=spec.bucket)
        except ObjectMissing as error:
            raise ModelUnknown(f"there are no weights at {spec.key}") from error
        except (ObjectTooLarge, OutsideFailed) as error:
            raise StoreUnavailable("the weights could not be read") from error
        if hashlib.sha256(data).hexdigest() != spec.sha256:
            raise ModelChecksum(f"the weights at {spec.key} are not those that were configured")
        self._folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(data)
        part.replace(path)  # whole or not at all, whatever happens in between


def digest(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            total.update(chunk)
    return total.hexdigest()
