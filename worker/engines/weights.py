"""Downloads weights from S3 to disk. The checksum is verified after a download and at the first use of a file."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

from worker.errors import ModelChecksum, ModelUnknown, StoreUnavailable
from worker.ports import ObjectMissing, ObjectTooLarge, ServiceFailed, Store
from worker.settings import ModelSpec, WorkerSettings

MAX_BYTES = 32 * 1024 * 1024 * 1024
CHUNK = 1024 * 1024


class Weights:
    """Runs in the parent, which has the credentials. The child gets a path."""

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
        """The requested model if it is configured for the step, otherwise the first model of the step."""
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
        with self._lock:  # two slots that need the same model download it once
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
        except (ObjectTooLarge, ServiceFailed) as error:
            raise StoreUnavailable("the weights could not be read") from error
        if hashlib.sha256(data).hexdigest() != spec.sha256:
            raise ModelChecksum(f"the weights at {spec.key} do not have the configured checksum")
        self._folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(data)
        part.replace(path)  # atomic: another process never sees a partial file


def digest(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            total.update(chunk)
    return total.hexdigest()
