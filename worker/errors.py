"""Why a node failed. The code is stable, and whether another attempt may help is part of it."""

from __future__ import annotations


class WorkFailed(Exception):
    """A failure that is reported with the node: it ends this attempt, never the worker."""

    code = "ENGINE_FAILED"
    is_retryable = True

    def __init__(self, message: str, *, code: str | None = None, is_retryable: bool | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.is_retryable = type(self).is_retryable if is_retryable is None else is_retryable


class InputMissing(WorkFailed):
    code, is_retryable = "INPUT_MISSING", False


class InputForeign(WorkFailed):
    code, is_retryable = "INPUT_FOREIGN", False


class InputTooLarge(WorkFailed):
    code, is_retryable = "INPUT_TOO_LARGE", False


class InputTooManyPixels(WorkFailed):
    code, is_retryable = "INPUT_TOO_MANY_PIXELS", False


class InputTypeUnknown(WorkFailed):
    code, is_retryable = "INPUT_TYPE_UNKNOWN", False


class InputUndecodable(WorkFailed):
    code, is_retryable = "INPUT_UNDECODABLE", False


class InputAnimated(WorkFailed):
    code, is_retryable = "INPUT_ANIMATED", False


class InputEmptySubject(WorkFailed):
    code, is_retryable = "INPUT_EMPTY_SUBJECT", False


class StepUnknown(WorkFailed):
    code, is_retryable = "STEP_UNKNOWN", False


class StepBadParams(WorkFailed):
    code, is_retryable = "STEP_BAD_PARAMS", False


class EngineNotInstalled(WorkFailed):
    code, is_retryable = "ENGINE_NOT_INSTALLED", False


class ModelUnknown(WorkFailed):
    code, is_retryable = "MODEL_UNKNOWN", False


class ModelChecksum(WorkFailed):
    code, is_retryable = "MODEL_CHECKSUM", False


class EngineBusy(WorkFailed):
    code = "ENGINE_BUSY"


class EngineCrashed(WorkFailed):
    code = "ENGINE_CRASHED"


class EngineFailed(WorkFailed):
    code = "ENGINE_FAILED"


class TimeLimit(WorkFailed):
    code = "TIME_LIMIT"


class StoreUnavailable(WorkFailed):
    code = "STORE_UNAVAILABLE"


class Cancelled(WorkFailed):
    code, is_retryable = "CANCELLED", False
