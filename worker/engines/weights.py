"""Downloads weights from S3 to disk. The checksum is verified after a download and at the first use of a file."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from worker.errors import AttemptFailed, ModelChecksum, ModelUnknown, StoreUnavailable
from worker.ports import ObjectMissing, ObjectTooLarge, ServiceFailed, Store
from worker.settings import ENGINE_OF_KIND, ModelSpec, WorkerSettings

MAX_BYTES = 32 * 1024 * 1024 * 1024
RETRY_S = 20.0  # weights that were not there are looked for again after this time


class Weights:
    """Runs in the parent, which has the credentials. The child gets a path."""

    def __init__(self, store: Store, settings: WorkerSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._models, self._clock = store, settings.models, clock
        self._failed: dict[str, tuple[float, AttemptFailed]] = {}
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
        fitting = [name for name in self._serving(engine, step) if not 0 < self._models[name].max_pixels < pixels]
        if wanted in fitting:
            return wanted
        if not fitting:
            raise ModelUnknown(f"no model of the engine {engine} is configured for the step {step!r}")
        return fitting[0]

    def serves(self, engine: str, step: str) -> bool:
        """Whether a model of this engine is configured for the step, with or without its weights at hand."""
        return bool(self._serving(engine, step))

    def needed(self, engine: str, step: str) -> list[str]:
        """The models that `choose` may name: up to the first that takes a picture of any size."""
        found: list[str] = []
        for name in self._serving(engine, step):
            found.append(name)
            if not self._models[name].max_pixels:
                break
        return found

    def _serving(self, engine: str, step: str) -> list[str]:
        return [
            name for name, spec in self._models.items() if step in spec.steps and ENGINE_OF_KIND[spec.kind] == engine
        ]

    def has(self, engine: str, step: str) -> bool:
        """Whether the weights for the step are on disk and checked. Heartbeats ask this, so it waits for nothing."""
        try:
            model = self.choose(engine, step, None)
        except ModelUnknown:
            return False
        return model is None or self._is_ready(self.spec(model))

    def fetch(self, model: str) -> Path:
        """The path of the weights. The graph of a model that has one lies beside it, named by its own checksum."""
        spec = self.spec(model)
        path = self._folder / spec.sha256
        if self._is_ready(spec):
            return path
        with self._lock:  # two slots that need the same model download it once
            since, error = self._failed.get(model, (-RETRY_S, None))
            if error is not None and self._clock() - since < RETRY_S and not path.exists():
                raise error
            try:
                for key, sha256 in files_of(spec):
                    self._have(key, sha256, spec.bucket)
            except (ModelUnknown, ModelChecksum, StoreUnavailable) as failure:
                self._failed[model] = (self._clock(), failure)
                raise
            self._failed.pop(model, None)
        return path

    def _is_ready(self, spec: ModelSpec) -> bool:
        paths = [self._folder / sha256 for _, sha256 in files_of(spec)]
        return all(path in self._checked and path.exists() for path in paths)

    def _have(self, key: str, sha256: str, bucket: str) -> None:
        path = self._folder / sha256
        if path in self._checked and path.exists():
            return
        if not path.exists() or digest(path) != sha256:
            self._download(key, sha256, bucket, path)
        self._checked.add(path)

    def _download(self, key: str, sha256: str, bucket: str, path: Path) -> None:
        """Piece by piece to a file beside the final one: weights may be larger than the worker's memory."""
        is_damaged = path.exists()
        self._folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        try:
            with part.open("wb") as file:
                self._store.read(key, file, max_bytes=MAX_BYTES, bucket=bucket)
            if digest(part) != sha256:
                raise ModelChecksum(f"the weights at {key} do not have the configured checksum")
            part.replace(path)  # atomic: another process never sees a partial file
        except ObjectMissing as error:
            if is_damaged:
                raise ModelChecksum(f"the weights of {key} on disk do not have the configured checksum") from error
            raise ModelUnknown(f"there are no weights at {key}") from error
        except (ObjectTooLarge, ServiceFailed) as error:
            raise StoreUnavailable("the weights could not be read") from error
        except OSError as error:
            raise StoreUnavailable(f"the weights could not be stored: {error.strerror}") from error
        finally:
            part.unlink(missing_ok=True)


def files_of(spec: ModelSpec) -> list[tuple[str, str]]:
    """Key and checksum of each file of a model."""
    own = [(spec.key, spec.sha256)]
    return [(spec.graph_key, spec.graph_sha256), *own] if spec.graph_key else own


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
