"""Errors of a node. Each has a stable code and states whether a retry may help."""

from __future__ import annotations


class AttemptFailed(Exception):
    """A failure that is reported for the node. It ends the attempt, not the worker."""

    code = "ENGINE_FAILED"
    is_retryable = True

    def __init__(self, message: str, *, code: str | None = None, is_retryable: bool | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.is_retryable = type(self).is_retryable if is_retryable is None else is_retryable


class InputMissing(AttemptFailed):
    code, is_retryable = "INPUT_MISSING", False


class InputForeign(AttemptFailed):
    code, is_retryable = "INPUT_FOREIGN", False


class InputTooLarge(AttemptFailed):
    code, is_retryable = "INPUT_TOO_LARGE", False


class InputTooManyPixels(AttemptFailed):
    code, is_retryable = "INPUT_TOO_MANY_PIXELS", False


class InputTypeUnknown(AttemptFailed):
    code, is_retryable = "INPUT_TYPE_UNKNOWN", False


class InputUndecodable(AttemptFailed):
    code, is_retryable = "INPUT_UNDECODABLE", False


class InputAnimated(AttemptFailed):
    code, is_retryable = "INPUT_ANIMATED", False


class InputEmptySubject(AttemptFailed):
    code, is_retryable = "INPUT_EMPTY_SUBJECT", False


class StepUnknown(AttemptFailed):
    code, is_retryable = "STEP_UNKNOWN", False


class StepBadParams(AttemptFailed):
    code, is_retryable = "STEP_BAD_PARAMS", False


class EngineNotInstalled(AttemptFailed):
    code, is_retryable = "ENGINE_NOT_INSTALLED", False


class ModelUnknown(AttemptFailed):
    code, is_retryable = "MODEL_UNKNOWN", False


class ModelChecksum(AttemptFailed):
    code, is_retryable = "MODEL_CHECKSUM", False


class EngineBusy(AttemptFailed):
    code = "ENGINE_BUSY"


class EngineCrashed(AttemptFailed):
    code = "ENGINE_CRASHED"


class EngineFailed(AttemptFailed):
    code = "ENGINE_FAILED"


class TimeLimit(AttemptFailed):
    code = "TIME_LIMIT"


class StoreUnavailable(AttemptFailed):
    code = "STORE_UNAVAILABLE"


class OutputUnexpected(AttemptFailed):
    code, is_retryable = "OUTPUT_UNEXPECTED", False


class Cancelled(AttemptFailed):
    code, is_retryable = "CANCELLED", False
