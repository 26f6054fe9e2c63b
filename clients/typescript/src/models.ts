// Generated from the OpenAPI document by `make clients`. Do not edit.

export interface AcceptBody {
  /** of the link in the mail */
  token: string;
  password: string;
  displayName?: string | null;
}

export interface AcceptedBackfillBody {
  /** null after a dry run */
  backfillId: string | null;
  acceptedRuns: number;
}

export interface AcceptedBody {
  taskId: string;
  status: "QUEUED" | "PROCESSING" | "COMPLETED" | "PARTIAL" | "FAILED" | "CANCELLED";
  lane: string;
  priority: "HIGH" | "NORMAL" | "LOW";
  pricePoints: number;
  /** expected end; null where it cannot start, see detail */
  etaSeconds: number | null;
  detail: string | null;
  /** only the preview engine serves a step that needs a network: the result is a draft */
  isDraft: boolean;
}

export interface AcceptedGenerationBody {
  generationId: string;
  status: "PENDING_OCR" | "QUEUED" | "RUNNING" | "COMPLETED" | "FAILED" | "CANCELLED";
  /** of a chained service */
  hint?: HintBody | null;
  /** the lane */
  queueId: string;
  isFree: boolean;
  /** held for the longest text; what is not used is released */
  pricePoints: number;
  eventsUrl: string;
}

export interface AccountBody {
  balance: number;
  frozen: number;
}

export interface Answer {
  media: string;
  parts: string[];
}

export interface AnswerBody {
  httpStatus: number;
  /** the beginning of the answer, at most 2,000 characters */
  text: string;
  elapsedMs: number;
}

export interface AuditBody {
  auditId: string;
  tenantId: string | null;
  actorId: string | null;
  action: string;
  target: string;
  details: Record<string, unknown>;
  traceId: string;
  at: string;
  actorEmail: string | null;
  actorName: string | null;
  tenantName: string | null;
}

export interface AuditsBody {
  items: AuditBody[];
  nextCursor: string | null;
}

export interface BackfillBody {
  backfillId: string;
  jobId: string;
  from: string;
  to: string;
  parallelism: number;
  reprocess: Reprocess;
  status: BackfillStatus;
  total: number;
  done: number;
  /** failed or terminated */
  failed: number;
  remaining: number;
  createdAt: string;
  endedAt: string | null;
}

export interface BackfillRangeBody {
  from: string;
  /** exclusive */
  to: string;
  /** runs at once */
  parallelism?: number;
  /** runs of the range that start again */
  reprocess?: Reprocess;
  dryRun?: boolean;
}

export type BackfillStatus = "RUNNING" | "COMPLETED" | "CANCELLED";

export interface BackfillsBody {
  items: BackfillBody[];
  nextCursor: string | null;
}

export interface BackgroundParams {
  prompt?: string;
  preset?: "auto" | "studio" | "table" | "outdoor" | "beach" | "night" | "shelf" | "podium";
  color?: string;
  shadow?: boolean;
  seed?: number;
  format?: "png" | "jpeg" | "webp";
  quality?: number;
}

export interface BatchConvertParams {
  width?: number;
  height?: number;
  fit?: "contain" | "cover" | "stretch";
  background?: "transparent" | string;
  seed?: number;
  format?: "png" | "jpeg" | "webp";
  quality?: number;
}

export interface BatchCutoutParams {
  background?: "transparent" | "white" | string;
  featherPx?: number;
  trim?: boolean;
  seed?: number;
  format?: "png" | "jpeg" | "webp";
  quality?: number;
}

export interface BillDayBody {
  /** in Shanghai */
  day: string;
  status: "WAITING" | "FAILED" | "COMPARED" | "DONE";
  tries: number;
  payments: number | null;
  refunds: number | null;
  totalFen: number | null;
  /** found when the bill was last compared */
  differences: number | null;
  lastError: string | null;
  updatedAt: string;
}

export interface BillDayViewBody {
  /** in Shanghai */
  day: string;
  status: "WAITING" | "FAILED" | "COMPARED" | "DONE";
  tries: number;
  payments: number | null;
  refunds: number | null;
  totalFen: number | null;
  /** found when the bill was last compared */
  differences: number | null;
  lastError: string | null;
  updatedAt: string;
  items: DifferenceBody[];
  nextCursor: string | null;
}

export interface BillDaysBody {
  items: BillDayBody[];
  nextCursor: string | null;
}

export interface CacheDeletedBody {
  deleted: number;
}

export interface CacheRefreshBody {
  name: string;
}

export interface CacheRefreshedBody {
  name: string;
  /** values that were loaded again */
  refreshed: number;
}

export interface CachesBody {
  items: NamedCacheBody[];
  nextCursor: string | null;
  /** false if Redis has more values than were counted */
  complete: boolean;
}

export type CatchUp = "none" | "once" | "all";

export interface ChangedBody {
  /** those that were changed; others are unknown, or their state does not allow it */
  ids: string[];
  count: number;
}

export type Channel = "native" | "jsapi" | "h5";

export interface ChatBody {
  /** a service, or a model as `provider/model` */
  model: string;
  messages: ChatMessageBody[];
  stream?: boolean | null;
  stream_options?: StreamOptionsBody | null;
  max_tokens?: number | null;
  max_completion_tokens?: number | null;
  temperature?: number | null;
  top_p?: number | null;
  stop?: string | string[] | null;
  seed?: number | null;
  presence_penalty?: number | null;
  frequency_penalty?: number | null;
  n?: 1 | null;
  response_format?: ResponseFormatBody | null;
}

export interface ChatMessageBody {
  role: "system" | "developer" | "user" | "assistant";
  content: string | TextPartBody[];
}

export interface CheckBody {
  name: string;
  ok: boolean;
  checked: number;
  /** the first rows that violate it */
  violations: Record<string, unknown>[];
  /** when a check first found such rows */
  since?: string | null;
}

export interface CircuitBody {
  pool: string;
  step: string;
  state: "OPEN" | "HALF_OPEN";
  /** of its engine in a row, before it opened */
  failures: number;
  probesFailed: number;
  lastError: string;
  openedAt: string;
  /** from then on one node at a time may run */
  nextProbeAt: string;
}

export type CircuitState = "CLOSED" | "OPEN" | "HALF_OPEN";

export interface CreatedJobBody {
  jobId: string;
  tenantId: string;
  /** whose points pay for TASK and FLOW runs */
  userId: string;
  name: string;
  /** COMPLETED: no fire is left */
  status: "ACTIVE" | "PAUSED" | "COMPLETED";
  /** rises with each change */
  version: number;
  schedule: ScheduleShape;
  task: HttpTaskShape | ToolTaskShape | FlowTaskShape;
  retryPolicy: RetryShape;
  concurrencyLimit: number;
  priority: JobPriority;
  overlapPolicy: OverlapPolicy;
  misfirePolicy: MisfirePolicy;
  catchupWindowSeconds: number;
  timeoutSeconds: number;
  startsAt: string | null;
  endsAt: string | null;
  /** null while it is paused, and when no fire is left */
  nextFireTime: string | null;
  /** at most 5 */
  nextFires: FireBody[];
  /** of the schedule, in the language of Accept-Language: zh, else en */
  description: string;
  note: string | null;
  pausedBy: string | null;
  pausedAt: string | null;
  createdAt: string;
  updatedAt: string;
  /** signs the calls of all jobs of the tenant; shown once, by its first HTTP job, else null */
  signingSecret: string | null;
}

export interface CreatedWebhookBody {
  webhookId: string;
  url: string;
  /** named by a task and not registered: receives only the tasks that name it */
  isImplied: boolean;
  createdAt: string;
  /** signs deliveries; shown this once */
  secret: string;
}

export interface CropParams {
  aspect?: "original" | string;
  margin?: number;
  seed?: number;
  format?: "png" | "jpeg" | "webp";
  quality?: number;
}

export interface CutoutParams {
  background?: "transparent" | "white" | string;
  featherPx?: number;
  trim?: boolean;
  seed?: number;
  format?: "png" | "jpeg" | "webp";
  quality?: number;
}

export interface DeadLetterBody {
  messageId: string;
  body: string;
  sentAt: string;
  receiveCount: number;
}

export interface DeadLettersBody {
  /** the first hundred of the queue */
  items: DeadLetterBody[];
  nextCursor: string | null;
}

export interface DeadQueueBody {
  queue: string;
  depth: number;
}

export interface DeadQueuesBody {
  items: DeadQueueBody[];
  nextCursor: string | null;
}

export interface DecisionBody {
  at: string;
  pool: string;
  taskId: string | null;
  /** its name in the task */
  node: string | null;
  tenantId: string;
  userId: string;
  type: string;
  lane: string;
  model: string | null;
  chargedSeconds: number;
  /** virtual time in seconds */
  tag: number;
  /** the next tenant whose node could have run */
  runnerUp: RunnerUpBody | null;
  reason: "only_candidate" | "smallest_tag" | "tie_earlier_arrival";
  detail: string;
}

export interface DecisionsBody {
  items: DecisionBody[];
  nextCursor: string | null;
}

export interface DeliveriesBody {
  items: DeliveryBody[];
  nextCursor: string | null;
}

export interface DeliveryBody {
  deliveryId: string;
  event: string;
  status: DeliveryStatus;
  attempts: number;
  nextTryAt: string | null;
  answerCode: number | null;
  answer: string | null;
  createdAt: string;
  deliveredAt: string | null;
  body: string;
}

export type DeliveryStatus = "PENDING" | "DELIVERED" | "FAILED";

export interface DeriveParams {
  strength?: number;
  seed?: number;
  format?: "png" | "jpeg" | "webp";
  quality?: number;
}

export interface DictionariesBody {
  /** all labels, by type */
  dictionaries: Record<string, LabelBody[]>;
}

export interface DifferenceBody {
  kind: string;
  /** WeChat's or our number of the payment or refund */
  reference: string;
  tenantId: string | null;
  orderId: string | null;
  oursFen: number | null;
  theirsFen: number | null;
  resolution: "OPEN" | "REPAIRED";
  foundAt: string;
  resolvedAt: string | null;
}

export interface DiscardBody {
  /** all, at most 100, if left out */
  messageIds?: string[] | null;
  reason: string;
}

export interface EntryBody {
  entryId: string;
  kind: Kind;
  balanceDelta: number;
  frozenDelta: number;
  balance: number;
  frozen: number;
  reference: string;
  createdAt: string;
}

export interface EraseParams {
  /** places to change instead of a mask: [x, y, width, height], each a part of the picture from 0 to 1, from its upper left corner and inside it */
  regions?: unknown[][];
  seed?: number;
  format?: "png" | "jpeg" | "webp";
  quality?: number;
}

export interface ErrorBody {
  /** AREA_STATUS_NAME, stable */
  code: string;
  message: string;
  requestId: string;
  details: Record<string, unknown>;
}

export interface EstimateBody {
  pricePoints: number;
  lane: string;
  /** null where it cannot start, see detail */
  etaStartSeconds: number | null;
  etaEndSeconds: number | null;
  /** why there is no expected start, in words */
  detail: string | null;
  nodes: number;
  /** only the preview engine serves a step that needs a network: the result is a draft */
  isDraft: boolean;
  /** what each draft step can and cannot do, by language (en, zh); empty unless isDraft */
  draftNotes: Record<string, string>[];
}

export interface ExtendParams {
  left?: number;
  right?: number;
  top?: number;
  bottom?: number;
  aspect?: string;
  seed?: number;
  format?: "png" | "jpeg" | "webp";
  quality?: number;
}

export interface FairnessBody {
  tenants: ShareBody[];
  /** the largest difference that any pair may show, in GPU seconds per weight */
  bound: number;
  /** the largest difference of a pair; 0 if no pair is compared */
  worst: number;
  worstPair: PairBody | null;
  /** Jain's index; 1 is perfectly fair */
  jain: number;
}

export interface FaultBody {
  code: string;
  message: string;
}

export interface FieldChangeBody {
  field: string;
  before: unknown;
  after: unknown;
}

export interface FireBody {
  at: string;
  /** as the clock of the job's time zone shows it */
  local: string;
  /** of that clock from UTC, +08:00 */
  offset: string;
}

export type FireStatus = "RUN" | "PUT_OFF" | "UPCOMING" | "PAUSED" | "PREDECESSOR_FAILED" | "DST_SKIPPED" | "BEFORE_CREATION" | "SKIPPED_OVERLAP" | "MISFIRED" | "COALESCED" | "TENANT_SUSPENDED" | "CANCELLED_BY_EDIT" | "UNACCOUNTED";

export interface FlowBody {
  name?: string;
  nodes: FlowNodeBody[];
  /** what a node that fails for good cancels: continue, the nodes that depend on it; stop, every node that has not started, and no running one is retried */
  onFailure?: "continue" | "stop";
  webhookUrl?: string | null;
  /** orders the task among the work of its own tenant only */
  priority?: "HIGH" | "NORMAL" | "LOW";
}

export interface FlowNodeBody {
  name: string;
  /** a node type, of which the first step is taken; or http, a call */
  type?: string | null;
  /** a step */
  tool?: string | null;
  /** of the step; of an http node: url, method (POST), headers, body, timeoutSeconds (30), successStatuses (200 to 299), as in an HTTP job. A header or the body may name a secret, `secret:NAME`. The body may name other nodes: `{{nodes.NAME.answer}}` and `{{nodes.NAME.httpStatus}}` of an http node, `{{nodes.NAME.url}}` of another one is a signed address of its picture; a named node is a dependency */
  params?: Record<string, unknown>;
  /** an input id, or a node's name, or node.output */
  inputs?: Record<string, unknown>;
  dependsOn?: string[];
}

export interface FlowNodeShape {
  name: string;
  type?: string | null;
  tool?: string | null;
  params?: Record<string, unknown>;
  inputs?: Record<string, unknown>;
  dependsOn?: string[];
}

export interface FlowTaskShape {
  type: "FLOW";
  name?: string;
  nodes: FlowNodeShape[];
  /** stop: after a failure nothing more starts; continue if left out */
  onFailure?: "continue" | "stop" | null;
  webhookUrl?: string | null;
  /** among the tenant's tasks; the job's if left out */
  priority?: "HIGH" | "NORMAL" | "LOW" | null;
}

export interface ForgotBody {
  /** e-mail address or phone number */
  login: string;
  /** of the mail; null: as the user's profile */
  language?: "zh" | "en" | null;
}

export interface ForgottenBody {
}

export interface GenerationBody {
  generationId: string;
  userId: string;
  service: string;
  status: "PENDING_OCR" | "QUEUED" | "RUNNING" | "COMPLETED" | "FAILED" | "CANCELLED";
  queueId: string;
  isFree: boolean;
  provider: string;
  modelId: string;
  attempt: number;
  /** so far; of a running text some seconds old */
  text: string;
  result: Record<string, unknown> | null;
  usage: TokenUsageBody | null;
  usageSource: "provider" | "estimated" | null;
  pricePoints: number;
  chargedPoints: number;
  traceId: string;
  createdAt: string;
  startedAt: string | null;
  endedAt: string | null;
  /** why it failed; of a waiting text why its last attempt did */
  error: FaultBody | null;
  /** of a chained service, in order; the second fails with the first */
  stages: StageBody[];
}

export interface GenerationIdsBody {
  ids: string[];
}

export interface GenerationInputBody {
  text?: string | null;
  inputId?: string | null;
}

export interface GenerationRequestBody {
  service: string;
  input: GenerationInputBody;
  params?: Record<string, unknown>;
  /** a lower lane for anyone, a higher one with ops.write */
  lane?: "paid_stream" | "free_stream" | "paid_batch" | "free_batch" | "paid_vision" | "free_vision" | null;
  maxTokens?: number | null;
  /** simulates the quota: true needs points, false uses the free allowance */
  paid?: boolean | null;
}

export interface GenerationStatusBody {
  generationId: string;
  status: "PENDING_OCR" | "QUEUED" | "RUNNING" | "COMPLETED" | "FAILED" | "CANCELLED";
}

export interface GenerationsBody {
  items: GenerationBody[];
  nextCursor: string | null;
}

export interface GrantBody {
  userId: string;
  amount: number;
  campaign?: string | null;
  expiresAt?: string | null;
  reason: string;
}

export interface GuardBody {
  state: "NORMAL" | "DEGRADED";
  /** PostgreSQL, its reader and Redis: ok or away */
  checks: Record<string, string>;
  readings: ReadingBody[];
  /** steps that are stopped; null if they could not be read */
  circuits: CircuitBody[] | null;
  /** the guard of scheduled runs; null if it could not be read */
  runs: RunGuardBody | null;
}

export interface HandledGenerationBody {
  id: string;
  /** a retry is a new generation */
  generationId: string | null;
  status: "PENDING_OCR" | "QUEUED" | "RUNNING" | "COMPLETED" | "FAILED" | "CANCELLED" | null;
  errorCode: string | null;
}

export interface HandledGenerationsBody {
  results: HandledGenerationBody[];
}

export interface HandledTaskBody {
  id: string;
  status: "QUEUED" | "PROCESSING" | "COMPLETED" | "PARTIAL" | "FAILED" | "CANCELLED" | null;
  /** why this one was not changed */
  errorCode: string | null;
}

export interface HandledTasksBody {
  results: HandledTaskBody[];
}

export interface HdFixParams {
  strength?: number;
  scale?: number;
  seed?: number;
  format?: "png" | "jpeg" | "webp";
  quality?: number;
}

export interface HealthBody {
  status: "ok" | "degraded";
  checks: Record<string, string>;
}

export interface HintBody {
  /** the service that runs first */
  dependency: string;
  next: ("STREAMING" | "COMPLETED")[];
}

export interface HttpTaskShape {
  type: "HTTP";
  /** http or https, a public host in ASCII (`xn--` for other scripts), no user information */
  url: string;
  method?: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** `secret:NAME` in a value stands for a secret */
  headers?: Record<string, unknown> | null;
  /** a text, or JSON that is sent as application/json; may name secrets as headers do */
  body?: string | Record<string, unknown> | unknown[] | null;
  /** 30 if left out */
  timeoutSeconds?: number | null;
  /** 200 to 299 if left out */
  successStatuses?: number[] | null;
}

export interface IdsBody {
  ids: string[];
}

export interface Img2imgParams {
  prompt?: string;
  strength?: number;
  seed?: number;
  format?: "png" | "jpeg" | "webp";
  quality?: number;
}

export interface ImportedBody {
  dryRun: boolean;
  created: number;
  updated: number;
  unchanged: number;
  jobs: ImportedJobBody[];
}

export interface ImportedJobBody {
  action: "create" | "update" | "unchanged";
  /** null for a job that a dry run would create */
  jobId: string | null;
  name: string;
  changes: FieldChangeBody[];
}

export interface InvariantsBody {
  ok: boolean;
  checks: CheckBody[];
}

export interface InvitationBody {
  invitationId: string;
  email: string;
  roles: string[];
  status: InvitationStatus;
  invitedBy: string;
  invitedByEmail: string | null;
  createdAt: string;
  sentAt: string;
  expiresAt: string;
  acceptedAt: string | null;
  /** the user who accepted it */
  userId: string | null;
}

export type InvitationStatus = "OPEN" | "ACCEPTED" | "REVOKED" | "EXPIRED";

export interface InvitationsBody {
  items: InvitationBody[];
  nextCursor: string | null;
}

export interface InviteBody {
  email: string;
  password: string;
  roles: string[];
}

export interface InvitedBody {
  tenantName: string;
  email: string;
  expiresAt: string;
}

export interface JobBody {
  jobId: string;
  tenantId: string;
  /** whose points pay for TASK and FLOW runs */
  userId: string;
  name: string;
  /** COMPLETED: no fire is left */
  status: "ACTIVE" | "PAUSED" | "COMPLETED";
  /** rises with each change */
  version: number;
  schedule: ScheduleShape;
  task: HttpTaskShape | ToolTaskShape | FlowTaskShape;
  retryPolicy: RetryShape;
  concurrencyLimit: number;
  priority: JobPriority;
  overlapPolicy: OverlapPolicy;
  misfirePolicy: MisfirePolicy;
  catchupWindowSeconds: number;
  timeoutSeconds: number;
  startsAt: string | null;
  endsAt: string | null;
  /** null while it is paused, and when no fire is left */
  nextFireTime: string | null;
  /** at most 5 */
  nextFires: FireBody[];
  /** of the schedule, in the language of Accept-Language: zh, else en */
  description: string;
  note: string | null;
  pausedBy: string | null;
  pausedAt: string | null;
  createdAt: string;
  updatedAt: string;
}

export interface JobChangeBody {
  /** the caller's own, if given */
  tenantId?: string | null;
  name?: string | null;
  /** fields of a schedule */
  schedule?: Record<string, unknown> | null;
  /** fields of a task; another type replaces the task */
  task?: Record<string, unknown> | null;
  retryPolicy?: Record<string, unknown> | null;
  concurrencyLimit?: number | null;
  priority?: JobPriority | null;
  overlapPolicy?: OverlapPolicy | null;
  misfirePolicy?: MisfirePolicy | null;
  catchupWindowSeconds?: number | null;
  timeoutSeconds?: number | null;
  startsAt?: string | null;
  endsAt?: string | null;
}

export type JobPriority = "CRITICAL" | "HIGH" | "NORMAL" | "LOW";

export interface JobsBody {
  items: JobBody[];
  nextCursor: string | null;
}

export interface KeyBody {
  keyId: string;
  userId: string;
  name: string;
  permissions: string[];
  signed: boolean;
  createdAt: string;
  expiresAt: string | null;
  /** the key that made it; deleted with that one */
  parentKeyId: string | null;
}

export interface KeyMadeBody {
  keyId: string;
  /** shown only here */
  key: string;
  signed: boolean;
  expiresAt: string | null;
}

export interface KeysBody {
  items: KeyBody[];
  nextCursor: string | null;
}

export type Kind = "RECHARGE" | "GIFT" | "FREEZE" | "CONFIRM" | "CANCEL" | "REFUND" | "TRANSFER_IN" | "TRANSFER_OUT" | "ADJUST";

export interface LabelBody {
  key: string;
  zh: string;
  en: string;
  order: number;
}

export interface LabelsBody {
  items: LabelBody[];
  nextCursor: string | null;
}

export interface LaneBody {
  lane: string;
  pool: string;
  /** nodes or texts that wait; in a lane of runs, runs that are due */
  depth: number;
  /** nodes that hold a slot; runs and texts that run */
  running: number;
  parallelism: number | null;
  /** of the pool's slots */
  sharePercent: number | null;
  paused: boolean;
  /** depth beyond which submissions are refused */
  limit: number;
}

export interface LaneChangeBody {
  /** 0: nothing runs; null: no limit */
  parallelism?: number | null;
  /** of the pool's slots */
  sharePercent?: number | null;
  /** depth */
  limit?: number | null;
  /** null does not change it */
  paused?: boolean | null;
}

export interface LanesBody {
  items: LaneBody[];
  nextCursor: string | null;
}

export interface LedgerBody {
  items: EntryBody[];
  nextCursor: string | null;
}

export interface LinkBody {
  /** of the link in the mail */
  token: string;
}

export interface ListedTaskBody {
  taskId: string;
  userId: string;
  tool: string;
  name: string;
  status: "QUEUED" | "PROCESSING" | "COMPLETED" | "PARTIAL" | "FAILED" | "CANCELLED";
  progress: number;
  lane: string;
  priority: "HIGH" | "NORMAL" | "LOW";
  pricePoints: number;
  chargedPoints: number;
  createdAt: string;
  startedAt: string | null;
  endedAt: string | null;
  error: FaultBody | null;
  /** only the preview engine serves a step that needs a network: the result is a draft */
  isDraft: boolean;
  /** the first result, in full size */
  thumbnail: ThumbnailBody | null;
}

export interface LogLineBody {
  at: string;
  attempt: number;
  level: "INFO" | "WARN" | "ERROR";
  message: string;
}

export interface LogLinesBody {
  items: LogLineBody[];
  nextCursor: string | null;
}

export interface LoginBody {
  /** e-mail address or phone number */
  login: string;
  password: string;
}

export interface MarginLineBody {
  /** that ended: completed, failed and cancelled ones */
  texts: number;
  completed: number;
  failed: number;
  cancelled: number;
  /** of those, texts of the free allowance */
  freeTexts: number;
  /** requests to providers, repeated and failed ones too */
  calls: number;
  /** of those, calls whose tokens the provider did not count */
  estimatedCalls: number;
  inputTokens: number;
  outputTokens: number;
  /** of both, tokens that were estimated */
  estimatedTokens: number;
  /** tokens at the provider's prices, rounded to six places */
  costPoints: number;
  /** as in the ledger */
  chargedPoints: number;
  /** charged points less cost */
  marginPoints: number;
  /** in UTC; null unless grouped by day, as the others */
  day: string | null;
  /** `provider/model`; null for texts that reached no model */
  model: string | null;
  service: string | null;
  tenantId: string | null;
  tenantName: string | null;
  userId: string | null;
  email: string | null;
}

export interface MarginSumBody {
  /** that ended: completed, failed and cancelled ones */
  texts: number;
  completed: number;
  failed: number;
  cancelled: number;
  /** of those, texts of the free allowance */
  freeTexts: number;
  /** requests to providers, repeated and failed ones too */
  calls: number;
  /** of those, calls whose tokens the provider did not count */
  estimatedCalls: number;
  inputTokens: number;
  outputTokens: number;
  /** of both, tokens that were estimated */
  estimatedTokens: number;
  /** tokens at the provider's prices, rounded to six places */
  costPoints: number;
  /** as in the ledger */
  chargedPoints: number;
  /** charged points less cost */
  marginPoints: number;
}

export interface MarginsBody {
  items: MarginLineBody[];
  nextCursor: string | null;
  from: string;
  /** inclusive */
  to: string;
  total: MarginSumBody;
}

export interface MeBody {
  userId: string;
  tenantId: string;
  tier: string;
  email: string | null;
  roles: string[];
  permissions: string[];
  phone: string | null;
  displayName: string | null;
  /** of mails; null: not chosen */
  language: "zh" | "en" | null;
  /** mails about low balances; mails about safety are always sent */
  emailNotices: boolean;
  tenantName: string;
  /** days that pictures are kept */
  artefactDays: number;
  /** points; null without `points.read` */
  balance: number | null;
  /** points that are held for tasks; null without `points.read` */
  frozen: number | null;
  /** the tenant's warning level */
  lowBalancePoints: number | null;
  /** the balance is below the warning level */
  lowBalance: boolean;
  /** what `POST /points/trial` brings now; null: used, or there is none */
  trialPoints: number | null;
  /** a login from a new place that the user has not seen */
  newPlaceLogin: PlaceBody | null;
}

export interface MeChangeBody {
  displayName?: string | null;
  language?: "zh" | "en" | null;
  /** null does not change it */
  emailNotices?: boolean | null;
  /** true: logins from new places were seen */
  seenLogins?: boolean | null;
}

export type MisfirePolicy = "FIRE_ONCE" | "FIRE_ALL" | "SKIP";

export interface ModelBody {
  /** of texts: the provider and its model, joined by a colon */
  model: string;
  /** steps of the catalogue that use it */
  steps: string[];
  /** services of texts that use it */
  services: string[];
  /** nodes at once in each pool, or texts at once; null: no limit */
  limit: number | null;
  running: number;
  waiting: number;
  pools: ModelLoadBody[];
}

export interface ModelLimitBody {
  /** nodes at once in each pool; 0: nothing runs; null: no limit */
  limit: number | null;
}

export interface ModelLoadBody {
  pool: string;
  running: number;
  waiting: number;
}

export interface ModelPhotoParams {
  pose?: "stand" | "hip" | "wave" | "walk" | "akimbo" | "lean" | "arms_up" | "turn";
  wear?: "auto" | "torso" | "hold" | "feet";
  skin?: number;
  prompt?: string;
  preset?: "auto" | "studio" | "table" | "outdoor" | "beach" | "night" | "shelf" | "podium";
  color?: string;
  scale?: number;
  x?: number;
  shadow?: boolean;
  seed?: number;
  format?: "png" | "jpeg" | "webp";
  quality?: number;
}

export interface ModelsBody {
  items: ModelBody[];
  nextCursor: string | null;
}

export interface MovedBody {
  count: number;
}

export interface NamedCacheBody {
  name: string;
  /** values in Redis */
  entries: number;
  /** of all processes in the last hour */
  hits: number;
  misses: number;
  hitRate: number;
  /** of reads from Redis, rounded up */
  readP95Milliseconds: number;
  refreshable: boolean;
}

export interface NewInvitationBody {
  email: string;
  roles: string[];
  /** of the mail; null: as the inviter's profile */
  language?: "zh" | "en" | null;
}

export interface NewJobBody {
  name: string;
  schedule: ScheduleShape;
  task: HttpTaskShape | ToolTaskShape | FlowTaskShape;
  retryPolicy?: RetryShape | null;
  /** runs at once; 10 if left out */
  concurrencyLimit?: number | null;
  /** the tier's if left out, and never above it */
  priority?: "CRITICAL" | "HIGH" | "NORMAL" | "LOW" | null;
  /** ALLOW_ALL if left out */
  overlapPolicy?: "ALLOW_ALL" | "SKIP" | "BUFFER_ONE" | "BUFFER_ALL" | "CANCEL_OTHER" | null;
  /** FIRE_ONCE if left out */
  misfirePolicy?: "FIRE_ONCE" | "FIRE_ALL" | "SKIP" | null;
  /** the shortest period if left out, a day at most */
  catchupWindowSeconds?: number | null;
  /** of a run */
  timeoutSeconds?: number | null;
  /** no fire before it */
  startsAt?: string | null;
  /** no fire at or after it */
  endsAt?: string | null;
  /** the caller's own, if given */
  tenantId?: string | null;
}

export interface NewKeyBody {
  name: string;
  permissions: Permission[];
  /** default: as the calling key, else never */
  expiresAt?: string | null;
  /** every request must have an HMAC-SHA256 signature; default: as the calling key */
  signed?: boolean | null;
}

export interface NewOrderBody {
  packageId: string;
  channel: Channel;
  openid?: string | null;
}

export interface NewRefundBody {
  amountFen: number;
  reason: string;
  /** of a platform administrator; the caller's own, if left out */
  tenantId?: string | null;
}

export interface NewRoleBody {
  name: string;
  permissions: Permission[];
}

export interface NewTenantBody {
  weight?: number | null;
  concurrency?: number | null;
  queueDepth?: number | null;
  ratePerSecond?: number | null;
  burst?: number | null;
  /** runs of jobs at once */
  jobConcurrency?: number | null;
  /** runs of jobs that start per minute */
  jobPerMinute?: number | null;
  /** shortest period of a job */
  jobPeriodSeconds?: number | null;
  /** running nodes of one user; null: no limit */
  userConcurrency?: number | null;
  name: string;
  tier: Tier;
  status?: "ACTIVE" | "SUSPENDED";
  /** the tenant's first user */
  owner?: OwnerBody | null;
}

export interface NewWebhookBody {
  /** http or https, a public host in ASCII (`xn--` for other scripts), no user information */
  url: string;
}

export interface NodeBody {
  nodeId: string;
  name: string;
  type: string;
  /** a key of the dictionary `steps` */
  step: string;
  status: "PENDING" | "QUEUED" | "PROCESSING" | "COMPLETED" | "FAILED" | "TIMEOUT" | "CANCELLED";
  progress: number;
  attempt: number;
  /** how long the attempt that ended ran, as the worker measured it */
  runSeconds: number | null;
  dependsOn: string[];
  error: FaultBody | null;
  /** the engine that made the picture, as the worker reported it */
  engine: Record<string, unknown> | null;
  /** of an HTTP node: what the target answered to the last attempt */
  answer: AnswerBody | null;
}

export interface NoteBody {
  note?: string | null;
}

export interface OpsGenerationBody {
  generationId: string;
  tenantId: string;
  userId: string;
  service: string;
  status: "PENDING_OCR" | "QUEUED" | "RUNNING" | "COMPLETED" | "FAILED" | "CANCELLED";
  queueId: string;
  isFree: boolean;
  provider: string;
  modelId: string;
  attempt: number;
  characters: number;
  chargedPoints: number;
  traceId: string;
  createdAt: string;
  startedAt: string | null;
  firstTokenAt: string | null;
  endedAt: string | null;
  errorCode: string | null;
}

export interface OpsGenerationsBody {
  items: OpsGenerationBody[];
  nextCursor: string | null;
}

export interface OpsNodeBody {
  nodeId: string;
  name: string;
  type: string;
  step: string;
  status: "PENDING" | "QUEUED" | "PROCESSING" | "COMPLETED" | "FAILED" | "TIMEOUT" | "CANCELLED";
  attempt: number;
  failures: number;
  progress: number;
  dependsOn: string[];
  /** of the last attempt */
  workerId: string | null;
  error: FaultBody | null;
  engine: Record<string, unknown> | null;
  createdAt: string;
  readyAt: string | null;
  dispatchedAt: string | null;
  startedAt: string | null;
  endedAt: string | null;
}

export interface OpsRunBody {
  runId: string;
  jobId: string;
  jobName: string;
  tenantId: string;
  scheduledTime: string;
  kind: RunKind;
  state: RunState;
  taskType: TaskType;
  lane: string;
  generation: number;
  attempt: number;
  waitingFor: string | null;
  lastError: string | null;
  httpStatus: number | null;
  nextRetryAt: string | null;
  startedAt: string | null;
  endedAt: string | null;
  taskId: string | null;
  deadLetterAt: string | null;
}

export interface OpsRunsBody {
  items: OpsRunBody[];
  nextCursor: string | null;
}

export interface OpsTaskBody {
  taskId: string;
  tenantId: string;
  tenantName: string;
  userId: string;
  userEmail: string | null;
  tool: string;
  name: string;
  status: "QUEUED" | "PROCESSING" | "COMPLETED" | "PARTIAL" | "FAILED" | "CANCELLED";
  lane: string;
  priority: "HIGH" | "NORMAL" | "LOW";
  pricePoints: number;
  chargedPoints: number;
  traceId: string;
  createdAt: string;
  startedAt: string | null;
  endedAt: string | null;
  error: FaultBody | null;
}

export interface OpsTaskViewBody {
  taskId: string;
  tenantId: string;
  tenantName: string;
  userId: string;
  userEmail: string | null;
  tool: string;
  name: string;
  status: "QUEUED" | "PROCESSING" | "COMPLETED" | "PARTIAL" | "FAILED" | "CANCELLED";
  lane: string;
  priority: "HIGH" | "NORMAL" | "LOW";
  pricePoints: number;
  chargedPoints: number;
  traceId: string;
  createdAt: string;
  startedAt: string | null;
  endedAt: string | null;
  error: FaultBody | null;
  nodes: OpsNodeBody[];
  /** every change of a node, oldest first; history is kept for 90 days */
  timeline: StepBody[];
  /** why each node that has not ended waits */
  why: ReasonBody[];
}

export interface OpsTasksBody {
  items: OpsTaskBody[];
  nextCursor: string | null;
}

export interface OrderBody {
  orderId: string;
  status: OrderStatus;
  packageId: string;
  amountFen: number;
  points: number;
  channel: Channel;
  createdAt: string;
  expiresAt: string;
  refundedFen: number;
  flag?: string | null;
  closeReason?: string | null;
  transactionId?: string | null;
  paidAt?: string | null;
  codeUrl?: string | null;
  h5Url?: string | null;
  payParams?: Record<string, string> | null;
}

export type OrderStatus = "CREATED" | "PAYING" | "PAID" | "COMPLETED" | "CLOSED" | "REFUNDING" | "REFUNDED";

export interface OrdersBody {
  items: OrderBody[];
  nextCursor: string | null;
}

export interface OrganisationBody {
  tenantId: string;
  name: string;
  tier: string;
  /** running nodes of the whole tenant */
  concurrency: number;
  /** running nodes of each user; null: no limit */
  userConcurrency: number | null;
  /** below it a user gets a notice; null: no notice */
  lowBalancePoints: number | null;
}

export interface OrganisationChangeBody {
  name?: string | null;
  /** running nodes of each user; null: no limit; left out: unchanged */
  userConcurrency?: number | null;
  /** below it a user gets a notice; null: no notice; left out: unchanged */
  lowBalancePoints?: number | null;
}

export interface OriginalBody {
  /** as the submission named it; in a flow `node.input` */
  name: string;
  inputId: string;
  /** valid until expiresAt; null: the picture is not kept any more */
  url: string | null;
  contentType: string;
  width: number | null;
  height: number | null;
  expiresAt: string | null;
}

export interface OutfitPosesParams {
  wear?: "auto" | "torso" | "hold" | "feet";
  skin?: number;
  prompt?: string;
  preset?: "auto" | "studio" | "table" | "outdoor" | "beach" | "night" | "shelf" | "podium";
  color?: string;
  scale?: number;
  x?: number;
  shadow?: boolean;
  seed?: number;
  format?: "png" | "jpeg" | "webp";
  quality?: number;
}

export type OverlapPolicy = "ALLOW_ALL" | "SKIP" | "BUFFER_ONE" | "BUFFER_ALL" | "CANCEL_OTHER";

export interface Overrides {
  weight?: number | null;
  concurrency?: number | null;
  queueDepth?: number | null;
  ratePerSecond?: number | null;
  burst?: number | null;
  /** runs of jobs at once */
  jobConcurrency?: number | null;
  /** runs of jobs that start per minute */
  jobPerMinute?: number | null;
  /** shortest period of a job */
  jobPeriodSeconds?: number | null;
}

export interface OwnPasswordBody {
  currentPassword: string;
  newPassword: string;
}

export interface OwnerBody {
  email: string;
  password: string;
}

export interface PackageBody {
  packageId: string;
  amountFen: number;
  points: number;
}

export interface PackagesBody {
  items: PackageBody[];
  nextCursor: string | null;
}

export interface PairBody {
  tenants: string[];
  /** difference of GPU seconds per weight */
  gap: number;
  bound: number;
}

export interface PauseBody {
  reason?: string | null;
}

export type Permission = "task.submit" | "task.read" | "task.cancel" | "task.manage" | "points.read" | "points.grant" | "points.transfer" | "order.create" | "order.refund" | "job.read" | "job.write" | "job.run" | "job.ops" | "webhook.manage" | "user.manage" | "tenant.manage" | "ops.read" | "ops.write";

export interface PlaceBody {
  at: string;
  location: string;
}

export interface PointBody {
  /** start of the step */
  at: string;
  value: number;
}

export interface PoolBody {
  pool: string;
  /** virtual time in seconds */
  gvt: number;
  /** of all node types, a little prefetch included */
  slots: number;
  slotsByType: Record<string, number>;
  running: number;
  tenants: TenantClockBody[];
}

export interface PreviewBody {
  schedule: ScheduleShape;
  startsAt?: string | null;
  endsAt?: string | null;
}

export interface PreviewedBody {
  /** at most 5 */
  nextFires: FireBody[];
  /** in the language of Accept-Language: zh, else en */
  description: string;
  /** by language: zh, en */
  descriptions: Record<string, string>;
}

export interface ReadingBody {
  name: string;
  ok: boolean;
  /** null if it could not be measured */
  value: number | null;
  limit: number;
  unit: string;
}

export interface RealModelParams {
  pose?: "stand" | "hip" | "wave" | "walk" | "akimbo" | "lean" | "arms_up" | "turn";
  wear?: "auto" | "torso" | "hold" | "feet";
  skin?: number;
  prompt?: string;
  preset?: "auto" | "studio" | "table" | "outdoor" | "beach" | "night" | "shelf" | "podium";
  color?: string;
  scale?: number;
  x?: number;
  shadow?: boolean;
  seed?: number;
  format?: "png" | "jpeg" | "webp";
  quality?: number;
}

export interface ReasonBody {
  name: string;
  status: "PENDING" | "QUEUED" | "PROCESSING" | "COMPLETED" | "FAILED" | "TIMEOUT" | "CANCELLED";
  waitingFor: "dependency" | "tenant_cap" | "user_cap" | "model_cap" | "lane_paused" | "circuit_open" | "lane_cap" | "no_worker" | "turn" | "none";
  /** nodes of all tenants that start before it, about */
  position: number | null;
  /** expected start; null where it cannot start */
  etaSeconds: number | null;
  detail: string;
}

export interface ReceiptBody {
  /** our number of the payment at WeChat */
  receiptNumber: string;
  orderId: string;
  transactionId: string;
  tenantName: string;
  buyer: string;
  packageId: string;
  points: number;
  amountFen: number;
  refundedFen: number;
  channel: Channel;
  status: OrderStatus;
  createdAt: string;
  paidAt: string;
  refunds: RefundLineBody[];
}

export interface RefreshBody {
  refreshToken: string;
}

export interface RefundBody {
  refundId: string;
  status: RefundStatus;
}

export interface RefundLineBody {
  refundId: string;
  status: RefundStatus;
  orderId: string;
  amountFen: number;
  points: number;
  reason: string;
  createdAt: string;
  endedAt: string | null;
}

export type RefundStatus = "REQUESTED" | "PROCESSING" | "ABNORMAL" | "SUCCESS" | "CLOSED";

export interface RefundsBody {
  items: RefundLineBody[];
  nextCursor: string | null;
}

export interface RegisterBody {
  tenantName: string;
  /** unique on the whole platform */
  email: string;
  password: string;
  /** +<country><number>, or a Chinese mobile */
  phone?: string | null;
}

export interface RepaintParams {
  /** places to change instead of a mask: [x, y, width, height], each a part of the picture from 0 to 1, from its upper left corner and inside it */
  regions?: unknown[][];
  prompt?: string;
  color?: string;
  seed?: number;
  format?: "png" | "jpeg" | "webp";
  quality?: number;
}

export interface ReplayBody {
  /** all, at most 100, if left out */
  messageIds?: string[] | null;
  reason?: string | null;
}

export interface ReplayRangeBody {
  from: string;
  /** exclusive */
  to: string;
  /** null: all that ended */
  state?: "SUCCESS" | "FAILED" | "TERMINATED" | null;
}

export interface ReplayedBody {
  replayedRuns: number;
  /** one request replays 1,000 runs at most, the newest first */
  hasMore: boolean;
  /** `to` of the request that replays the rest; null: there is none */
  nextTo: string | null;
}

export interface ReportedFireBody {
  /** the nominal time */
  scheduledTime: string;
  /** RUN: see the run; UNACCOUNTED does not occur */
  outcome: FireStatus;
  reason: string;
  runId: string | null;
}

export interface ReportedFiresBody {
  items: ReportedFireBody[];
  nextCursor: string | null;
}

export type Reprocess = "none" | "failed" | "completed";

export interface ResetBody {
  /** of the link in the mail */
  token: string;
  password: string;
}

export interface ResponseFormatBody {
  type: "text";
}

export interface ResultBody {
  name: string;
  /** valid until expiresAt; a new request returns a new one */
  url: string;
  /** the same picture, which a browser saves under a good name */
  downloadUrl: string;
  contentType: string;
  width: number;
  height: number;
  expiresAt: string;
  /** made without the network that one of its steps needs */
  isDraft: boolean;
}

export interface ResumeBody {
  note?: string | null;
  /** fires of the pause: none, a run for the newest, a run for each (100 at most) */
  catchUp?: CatchUp;
}

export interface RetryShape {
  maxAttempts?: number;
  baseDelayMs?: number;
  /** 5 minutes if left out */
  maxDelayMs?: number | null;
}

export interface RoleBody {
  name: string;
  permissions: string[];
  isBuiltIn: boolean;
}

export interface RoleChangeBody {
  /** if given, it must equal the name in the path */
  name?: string | null;
  permissions: Permission[];
}

export interface RolesBody {
  items: RoleBody[];
  nextCursor: string | null;
}

export interface RunBody {
  runId: string;
  jobId: string;
  /** the nominal time */
  scheduledTime: string;
  /** the scheduled time and the job's place in the jitter */
  assignedTime: string;
  kind: RunKind;
  state: RunState;
  taskType: TaskType;
  lane: string;
  /** rises with each replay */
  generation: number;
  attempt: number;
  /** why a due run waits: tenant_quota, tenant_rate, overlap and others */
  waitingFor: string | null;
  lastError: string | null;
  nextRetryAt: string | null;
  /** of the last attempt */
  startedAt: string | null;
  endedAt: string | null;
  httpStatus: number | null;
  /** the start of the target's answer */
  answer: string | null;
  taskId: string | null;
  /** sent with each attempt */
  idempotencyKey: string;
  /** in the dead letters since then */
  deadLetterAt: string | null;
  createdAt: string;
}

export interface RunCircuitBody {
  /** null for a circuit of a task type */
  tenantId: string | null;
  /** host of the targets, or the task type */
  target: string;
  state: CircuitState;
  failures: number;
  runs: number;
  changedAt: string;
  nextProbeAt: string;
}

export interface RunGuardBody {
  state: "NORMAL" | "DEGRADED";
  /** by the guard; run_low first, then run_normal */
  pausedLanes: string[];
  changedAt: string | null;
  /** start delay in the last minute */
  latencyP95Seconds: number | null;
  /** due runs, without those of lanes that the guard has paused */
  backlog: number | null;
  readAt: string | null;
  /** targets that are not called */
  circuits: RunCircuitBody[];
}

export interface RunIdBody {
  runId: string;
}

export type RunKind = "SCHEDULED" | "CATCHUP" | "MANUAL" | "BACKFILL";

export type RunState = "PENDING" | "RUNNING" | "RETRYING" | "SUCCESS" | "FAILED" | "TERMINATED";

export interface RunnerUpBody {
  tenantId: string;
  /** virtual time in seconds */
  tag: number;
}

export interface RunsBody {
  items: RunBody[];
  nextCursor: string | null;
}

export interface SceneParams {
  prompt?: string;
  preset?: "auto" | "studio" | "table" | "outdoor" | "beach" | "night" | "shelf" | "podium";
  color?: string;
  scale?: number;
  x?: number;
  shadow?: boolean;
  width?: number;
  height?: number;
  seed?: number;
  format?: "png" | "jpeg" | "webp";
  quality?: number;
}

export interface ScheduleShape {
  type: "CRON" | "ONCE" | "AFTER";
  /** of CRON: 5 fields, or 6 and 7 with seconds first; `0 *\/5 * * * ?` */
  expr?: string | null;
  /** of ONCE */
  at?: string | null;
  /** an IANA name */
  timezone?: string;
  /** each run starts at the job's own place in it */
  jitterSeconds?: number;
  /** of AFTER: jobs that must have succeeded for the same scheduled time */
  after?: string[] | null;
}

export interface SchedulerBody {
  pools: PoolBody[];
}

export interface SecretBody {
  name: string;
  createdAt: string;
  updatedAt: string;
}

export interface SecretValueBody {
  value: string;
}

export interface SecretsBody {
  items: SecretBody[];
  nextCursor: string | null;
}

export interface SeenLoginBody {
  loginId: string;
  method: string;
  address: string;
  location: string;
  at: string;
  /** no login of the months before came from this location */
  isNewPlace: boolean;
}

export interface SeenLoginsBody {
  items: SeenLoginBody[];
  nextCursor: string | null;
}

export interface SeriesBody {
  name: string;
  unit: string;
  description: string;
  /** how the minutes of a step become one value */
  merge: "sum" | "maximum" | "minimum" | "ratio" | "share" | "quantile";
  stepSeconds: number;
  /** false: nothing writes this series yet */
  isMeasured: boolean;
  points: PointBody[];
}

export interface ServiceBody {
  service: string;
  mode: "stream" | "batch" | "vision";
  /** by language: en, zh */
  title: Record<string, string>;
  /** for 1,000 tokens */
  pricePoints: TokenPriceBody;
  /** JSON Schema */
  input: Record<string, unknown>;
  /** JSON Schema */
  params: Record<string, unknown>;
  /** tokens of a text whose caller asks for no length */
  maxTokens: number;
  /** tokens that a caller can ask for */
  mostTokens: number;
}

export interface ServicesBody {
  items: ServiceBody[];
  nextCursor: string | null;
}

export interface SettingBody {
  key: string;
  /** in force */
  value: unknown;
  default: unknown;
  type: "boolean" | "integer" | "number" | "string" | "array" | "object";
  /** of a number; of the length of a text, list or object */
  minimum: number | null;
  maximum: number | null;
  description: string;
  /** null while the default is in force */
  updatedAt: string | null;
  updatedBy: string | null;
  /** why the stored value is not in force, if it does not fit this release */
  fault: string | null;
}

export interface SettingChangeBody {
  /** of the setting's type, within its bounds */
  value: unknown;
}

export interface SettingsBody {
  items: SettingBody[];
  nextCursor: string | null;
}

export interface ShareBody {
  tenantId: string;
  weight: number;
  /** GPU seconds */
  service: number;
  share: number;
  idealShare: number;
  /** had waiting work during the whole window; only these are compared */
  isContending: boolean;
}

export interface SigningSecretBody {
  /** shown this once */
  signingSecret: string;
  /** until then calls carry the earlier key's signature too */
  previousUntil: string | null;
}

export interface SimulateBody {
  changes: WhatIfBody;
  windowSeconds?: number;
}

export interface SimulationBody {
  tenants: TenantComparisonBody[];
}

export interface StageBody {
  service: string;
  status: "PENDING_OCR" | "QUEUED" | "RUNNING" | "COMPLETED" | "FAILED" | "CANCELLED";
  provider: string | null;
  modelId: string | null;
  result: Record<string, unknown> | null;
  usage: TokenUsageBody | null;
  error: FaultBody | null;
}

export interface StepBody {
  at: string;
  node: string;
  fromStatus: string | null;
  toStatus: string;
  attempt: number;
  workerId: string | null;
  reason: string | null;
}

export interface StreamOptionsBody {
  include_usage?: boolean;
}

export interface StyleParams {
  style?: "watercolor" | "pencil" | "oil" | "poster" | "cartoon" | "vintage" | "neon";
  strength?: number;
  seed?: number;
  format?: "png" | "jpeg" | "webp";
  quality?: number;
}

export interface SubmitBody {
  tool: string;
  /** uploads by name, as `inputs` and `optionalInputs` of the tool list them. A `mask` is a picture of the same shape: white = change (for cutout: keep), black = leave as it is */
  inputs: Record<string, unknown>;
  /** as `params` of the tool describes them. `regions` are places to change instead of a mask: [x, y, width, height], each a part of the picture from 0 to 1, from its upper left corner and inside it */
  params?: Record<string, unknown>;
  count?: number | null;
  webhookUrl?: string | null;
  /** orders the task among the work of its own tenant only */
  priority?: "HIGH" | "NORMAL" | "LOW";
}

export interface TaskIdBody {
  taskId: string;
  status: "QUEUED" | "PROCESSING" | "COMPLETED" | "PARTIAL" | "FAILED" | "CANCELLED";
}

export interface TaskIdsBody {
  ids: string[];
}

export type TaskType = "HTTP" | "TASK" | "FLOW";

export interface TaskViewBody {
  taskId: string;
  userId: string;
  tool: string;
  name: string;
  status: "QUEUED" | "PROCESSING" | "COMPLETED" | "PARTIAL" | "FAILED" | "CANCELLED";
  progress: number;
  lane: string;
  priority: "HIGH" | "NORMAL" | "LOW";
  pricePoints: number;
  chargedPoints: number;
  createdAt: string;
  startedAt: string | null;
  endedAt: string | null;
  error: FaultBody | null;
  /** only the preview engine serves a step that needs a network: the result is a draft */
  isDraft: boolean;
  /** of the request that submitted the task; in the log lines of all its steps */
  traceId: string;
  nodes: NodeBody[];
  results: ResultBody[];
  /** the pictures that were submitted */
  inputs: OriginalBody[];
  /** as they were submitted */
  params: Record<string, unknown>;
  /** as it was submitted; null: the default */
  count: number | null;
  /** names of results that were deleted */
  deletedResults: string[];
}

export interface TasksBody {
  items: ListedTaskBody[];
  nextCursor: string | null;
}

export interface TenantBody {
  tenantId: string;
  name: string;
  tier: string;
  status: string;
  weight: number;
  concurrency: number;
  /** running nodes of one user; null: no limit */
  userConcurrency: number | null;
  queueDepth: number;
  ratePerSecond: number;
  burst: number;
  /** runs of jobs at once */
  jobConcurrency: number;
  /** runs of jobs that start per minute */
  jobPerMinute: number;
  /** shortest period of a job */
  jobPeriodSeconds: number;
  priority: string;
  artefactDays: number;
  /** values that differ from the tier's */
  overrides: Overrides;
  createdAt: string;
}

export interface TenantChangeBody {
  weight?: number | null;
  concurrency?: number | null;
  queueDepth?: number | null;
  ratePerSecond?: number | null;
  burst?: number | null;
  /** runs of jobs at once */
  jobConcurrency?: number | null;
  /** runs of jobs that start per minute */
  jobPerMinute?: number | null;
  /** shortest period of a job */
  jobPeriodSeconds?: number | null;
  /** running nodes of one user; null: no limit */
  userConcurrency?: number | null;
  name?: string | null;
  tier?: Tier | null;
  status?: "ACTIVE" | "SUSPENDED" | null;
}

export interface TenantClockBody {
  tenantId: string;
  weight: number;
  /** virtual time in seconds */
  lastVft: number;
  queued: number;
  running: number;
  cap: number | null;
}

export interface TenantComparisonBody {
  tenantId: string;
  pool: string;
  before: WaitsBody;
  after: WaitsBody;
}

export interface TenantOrderBody {
  orderId: string;
  userId: string;
  email: string | null;
  status: string;
  packageId: string;
  amountFen: number;
  points: number;
  refundedFen: number;
  channel: string;
  transactionId: string | null;
  flag: string | null;
  createdAt: string;
  paidAt: string | null;
}

export interface TenantOrdersBody {
  items: TenantOrderBody[];
  nextCursor: string | null;
}

export interface TenantUserBody {
  userId: string;
  email: string | null;
  phone: string | null;
  displayName: string | null;
  status: string;
  roles: string[];
  /** points */
  balance: number;
  frozen: number;
  createdAt: string;
}

export interface TenantUsersBody {
  items: TenantUserBody[];
  nextCursor: string | null;
}

export interface TenantsBody {
  items: TenantBody[];
  nextCursor: string | null;
}

export interface TextPartBody {
  type: "text";
  text: string;
}

export interface ThumbnailBody {
  url: string;
  width: number;
  height: number;
}

export interface TicketBody {
  inputId: string;
  url: string;
  method: string;
  /** to be sent exactly so */
  headers: Record<string, string>;
  expiresAt: string;
}

export type Tier = "enterprise" | "vip" | "standard" | "free";

export interface TokenPriceBody {
  input: number;
  output: number;
}

export interface TokenUsageBody {
  inputTokens: number;
  outputTokens: number;
}

export interface TokensBody {
  tenantId: string;
  userId: string;
  accessToken: string;
  refreshToken: string;
  /** seconds that the access token lives */
  expiresIn: number;
}

export interface ToolBody {
  tool: string;
  group: string;
  /** by language: en, zh */
  title: Record<string, string>;
  /** for each output */
  pricePoints: number;
  inputs: string[];
  optionalInputs: string[];
  /** minimum, maximum and default number of outputs */
  count: Record<string, number>;
  /** JSON Schema */
  params: Record<string, unknown>;
  nodeTypes: string[];
  /** what an input is, where its name does not say it */
  inputHelp: Record<string, string>;
  /** only the preview engine serves a step that needs a network: the result is a draft */
  isDraft: boolean;
  /** what each draft step can and cannot do, by language (en, zh); empty unless isDraft */
  draftNotes: Record<string, string>[];
}

export interface ToolTaskShape {
  type: "TASK";
  tool: string;
  inputs?: Record<string, unknown>;
  params?: Record<string, unknown>;
  count?: number | null;
  webhookUrl?: string | null;
  /** among the tenant's tasks; the job's if left out */
  priority?: "HIGH" | "NORMAL" | "LOW" | null;
}

export interface ToolsBody {
  items: ToolBody[];
  nextCursor: string | null;
}

export interface TransferBody {
  toUserId: string;
  amount: number;
}

export interface UploadBody {
  contentType: "image/png" | "image/jpeg" | "image/webp";
  bytes: number;
}

export interface UpscaleParams {
  scale?: number;
  strength?: number;
  seed?: number;
  format?: "png" | "jpeg" | "webp";
  quality?: number;
}

export interface UsageBody {
  items: UsageLineBody[];
  nextCursor: string | null;
  from: string;
  /** inclusive */
  to: string;
  scope: "own" | "tenant";
  totalTasks: number;
  totalTexts: number;
  totalPoints: number;
}

export interface UsageLineBody {
  /** null unless grouped by day, as the other two */
  day: string | null;
  /** a tool, `flow`, or `text:` and a service */
  tool: string | null;
  userId: string | null;
  email: string | null;
  displayName: string | null;
  /** that ended */
  tasks: number;
  texts: number;
  /** charged */
  points: number;
}

export interface UserBody {
  userId: string;
  email: string | null;
  phone: string | null;
  status: string;
  roles: string[];
  /** the user's own limit of running nodes; null: as each user */
  concurrency: number | null;
  createdAt: string;
  displayName: string | null;
  lastLoginAt: string | null;
  /** points */
  balance: number;
}

export interface UserChangeBody {
  roles?: string[] | null;
  status?: "ACTIVE" | "DISABLED" | null;
  /** running nodes at once; null: as the tenant allows each user; left out: unchanged */
  concurrency?: number | null;
}

export interface UsersBody {
  items: UserBody[];
  nextCursor: string | null;
}

export interface WaitsBody {
  started: number;
  unstarted: number;
  meanSeconds: number;
  worstSeconds: number;
}

export interface WebhookBody {
  webhookId: string;
  url: string;
  /** named by a task and not registered: receives only the tasks that name it */
  isImplied: boolean;
  createdAt: string;
}

export interface WebhooksBody {
  items: WebhookBody[];
  nextCursor: string | null;
}

export interface WechatBody {
  code: string;
  app: "mini" | "web";
}

export interface WechatTokensBody {
  tenantId: string;
  userId: string;
  accessToken: string;
  refreshToken: string;
  /** seconds that the access token lives */
  expiresIn: number;
  isNew: boolean;
}

export interface WhatIfBody {
  tenants?: WhatIfTenantBody[];
  pools?: Record<string, WhatIfPoolBody>;
}

export interface WhatIfPoolBody {
  /** workers' slots by node type */
  slots: Record<string, number>;
}

export interface WhatIfTenantBody {
  tenantId: string;
  weight?: number | null;
  concurrency?: number | null;
}

export interface WhyBody {
  /** among the work of the tenant */
  priority: "HIGH" | "NORMAL" | "LOW";
  nodes: ReasonBody[];
}

export interface WorkerBody {
  workerId: string;
  pool: string;
  types: string[];
  slots: number;
  engine: string;
  /** takes no new node; its slots do not count */
  draining: boolean;
  /** that it runs now */
  nodes: WorkerNodeBody[];
  registeredAt: string;
  lastBeatAt: string;
}

export interface WorkerNodeBody {
  taskId: string;
  tenantId: string;
  node: string;
  type: string;
  attempt: number;
  startedAt: string;
}

export interface WorkersBody {
  items: WorkerBody[];
  nextCursor: string | null;
}

/** The parameters of each tool. */
export interface ToolParams {
  model_photo: ModelPhotoParams;
  outfit_poses: OutfitPosesParams;
  real_model: RealModelParams;
  scene: SceneParams;
  background: BackgroundParams;
  style: StyleParams;
  crop: CropParams;
  cutout: CutoutParams;
  erase: EraseParams;
  extend: ExtendParams;
  derive: DeriveParams;
  repaint: RepaintParams;
  img2img: Img2imgParams;
  hd_fix: HdFixParams;
  batch_cutout: BatchCutoutParams;
  upscale: UpscaleParams;
  batch_convert: BatchConvertParams;
}
