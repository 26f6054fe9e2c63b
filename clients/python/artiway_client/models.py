"""Generated from the OpenAPI document by `make clients`. Do not edit."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

BackfillStatus = Literal["RUNNING", "COMPLETED", "CANCELLED"]
CatchUp = Literal["none", "once", "all"]
Channel = Literal["native", "jsapi", "h5"]
CircuitState = Literal["CLOSED", "OPEN", "HALF_OPEN"]
DeliveryStatus = Literal["PENDING", "DELIVERED", "FAILED"]
FireStatus = Literal[
    "RUN",
    "PUT_OFF",
    "UPCOMING",
    "PAUSED",
    "PREDECESSOR_FAILED",
    "DST_SKIPPED",
    "BEFORE_CREATION",
    "SKIPPED_OVERLAP",
    "MISFIRED",
    "COALESCED",
    "TENANT_SUSPENDED",
    "CANCELLED_BY_EDIT",
    "UNACCOUNTED",
]
InvitationStatus = Literal["OPEN", "ACCEPTED", "REVOKED", "EXPIRED"]
JobPriority = Literal["CRITICAL", "HIGH", "NORMAL", "LOW"]
Kind = Literal["RECHARGE", "GIFT", "FREEZE", "CONFIRM", "CANCEL", "REFUND", "TRANSFER_IN", "TRANSFER_OUT", "ADJUST"]
MisfirePolicy = Literal["FIRE_ONCE", "FIRE_ALL", "SKIP"]
OrderStatus = Literal["CREATED", "PAYING", "PAID", "COMPLETED", "CLOSED", "REFUNDING", "REFUNDED"]
OverlapPolicy = Literal["ALLOW_ALL", "SKIP", "BUFFER_ONE", "BUFFER_ALL", "CANCEL_OTHER"]
Permission = Literal[
    "task.submit",
    "task.read",
    "task.cancel",
    "task.manage",
    "points.read",
    "points.grant",
    "points.transfer",
    "order.create",
    "order.refund",
    "job.read",
    "job.write",
    "job.run",
    "job.ops",
    "webhook.manage",
    "user.manage",
    "tenant.manage",
    "ops.read",
    "ops.write",
]
RefundStatus = Literal["REQUESTED", "PROCESSING", "ABNORMAL", "SUCCESS", "CLOSED"]
Reprocess = Literal["none", "failed", "completed"]
RunKind = Literal["SCHEDULED", "CATCHUP", "MANUAL", "BACKFILL"]
RunState = Literal["PENDING", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "TERMINATED"]
TaskType = Literal["HTTP", "TASK", "FLOW"]
Tier = Literal["enterprise", "vip", "standard", "free"]


class AcceptBody(TypedDict):
    # of the link in the mail
    token: str
    password: str
    displayName: NotRequired[str | None]


class AcceptedBackfillBody(TypedDict):
    # null after a dry run
    backfillId: str | None
    acceptedRuns: int


class AcceptedBody(TypedDict):
    taskId: str
    status: Literal["QUEUED", "PROCESSING", "COMPLETED", "PARTIAL", "FAILED", "CANCELLED"]
    lane: str
    priority: Literal["HIGH", "NORMAL", "LOW"]
    pricePoints: int
    # expected end; null where it cannot start, see detail
    etaSeconds: int | None
    detail: str | None
    # only the preview engine serves a step that needs a network: the result is a draft
    isDraft: bool


class AcceptedGenerationBody(TypedDict):
    generationId: str
    status: Literal["PENDING_OCR", "QUEUED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"]
    # of a chained service
    hint: NotRequired[HintBody | None]
    # the lane
    queueId: str
    isFree: bool
    # held for the longest text; what is not used is released
    pricePoints: int
    eventsUrl: str


class AccountBody(TypedDict):
    balance: int
    frozen: int


class Answer(TypedDict):
    media: str
    parts: list[str]


class AnswerBody(TypedDict):
    httpStatus: int
    # the beginning of the answer, at most 2,000 characters
    text: str
    elapsedMs: int


class AuditBody(TypedDict):
    auditId: str
    tenantId: str | None
    actorId: str | None
    action: str
    target: str
    details: dict[str, Any]
    traceId: str
    at: str
    actorEmail: str | None
    actorName: str | None
    tenantName: str | None


class AuditsBody(TypedDict):
    items: list[AuditBody]
    nextCursor: str | None


BackfillBody = TypedDict(
    "BackfillBody",
    {
        'backfillId': 'str',
        'jobId': 'str',
        'from': 'str',
        'to': 'str',
        'parallelism': 'int',
        'reprocess': 'Reprocess',
        'status': 'BackfillStatus',
        'total': 'int',
        'done': 'int',
        'failed': 'int',
        'remaining': 'int',
        'createdAt': 'str',
        'endedAt': 'str | None',
    },
)


BackfillRangeBody = TypedDict(
    "BackfillRangeBody",
    {
        'from': 'str',
        'to': 'str',
        'parallelism': 'NotRequired[int]',
        'reprocess': 'NotRequired[Reprocess]',
        'dryRun': 'NotRequired[bool]',
    },
)


class BackfillsBody(TypedDict):
    items: list[BackfillBody]
    nextCursor: str | None


class BackgroundParams(TypedDict):
    prompt: NotRequired[str]
    preset: NotRequired[Literal["auto", "studio", "table", "outdoor", "beach", "night", "shelf", "podium"]]
    color: NotRequired[str]
    shadow: NotRequired[bool]
    seed: NotRequired[int]
    format: NotRequired[Literal["png", "jpeg", "webp"]]
    quality: NotRequired[int]


class BatchConvertParams(TypedDict):
    width: NotRequired[int]
    height: NotRequired[int]
    fit: NotRequired[Literal["contain", "cover", "stretch"]]
    background: NotRequired[Literal["transparent"] | str]
    seed: NotRequired[int]
    format: NotRequired[Literal["png", "jpeg", "webp"]]
    quality: NotRequired[int]


class BatchCutoutParams(TypedDict):
    background: NotRequired[Literal["transparent", "white"] | str]
    featherPx: NotRequired[float]
    trim: NotRequired[bool]
    seed: NotRequired[int]
    format: NotRequired[Literal["png", "jpeg", "webp"]]
    quality: NotRequired[int]


class BillDayBody(TypedDict):
    # in Shanghai
    day: str
    status: Literal["WAITING", "FAILED", "COMPARED", "DONE"]
    tries: int
    payments: int | None
    refunds: int | None
    totalFen: int | None
    # found when the bill was last compared
    differences: int | None
    lastError: str | None
    updatedAt: str


class BillDayViewBody(TypedDict):
    # in Shanghai
    day: str
    status: Literal["WAITING", "FAILED", "COMPARED", "DONE"]
    tries: int
    payments: int | None
    refunds: int | None
    totalFen: int | None
    # found when the bill was last compared
    differences: int | None
    lastError: str | None
    updatedAt: str
    items: list[DifferenceBody]
    nextCursor: str | None


class BillDaysBody(TypedDict):
    items: list[BillDayBody]
    nextCursor: str | None


class CacheDeletedBody(TypedDict):
    deleted: int


class CacheRefreshBody(TypedDict):
    name: str


class CacheRefreshedBody(TypedDict):
    name: str
    # values that were loaded again
    refreshed: int


class CachesBody(TypedDict):
    items: list[NamedCacheBody]
    nextCursor: str | None
    # false if Redis has more values than were counted
    complete: bool


class ChangedBody(TypedDict):
    # those that were changed; others are unknown, or their state does not allow it
    ids: list[str]
    count: int


class ChatBody(TypedDict):
    # a service, or a model as `provider/model`
    model: str
    messages: list[ChatMessageBody]
    stream: NotRequired[bool | None]
    stream_options: NotRequired[StreamOptionsBody | None]
    max_tokens: NotRequired[int | None]
    max_completion_tokens: NotRequired[int | None]
    temperature: NotRequired[float | None]
    top_p: NotRequired[float | None]
    stop: NotRequired[str | list[str] | None]
    seed: NotRequired[int | None]
    presence_penalty: NotRequired[float | None]
    frequency_penalty: NotRequired[float | None]
    n: NotRequired[Literal[1] | None]
    response_format: NotRequired[ResponseFormatBody | None]


class ChatMessageBody(TypedDict):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPartBody]


class CheckBody(TypedDict):
    name: str
    ok: bool
    checked: int
    # the first rows that violate it
    violations: list[dict[str, Any]]
    # when a check first found such rows
    since: NotRequired[str | None]


class CircuitBody(TypedDict):
    pool: str
    step: str
    state: Literal["OPEN", "HALF_OPEN"]
    # of its engine in a row, before it opened
    failures: int
    probesFailed: int
    lastError: str
    openedAt: str
    # from then on one node at a time may run
    nextProbeAt: str


class CreatedJobBody(TypedDict):
    jobId: str
    tenantId: str
    # whose points pay for TASK and FLOW runs
    userId: str
    name: str
    # COMPLETED: no fire is left
    status: Literal["ACTIVE", "PAUSED", "COMPLETED"]
    # rises with each change
    version: int
    schedule: ScheduleShape
    task: HttpTaskShape | ToolTaskShape | FlowTaskShape
    retryPolicy: RetryShape
    concurrencyLimit: int
    priority: JobPriority
    overlapPolicy: OverlapPolicy
    misfirePolicy: MisfirePolicy
    catchupWindowSeconds: int
    timeoutSeconds: int
    startsAt: str | None
    endsAt: str | None
    # null while it is paused, and when no fire is left
    nextFireTime: str | None
    # at most 5
    nextFires: list[FireBody]
    # of the schedule, in the language of Accept-Language: zh, else en
    description: str
    note: str | None
    pausedBy: str | None
    pausedAt: str | None
    createdAt: str
    updatedAt: str
    # signs the calls of all jobs of the tenant; shown once, by its first HTTP job, else null
    signingSecret: str | None


class CreatedWebhookBody(TypedDict):
    webhookId: str
    url: str
    # named by a task and not registered: receives only the tasks that name it
    isImplied: bool
    createdAt: str
    # signs deliveries; shown this once
    secret: str


class CropParams(TypedDict):
    aspect: NotRequired[Literal["original"] | str]
    margin: NotRequired[float]
    seed: NotRequired[int]
    format: NotRequired[Literal["png", "jpeg", "webp"]]
    quality: NotRequired[int]


class CutoutParams(TypedDict):
    background: NotRequired[Literal["transparent", "white"] | str]
    featherPx: NotRequired[float]
    trim: NotRequired[bool]
    seed: NotRequired[int]
    format: NotRequired[Literal["png", "jpeg", "webp"]]
    quality: NotRequired[int]


class DeadLetterBody(TypedDict):
    messageId: str
    body: str
    sentAt: str
    receiveCount: int


class DeadLettersBody(TypedDict):
    # the first hundred of the queue
    items: list[DeadLetterBody]
    nextCursor: str | None


class DeadQueueBody(TypedDict):
    queue: str
    depth: int


class DeadQueuesBody(TypedDict):
    items: list[DeadQueueBody]
    nextCursor: str | None


class DecisionBody(TypedDict):
    at: str
    pool: str
    taskId: str | None
    # its name in the task
    node: str | None
    tenantId: str
    userId: str
    type: str
    lane: str
    model: str | None
    chargedSeconds: float
    # virtual time in seconds
    tag: float
    # the next tenant whose node could have run
    runnerUp: RunnerUpBody | None
    reason: Literal["only_candidate", "smallest_tag", "tie_earlier_arrival"]
    detail: str


class DecisionsBody(TypedDict):
    items: list[DecisionBody]
    nextCursor: str | None


class DeliveriesBody(TypedDict):
    items: list[DeliveryBody]
    nextCursor: str | None


class DeliveryBody(TypedDict):
    deliveryId: str
    event: str
    status: DeliveryStatus
    attempts: int
    nextTryAt: str | None
    answerCode: int | None
    answer: str | None
    createdAt: str
    deliveredAt: str | None
    body: str


class DeriveParams(TypedDict):
    strength: NotRequired[float]
    seed: NotRequired[int]
    format: NotRequired[Literal["png", "jpeg", "webp"]]
    quality: NotRequired[int]


class DictionariesBody(TypedDict):
    # all labels, by type
    dictionaries: dict[str, list[LabelBody]]


class DifferenceBody(TypedDict):
    kind: str
    # WeChat's or our number of the payment or refund
    reference: str
    tenantId: str | None
    orderId: str | None
    oursFen: int | None
    theirsFen: int | None
    resolution: Literal["OPEN", "REPAIRED"]
    foundAt: str
    resolvedAt: str | None


class DiscardBody(TypedDict):
    # all, at most 100, if left out
    messageIds: NotRequired[list[str] | None]
    reason: str


class EntryBody(TypedDict):
    entryId: str
    kind: Kind
    balanceDelta: int
    frozenDelta: int
    balance: int
    frozen: int
    reference: str
    createdAt: str


class EraseParams(TypedDict):
    # places to change instead of a mask: [x, y, width, height], each a part of the picture from 0 to 1, from its
    # upper left corner and inside it
    regions: NotRequired[list[list[Any]]]
    seed: NotRequired[int]
    format: NotRequired[Literal["png", "jpeg", "webp"]]
    quality: NotRequired[int]


class ErrorBody(TypedDict):
    # AREA_STATUS_NAME, stable
    code: str
    message: str
    requestId: str
    details: dict[str, Any]


class EstimateBody(TypedDict):
    pricePoints: int
    lane: str
    # null where it cannot start, see detail
    etaStartSeconds: int | None
    etaEndSeconds: int | None
    # why there is no expected start, in words
    detail: str | None
    nodes: int
    # only the preview engine serves a step that needs a network: the result is a draft
    isDraft: bool
    # what each draft step can and cannot do, by language (en, zh); empty unless isDraft
    draftNotes: list[dict[str, str]]


class ExtendParams(TypedDict):
    left: NotRequired[float]
    right: NotRequired[float]
    top: NotRequired[float]
    bottom: NotRequired[float]
    aspect: NotRequired[str]
    seed: NotRequired[int]
    format: NotRequired[Literal["png", "jpeg", "webp"]]
    quality: NotRequired[int]


class FairnessBody(TypedDict):
    tenants: list[ShareBody]
    # the largest difference that any pair may show, in GPU seconds per weight
    bound: float
    # the largest difference of a pair; 0 if no pair is compared
    worst: float
    worstPair: PairBody | None
    # Jain's index; 1 is perfectly fair
    jain: float


class FaultBody(TypedDict):
    code: str
    message: str


class FieldChangeBody(TypedDict):
    field: str
    before: Any
    after: Any


class FireBody(TypedDict):
    at: str
    # as the clock of the job's time zone shows it
    local: str
    # of that clock from UTC, +08:00
    offset: str


class FlowBody(TypedDict):
    name: NotRequired[str]
    nodes: list[FlowNodeBody]
    # what a node that fails for good cancels: continue, the nodes that depend on it; stop, every node that has not
    # started, and no running one is retried
    onFailure: NotRequired[Literal["continue", "stop"]]
    webhookUrl: NotRequired[str | None]
    # orders the task among the work of its own tenant only
    priority: NotRequired[Literal["HIGH", "NORMAL", "LOW"]]


class FlowNodeBody(TypedDict):
    name: str
    # a node type, of which the first step is taken; or http, a call
    type: NotRequired[str | None]
    # a step
    tool: NotRequired[str | None]
    # of the step; of an http node: url, method (POST), headers, body, timeoutSeconds (30), successStatuses (200 to
    # 299), as in an HTTP job. A header or the body may name a secret, `secret:NAME`. The body may name other nodes:
    # `{{nodes.NAME.answer}}` and `{{nodes.NAME.httpStatus}}` of an http node, `{{nodes.NAME.url}}` of another one
    # is a signed address of its picture; a named node is a dependency
    params: NotRequired[dict[str, Any]]
    # an input id, or a node's name, or node.output
    inputs: NotRequired[dict[str, Any]]
    dependsOn: NotRequired[list[str]]


class FlowNodeShape(TypedDict):
    name: str
    type: NotRequired[str | None]
    tool: NotRequired[str | None]
    params: NotRequired[dict[str, Any]]
    inputs: NotRequired[dict[str, Any]]
    dependsOn: NotRequired[list[str]]


class FlowTaskShape(TypedDict):
    type: Literal["FLOW"]
    name: NotRequired[str]
    nodes: list[FlowNodeShape]
    # stop: after a failure nothing more starts; continue if left out
    onFailure: NotRequired[Literal["continue", "stop"] | None]
    webhookUrl: NotRequired[str | None]
    # among the tenant's tasks; the job's if left out
    priority: NotRequired[Literal["HIGH", "NORMAL", "LOW"] | None]


class ForgotBody(TypedDict):
    # e-mail address or phone number
    login: str
    # of the mail; null: as the user's profile
    language: NotRequired[Literal["zh", "en"] | None]


class ForgottenBody(TypedDict):
    pass


class GenerationBody(TypedDict):
    generationId: str
    userId: str
    service: str
    status: Literal["PENDING_OCR", "QUEUED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"]
    queueId: str
    isFree: bool
    provider: str
    modelId: str
    attempt: int
    # so far; of a running text some seconds old
    text: str
    result: dict[str, Any] | None
    usage: TokenUsageBody | None
    usageSource: Literal["provider", "estimated"] | None
    pricePoints: int
    chargedPoints: int
    traceId: str
    createdAt: str
    startedAt: str | None
    endedAt: str | None
    # why it failed; of a waiting text why its last attempt did
    error: FaultBody | None
    # of a chained service, in order; the second fails with the first
    stages: list[StageBody]


class GenerationIdsBody(TypedDict):
    ids: list[str]


class GenerationInputBody(TypedDict):
    text: NotRequired[str | None]
    inputId: NotRequired[str | None]


class GenerationRequestBody(TypedDict):
    service: str
    input: GenerationInputBody
    params: NotRequired[dict[str, Any]]
    # a lower lane for anyone, a higher one with ops.write
    lane: NotRequired[Literal["paid_stream", "free_stream", "paid_batch", "free_batch", "paid_vision", "free_vision"] | None]
    maxTokens: NotRequired[int | None]
    # simulates the quota: true needs points, false uses the free allowance
    paid: NotRequired[bool | None]


class GenerationStatusBody(TypedDict):
    generationId: str
    status: Literal["PENDING_OCR", "QUEUED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"]


class GenerationsBody(TypedDict):
    items: list[GenerationBody]
    nextCursor: str | None


class GrantBody(TypedDict):
    userId: str
    amount: int
    campaign: NotRequired[str | None]
    expiresAt: NotRequired[str | None]
    reason: str


class GuardBody(TypedDict):
    state: Literal["NORMAL", "DEGRADED"]
    # PostgreSQL, its reader and Redis: ok or away
    checks: dict[str, str]
    readings: list[ReadingBody]
    # steps that are stopped; null if they could not be read
    circuits: list[CircuitBody] | None
    # the guard of scheduled runs; null if it could not be read
    runs: RunGuardBody | None


class HandledGenerationBody(TypedDict):
    id: str
    # a retry is a new generation
    generationId: str | None
    status: Literal["PENDING_OCR", "QUEUED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"] | None
    errorCode: str | None


class HandledGenerationsBody(TypedDict):
    results: list[HandledGenerationBody]


class HandledTaskBody(TypedDict):
    id: str
    status: Literal["QUEUED", "PROCESSING", "COMPLETED", "PARTIAL", "FAILED", "CANCELLED"] | None
    # why this one was not changed
    errorCode: str | None


class HandledTasksBody(TypedDict):
    results: list[HandledTaskBody]


class HdFixParams(TypedDict):
    strength: NotRequired[float]
    scale: NotRequired[float]
    seed: NotRequired[int]
    format: NotRequired[Literal["png", "jpeg", "webp"]]
    quality: NotRequired[int]


class HealthBody(TypedDict):
    status: Literal["ok", "degraded"]
    checks: dict[str, str]


class HintBody(TypedDict):
    # the service that runs first
    dependency: str
    next: list[Literal["STREAMING", "COMPLETED"]]


class HttpTaskShape(TypedDict):
    type: Literal["HTTP"]
    # http or https, a public host in ASCII (`xn--` for other scripts), no user information
    url: str
    method: NotRequired[Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]]
    # `secret:NAME` in a value stands for a secret
    headers: NotRequired[dict[str, Any] | None]
    # a text, or JSON that is sent as application/json; may name secrets as headers do
    body: NotRequired[str | dict[str, Any] | list[Any] | None]
    # 30 if left out
    timeoutSeconds: NotRequired[int | None]
    # 200 to 299 if left out
    successStatuses: NotRequired[list[int] | None]


class IdsBody(TypedDict):
    ids: list[str]


class Img2imgParams(TypedDict):
    prompt: NotRequired[str]
    strength: NotRequired[float]
    seed: NotRequired[int]
    format: NotRequired[Literal["png", "jpeg", "webp"]]
    quality: NotRequired[int]


class ImportedBody(TypedDict):
    dryRun: bool
    created: int
    updated: int
    unchanged: int
    jobs: list[ImportedJobBody]


class ImportedJobBody(TypedDict):
    action: Literal["create", "update", "unchanged"]
    # null for a job that a dry run would create
    jobId: str | None
    name: str
    changes: list[FieldChangeBody]


class InvariantsBody(TypedDict):
    ok: bool
    checks: list[CheckBody]


class InvitationBody(TypedDict):
    invitationId: str
    email: str
    roles: list[str]
    status: InvitationStatus
    invitedBy: str
    invitedByEmail: str | None
    createdAt: str
    sentAt: str
    expiresAt: str
    acceptedAt: str | None
    # the user who accepted it
    userId: str | None


class InvitationsBody(TypedDict):
    items: list[InvitationBody]
    nextCursor: str | None


class InviteBody(TypedDict):
    email: str
    password: str
    roles: list[str]


class InvitedBody(TypedDict):
    tenantName: str
    email: str
    expiresAt: str


class JobBody(TypedDict):
    jobId: str
    tenantId: str
    # whose points pay for TASK and FLOW runs
    userId: str
    name: str
    # COMPLETED: no fire is left
    status: Literal["ACTIVE", "PAUSED", "COMPLETED"]
    # rises with each change
    version: int
    schedule: ScheduleShape
    task: HttpTaskShape | ToolTaskShape | FlowTaskShape
    retryPolicy: RetryShape
    concurrencyLimit: int
    priority: JobPriority
    overlapPolicy: OverlapPolicy
    misfirePolicy: MisfirePolicy
    catchupWindowSeconds: int
    timeoutSeconds: int
    startsAt: str | None
    endsAt: str | None
    # null while it is paused, and when no fire is left
    nextFireTime: str | None
    # at most 5
    nextFires: list[FireBody]
    # of the schedule, in the language of Accept-Language: zh, else en
    description: str
    note: str | None
    pausedBy: str | None
    pausedAt: str | None
    createdAt: str
    updatedAt: str


class JobChangeBody(TypedDict):
    # the caller's own, if given
    tenantId: NotRequired[str | None]
    name: NotRequired[str | None]
    # fields of a schedule
    schedule: NotRequired[dict[str, Any] | None]
    # fields of a task; another type replaces the task
    task: NotRequired[dict[str, Any] | None]
    retryPolicy: NotRequired[dict[str, Any] | None]
    concurrencyLimit: NotRequired[int | None]
    priority: NotRequired[JobPriority | None]
    overlapPolicy: NotRequired[OverlapPolicy | None]
    misfirePolicy: NotRequired[MisfirePolicy | None]
    catchupWindowSeconds: NotRequired[int | None]
    timeoutSeconds: NotRequired[int | None]
    startsAt: NotRequired[str | None]
    endsAt: NotRequired[str | None]


class JobsBody(TypedDict):
    items: list[JobBody]
    nextCursor: str | None


class KeyBody(TypedDict):
    keyId: str
    userId: str
    name: str
    permissions: list[str]
    signed: bool
    createdAt: str
    expiresAt: str | None
    # the key that made it; deleted with that one
    parentKeyId: str | None


class KeyMadeBody(TypedDict):
    keyId: str
    # shown only here
    key: str
    signed: bool
    expiresAt: str | None


class KeysBody(TypedDict):
    items: list[KeyBody]
    nextCursor: str | None


class LabelBody(TypedDict):
    key: str
    zh: str
    en: str
    order: int


class LabelsBody(TypedDict):
    items: list[LabelBody]
    nextCursor: str | None


class LaneBody(TypedDict):
    lane: str
    pool: str
    # nodes or texts that wait; in a lane of runs, runs that are due
    depth: int
    # nodes that hold a slot; runs and texts that run
    running: int
    parallelism: int | None
    # of the pool's slots
    sharePercent: int | None
    paused: bool
    # depth beyond which submissions are refused
    limit: int


class LaneChangeBody(TypedDict):
    # 0: nothing runs; null: no limit
    parallelism: NotRequired[int | None]
    # of the pool's slots
    sharePercent: NotRequired[int | None]
    # depth
    limit: NotRequired[int | None]
    # null does not change it
    paused: NotRequired[bool | None]


class LanesBody(TypedDict):
    items: list[LaneBody]
    nextCursor: str | None


class LedgerBody(TypedDict):
    items: list[EntryBody]
    nextCursor: str | None


class LinkBody(TypedDict):
    # of the link in the mail
    token: str


class ListedTaskBody(TypedDict):
    taskId: str
    userId: str
    tool: str
    name: str
    status: Literal["QUEUED", "PROCESSING", "COMPLETED", "PARTIAL", "FAILED", "CANCELLED"]
    progress: int
    lane: str
    priority: Literal["HIGH", "NORMAL", "LOW"]
    pricePoints: int
    chargedPoints: int
    createdAt: str
    startedAt: str | None
    endedAt: str | None
    error: FaultBody | None
    # only the preview engine serves a step that needs a network: the result is a draft
    isDraft: bool
    # the first result, in full size
    thumbnail: ThumbnailBody | None


class LogLineBody(TypedDict):
    at: str
    attempt: int
    level: Literal["INFO", "WARN", "ERROR"]
    message: str


class LogLinesBody(TypedDict):
    items: list[LogLineBody]
    nextCursor: str | None


class LoginBody(TypedDict):
    # e-mail address or phone number
    login: str
    password: str


class MarginLineBody(TypedDict):
    # that ended: completed, failed and cancelled ones
    texts: int
    completed: int
    failed: int
    cancelled: int
    # of those, texts of the free allowance
    freeTexts: int
    # requests to providers, repeated and failed ones too
    calls: int
    # of those, calls whose tokens the provider did not count
    estimatedCalls: int
    inputTokens: int
    outputTokens: int
    # of both, tokens that were estimated
    estimatedTokens: int
    # tokens at the provider's prices, rounded to six places
    costPoints: float
    # as in the ledger
    chargedPoints: int
    # charged points less cost
    marginPoints: float
    # in UTC; null unless grouped by day, as the others
    day: str | None
    # `provider/model`; null for texts that reached no model
    model: str | None
    service: str | None
    tenantId: str | None
    tenantName: str | None
    userId: str | None
    email: str | None


class MarginSumBody(TypedDict):
    # that ended: completed, failed and cancelled ones
    texts: int
    completed: int
    failed: int
    cancelled: int
    # of those, texts of the free allowance
    freeTexts: int
    # requests to providers, repeated and failed ones too
    calls: int
    # of those, calls whose tokens the provider did not count
    estimatedCalls: int
    inputTokens: int
    outputTokens: int
    # of both, tokens that were estimated
    estimatedTokens: int
    # tokens at the provider's prices, rounded to six places
    costPoints: float
    # as in the ledger
    chargedPoints: int
    # charged points less cost
    marginPoints: float


MarginsBody = TypedDict(
    "MarginsBody",
    {
        'items': 'list[MarginLineBody]',
        'nextCursor': 'str | None',
        'from': 'str',
        'to': 'str',
        'total': 'MarginSumBody',
    },
)


class MeBody(TypedDict):
    userId: str
    tenantId: str
    tier: str
    email: str | None
    roles: list[str]
    permissions: list[str]
    phone: str | None
    displayName: str | None
    # of mails; null: not chosen
    language: Literal["zh", "en"] | None
    # mails about low balances; mails about safety are always sent
    emailNotices: bool
    tenantName: str
    # days that pictures are kept
    artefactDays: int
    # points; null without `points.read`
    balance: int | None
    # points that are held for tasks; null without `points.read`
    frozen: int | None
    # the tenant's warning level
    lowBalancePoints: int | None
    # the balance is below the warning level
    lowBalance: bool
    # what `POST /points/trial` brings now; null: used, or there is none
    trialPoints: int | None
    # a login from a new place that the user has not seen
    newPlaceLogin: PlaceBody | None


class MeChangeBody(TypedDict):
    displayName: NotRequired[str | None]
    language: NotRequired[Literal["zh", "en"] | None]
    # null does not change it
    emailNotices: NotRequired[bool | None]
    # true: logins from new places were seen
    seenLogins: NotRequired[bool | None]


class ModelBody(TypedDict):
    # of texts: the provider and its model, joined by a colon
    model: str
    # steps of the catalogue that use it
    steps: list[str]
    # services of texts that use it
    services: list[str]
    # nodes at once in each pool, or texts at once; null: no limit
    limit: int | None
    running: int
    waiting: int
    pools: list[ModelLoadBody]


class ModelLimitBody(TypedDict):
    # nodes at once in each pool; 0: nothing runs; null: no limit
    limit: int | None


class ModelLoadBody(TypedDict):
    pool: str
    running: int
    waiting: int


class ModelPhotoParams(TypedDict):
    pose: NotRequired[Literal["stand", "hip", "wave", "walk", "akimbo", "lean", "arms_up", "turn"]]
    wear: NotRequired[Literal["auto", "torso", "hold", "feet"]]
    skin: NotRequired[int]
    prompt: NotRequired[str]
    preset: NotRequired[Literal["auto", "studio", "table", "outdoor", "beach", "night", "shelf", "podium"]]
    color: NotRequired[str]
    scale: NotRequired[float]
    x: NotRequired[float]
    shadow: NotRequired[bool]
    seed: NotRequired[int]
    format: NotRequired[Literal["png", "jpeg", "webp"]]
    quality: NotRequired[int]


class ModelsBody(TypedDict):
    items: list[ModelBody]
    nextCursor: str | None


class MovedBody(TypedDict):
    count: int


class NamedCacheBody(TypedDict):
    name: str
    # values in Redis
    entries: int
    # of all processes in the last hour
    hits: int
    misses: int
    hitRate: float
    # of reads from Redis, rounded up
    readP95Milliseconds: int
    refreshable: bool


class NewInvitationBody(TypedDict):
    email: str
    roles: list[str]
    # of the mail; null: as the inviter's profile
    language: NotRequired[Literal["zh", "en"] | None]


class NewJobBody(TypedDict):
    name: str
    schedule: ScheduleShape
    task: HttpTaskShape | ToolTaskShape | FlowTaskShape
    retryPolicy: NotRequired[RetryShape | None]
    # runs at once; 10 if left out
    concurrencyLimit: NotRequired[int | None]
    # the tier's if left out, and never above it
    priority: NotRequired[Literal["CRITICAL", "HIGH", "NORMAL", "LOW"] | None]
    # ALLOW_ALL if left out
    overlapPolicy: NotRequired[Literal["ALLOW_ALL", "SKIP", "BUFFER_ONE", "BUFFER_ALL", "CANCEL_OTHER"] | None]
    # FIRE_ONCE if left out
    misfirePolicy: NotRequired[Literal["FIRE_ONCE", "FIRE_ALL", "SKIP"] | None]
    # the shortest period if left out, a day at most
    catchupWindowSeconds: NotRequired[int | None]
    # of a run
    timeoutSeconds: NotRequired[int | None]
    # no fire before it
    startsAt: NotRequired[str | None]
    # no fire at or after it
    endsAt: NotRequired[str | None]
    # the caller's own, if given
    tenantId: NotRequired[str | None]


class NewKeyBody(TypedDict):
    name: str
    permissions: list[Permission]
    # default: as the calling key, else never
    expiresAt: NotRequired[str | None]
    # every request must have an HMAC-SHA256 signature; default: as the calling key
    signed: NotRequired[bool | None]


class NewOrderBody(TypedDict):
    packageId: str
    channel: Channel
    openid: NotRequired[str | None]


class NewRefundBody(TypedDict):
    amountFen: int
    reason: str
    # of a platform administrator; the caller's own, if left out
    tenantId: NotRequired[str | None]


class NewRoleBody(TypedDict):
    name: str
    permissions: list[Permission]


class NewTenantBody(TypedDict):
    weight: NotRequired[int | None]
    concurrency: NotRequired[int | None]
    queueDepth: NotRequired[int | None]
    ratePerSecond: NotRequired[int | None]
    burst: NotRequired[int | None]
    # runs of jobs at once
    jobConcurrency: NotRequired[int | None]
    # runs of jobs that start per minute
    jobPerMinute: NotRequired[int | None]
    # shortest period of a job
    jobPeriodSeconds: NotRequired[int | None]
    # running nodes of one user; null: no limit
    userConcurrency: NotRequired[int | None]
    name: str
    tier: Tier
    status: NotRequired[Literal["ACTIVE", "SUSPENDED"]]
    # the tenant's first user
    owner: NotRequired[OwnerBody | None]


class NewWebhookBody(TypedDict):
    # http or https, a public host in ASCII (`xn--` for other scripts), no user information
    url: str


class NodeBody(TypedDict):
    nodeId: str
    name: str
    type: str
    # a key of the dictionary `steps`
    step: str
    status: Literal["PENDING", "QUEUED", "PROCESSING", "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"]
    progress: int
    attempt: int
    # how long the attempt that ended ran, as the worker measured it
    runSeconds: float | None
    dependsOn: list[str]
    error: FaultBody | None
    # the engine that made the picture, as the worker reported it
    engine: dict[str, Any] | None
    # of an HTTP node: what the target answered to the last attempt
    answer: AnswerBody | None


class NoteBody(TypedDict):
    note: NotRequired[str | None]


class OpsGenerationBody(TypedDict):
    generationId: str
    tenantId: str
    userId: str
    service: str
    status: Literal["PENDING_OCR", "QUEUED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"]
    queueId: str
    isFree: bool
    provider: str
    modelId: str
    attempt: int
    characters: int
    chargedPoints: int
    traceId: str
    createdAt: str
    startedAt: str | None
    firstTokenAt: str | None
    endedAt: str | None
    errorCode: str | None


class OpsGenerationsBody(TypedDict):
    items: list[OpsGenerationBody]
    nextCursor: str | None


class OpsNodeBody(TypedDict):
    nodeId: str
    name: str
    type: str
    step: str
    status: Literal["PENDING", "QUEUED", "PROCESSING", "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"]
    attempt: int
    failures: int
    progress: int
    dependsOn: list[str]
    # of the last attempt
    workerId: str | None
    error: FaultBody | None
    engine: dict[str, Any] | None
    createdAt: str
    readyAt: str | None
    dispatchedAt: str | None
    startedAt: str | None
    endedAt: str | None


class OpsRunBody(TypedDict):
    runId: str
    jobId: str
    jobName: str
    tenantId: str
    scheduledTime: str
    kind: RunKind
    state: RunState
    taskType: TaskType
    lane: str
    generation: int
    attempt: int
    waitingFor: str | None
    lastError: str | None
    httpStatus: int | None
    nextRetryAt: str | None
    startedAt: str | None
    endedAt: str | None
    taskId: str | None
    deadLetterAt: str | None


class OpsRunsBody(TypedDict):
    items: list[OpsRunBody]
    nextCursor: str | None


class OpsTaskBody(TypedDict):
    taskId: str
    tenantId: str
    tenantName: str
    userId: str
    userEmail: str | None
    tool: str
    name: str
    status: Literal["QUEUED", "PROCESSING", "COMPLETED", "PARTIAL", "FAILED", "CANCELLED"]
    lane: str
    priority: Literal["HIGH", "NORMAL", "LOW"]
    pricePoints: int
    chargedPoints: int
    traceId: str
    createdAt: str
    startedAt: str | None
    endedAt: str | None
    error: FaultBody | None


class OpsTaskViewBody(TypedDict):
    taskId: str
    tenantId: str
    tenantName: str
    userId: str
    userEmail: str | None
    tool: str
    name: str
    status: Literal["QUEUED", "PROCESSING", "COMPLETED", "PARTIAL", "FAILED", "CANCELLED"]
    lane: str
    priority: Literal["HIGH", "NORMAL", "LOW"]
    pricePoints: int
    chargedPoints: int
    traceId: str
    createdAt: str
    startedAt: str | None
    endedAt: str | None
    error: FaultBody | None
    nodes: list[OpsNodeBody]
    # every change of a node, oldest first; history is kept for 90 days
    timeline: list[StepBody]
    # why each node that has not ended waits
    why: list[ReasonBody]


class OpsTasksBody(TypedDict):
    items: list[OpsTaskBody]
    nextCursor: str | None


class OrderBody(TypedDict):
    orderId: str
    status: OrderStatus
    packageId: str
    amountFen: int
    points: int
    channel: Channel
    createdAt: str
    expiresAt: str
    refundedFen: int
    flag: NotRequired[str | None]
    closeReason: NotRequired[str | None]
    transactionId: NotRequired[str | None]
    paidAt: NotRequired[str | None]
    codeUrl: NotRequired[str | None]
    h5Url: NotRequired[str | None]
    payParams: NotRequired[dict[str, str] | None]


class OrdersBody(TypedDict):
    items: list[OrderBody]
    nextCursor: str | None


class OrganisationBody(TypedDict):
    tenantId: str
    name: str
    tier: str
    # running nodes of the whole tenant
    concurrency: int
    # running nodes of each user; null: no limit
    userConcurrency: int | None
    # below it a user gets a notice; null: no notice
    lowBalancePoints: int | None


class OrganisationChangeBody(TypedDict):
    name: NotRequired[str | None]
    # running nodes of each user; null: no limit; left out: unchanged
    userConcurrency: NotRequired[int | None]
    # below it a user gets a notice; null: no notice; left out: unchanged
    lowBalancePoints: NotRequired[int | None]


class OriginalBody(TypedDict):
    # as the submission named it; in a flow `node.input`
    name: str
    inputId: str
    # valid until expiresAt; null: the picture is not kept any more
    url: str | None
    contentType: str
    width: int | None
    height: int | None
    expiresAt: str | None


class OutfitPosesParams(TypedDict):
    wear: NotRequired[Literal["auto", "torso", "hold", "feet"]]
    skin: NotRequired[int]
    prompt: NotRequired[str]
    preset: NotRequired[Literal["auto", "studio", "table", "outdoor", "beach", "night", "shelf", "podium"]]
    color: NotRequired[str]
    scale: NotRequired[float]
    x: NotRequired[float]
    shadow: NotRequired[bool]
    seed: NotRequired[int]
    format: NotRequired[Literal["png", "jpeg", "webp"]]
    quality: NotRequired[int]


class Overrides(TypedDict):
    weight: NotRequired[int | None]
    concurrency: NotRequired[int | None]
    queueDepth: NotRequired[int | None]
    ratePerSecond: NotRequired[int | None]
    burst: NotRequired[int | None]
    # runs of jobs at once
    jobConcurrency: NotRequired[int | None]
    # runs of jobs that start per minute
    jobPerMinute: NotRequired[int | None]
    # shortest period of a job
    jobPeriodSeconds: NotRequired[int | None]


class OwnPasswordBody(TypedDict):
    currentPassword: str
    newPassword: str


class OwnerBody(TypedDict):
    email: str
    password: str


class PackageBody(TypedDict):
    packageId: str
    amountFen: int
    points: int


class PackagesBody(TypedDict):
    items: list[PackageBody]
    nextCursor: str | None


class PairBody(TypedDict):
    tenants: list[str]
    # difference of GPU seconds per weight
    gap: float
    bound: float


class PauseBody(TypedDict):
    reason: NotRequired[str | None]


class PlaceBody(TypedDict):
    at: str
    location: str


class PointBody(TypedDict):
    # start of the step
    at: str
    value: float


class PoolBody(TypedDict):
    pool: str
    # virtual time in seconds
    gvt: float
    # of all node types, a little prefetch included
    slots: int
    slotsByType: dict[str, int]
    running: int
    tenants: list[TenantClockBody]


class PreviewBody(TypedDict):
    schedule: ScheduleShape
    startsAt: NotRequired[str | None]
    endsAt: NotRequired[str | None]


class PreviewedBody(TypedDict):
    # at most 5
    nextFires: list[FireBody]
    # in the language of Accept-Language: zh, else en
    description: str
    # by language: zh, en
    descriptions: dict[str, str]


class ReadingBody(TypedDict):
    name: str
    ok: bool
    # null if it could not be measured
    value: float | None
    limit: float
    unit: str


class RealModelParams(TypedDict):
    pose: NotRequired[Literal["stand", "hip", "wave", "walk", "akimbo", "lean", "arms_up", "turn"]]
    wear: NotRequired[Literal["auto", "torso", "hold", "feet"]]
    skin: NotRequired[int]
    prompt: NotRequired[str]
    preset: NotRequired[Literal["auto", "studio", "table", "outdoor", "beach", "night", "shelf", "podium"]]
    color: NotRequired[str]
    scale: NotRequired[float]
    x: NotRequired[float]
    shadow: NotRequired[bool]
    seed: NotRequired[int]
    format: NotRequired[Literal["png", "jpeg", "webp"]]
    quality: NotRequired[int]


class ReasonBody(TypedDict):
    name: str
    status: Literal["PENDING", "QUEUED", "PROCESSING", "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"]
    waitingFor: Literal["dependency", "tenant_cap", "user_cap", "model_cap", "lane_paused", "circuit_open", "lane_cap", "no_worker", "turn", "none"]
    # nodes of all tenants that start before it, about
    position: int | None
    # expected start; null where it cannot start
    etaSeconds: int | None
    detail: str


class ReceiptBody(TypedDict):
    # our number of the payment at WeChat
    receiptNumber: str
    orderId: str
    transactionId: str
    tenantName: str
    buyer: str
    packageId: str
    points: int
    amountFen: int
    refundedFen: int
    channel: Channel
    status: OrderStatus
    createdAt: str
    paidAt: str
    refunds: list[RefundLineBody]


class RefreshBody(TypedDict):
    refreshToken: str


class RefundBody(TypedDict):
    refundId: str
    status: RefundStatus


class RefundLineBody(TypedDict):
    refundId: str
    status: RefundStatus
    orderId: str
    amountFen: int
    points: int
    reason: str
    createdAt: str
    endedAt: str | None


class RefundsBody(TypedDict):
    items: list[RefundLineBody]
    nextCursor: str | None


class RegisterBody(TypedDict):
    tenantName: str
    # unique on the whole platform
    email: str
    password: str
    # +<country><number>, or a Chinese mobile
    phone: NotRequired[str | None]


class RepaintParams(TypedDict):
    # places to change instead of a mask: [x, y, width, height], each a part of the picture from 0 to 1, from its
    # upper left corner and inside it
    regions: NotRequired[list[list[Any]]]
    prompt: NotRequired[str]
    color: NotRequired[str]
    seed: NotRequired[int]
    format: NotRequired[Literal["png", "jpeg", "webp"]]
    quality: NotRequired[int]


class ReplayBody(TypedDict):
    # all, at most 100, if left out
    messageIds: NotRequired[list[str] | None]
    reason: NotRequired[str | None]


ReplayRangeBody = TypedDict(
    "ReplayRangeBody",
    {
        'from': 'str',
        'to': 'str',
        'state': 'NotRequired[Literal["SUCCESS", "FAILED", "TERMINATED"] | None]',
    },
)


class ReplayedBody(TypedDict):
    replayedRuns: int
    # one request replays 1,000 runs at most, the newest first
    hasMore: bool
    # `to` of the request that replays the rest; null: there is none
    nextTo: str | None


class ReportedFireBody(TypedDict):
    # the nominal time
    scheduledTime: str
    # RUN: see the run; UNACCOUNTED does not occur
    outcome: FireStatus
    reason: str
    runId: str | None


class ReportedFiresBody(TypedDict):
    items: list[ReportedFireBody]
    nextCursor: str | None


class ResetBody(TypedDict):
    # of the link in the mail
    token: str
    password: str


class ResponseFormatBody(TypedDict):
    type: Literal["text"]


class ResultBody(TypedDict):
    name: str
    # valid until expiresAt; a new request returns a new one
    url: str
    # the same picture, which a browser saves under a good name
    downloadUrl: str
    contentType: str
    width: int
    height: int
    expiresAt: str
    # made without the network that one of its steps needs
    isDraft: bool


class ResumeBody(TypedDict):
    note: NotRequired[str | None]
    # fires of the pause: none, a run for the newest, a run for each (100 at most)
    catchUp: NotRequired[CatchUp]


class RetryShape(TypedDict):
    maxAttempts: NotRequired[int]
    baseDelayMs: NotRequired[int]
    # 5 minutes if left out
    maxDelayMs: NotRequired[int | None]


class RoleBody(TypedDict):
    name: str
    permissions: list[str]
    isBuiltIn: bool


class RoleChangeBody(TypedDict):
    # if given, it must equal the name in the path
    name: NotRequired[str | None]
    permissions: list[Permission]


class RolesBody(TypedDict):
    items: list[RoleBody]
    nextCursor: str | None


class RunBody(TypedDict):
    runId: str
    jobId: str
    # the nominal time
    scheduledTime: str
    # the scheduled time and the job's place in the jitter
    assignedTime: str
    kind: RunKind
    state: RunState
    taskType: TaskType
    lane: str
    # rises with each replay
    generation: int
    attempt: int
    # why a due run waits: tenant_quota, tenant_rate, overlap and others
    waitingFor: str | None
    lastError: str | None
    nextRetryAt: str | None
    # of the last attempt
    startedAt: str | None
    endedAt: str | None
    httpStatus: int | None
    # the start of the target's answer
    answer: str | None
    taskId: str | None
    # sent with each attempt
    idempotencyKey: str
    # in the dead letters since then
    deadLetterAt: str | None
    createdAt: str


class RunCircuitBody(TypedDict):
    # null for a circuit of a task type
    tenantId: str | None
    # host of the targets, or the task type
    target: str
    state: CircuitState
    failures: int
    runs: int
    changedAt: str
    nextProbeAt: str


class RunGuardBody(TypedDict):
    state: Literal["NORMAL", "DEGRADED"]
    # by the guard; run_low first, then run_normal
    pausedLanes: list[str]
    changedAt: str | None
    # start delay in the last minute
    latencyP95Seconds: float | None
    # due runs, without those of lanes that the guard has paused
    backlog: int | None
    readAt: str | None
    # targets that are not called
    circuits: list[RunCircuitBody]


class RunIdBody(TypedDict):
    runId: str


class RunnerUpBody(TypedDict):
    tenantId: str
    # virtual time in seconds
    tag: float


class RunsBody(TypedDict):
    items: list[RunBody]
    nextCursor: str | None


class SceneParams(TypedDict):
    prompt: NotRequired[str]
    preset: NotRequired[Literal["auto", "studio", "table", "outdoor", "beach", "night", "shelf", "podium"]]
    color: NotRequired[str]
    scale: NotRequired[float]
    x: NotRequired[float]
    shadow: NotRequired[bool]
    width: NotRequired[int]
    height: NotRequired[int]
    seed: NotRequired[int]
    format: NotRequired[Literal["png", "jpeg", "webp"]]
    quality: NotRequired[int]


class ScheduleShape(TypedDict):
    type: Literal["CRON", "ONCE", "AFTER"]
    # of CRON: 5 fields, or 6 and 7 with seconds first; `0 */5 * * * ?`
    expr: NotRequired[str | None]
    # of ONCE
    at: NotRequired[str | None]
    # an IANA name
    timezone: NotRequired[str]
    # each run starts at the job's own place in it
    jitterSeconds: NotRequired[int]
    # of AFTER: jobs that must have succeeded for the same scheduled time
    after: NotRequired[list[str] | None]


class SchedulerBody(TypedDict):
    pools: list[PoolBody]


class SecretBody(TypedDict):
    name: str
    createdAt: str
    updatedAt: str


class SecretValueBody(TypedDict):
    value: str


class SecretsBody(TypedDict):
    items: list[SecretBody]
    nextCursor: str | None


class SeenLoginBody(TypedDict):
    loginId: str
    method: str
    address: str
    location: str
    at: str
    # no login of the months before came from this location
    isNewPlace: bool


class SeenLoginsBody(TypedDict):
    items: list[SeenLoginBody]
    nextCursor: str | None


class SeriesBody(TypedDict):
    name: str
    unit: str
    description: str
    # how the minutes of a step become one value
    merge: Literal["sum", "maximum", "minimum", "ratio", "share", "quantile"]
    stepSeconds: int
    # false: nothing writes this series yet
    isMeasured: bool
    points: list[PointBody]


class ServiceBody(TypedDict):
    service: str
    mode: Literal["stream", "batch", "vision"]
    # by language: en, zh
    title: dict[str, str]
    # for 1,000 tokens
    pricePoints: TokenPriceBody
    # JSON Schema
    input: dict[str, Any]
    # JSON Schema
    params: dict[str, Any]
    # tokens of a text whose caller asks for no length
    maxTokens: int
    # tokens that a caller can ask for
    mostTokens: int


class ServicesBody(TypedDict):
    items: list[ServiceBody]
    nextCursor: str | None


class SettingBody(TypedDict):
    key: str
    # in force
    value: Any
    default: Any
    type: Literal["boolean", "integer", "number", "string", "array", "object"]
    # of a number; of the length of a text, list or object
    minimum: float | None
    maximum: float | None
    description: str
    # null while the default is in force
    updatedAt: str | None
    updatedBy: str | None
    # why the stored value is not in force, if it does not fit this release
    fault: str | None


class SettingChangeBody(TypedDict):
    # of the setting's type, within its bounds
    value: Any


class SettingsBody(TypedDict):
    items: list[SettingBody]
    nextCursor: str | None


class ShareBody(TypedDict):
    tenantId: str
    weight: int
    # GPU seconds
    service: float
    share: float
    idealShare: float
    # had waiting work during the whole window; only these are compared
    isContending: bool


class SigningSecretBody(TypedDict):
    # shown this once
    signingSecret: str
    # until then calls carry the earlier key's signature too
    previousUntil: str | None


class SimulateBody(TypedDict):
    changes: WhatIfBody
    windowSeconds: NotRequired[int]


class SimulationBody(TypedDict):
    tenants: list[TenantComparisonBody]


class StageBody(TypedDict):
    service: str
    status: Literal["PENDING_OCR", "QUEUED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"]
    provider: str | None
    modelId: str | None
    result: dict[str, Any] | None
    usage: TokenUsageBody | None
    error: FaultBody | None


class StepBody(TypedDict):
    at: str
    node: str
    fromStatus: str | None
    toStatus: str
    attempt: int
    workerId: str | None
    reason: str | None


class StreamOptionsBody(TypedDict):
    include_usage: NotRequired[bool]


class StyleParams(TypedDict):
    style: NotRequired[Literal["watercolor", "pencil", "oil", "poster", "cartoon", "vintage", "neon"]]
    strength: NotRequired[float]
    seed: NotRequired[int]
    format: NotRequired[Literal["png", "jpeg", "webp"]]
    quality: NotRequired[int]


class SubmitBody(TypedDict):
    tool: str
    # uploads by name, as `inputs` and `optionalInputs` of the tool list them. A `mask` is a picture of the same
    # shape: white = change (for cutout: keep), black = leave as it is
    inputs: dict[str, Any]
    # as `params` of the tool describes them. `regions` are places to change instead of a mask: [x, y, width,
    # height], each a part of the picture from 0 to 1, from its upper left corner and inside it
    params: NotRequired[dict[str, Any]]
    count: NotRequired[int | None]
    webhookUrl: NotRequired[str | None]
    # orders the task among the work of its own tenant only
    priority: NotRequired[Literal["HIGH", "NORMAL", "LOW"]]


class TaskIdBody(TypedDict):
    taskId: str
    status: Literal["QUEUED", "PROCESSING", "COMPLETED", "PARTIAL", "FAILED", "CANCELLED"]


class TaskIdsBody(TypedDict):
    ids: list[str]


class TaskViewBody(TypedDict):
    taskId: str
    userId: str
    tool: str
    name: str
    status: Literal["QUEUED", "PROCESSING", "COMPLETED", "PARTIAL", "FAILED", "CANCELLED"]
    progress: int
    lane: str
    priority: Literal["HIGH", "NORMAL", "LOW"]
    pricePoints: int
    chargedPoints: int
    createdAt: str
    startedAt: str | None
    endedAt: str | None
    error: FaultBody | None
    # only the preview engine serves a step that needs a network: the result is a draft
    isDraft: bool
    # of the request that submitted the task; in the log lines of all its steps
    traceId: str
    nodes: list[NodeBody]
    results: list[ResultBody]
    # the pictures that were submitted
    inputs: list[OriginalBody]
    # as they were submitted
    params: dict[str, Any]
    # as it was submitted; null: the default
    count: int | None
    # names of results that were deleted
    deletedResults: list[str]


class TasksBody(TypedDict):
    items: list[ListedTaskBody]
    nextCursor: str | None


class TenantBody(TypedDict):
    tenantId: str
    name: str
    tier: str
    status: str
    weight: int
    concurrency: int
    # running nodes of one user; null: no limit
    userConcurrency: int | None
    queueDepth: int
    ratePerSecond: int
    burst: int
    # runs of jobs at once
    jobConcurrency: int
    # runs of jobs that start per minute
    jobPerMinute: int
    # shortest period of a job
    jobPeriodSeconds: int
    priority: str
    artefactDays: int
    # values that differ from the tier's
    overrides: Overrides
    createdAt: str


class TenantChangeBody(TypedDict):
    weight: NotRequired[int | None]
    concurrency: NotRequired[int | None]
    queueDepth: NotRequired[int | None]
    ratePerSecond: NotRequired[int | None]
    burst: NotRequired[int | None]
    # runs of jobs at once
    jobConcurrency: NotRequired[int | None]
    # runs of jobs that start per minute
    jobPerMinute: NotRequired[int | None]
    # shortest period of a job
    jobPeriodSeconds: NotRequired[int | None]
    # running nodes of one user; null: no limit
    userConcurrency: NotRequired[int | None]
    name: NotRequired[str | None]
    tier: NotRequired[Tier | None]
    status: NotRequired[Literal["ACTIVE", "SUSPENDED"] | None]


class TenantClockBody(TypedDict):
    tenantId: str
    weight: int
    # virtual time in seconds
    lastVft: float
    queued: int
    running: int
    cap: int | None


class TenantComparisonBody(TypedDict):
    tenantId: str
    pool: str
    before: WaitsBody
    after: WaitsBody


class TenantOrderBody(TypedDict):
    orderId: str
    userId: str
    email: str | None
    status: str
    packageId: str
    amountFen: int
    points: int
    refundedFen: int
    channel: str
    transactionId: str | None
    flag: str | None
    createdAt: str
    paidAt: str | None


class TenantOrdersBody(TypedDict):
    items: list[TenantOrderBody]
    nextCursor: str | None


class TenantUserBody(TypedDict):
    userId: str
    email: str | None
    phone: str | None
    displayName: str | None
    status: str
    roles: list[str]
    # points
    balance: int
    frozen: int
    createdAt: str


class TenantUsersBody(TypedDict):
    items: list[TenantUserBody]
    nextCursor: str | None


class TenantsBody(TypedDict):
    items: list[TenantBody]
    nextCursor: str | None


class TextPartBody(TypedDict):
    type: Literal["text"]
    text: str


class ThumbnailBody(TypedDict):
    url: str
    width: int
    height: int


class TicketBody(TypedDict):
    inputId: str
    url: str
    method: str
    # to be sent exactly so
    headers: dict[str, str]
    expiresAt: str


class TokenPriceBody(TypedDict):
    input: int
    output: int


class TokenUsageBody(TypedDict):
    inputTokens: int
    outputTokens: int


class TokensBody(TypedDict):
    tenantId: str
    userId: str
    accessToken: str
    refreshToken: str
    # seconds that the access token lives
    expiresIn: int


class ToolBody(TypedDict):
    tool: str
    group: str
    # by language: en, zh
    title: dict[str, str]
    # for each output
    pricePoints: int
    inputs: list[str]
    optionalInputs: list[str]
    # minimum, maximum and default number of outputs
    count: dict[str, int]
    # JSON Schema
    params: dict[str, Any]
    nodeTypes: list[str]
    # what an input is, where its name does not say it
    inputHelp: dict[str, str]
    # only the preview engine serves a step that needs a network: the result is a draft
    isDraft: bool
    # what each draft step can and cannot do, by language (en, zh); empty unless isDraft
    draftNotes: list[dict[str, str]]


class ToolTaskShape(TypedDict):
    type: Literal["TASK"]
    tool: str
    inputs: NotRequired[dict[str, Any]]
    params: NotRequired[dict[str, Any]]
    count: NotRequired[int | None]
    webhookUrl: NotRequired[str | None]
    # among the tenant's tasks; the job's if left out
    priority: NotRequired[Literal["HIGH", "NORMAL", "LOW"] | None]


class ToolsBody(TypedDict):
    items: list[ToolBody]
    nextCursor: str | None


class TransferBody(TypedDict):
    toUserId: str
    amount: int


class UploadBody(TypedDict):
    contentType: Literal["image/png", "image/jpeg", "image/webp"]
    bytes: int


class UpscaleParams(TypedDict):
    scale: NotRequired[float]
    strength: NotRequired[float]
    seed: NotRequired[int]
    format: NotRequired[Literal["png", "jpeg", "webp"]]
    quality: NotRequired[int]


UsageBody = TypedDict(
    "UsageBody",
    {
        'items': 'list[UsageLineBody]',
        'nextCursor': 'str | None',
        'from': 'str',
        'to': 'str',
        'scope': 'Literal["own", "tenant"]',
        'totalTasks': 'int',
        'totalTexts': 'int',
        'totalPoints': 'int',
    },
)


class UsageLineBody(TypedDict):
    # null unless grouped by day, as the other two
    day: str | None
    # a tool, `flow`, or `text:` and a service
    tool: str | None
    userId: str | None
    email: str | None
    displayName: str | None
    # that ended
    tasks: int
    texts: int
    # charged
    points: int


class UserBody(TypedDict):
    userId: str
    email: str | None
    phone: str | None
    status: str
    roles: list[str]
    # the user's own limit of running nodes; null: as each user
    concurrency: int | None
    createdAt: str
    displayName: str | None
    lastLoginAt: str | None
    # points
    balance: int


class UserChangeBody(TypedDict):
    roles: NotRequired[list[str] | None]
    status: NotRequired[Literal["ACTIVE", "DISABLED"] | None]
    # running nodes at once; null: as the tenant allows each user; left out: unchanged
    concurrency: NotRequired[int | None]


class UsersBody(TypedDict):
    items: list[UserBody]
    nextCursor: str | None


class WaitsBody(TypedDict):
    started: int
    unstarted: int
    meanSeconds: float
    worstSeconds: float


class WebhookBody(TypedDict):
    webhookId: str
    url: str
    # named by a task and not registered: receives only the tasks that name it
    isImplied: bool
    createdAt: str


class WebhooksBody(TypedDict):
    items: list[WebhookBody]
    nextCursor: str | None


class WechatBody(TypedDict):
    code: str
    app: Literal["mini", "web"]


class WechatTokensBody(TypedDict):
    tenantId: str
    userId: str
    accessToken: str
    refreshToken: str
    # seconds that the access token lives
    expiresIn: int
    isNew: bool


class WhatIfBody(TypedDict):
    tenants: NotRequired[list[WhatIfTenantBody]]
    pools: NotRequired[dict[str, WhatIfPoolBody]]


class WhatIfPoolBody(TypedDict):
    # workers' slots by node type
    slots: dict[str, int]


class WhatIfTenantBody(TypedDict):
    tenantId: str
    weight: NotRequired[int | None]
    concurrency: NotRequired[int | None]


class WhyBody(TypedDict):
    # among the work of the tenant
    priority: Literal["HIGH", "NORMAL", "LOW"]
    nodes: list[ReasonBody]


class WorkerBody(TypedDict):
    workerId: str
    pool: str
    types: list[str]
    slots: int
    engine: str
    # takes no new node; its slots do not count
    draining: bool
    # that it runs now
    nodes: list[WorkerNodeBody]
    registeredAt: str
    lastBeatAt: str


class WorkerNodeBody(TypedDict):
    taskId: str
    tenantId: str
    node: str
    type: str
    attempt: int
    startedAt: str


class WorkersBody(TypedDict):
    items: list[WorkerBody]
    nextCursor: str | None
