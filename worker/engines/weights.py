"""Downloads weights from S3 to disk. The checksum is verified after a download and at the first use of a file."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from worker.errors import ModelChecksum, ModelUnknown, StoreUnavailable
from worker.ports import ObjectMissing, ObjectTooLarge, ServiceFailed, Store
from worker.settings import ENGINE_OF_KIND, ModelSpec, WorkerSettings

MAX_BYTES = 32 * 1024 * 1024 * 1024
CHUNK = 1024 * 1024
RETRY_S = 20.0  # weights that were not there are looked for again after this time


class Weights:
    """Runs in the parent, which has the credentials. The child gets a path."""

    def __init__(self, store: Store, settings: WorkerSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._models, self._clock = store, settings.models, clock
        self._failed: dict[str, tuple[float, ModelUnknown | ModelChecksum]] = {}
        self._folder = Path(settings.model_folder)
        self._checked: set[Path] = set()
        self._lock = threading.Lock()

    def spec(self, model: str) -> ModelSpec:
        if model not in self._models:
            raise ModelUnknown(f"the model {model!r} is not configured on this worker")
        return self._models[model]

    def choose(self, engine: str, step: str, wanted: str | None, pixels: int = 0) -> str | None:
        """The requested model if it serves the step, otherwise the first one; None if the engine has no weights."""
        if engine not in ENGINE_OF_KIND.values():
            return None
        fitting = [
            name
            for name, spec in self._models.items()
            if step in spec.steps and ENGINE_OF_KIND[spec.kind] == engine and not 0 < spec.max_pixels < pixels
        ]
        if wanted in fitting:
            return wanted
        if not fitting:
            raise ModelUnknown(f"no model of the engine {engine} is configured for the step {step!r}")
        return fitting[0]

    def serves(self, engine: str, step: str) -> bool:
        """Whether a model of this engine is configured for the step, with or without its weights at hand."""
        return any(step in spec.steps and ENGINE_OF_KIND[spec.kind] == engine for spec in self._models.values())

    def has(self, engine: str, step: str) -> bool:
        """Whether the weights for the step are at hand, or in the store."""
        try:
            model = self.choose(engine, step, None)
            return model is None or self.fetch(model).exists()
        except (ModelUnknown, ModelChecksum, StoreUnavailable, OSError):
            return False

    def fetch(self, model: str) -> Path:
        """The path of the weights. The graph of a model that has one lies beside it, named by its own checksum."""
        spec = self.spec(model)
        with self._lock:  # two slots that need the same model download it once
            since, error = self._failed.get(model, (-RETRY_S, None))
            path = self._folder / spec.sha256
            if error is not None and self._clock() - since < RETRY_S and not path.exists():
                raise error
            try:
                if spec.graph_key:
                    self._have(spec.graph_key, spec.graph_sha256, spec.bucket)
                path = self._have(spec.key, spec.sha256, spec.bucket)
            except (ModelUnknown, ModelChecksum) as failure:
                self._failed[model] = (self._clock(), failure)
                raise
            self._failed.pop(model, None)
        return path

    def _have(self, key: str, sha256: str, bucket: str) -> Path:
        path = self._folder / sha256
        if path in self._checked and path.exists():
            return path
        if not path.exists() or digest(path) != sha256:
            self._download(key, sha256, bucket, path)
        self._checked.add(path)
        return path

    def _download(self, key: str, sha256: str, bucket: str, path: Path) -> None:
        is_damaged = path.exists()
        try:
            data = self._store.read(key, max_bytes=MAX_BYTES, bucket=bucket)
        except ObjectMissing as error:
            if is_damaged:
                raise ModelChecksum(f"the weights of {key} on disk do not have the configured checksum") from error
            raise ModelUnknown(f"there are no weights at {key}") from error
        except (ObjectTooLarge, ServiceFailed) as error:
            raise StoreUnavailable("the weights could not be read") from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ModelChecksum(f"the weights at {key} do not have the configured checksum")
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
