"""The contract between workers and the platform: calls of `internal`, its answers, work messages, reports.

Both sides import this file (the worker's image copies it), so it imports pydantic and the standard library only.
A sender writes VERSION. A receiver accepts every version in ACCEPTED, because workers and functions of two releases run
side by side during a release. A new field with a default keeps the version; any other change raises it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

VERSION = 1
ACCEPTED = frozenset({1})


def _accepted(version: int) -> int:
    if version not in ACCEPTED:
        raise ValueError(f"contract version {version} is not among {sorted(ACCEPTED)}")
    return version


Version = Annotated[int, AfterValidator(_accepted)]
Id = Annotated[str, Field(min_length=1, max_length=64)]
WorkerId = Annotated[str, Field(min_length=1, max_length=200)]
Attempt = Annotated[int, Field(ge=0, le=2**31 - 1)]

# The formats of pictures: content type, and the end of the object's name.
FORMATS = {"png": ("image/png", "png"), "jpeg": ("image/jpeg", "jpg"), "webp": ("image/webp", "webp")}


class Wire(BaseModel):
    """camelCase on the wire, snake_case in Python. Unknown fields are ignored: a newer sender may add some."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)

    def as_wire(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)


# --- requests to `internal`


class HeldNode(Wire):
    """An attempt that a worker reports as its own."""

    node_id: Id
    attempt: Attempt


class WorkerFacts(Wire):
    contract: Version = VERSION
    worker_id: WorkerId
    pool: str = Field(min_length=1, max_length=64)
    types: list[Annotated[str, Field(min_length=1, max_length=64)]] = Field(max_length=100)
    slots: int = Field(ge=0, le=1_000)
    # The steps that the worker serves with a network, as far as it has the weights.
    neural: list[Annotated[str, Field(min_length=1, max_length=64)]] = Field(default=[], max_length=200)


class Register(WorkerFacts):
    action: Literal["register"] = "register"
    engine: str = Field(default="", max_length=200)


class Claim(Wire):
    action: Literal["claim"] = "claim"
    contract: Version = VERSION
    worker_id: WorkerId
    node_id: Id
    attempt: Attempt
    # As in the work message. A worker without them is served too.
    tenant_id: Id | None = None
    task_id: Id | None = None


class Beat(WorkerFacts):
    action: Literal["beat"] = "beat"
    nodes: list[HeldNode] = Field(max_length=1_000)


class Release(Wire):
    action: Literal["release"] = "release"
    contract: Version = VERSION
    worker_id: WorkerId
    nodes: list[HeldNode] = Field(max_length=1_000)


class AssetCheck(Wire):
    """May the user of a node that this worker holds use this upload or result?"""

    action: Literal["asset"] = "asset"
    contract: Version = VERSION
    worker_id: WorkerId
    node_id: Id
    attempt: Attempt
    asset_id: Id


Call = Register | Claim | Beat | Release | AssetCheck
Request = Annotated[Call, Field(discriminator="action")]
REQUEST: TypeAdapter[Call] = TypeAdapter(Request)


# --- answers of `internal`


class Settings(Wire):
    """The live settings that a worker reads. Equal values have an equal version."""

    version: str = ""
    lease_seconds: float = Field(default=30, gt=0)
    beat_seconds: float = Field(default=10, gt=0)
    progress_interval_ms: int = Field(default=2_000, gt=0)


class Terms(Wire):
    """The answer to Register: how long a lease lasts and how often to renew it; `settings` has the same and more."""

    contract: Version = VERSION
    lease_seconds: float = Field(default=30, gt=0)
    beat_seconds: float = Field(default=10, gt=0)
    settings: Settings | None = None


class InputRef(Wire):
    name: str
    key: str
    content_type: str = ""


class OutputRef(Wire):
    """A picture that the node makes. The upload sends exactly these headers, which are part of the signature."""

    name: str
    key: str
    content_type: str
    headers: dict[str, str] = {}


class Node(Wire):
    """One claimed attempt at one node. `attempt` is the fencing token: it is part of every message about it.

    `urls` has an address for each key of `inputs` (GET) and of `outputs` (PUT). Each is valid for little longer than
    the lease; a heartbeat that renews the lease answers with new ones.
    """

    node_id: str
    task_id: str
    tenant_id: str
    attempt: int
    name: str = ""
    type: str
    tool: str = ""
    model: str | None = None
    params: dict[str, Any] = {}
    inputs: list[InputRef] = []
    outputs: list[OutputRef] = []
    urls: dict[str, str] = {}
    output_prefix: str = Field(min_length=1)
    time_limit_seconds: float = Field(default=300, gt=0)
    lease_seconds: float = Field(default=30, gt=0)


class ClaimOutcome(StrEnum):
    CLAIMED = "claimed"
    GONE = "gone"  # another attempt runs, or the node has ended


class ClaimAnswer(Wire):
    contract: Version = VERSION
    outcome: ClaimOutcome
    node: Node | None = None


class Verdict(StrEnum):
    GO = "go"
    CANCELLED = "cancelled"
    FENCED = "fenced"


class NodeVerdict(Wire):
    node_id: str
    verdict: Verdict
    urls: dict[str, str] = {}


class BeatAnswer(Wire):
    """With `drain` the worker takes no new node, finishes or releases those that it holds, and ends."""

    contract: Version = VERSION
    nodes: list[NodeVerdict]
    drain: bool = False
    settings: Settings | None = None


class AssetOutcome(StrEnum):
    ALLOWED = "allowed"
    REFUSED = "refused"  # the worker does not hold the node, or its user may not work any more
    NOT_FOUND = "not_found"  # no such asset, or that of another tenant


class AssetAnswer(Wire):
    """`url` reads the asset, for as long as an address of the node."""

    contract: Version = VERSION
    outcome: AssetOutcome
    reason: str = ""
    content_type: str = ""
    url: str = ""


class ReleaseAnswer(Wire):
    contract: Version = VERSION
    released: int = Field(ge=0)


# --- messages


class WorkHint(Wire):
    """The data of a work message: an attempt that a worker may claim. `internal` decides whether the claim succeeds."""

    node_id: str = Field(min_length=1)
    attempt: int = Field(ge=0)
    tenant_id: str | None = None
    task_id: str | None = None


class Output(Wire):
    """A picture that a worker stored."""

    name: str
    key: str
    content_type: str
    width: int = Field(ge=1)
    height: int = Field(ge=1)
    bytes: int = Field(ge=0)


class Engine(Wire):
    name: str
    version: str = ""
    is_neural: bool = False
    detail: str = ""


class Fault(Wire):
    code: str = Field(min_length=1, max_length=64)
    message: str = Field(default="", max_length=500)
    is_retryable: bool = False
    retry_after_seconds: int = Field(default=0, ge=0, le=86_400)


class Answer(Wire):
    """The answer of an HTTP target, of which the caller reports the beginning."""

    http_status: int = Field(ge=100, le=999)
    text: str = Field(default="", max_length=4_000)
    elapsed_ms: int = Field(default=0, ge=0)


class ReportData(Wire):
    """The data of a message on the progress queue; the message's type is started, progress, result or failure.

    The caller reports about HTTP nodes, as a worker does about the others: `answer` is in place of outputs.
    """

    contract: Version = VERSION
    node_id: Id
    task_id: Id
    tenant_id: Id
    attempt: Attempt
    worker_id: WorkerId
    sequence: int = Field(default=0, ge=0)
    progress: int = Field(default=0, ge=0, le=100)
    gpu_seconds: float | None = Field(default=None, ge=0)
    outputs: list[Output] = Field(default=[], max_length=1_000)
    engine: Engine | None = None
    error: Fault | None = None
    answer: Answer | None = None
