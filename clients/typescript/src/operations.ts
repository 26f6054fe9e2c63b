// Generated from the OpenAPI document by `make clients`. Do not edit.

import { type Call, pathPart } from "./core.js";
import type * as models from "./models.js";

/** One method per operation of the API. */
export abstract class Operations {
  /** Send a call, with retries, and return the parsed answer. */
  abstract call<T>(call: Call): Promise<T>;

  /** The caller's keys; with `user.manage` those of the tenant; for a key, itself and the keys that it made. */
  listApiKeys(query: { cursor?: string | null; limit?: number } = {}): Promise<models.KeysBody> {
    return this.call({ method: "GET", path: "/api-keys", query });
  }

  /** Create an API key with at most the caller's permissions. A key made by a key cannot make keys. */
  createApiKey(body: models.NewKeyBody): Promise<models.KeyMadeBody> {
    return this.call({ method: "POST", path: "/api-keys", body });
  }

  /** Delete a key and the keys that it made. They stop working within a minute. */
  deleteApiKey(keyId: string): Promise<void> {
    return this.call({ method: "DELETE", path: `/api-keys/${pathPart(keyId)}` });
  }

  /** Accept an invitation by the link in the mail: set a password and log in. */
  acceptInvitation(body: models.AcceptBody): Promise<models.TokensBody> {
    return this.call({ method: "POST", path: "/auth/invitations/accept", body });
  }

  /** Who invites whom, for the page that the link in the mail opens. Changes nothing. */
  lookAtInvitation(body: models.LinkBody): Promise<models.InvitedBody> {
    return this.call({ method: "POST", path: "/auth/invitations/look", body });
  }

  /** Log in with e-mail or phone and password. */
  logIn(body: models.LoginBody): Promise<models.TokensBody> {
    return this.call({ method: "POST", path: "/auth/login", body });
  }

  /** End this session: refresh at once, access within a minute. */
  logOut(): Promise<void> {
    return this.call({ method: "POST", path: "/auth/logout" });
  }

  /** Send a link to reset the password, valid once for 30 minutes. The answer is the same for an unknown login. */
  forgetPassword(body: models.ForgotBody): Promise<models.ForgottenBody> {
    return this.call({ method: "POST", path: "/auth/password/forgot", body });
  }

  /** Set a password by the link in the mail. All sessions of the user end. */
  resetPassword(body: models.ResetBody): Promise<void> {
    return this.call({ method: "POST", path: "/auth/password/reset", body });
  }

  /** A new pair of tokens for an unused refresh token. Reuse ends the session. */
  refresh(body: models.RefreshBody): Promise<models.TokensBody> {
    return this.call({ method: "POST", path: "/auth/refresh", body });
  }

  /** Create a tenant and its owner, and log the owner in. */
  register(body: models.RegisterBody): Promise<models.TokensBody> {
    return this.call({ method: "POST", path: "/auth/register", body });
  }

  /** Log in with a code of the mini program or of the web's OAuth. The first login creates an account. */
  logInByWechat(body: models.WechatBody): Promise<models.WechatTokensBody> {
    return this.call({ method: "POST", path: "/auth/wechat", body });
  }

  /** The tenant's backfills, newest first. Needs `job.run`. */
  listBackfills(query: { jobId?: string | null; cursor?: string | null; limit?: number } = {}): Promise<models.BackfillsBody> {
    return this.call({ method: "GET", path: "/backfills", query });
  }

  /** How far a backfill is. Needs `job.run`. */
  getBackfill(backfillId: string): Promise<models.BackfillBody> {
    return this.call({ method: "GET", path: `/backfills/${pathPart(backfillId)}` });
  }

  /** Stop a backfill: runs that have not begun leave, a run that is under way ends as usual. Needs `job.run`. */
  cancelBackfill(backfillId: string): Promise<models.BackfillBody> {
    return this.call({ method: "DELETE", path: `/backfills/${pathPart(backfillId)}` });
  }

  /** The labels of every type at once, for a client that shows pages. */
  listDictionaries(): Promise<models.DictionariesBody> {
    return this.call({ method: "GET", path: "/dictionaries" });
  }

  /** Labels in Chinese and English: tools, steps, lanes, states, error codes, presets. */
  listLabels(type: string, query: { cursor?: string | null; limit?: number } = {}): Promise<models.LabelsBody> {
    return this.call({ method: "GET", path: `/dictionaries/${pathPart(type)}`, query });
  }

  /** Submit a DAG of the caller's own nodes. Needs `task.submit`. */
  submitFlow(body: models.FlowBody, idempotencyKey?: string): Promise<models.AcceptedBody> {
    return this.call({ method: "POST", path: "/flows", body, isKeyed: true, key: idempotencyKey });
  }

  /** The tenant's generations, newest first. Needs `task.read`. */
  listGenerations(query: { userId?: string | null; status?: "PENDING_OCR" | "QUEUED" | "RUNNING" | "COMPLETED" | "FAILED" | "CANCELLED" | null; service?: string | null; from?: string | null; to?: string | null; cursor?: string | null; limit?: number } = {}): Promise<models.GenerationsBody> {
    return this.call({ method: "GET", path: "/generations", query });
  }

  /** Submit a text. Points for the longest text are held now, and those that it used are charged at its end. Needs `task.submit`. */
  submitGeneration(body: models.GenerationRequestBody, idempotencyKey?: string): Promise<models.AcceptedGenerationBody> {
    return this.call({ method: "POST", path: "/generations", body, isKeyed: true, key: idempotencyKey });
  }

  /** A generation with its text so far. Needs `task.read`. */
  getGeneration(generationId: string): Promise<models.GenerationBody> {
    return this.call({ method: "GET", path: `/generations/${pathPart(generationId)}` });
  }

  /** Stop a text. What was delivered is charged, the rest of the points is released. Needs `task.cancel`. */
  cancelGeneration(generationId: string): Promise<models.GenerationStatusBody> {
    return this.call({ method: "POST", path: `/generations/${pathPart(generationId)}/cancel` });
  }

  /** Whether PostgreSQL and Redis answer. */
  getHealth(): Promise<models.HealthBody> {
    return this.call({ method: "GET", path: "/health" });
  }

  /** The tenant's invitations, newest first. Needs `user.manage`. */
  listInvitations(query: { cursor?: string | null; limit?: number } = {}): Promise<models.InvitationsBody> {
    return this.call({ method: "GET", path: "/invitations", query });
  }

  /** Send a link to a new user of the tenant, who sets a password. It is valid once, for 30 minutes. Needs `user.manage`. */
  sendInvitation(body: models.NewInvitationBody): Promise<models.InvitationBody> {
    return this.call({ method: "POST", path: "/invitations", body });
  }

  /** End an invitation that was not accepted. Needs `user.manage`. */
  revokeInvitation(invitationId: string): Promise<void> {
    return this.call({ method: "DELETE", path: `/invitations/${pathPart(invitationId)}` });
  }

  /** Send a new link. The one before ends at once. Needs `user.manage`. */
  resendInvitation(invitationId: string): Promise<models.InvitationBody> {
    return this.call({ method: "POST", path: `/invitations/${pathPart(invitationId)}/resend` });
  }

  /** The tenant's jobs, newest first. Needs `job.read`. */
  listJobs(query: { status?: "ACTIVE" | "PAUSED" | "COMPLETED" | null; name?: string | null; tenantId?: string | null; cursor?: string | null; limit?: number } = {}): Promise<models.JobsBody> {
    return this.call({ method: "GET", path: "/jobs", query });
  }

  /** Create a job. Its first fires are in the answer; nothing is stored if a field is refused. Needs `job.write`. */
  createJob(body: models.NewJobBody, idempotencyKey?: string): Promise<models.CreatedJobBody> {
    return this.call({ method: "POST", path: "/jobs", body, isKeyed: true, key: idempotencyKey });
  }

  /** The tenant's jobs as one file that the import takes. Needs `job.write`. */
  exportJobs(query: { format?: "json" | "yaml"; cursor?: string | null; limit?: number } = {}): Promise<Record<string, unknown> | string> {
    return this.call({ method: "GET", path: "/jobs/export", query });
  }

  /** Create and change jobs as a file says: all or none. Matched by jobId, else by name; others stay. Needs `job.write`. */
  importJobs(body: Record<string, unknown> | string, query: { dryRun?: boolean | null } = {}, idempotencyKey?: string): Promise<models.ImportedBody> {
    return this.call({ method: "POST", path: "/jobs/import", query, body, isKeyed: true, key: idempotencyKey });
  }

  /** The next fires of a schedule, and the schedule in words. Changes nothing. Needs `job.write`. */
  previewSchedule(body: models.PreviewBody): Promise<models.PreviewedBody> {
    return this.call({ method: "POST", path: "/jobs/preview", body });
  }

  /** A new secret that signs the calls of the tenant's jobs. The earlier one signs too for a day. Needs `job.write`. */
  rotateSigningSecret(): Promise<models.SigningSecretBody> {
    return this.call({ method: "POST", path: "/jobs/signing-secret" });
  }

  /** A job with its next fires. Needs `job.read`. */
  getJob(jobId: string, query: { tenantId?: string | null } = {}): Promise<models.JobBody> {
    return this.call({ method: "GET", path: `/jobs/${pathPart(jobId)}`, query });
  }

  /** Delete a job. Its runs stay; one that has begun ends as usual. Needs `job.write`. */
  deleteJob(jobId: string): Promise<void> {
    return this.call({ method: "DELETE", path: `/jobs/${pathPart(jobId)}` });
  }

  /** Change the given fields. Runs that were created ahead of their time follow the new definition. Needs `job.write`. */
  changeJob(jobId: string, body: models.JobChangeBody): Promise<models.JobBody> {
    return this.call({ method: "PATCH", path: `/jobs/${pathPart(jobId)}`, body });
  }

  /** Run a job for the past times of a range that have no run, and for those that `reprocess` names. Needs `job.run`. */
  startBackfill(jobId: string, body: models.BackfillRangeBody, idempotencyKey?: string): Promise<models.AcceptedBackfillBody> {
    return this.call({ method: "POST", path: `/jobs/${pathPart(jobId)}/backfill`, body, isKeyed: true, key: idempotencyKey });
  }

  /** Each nominal fire of a range and what became of it, oldest first. Needs `job.read`. */
  listFires(jobId: string, query: { from?: string | null; to?: string | null; tenantId?: string | null; cursor?: string | null; limit?: number } = {}): Promise<models.ReportedFiresBody> {
    return this.call({ method: "GET", path: `/jobs/${pathPart(jobId)}/fires`, query });
  }

  /** No fire makes a run until the job is resumed. Runs that have begun go on. Needs `job.ops`. */
  pauseJob(jobId: string, body?: models.NoteBody): Promise<models.JobBody> {
    return this.call({ method: "POST", path: `/jobs/${pathPart(jobId)}/pause`, body });
  }

  /** Replay the runs of a job whose scheduled time is in a range: the failed ones, if no state is given. Needs `job.ops`. */
  replayRange(jobId: string, body: models.ReplayRangeBody): Promise<models.ReplayedBody> {
    return this.call({ method: "POST", path: `/jobs/${pathPart(jobId)}/replay`, body });
  }

  /** The next fire is the first one from now on. `catchUp` makes up for fires of the pause. Needs `job.ops`. */
  resumeJob(jobId: string, body?: models.ResumeBody): Promise<models.JobBody> {
    return this.call({ method: "POST", path: `/jobs/${pathPart(jobId)}/resume`, body });
  }

  /** Start a run now. Over the tenant's rate: 429 SCHED_429_TENANT_THROTTLED. Needs `job.run`. */
  triggerJob(jobId: string, idempotencyKey?: string): Promise<models.RunIdBody> {
    return this.call({ method: "POST", path: `/jobs/${pathPart(jobId)}/trigger`, isKeyed: true, key: idempotencyKey });
  }

  /** The caller's profile and permissions. */
  getMe(): Promise<models.MeBody> {
    return this.call({ method: "GET", path: "/me" });
  }

  /** Change the caller's name, language and notices. */
  changeMe(body: models.MeChangeBody): Promise<models.MeBody> {
    return this.call({ method: "PATCH", path: "/me", body });
  }

  /** The caller's logins with time, address and place, newest first. */
  listOwnLogins(query: { cursor?: string | null; limit?: number } = {}): Promise<models.SeenLoginsBody> {
    return this.call({ method: "GET", path: "/me/logins", query });
  }

  /** Change the caller's password. All other sessions of the user end. */
  changePassword(body: models.OwnPasswordBody): Promise<void> {
    return this.call({ method: "POST", path: "/me/password", body });
  }

  /** This document. */
  getOpenapi(): Promise<Record<string, unknown>> {
    return this.call({ method: "GET", path: "/openapi.json" });
  }

  /** The audit log of all tenants, newest first. Entries are kept for 180 days. Needs `ops.read`. */
  listAudit(query: { actor?: string | null; action?: string | null; target?: string | null; from?: string | null; to?: string | null; cursor?: string | null; limit?: number } = {}): Promise<models.AuditsBody> {
    return this.call({ method: "GET", path: "/ops/audit", query });
  }

  /** Hit rate, size and latency of each cache, over all processes. Needs `ops.read`. */
  listCaches(query: { cursor?: string | null; limit?: number } = {}): Promise<models.CachesBody> {
    return this.call({ method: "GET", path: "/ops/cache", query });
  }

  /** Drop the cached values whose key begins so, at most 100,000. They are loaded again when they are read. Needs `ops.write`. */
  deleteCached(query: { prefix: string }): Promise<models.CacheDeletedBody> {
    return this.call({ method: "DELETE", path: "/ops/cache", query });
  }

  /** Load the values of a cache again from their source. Needs `ops.write`. */
  refreshCache(body: models.CacheRefreshBody): Promise<models.CacheRefreshedBody> {
    return this.call({ method: "POST", path: "/ops/cache/refresh", body });
  }

  /** The last 1,000 choices of the fair queue, newest first: the chosen tenant, the runner-up and the reason. Needs `ops.read`. */
  listDecisions(query: { pool?: "gpu" | "enterprise" | null; tenantId?: string | null; cursor?: string | null; limit?: number } = {}): Promise<models.DecisionsBody> {
    return this.call({ method: "GET", path: "/ops/decisions", query });
  }

  /** How many messages each dead-letter queue holds, and in `runs` how many runs failed for good. Needs `ops.read`. */
  listDeadQueues(query: { cursor?: string | null; limit?: number } = {}): Promise<models.DeadQueuesBody> {
    return this.call({ method: "GET", path: "/ops/dlq", query });
  }

  /** The messages of a dead-letter queue; of `runs` the runs, whose ids are the messages' ids. Needs `ops.read`. */
  listDeadLetters(queue: string, query: { cursor?: string | null; limit?: number } = {}): Promise<models.DeadLettersBody> {
    return this.call({ method: "GET", path: `/ops/dlq/${pathPart(queue)}`, query });
  }

  /** Delete messages. A run stays FAILED, and leaves the dead letters. The reason is stored in the audit log. Needs `ops.write`. */
  discardDeadLetters(queue: string, body: models.DiscardBody): Promise<models.MovedBody> {
    return this.call({ method: "POST", path: `/ops/dlq/${pathPart(queue)}/discard`, body });
  }

  /** Send messages back to the queue where they failed; start runs again. Needs `ops.write`. */
  replayDeadLetters(queue: string, body: models.ReplayBody): Promise<models.MovedBody> {
    return this.call({ method: "POST", path: `/ops/dlq/${pathPart(queue)}/replay`, body });
  }

  /** Share of the GPUs against weight, and the worst pair against the bound. Needs `ops.read`. */
  getFairness(query: { windowSeconds?: number; pool?: "gpu" | "enterprise" } = {}): Promise<models.FairnessBody> {
    return this.call({ method: "GET", path: "/ops/fairness", query });
  }

  /** Texts of all tenants, newest first. The texts themselves are not shown. Needs `ops.read`. */
  operationsListGenerations(query: { tenantId?: string | null; userId?: string | null; status?: "PENDING_OCR" | "QUEUED" | "RUNNING" | "COMPLETED" | "FAILED" | "CANCELLED" | null; service?: string | null; lane?: string | null; from?: string | null; to?: string | null; cursor?: string | null; limit?: number } = {}): Promise<models.OpsGenerationsBody> {
    return this.call({ method: "GET", path: "/ops/generations", query });
  }

  /** Stop texts of any tenant. What was delivered is charged. Needs `ops.write`. */
  cancelGenerations(body: models.GenerationIdsBody): Promise<models.HandledGenerationsBody> {
    return this.call({ method: "POST", path: "/ops/generations/cancel", body });
  }

  /** Submit failed texts again, each as a new generation of its user. One that cannot be retried has an error code. Needs `ops.write`. */
  retryGenerations(body: models.GenerationIdsBody): Promise<models.HandledGenerationsBody> {
    return this.call({ method: "POST", path: "/ops/generations/retry", body });
  }

  /** Whether the platform is degraded, and the readings behind that. Needs `ops.read`. */
  getGuard(): Promise<models.GuardBody> {
    return this.call({ method: "GET", path: "/ops/health" });
  }

  /** The invariants over all tenants: of the rows that changed since the last check, or of every row. Needs `ops.read`. */
  getInvariants(query: { full?: boolean } = {}): Promise<models.InvariantsBody> {
    return this.call({ method: "GET", path: "/ops/invariants", query });
  }

  /** Every lane: waiting nodes or runs, running ones, its settings. Needs `ops.read`. */
  listLanes(query: { cursor?: string | null; limit?: number } = {}): Promise<models.LanesBody> {
    return this.call({ method: "GET", path: "/ops/lanes", query });
  }

  /** Change parallelism, share or limit at once, without a deployment. A null restores the default. Needs `ops.write`. */
  changeLane(lane: string, body: models.LaneChangeBody): Promise<models.LaneBody> {
    return this.call({ method: "PATCH", path: `/ops/lanes/${pathPart(lane)}`, body });
  }

  /** Pause dispatch from this lane. It accepts nodes up to its limit. The audit log keeps the reason. Needs `ops.write`. */
  pauseLane(lane: string, body?: models.PauseBody): Promise<models.LaneBody> {
    return this.call({ method: "POST", path: `/ops/lanes/${pathPart(lane)}/pause`, body });
  }

  /** Resume dispatch from this lane. Needs `ops.write`. */
  resumeLane(lane: string): Promise<models.LaneBody> {
    return this.call({ method: "POST", path: `/ops/lanes/${pathPart(lane)}/resume` });
  }

  /** Cost of providers against points charged for texts, at most 92 days. `total` is of all lines. Needs `ops.read`. */
  listMargins(query: { from?: string | null; to?: string | null; groupBy?: string; tenantId?: string | null; service?: string | null; model?: string | null; cursor?: string | null; limit?: number } = {}): Promise<models.MarginsBody> {
    return this.call({ method: "GET", path: "/ops/margins", query });
  }

  /** The newest closed minute of all series as OpenMetrics text, for Prometheus. Needs `ops.read`. */
  getMetrics(): Promise<string> {
    return this.call({ method: "GET", path: "/ops/metrics" });
  }

  /** The models of the catalogue and of texts: limits, running and waiting nodes or texts. Needs `ops.read`. */
  listModels(query: { cursor?: string | null; limit?: number } = {}): Promise<models.ModelsBody> {
    return this.call({ method: "GET", path: "/ops/models", query });
  }

  /** Set how many nodes in each pool, or texts, of a model may run at once. Those that run are not stopped. Needs `ops.write`. */
  limitModel(model: string, body: models.ModelLimitBody): Promise<models.ModelBody> {
    return this.call({ method: "PUT", path: `/ops/models/${pathPart(model)}`, body });
  }

  /** Days whose bill was compared with our orders, newest first. Needs `ops.read`. */
  listReconciliations(query: { cursor?: string | null; limit?: number } = {}): Promise<models.BillDaysBody> {
    return this.call({ method: "GET", path: "/ops/reconciliations", query });
  }

  /** One day: the differences that were found, and their resolution. Needs `ops.read`. */
  getReconciliation(day: string, query: { cursor?: string | null; limit?: number } = {}): Promise<models.BillDayViewBody> {
    return this.call({ method: "GET", path: `/ops/reconciliations/${pathPart(day)}`, query });
  }

  /** Runs of all tenants, the newest scheduled time first. Needs `ops.read`. */
  searchRuns(query: { tenantId?: string | null; jobId?: string | null; state?: models.RunState | null; kind?: models.RunKind | null; deadLetter?: boolean; from?: string | null; to?: string | null; cursor?: string | null; limit?: number } = {}): Promise<models.OpsRunsBody> {
    return this.call({ method: "GET", path: "/ops/runs", query });
  }

  /** Terminate runs that have not ended. Needs `ops.write`. */
  cancelRuns(body: models.IdsBody): Promise<models.ChangedBody> {
    return this.call({ method: "POST", path: "/ops/runs/cancel", body });
  }

  /** Replay runs that have ended. Needs `ops.write`. */
  retryRuns(body: models.IdsBody): Promise<models.ChangedBody> {
    return this.call({ method: "POST", path: "/ops/runs/retry", body });
  }

  /** The virtual clocks of the pools and their tenants. Needs `ops.read`. */
  getScheduler(): Promise<models.SchedulerBody> {
    return this.call({ method: "GET", path: "/ops/scheduler" });
  }

  /** Minute aggregates of a series, merged over steps. A range has at most 720 steps. Needs `ops.read`. */
  getSeries(query: { name: "throughput" | "waiting" | "running" | "wait_p50" | "wait_p95" | "failures" | "utilisation" | "share" | "dead_letters" | "node_duration_p95" | "requests" | "server_errors" | "availability" | "wait_within_target" | "burn_rate" | "error_budget" | "trigger_latency_p50" | "trigger_latency_p95" | "runs_on_time" | "run_backlog" | "runs_ended" | "run_failures" | "tokens_per_second" | "first_token_p95"; from?: string | null; to?: string | null; step?: number | null }): Promise<models.SeriesBody> {
    return this.call({ method: "GET", path: "/ops/series", query });
  }

  /** Every setting by key: its value, default and bounds. Needs `ops.read`. */
  listSettings(query: { cursor?: string | null; limit?: number } = {}): Promise<models.SettingsBody> {
    return this.call({ method: "GET", path: "/ops/settings", query });
  }

  /** Change a setting. All processes use the new value within a minute, usually within two seconds. Needs `ops.write`. */
  changeSetting(key: string, body: models.SettingChangeBody): Promise<models.SettingBody> {
    return this.call({ method: "PUT", path: `/ops/settings/${pathPart(key)}`, body });
  }

  /** Restore the default of a setting. Needs `ops.write`. */
  restoreSetting(key: string): Promise<models.SettingBody> {
    return this.call({ method: "DELETE", path: `/ops/settings/${pathPart(key)}` });
  }

  /** Replay the last arrivals with other weights, caps or workers. Production does not change. Needs `ops.read`. */
  simulate(body: models.SimulateBody): Promise<models.SimulationBody> {
    return this.call({ method: "POST", path: "/ops/simulate", body });
  }

  /** Tasks of all tenants, newest first. A trace id is found in the tasks of the last seven days. Needs `ops.read`. */
  searchTasks(query: { q?: string | null; tenantId?: string | null; userId?: string | null; status?: "QUEUED" | "PROCESSING" | "COMPLETED" | "PARTIAL" | "FAILED" | "CANCELLED" | null; tool?: string | null; lane?: string | null; from?: string | null; to?: string | null; cursor?: string | null; limit?: number } = {}): Promise<models.OpsTasksBody> {
    return this.call({ method: "GET", path: "/ops/tasks", query });
  }

  /** Cancel tasks of any tenant. Delivered results are charged, other points released. Needs `ops.write`. */
  cancelTasks(body: models.TaskIdsBody): Promise<models.HandledTasksBody> {
    return this.call({ method: "POST", path: "/ops/tasks/cancel", body });
  }

  /** Retry failed or partial tasks of any tenant, for their own users' points. Needs `ops.write`. */
  retryTasks(body: models.TaskIdsBody): Promise<models.HandledTasksBody> {
    return this.call({ method: "POST", path: "/ops/tasks/retry", body });
  }

  /** A task of any tenant: nodes, attempts, workers, timeline, and why it waits. Pictures are not shown. Needs `ops.read`. */
  getTaskHistory(anyTaskId: string): Promise<models.OpsTaskViewBody> {
    return this.call({ method: "GET", path: `/ops/tasks/${pathPart(anyTaskId)}` });
  }

  /** Workers that are alive. Needs `ops.read`. */
  listWorkers(query: { cursor?: string | null; limit?: number } = {}): Promise<models.WorkersBody> {
    return this.call({ method: "GET", path: "/ops/workers", query });
  }

  /** The worker takes no new node, finishes or releases those that it holds, and ends. Needs `ops.write`. */
  drainWorker(workerId: string): Promise<models.WorkerBody> {
    return this.call({ method: "POST", path: `/ops/workers/${pathPart(workerId)}/drain` });
  }

  /** The caller's orders, newest first; with `order.refund` those of the tenant. Needs `order.create`. */
  listOrders(query: { cursor?: string | null; limit?: number } = {}): Promise<models.OrdersBody> {
    return this.call({ method: "GET", path: "/orders", query });
  }

  /** Order a package. A repeated Idempotency-Key returns the same order with a valid code. Needs `order.create`. */
  createOrder(body: models.NewOrderBody, idempotencyKey?: string): Promise<models.OrderBody> {
    return this.call({ method: "POST", path: "/orders", body, isKeyed: true, key: idempotencyKey });
  }

  /** One order as it is stored. Needs `order.create`. */
  getOrder(orderId: string): Promise<models.OrderBody> {
    return this.call({ method: "GET", path: `/orders/${pathPart(orderId)}` });
  }

  /** Query WeChat now, at most once in a few seconds. For the page that a payer returns to. Needs `order.create`. */
  checkOrder(orderId: string): Promise<models.OrderBody> {
    return this.call({ method: "POST", path: `/orders/${pathPart(orderId)}/check` });
  }

  /** Close an open order at WeChat and here. An order that was paid meanwhile is completed instead. Needs `order.create`. */
  closeOrder(orderId: string): Promise<models.OrderBody> {
    return this.call({ method: "POST", path: `/orders/${pathPart(orderId)}/close` });
  }

  /** The payment code of an open order: the same while it is valid, then a new one. Needs `order.create`. */
  payOrder(orderId: string): Promise<models.OrderBody> {
    return this.call({ method: "POST", path: `/orders/${pathPart(orderId)}/pay` });
  }

  /** What a receipt of a paid order shows. Needs `order.create`. */
  getReceipt(orderId: string): Promise<models.ReceiptBody> {
    return this.call({ method: "GET", path: `/orders/${pathPart(orderId)}/receipt` });
  }

  /** Refund an order in full or in part, if the points are not spent. Needs `order.refund`. */
  refundOrder(orderId: string, body: models.NewRefundBody, idempotencyKey?: string): Promise<models.RefundBody> {
    return this.call({ method: "POST", path: `/orders/${pathPart(orderId)}/refunds`, body, isKeyed: true, key: idempotencyKey });
  }

  /** The packages of points. */
  listPackages(query: { cursor?: string | null; limit?: number } = {}): Promise<models.PackagesBody> {
    return this.call({ method: "GET", path: "/packages", query });
  }

  /** The caller's balance, and the points that are held for tasks. Needs `points.read`. */
  getPoints(): Promise<models.AccountBody> {
    return this.call({ method: "GET", path: "/points" });
  }

  /** Grant points to a user of any tenant. A campaign grants to each user once. Needs `points.grant`. */
  grantPoints(body: models.GrantBody, idempotencyKey?: string): Promise<models.EntryBody> {
    return this.call({ method: "POST", path: "/points/grants", body, isKeyed: true, key: idempotencyKey });
  }

  /** Every change of the caller's points, newest first. A CSV page has 10,000 lines and an X-Next-Cursor. Needs `points.read`. */
  listEntries(query: { kind?: models.Kind | null; from?: string | null; to?: string | null; cursor?: string | null; limit?: number; format?: "json" | "csv" } = {}): Promise<models.LedgerBody> {
    return this.call({ method: "GET", path: "/points/ledger", query });
  }

  /** Transfer points to another user of the tenant. Needs `points.transfer`. */
  transferPoints(body: models.TransferBody, idempotencyKey?: string): Promise<models.EntryBody> {
    return this.call({ method: "POST", path: "/points/transfers", body, isKeyed: true, key: idempotencyKey });
  }

  /** Trial points for a new tenant, once. A new tenant has none before it asks. */
  takeTrial(): Promise<models.EntryBody> {
    return this.call({ method: "POST", path: "/points/trial" });
  }

  /** Refunds of the caller's orders, newest first; with `order.refund` those of the tenant. Needs `order.create`. */
  listRefunds(query: { orderId?: string | null; cursor?: string | null; limit?: number } = {}): Promise<models.RefundsBody> {
    return this.call({ method: "GET", path: "/refunds", query });
  }

  /** Built-in roles and the tenant's own. Needs `user.manage`. */
  listRoles(query: { cursor?: string | null; limit?: number } = {}): Promise<models.RolesBody> {
    return this.call({ method: "GET", path: "/roles", query });
  }

  /** Create a role of the tenant. Needs `user.manage`. */
  addRole(body: models.NewRoleBody): Promise<models.RoleBody> {
    return this.call({ method: "POST", path: "/roles", body });
  }

  /** Replace the permissions of a role of the tenant. Needs `user.manage`. */
  changeRole(name: string, body: models.RoleChangeBody): Promise<models.RoleBody> {
    return this.call({ method: "PUT", path: `/roles/${pathPart(name)}`, body });
  }

  /** Delete a role that no user has. Needs `user.manage`. */
  deleteRole(name: string): Promise<void> {
    return this.call({ method: "DELETE", path: `/roles/${pathPart(name)}` });
  }

  /** The tenant's runs, the newest scheduled time first. Needs `job.read`. */
  listRuns(query: { jobId?: string | null; state?: models.RunState | null; kind?: models.RunKind | null; deadLetter?: boolean; from?: string | null; to?: string | null; tenantId?: string | null; cursor?: string | null; limit?: number } = {}): Promise<models.RunsBody> {
    return this.call({ method: "GET", path: "/runs", query });
  }

  /** One firing of a job. Needs `job.read`. */
  getRun(runId: string, query: { tenantId?: string | null } = {}): Promise<models.RunBody> {
    return this.call({ method: "GET", path: `/runs/${pathPart(runId)}`, query });
  }

  /** The log of a run, oldest line first. Needs `job.read`. */
  listLogLines(runId: string, query: { tenantId?: string | null; cursor?: string | null; limit?: number } = {}): Promise<models.LogLinesBody> {
    return this.call({ method: "GET", path: `/runs/${pathPart(runId)}/logs`, query });
  }

  /** Start an ended run again, with a new idempotency key. Needs `job.ops`. */
  replayRun(runId: string): Promise<models.RunIdBody> {
    return this.call({ method: "POST", path: `/runs/${pathPart(runId)}/replay` });
  }

  /** End a run now. A task of it is cancelled; the result of a call that is under way changes nothing. Needs `job.ops`. */
  terminateRun(runId: string): Promise<models.RunIdBody> {
    return this.call({ method: "POST", path: `/runs/${pathPart(runId)}/terminate` });
  }

  /** Names and dates. No route shows a value. Needs `job.write`. */
  listSecrets(query: { cursor?: string | null; limit?: number } = {}): Promise<models.SecretsBody> {
    return this.call({ method: "GET", path: "/secrets", query });
  }

  /** Store a value that jobs name as `secret:NAME`. Runs that start from now on use it. Needs `job.write`. */
  putSecret(secretName: string, body: models.SecretValueBody): Promise<models.SecretBody> {
    return this.call({ method: "PUT", path: `/secrets/${pathPart(secretName)}`, body });
  }

  /** Delete a secret that no job names. Needs `job.write`. */
  deleteSecret(secretName: string): Promise<void> {
    return this.call({ method: "DELETE", path: `/secrets/${pathPart(secretName)}` });
  }

  /** The services that write texts, with the prices and limits in force. */
  listServices(query: { cursor?: string | null; limit?: number } = {}): Promise<models.ServicesBody> {
    return this.call({ method: "GET", path: "/services", query });
  }

  /** The tenant's tasks, newest first. Needs `task.read`. */
  listTasks(query: { userId?: string | null; status?: "QUEUED" | "PROCESSING" | "COMPLETED" | "PARTIAL" | "FAILED" | "CANCELLED" | null; tool?: string | null; from?: string | null; to?: string | null; cursor?: string | null; limit?: number } = {}): Promise<models.TasksBody> {
    return this.call({ method: "GET", path: "/tasks", query });
  }

  /** Submit a task. Its points are held now, and charged for delivered results. Needs `task.submit`. */
  submitTask(body: models.SubmitBody, idempotencyKey?: string): Promise<models.AcceptedBody> {
    return this.call({ method: "POST", path: "/tasks", body, isKeyed: true, key: idempotencyKey });
  }

  /** The price and duration of a submission. Changes nothing. Needs `task.submit`. */
  estimateTask(body: models.SubmitBody): Promise<models.EstimateBody> {
    return this.call({ method: "POST", path: "/tasks/estimate", body });
  }

  /** A task with its nodes and results. Needs `task.read`. */
  getTask(taskId: string): Promise<models.TaskViewBody> {
    return this.call({ method: "GET", path: `/tasks/${pathPart(taskId)}` });
  }

  /** Cancel a task. Delivered results are charged, other points released. Another user's task needs task.manage. Needs `task.cancel`. */
  cancelTask(taskId: string): Promise<models.TaskIdBody> {
    return this.call({ method: "POST", path: `/tasks/${pathPart(taskId)}/cancel` });
  }

  /** Delete a result of an ended task. Another user's task needs task.manage. Needs `task.submit`. */
  deleteResult(taskId: string, name: string): Promise<void> {
    return this.call({ method: "DELETE", path: `/tasks/${pathPart(taskId)}/results/${pathPart(name)}` });
  }

  /** Run the nodes of a failed or partial task that did not complete. Another user's task needs task.manage. Needs `task.submit`. */
  retryTask(taskId: string): Promise<models.TaskIdBody> {
    return this.call({ method: "POST", path: `/tasks/${pathPart(taskId)}/retry` });
  }

  /** Why each node that has not ended waits, and for how long. Needs `task.read`. */
  explainTask(taskId: string): Promise<models.WhyBody> {
    return this.call({ method: "GET", path: `/tasks/${pathPart(taskId)}/why` });
  }

  /** The caller's tenant. Needs `user.manage`. */
  getTenant(): Promise<models.OrganisationBody> {
    return this.call({ method: "GET", path: "/tenant" });
  }

  /** Change the given fields of the caller's tenant. A limit acts within seconds on nodes that wait. Needs `user.manage`. */
  changeOwnTenant(body: models.OrganisationChangeBody): Promise<models.OrganisationBody> {
    return this.call({ method: "PATCH", path: "/tenant", body });
  }

  /** All tenants and their limits. Needs `tenant.manage`. */
  listTenants(query: { q?: string | null; cursor?: string | null; limit?: number } = {}): Promise<models.TenantsBody> {
    return this.call({ method: "GET", path: "/tenants", query });
  }

  /** Create a tenant, and its first user if one is given. Needs `tenant.manage`. */
  createTenant(body: models.NewTenantBody): Promise<models.TenantBody> {
    return this.call({ method: "POST", path: "/tenants", body });
  }

  /** Change the given fields. An override set to null falls back to the tier. Takes effect within a minute. Needs `tenant.manage`. */
  changeTenant(tenantId: string, body: models.TenantChangeBody): Promise<models.TenantBody> {
    return this.call({ method: "PATCH", path: `/tenants/${pathPart(tenantId)}`, body });
  }

  /** The orders of a tenant, newest first, with what was refunded. Needs `tenant.manage`. */
  listTenantOrders(tenantId: string, query: { cursor?: string | null; limit?: number } = {}): Promise<models.TenantOrdersBody> {
    return this.call({ method: "GET", path: `/tenants/${pathPart(tenantId)}/orders`, query });
  }

  /** The users of a tenant with their points, to whom `POST /points/grants` can give. Needs `tenant.manage`. */
  listTenantUsers(tenantId: string, query: { cursor?: string | null; limit?: number } = {}): Promise<models.TenantUsersBody> {
    return this.call({ method: "GET", path: `/tenants/${pathPart(tenantId)}/users`, query });
  }

  /** The tools of the catalogue. */
  listTools(query: { cursor?: string | null; limit?: number } = {}): Promise<models.ToolsBody> {
    return this.call({ method: "GET", path: "/tools", query });
  }

  /** Permission to upload one picture directly to S3. Needs `task.submit`. */
  createUpload(body: models.UploadBody): Promise<models.TicketBody> {
    return this.call({ method: "POST", path: "/uploads", body });
  }

  /** Tasks, texts and points by day, tool and person, at most 92 days. With `user.manage` of the whole tenant. Needs `points.read`. */
  listUsage(query: { from?: string | null; to?: string | null; groupBy?: string; userId?: string | null; timeZone?: string; cursor?: string | null; limit?: number } = {}): Promise<models.UsageBody> {
    return this.call({ method: "GET", path: "/usage", query });
  }

  /** The users of the tenant. Needs `user.manage`. */
  listUsers(query: { cursor?: string | null; limit?: number } = {}): Promise<models.UsersBody> {
    return this.call({ method: "GET", path: "/users", query });
  }

  /** Add a user with roles. Needs `user.manage`. */
  inviteUser(body: models.InviteBody): Promise<models.UserBody> {
    return this.call({ method: "POST", path: "/users", body });
  }

  /** Disable a user. The user's data stays. Needs `user.manage`. */
  disableUser(userId: string): Promise<void> {
    return this.call({ method: "DELETE", path: `/users/${pathPart(userId)}` });
  }

  /** Set a user's roles or own concurrency, disable or enable the user. Needs `user.manage`. */
  changeUser(userId: string, body: models.UserChangeBody): Promise<models.UserBody> {
    return this.call({ method: "PATCH", path: `/users/${pathPart(userId)}`, body });
  }

  /** The logins of a user of the tenant, newest first. Needs `user.manage`. */
  listLogins(userId: string, query: { cursor?: string | null; limit?: number } = {}): Promise<models.SeenLoginsBody> {
    return this.call({ method: "GET", path: `/users/${pathPart(userId)}/logins`, query });
  }

  /** The addresses that are called when a task has ended. Needs `webhook.manage`. */
  listWebhooks(query: { cursor?: string | null; limit?: number } = {}): Promise<models.WebhooksBody> {
    return this.call({ method: "GET", path: "/webhooks", query });
  }

  /** Send every ended task to an address. A known address gets a new secret. A tenant has 20 at most, by default. Needs `webhook.manage`. */
  createWebhook(body: models.NewWebhookBody): Promise<models.CreatedWebhookBody> {
    return this.call({ method: "POST", path: "/webhooks", body });
  }

  /** Stop calling this address. Needs `webhook.manage`. */
  deleteWebhook(webhookId: string): Promise<void> {
    return this.call({ method: "DELETE", path: `/webhooks/${pathPart(webhookId)}` });
  }

  /** The deliveries to an address, with its answers. Needs `webhook.manage`. */
  listDeliveries(webhookId: string, query: { cursor?: string | null; limit?: number } = {}): Promise<models.DeliveriesBody> {
    return this.call({ method: "GET", path: `/webhooks/${pathPart(webhookId)}/deliveries`, query });
  }

  /** Send it again, starting with the first attempt. Needs `webhook.manage`. */
  redeliver(webhookId: string, deliveryId: string): Promise<Record<string, string>> {
    return this.call({ method: "POST", path: `/webhooks/${pathPart(webhookId)}/deliveries/${pathPart(deliveryId)}/redeliver` });
  }

  /** Send an event of type `webhook.test`, signed and retried as any other. Its delivery is in the log. Needs `webhook.manage`. */
  sendTest(webhookId: string): Promise<Record<string, string>> {
    return this.call({ method: "POST", path: `/webhooks/${pathPart(webhookId)}/test` });
  }
}
