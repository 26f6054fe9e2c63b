"""Generated from the OpenAPI document by `make clients`. Do not edit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, cast

from artiway_client.core import Call, path_part

if TYPE_CHECKING:
    from artiway_client import models


class Operations(ABC):
    """One method per operation of the API; a body is a dict as the API takes it."""

    @abstractmethod
    def call(self, call: Call) -> Any:
        """Send a call, with retries, and return the parsed answer."""

    def list_api_keys(self, *, cursor: str | None = None, limit: int | None = None) -> models.KeysBody:
        """The caller's keys; with `user.manage` those of the tenant; for a key, itself and the keys that it made.
        """
        return cast("models.KeysBody", self.call(Call("GET", "/api-keys", query={"cursor": cursor, "limit": limit})))

    def create_api_key(self, body: models.NewKeyBody) -> models.KeyMadeBody:
        """Create an API key with at most the caller's permissions. A key made by a key cannot make keys."""
        return cast("models.KeyMadeBody", self.call(Call("POST", "/api-keys", body=body)))

    def delete_api_key(self, key_id: str) -> None:
        """Delete a key and the keys that it made. They stop working within a minute."""
        self.call(Call("DELETE", f"/api-keys/{path_part(key_id)}"))

    def accept_invitation(self, body: models.AcceptBody) -> models.TokensBody:
        """Accept an invitation by the link in the mail: set a password and log in."""
        return cast("models.TokensBody", self.call(Call("POST", "/auth/invitations/accept", body=body)))

    def look_at_invitation(self, body: models.LinkBody) -> models.InvitedBody:
        """Who invites whom, for the page that the link in the mail opens. Changes nothing."""
        return cast("models.InvitedBody", self.call(Call("POST", "/auth/invitations/look", body=body)))

    def log_in(self, body: models.LoginBody) -> models.TokensBody:
        """Log in with e-mail or phone and password."""
        return cast("models.TokensBody", self.call(Call("POST", "/auth/login", body=body)))

    def log_out(self) -> None:
        """End this session: refresh at once, access within a minute."""
        self.call(Call("POST", "/auth/logout"))

    def forget_password(self, body: models.ForgotBody) -> models.ForgottenBody:
        """Send a link to reset the password, valid once for 30 minutes. The answer is the same for an unknown
        login.
        """
        return cast("models.ForgottenBody", self.call(Call("POST", "/auth/password/forgot", body=body)))

    def reset_password(self, body: models.ResetBody) -> None:
        """Set a password by the link in the mail. All sessions of the user end."""
        self.call(Call("POST", "/auth/password/reset", body=body))

    def refresh(self, body: models.RefreshBody) -> models.TokensBody:
        """A new pair of tokens for an unused refresh token. Reuse ends the session."""
        return cast("models.TokensBody", self.call(Call("POST", "/auth/refresh", body=body)))

    def register(self, body: models.RegisterBody) -> models.TokensBody:
        """Create a tenant and its owner, and log the owner in."""
        return cast("models.TokensBody", self.call(Call("POST", "/auth/register", body=body)))

    def log_in_by_wechat(self, body: models.WechatBody) -> models.WechatTokensBody:
        """Log in with a code of the mini program or of the web's OAuth. The first login creates an account."""
        return cast("models.WechatTokensBody", self.call(Call("POST", "/auth/wechat", body=body)))

    def list_backfills(
        self,
        *,
        job_id: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.BackfillsBody:
        """The tenant's backfills, newest first. Needs `job.run`."""
        return cast("models.BackfillsBody", self.call(Call("GET", "/backfills", query={"jobId": job_id, "cursor": cursor, "limit": limit})))

    def get_backfill(self, backfill_id: str) -> models.BackfillBody:
        """How far a backfill is. Needs `job.run`."""
        return cast("models.BackfillBody", self.call(Call("GET", f"/backfills/{path_part(backfill_id)}")))

    def cancel_backfill(self, backfill_id: str) -> models.BackfillBody:
        """Stop a backfill: runs that have not begun leave, a run that is under way ends as usual. Needs `job.run`.
        """
        return cast("models.BackfillBody", self.call(Call("DELETE", f"/backfills/{path_part(backfill_id)}")))

    def list_dictionaries(self) -> models.DictionariesBody:
        """The labels of every type at once, for a client that shows pages."""
        return cast("models.DictionariesBody", self.call(Call("GET", "/dictionaries")))

    def list_labels(self, type: str, *, cursor: str | None = None, limit: int | None = None) -> models.LabelsBody:
        """Labels in Chinese and English: tools, steps, lanes, states, error codes, presets."""
        return cast("models.LabelsBody", self.call(Call("GET", f"/dictionaries/{path_part(type)}", query={"cursor": cursor, "limit": limit})))

    def submit_flow(self, body: models.FlowBody, *, idempotency_key: str | None = None) -> models.AcceptedBody:
        """Submit a DAG of the caller's own nodes. Needs `task.submit`."""
        return cast("models.AcceptedBody", self.call(Call("POST", "/flows", body=body, is_keyed=True, key=idempotency_key)))

    def list_generations(
        self,
        *,
        user_id: str | None = None,
        status: Literal["PENDING_OCR", "QUEUED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"] | None = None,
        service: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.GenerationsBody:
        """The tenant's generations, newest first. Needs `task.read`."""
        return cast("models.GenerationsBody", self.call(Call("GET", "/generations", query={"userId": user_id, "status": status, "service": service, "from": from_, "to": to, "cursor": cursor, "limit": limit})))

    def submit_generation(
        self,
        body: models.GenerationRequestBody,
        *,
        idempotency_key: str | None = None,
    ) -> models.AcceptedGenerationBody:
        """Submit a text. Points for the longest text are held now, and those that it used are charged at its end.
        Needs `task.submit`.
        """
        return cast("models.AcceptedGenerationBody", self.call(Call("POST", "/generations", body=body, is_keyed=True, key=idempotency_key)))

    def get_generation(self, generation_id: str) -> models.GenerationBody:
        """A generation with its text so far. Needs `task.read`."""
        return cast("models.GenerationBody", self.call(Call("GET", f"/generations/{path_part(generation_id)}")))

    def cancel_generation(self, generation_id: str) -> models.GenerationStatusBody:
        """Stop a text. What was delivered is charged, the rest of the points is released. Needs `task.cancel`."""
        return cast("models.GenerationStatusBody", self.call(Call("POST", f"/generations/{path_part(generation_id)}/cancel")))

    def get_health(self) -> models.HealthBody:
        """Whether PostgreSQL and Redis answer."""
        return cast("models.HealthBody", self.call(Call("GET", "/health")))

    def list_invitations(self, *, cursor: str | None = None, limit: int | None = None) -> models.InvitationsBody:
        """The tenant's invitations, newest first. Needs `user.manage`."""
        return cast("models.InvitationsBody", self.call(Call("GET", "/invitations", query={"cursor": cursor, "limit": limit})))

    def send_invitation(self, body: models.NewInvitationBody) -> models.InvitationBody:
        """Send a link to a new user of the tenant, who sets a password. It is valid once, for 30 minutes. Needs
        `user.manage`.
        """
        return cast("models.InvitationBody", self.call(Call("POST", "/invitations", body=body)))

    def revoke_invitation(self, invitation_id: str) -> None:
        """End an invitation that was not accepted. Needs `user.manage`."""
        self.call(Call("DELETE", f"/invitations/{path_part(invitation_id)}"))

    def resend_invitation(self, invitation_id: str) -> models.InvitationBody:
        """Send a new link. The one before ends at once. Needs `user.manage`."""
        return cast("models.InvitationBody", self.call(Call("POST", f"/invitations/{path_part(invitation_id)}/resend")))

    def list_jobs(
        self,
        *,
        status: Literal["ACTIVE", "PAUSED", "COMPLETED"] | None = None,
        name: str | None = None,
        tenant_id: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.JobsBody:
        """The tenant's jobs, newest first. Needs `job.read`."""
        return cast("models.JobsBody", self.call(Call("GET", "/jobs", query={"status": status, "name": name, "tenantId": tenant_id, "cursor": cursor, "limit": limit})))

    def create_job(self, body: models.NewJobBody, *, idempotency_key: str | None = None) -> models.CreatedJobBody:
        """Create a job. Its first fires are in the answer; nothing is stored if a field is refused. Needs
        `job.write`.
        """
        return cast("models.CreatedJobBody", self.call(Call("POST", "/jobs", body=body, is_keyed=True, key=idempotency_key)))

    def export_jobs(
        self,
        *,
        format: Literal["json", "yaml"] | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> dict[str, Any] | str:
        """The tenant's jobs as one file that the import takes. Needs `job.write`."""
        return cast("dict[str, Any] | str", self.call(Call("GET", "/jobs/export", query={"format": format, "cursor": cursor, "limit": limit})))

    def import_jobs(
        self,
        body: dict[str, Any] | str,
        *,
        dry_run: bool | None = None,
        idempotency_key: str | None = None,
    ) -> models.ImportedBody:
        """Create and change jobs as a file says: all or none. Matched by jobId, else by name; others stay. Needs
        `job.write`.
        """
        return cast("models.ImportedBody", self.call(Call("POST", "/jobs/import", query={"dryRun": dry_run}, body=body, is_keyed=True, key=idempotency_key)))

    def preview_schedule(self, body: models.PreviewBody) -> models.PreviewedBody:
        """The next fires of a schedule, and the schedule in words. Changes nothing. Needs `job.write`."""
        return cast("models.PreviewedBody", self.call(Call("POST", "/jobs/preview", body=body)))

    def rotate_signing_secret(self) -> models.SigningSecretBody:
        """A new secret that signs the calls of the tenant's jobs. The earlier one signs too for a day. Needs
        `job.write`.
        """
        return cast("models.SigningSecretBody", self.call(Call("POST", "/jobs/signing-secret")))

    def get_job(self, job_id: str, *, tenant_id: str | None = None) -> models.JobBody:
        """A job with its next fires. Needs `job.read`."""
        return cast("models.JobBody", self.call(Call("GET", f"/jobs/{path_part(job_id)}", query={"tenantId": tenant_id})))

    def delete_job(self, job_id: str) -> None:
        """Delete a job. Its runs stay; one that has begun ends as usual. Needs `job.write`."""
        self.call(Call("DELETE", f"/jobs/{path_part(job_id)}"))

    def change_job(self, job_id: str, body: models.JobChangeBody) -> models.JobBody:
        """Change the given fields. Runs that were created ahead of their time follow the new definition. Needs
        `job.write`.
        """
        return cast("models.JobBody", self.call(Call("PATCH", f"/jobs/{path_part(job_id)}", body=body)))

    def start_backfill(
        self,
        job_id: str,
        body: models.BackfillRangeBody,
        *,
        idempotency_key: str | None = None,
    ) -> models.AcceptedBackfillBody:
        """Run a job for the past times of a range that have no run, and for those that `reprocess` names. Needs
        `job.run`.
        """
        return cast("models.AcceptedBackfillBody", self.call(Call("POST", f"/jobs/{path_part(job_id)}/backfill", body=body, is_keyed=True, key=idempotency_key)))

    def list_fires(
        self,
        job_id: str,
        *,
        from_: str | None = None,
        to: str | None = None,
        tenant_id: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.ReportedFiresBody:
        """Each nominal fire of a range and what became of it, oldest first. Needs `job.read`."""
        return cast("models.ReportedFiresBody", self.call(Call("GET", f"/jobs/{path_part(job_id)}/fires", query={"from": from_, "to": to, "tenantId": tenant_id, "cursor": cursor, "limit": limit})))

    def pause_job(self, job_id: str, body: models.NoteBody | None = None) -> models.JobBody:
        """No fire makes a run until the job is resumed. Runs that have begun go on. Needs `job.ops`."""
        return cast("models.JobBody", self.call(Call("POST", f"/jobs/{path_part(job_id)}/pause", body=body)))

    def replay_range(self, job_id: str, body: models.ReplayRangeBody) -> models.ReplayedBody:
        """Replay the runs of a job whose scheduled time is in a range: the failed ones, if no state is given. Needs
        `job.ops`.
        """
        return cast("models.ReplayedBody", self.call(Call("POST", f"/jobs/{path_part(job_id)}/replay", body=body)))

    def resume_job(self, job_id: str, body: models.ResumeBody | None = None) -> models.JobBody:
        """The next fire is the first one from now on. `catchUp` makes up for fires of the pause. Needs `job.ops`.
        """
        return cast("models.JobBody", self.call(Call("POST", f"/jobs/{path_part(job_id)}/resume", body=body)))

    def trigger_job(self, job_id: str, *, idempotency_key: str | None = None) -> models.RunIdBody:
        """Start a run now. Over the tenant's rate: 429 SCHED_429_TENANT_THROTTLED. Needs `job.run`."""
        return cast("models.RunIdBody", self.call(Call("POST", f"/jobs/{path_part(job_id)}/trigger", is_keyed=True, key=idempotency_key)))

    def get_me(self) -> models.MeBody:
        """The caller's profile and permissions."""
        return cast("models.MeBody", self.call(Call("GET", "/me")))

    def change_me(self, body: models.MeChangeBody) -> models.MeBody:
        """Change the caller's name, language and notices."""
        return cast("models.MeBody", self.call(Call("PATCH", "/me", body=body)))

    def list_own_logins(self, *, cursor: str | None = None, limit: int | None = None) -> models.SeenLoginsBody:
        """The caller's logins with time, address and place, newest first."""
        return cast("models.SeenLoginsBody", self.call(Call("GET", "/me/logins", query={"cursor": cursor, "limit": limit})))

    def change_password(self, body: models.OwnPasswordBody) -> None:
        """Change the caller's password. All other sessions of the user end."""
        self.call(Call("POST", "/me/password", body=body))

    def get_openapi(self) -> dict[str, Any]:
        """This document."""
        return cast("dict[str, Any]", self.call(Call("GET", "/openapi.json")))

    def list_audit(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.AuditsBody:
        """The audit log of all tenants, newest first. Entries are kept for 180 days. Needs `ops.read`."""
        return cast("models.AuditsBody", self.call(Call("GET", "/ops/audit", query={"actor": actor, "action": action, "target": target, "from": from_, "to": to, "cursor": cursor, "limit": limit})))

    def list_caches(self, *, cursor: str | None = None, limit: int | None = None) -> models.CachesBody:
        """Hit rate, size and latency of each cache, over all processes. Needs `ops.read`."""
        return cast("models.CachesBody", self.call(Call("GET", "/ops/cache", query={"cursor": cursor, "limit": limit})))

    def delete_cached(self, *, prefix: str) -> models.CacheDeletedBody:
        """Drop the cached values whose key begins so, at most 100,000. They are loaded again when they are read.
        Needs `ops.write`.
        """
        return cast("models.CacheDeletedBody", self.call(Call("DELETE", "/ops/cache", query={"prefix": prefix})))

    def refresh_cache(self, body: models.CacheRefreshBody) -> models.CacheRefreshedBody:
        """Load the values of a cache again from their source. Needs `ops.write`."""
        return cast("models.CacheRefreshedBody", self.call(Call("POST", "/ops/cache/refresh", body=body)))

    def list_decisions(
        self,
        *,
        pool: Literal["gpu", "enterprise"] | None = None,
        tenant_id: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.DecisionsBody:
        """The last 1,000 choices of the fair queue, newest first: the chosen tenant, the runner-up and the reason.
        Needs `ops.read`.
        """
        return cast("models.DecisionsBody", self.call(Call("GET", "/ops/decisions", query={"pool": pool, "tenantId": tenant_id, "cursor": cursor, "limit": limit})))

    def list_dead_queues(self, *, cursor: str | None = None, limit: int | None = None) -> models.DeadQueuesBody:
        """How many messages each dead-letter queue holds, and in `runs` how many runs failed for good. Needs
        `ops.read`.
        """
        return cast("models.DeadQueuesBody", self.call(Call("GET", "/ops/dlq", query={"cursor": cursor, "limit": limit})))

    def list_dead_letters(
        self,
        queue: str,
        *,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.DeadLettersBody:
        """The messages of a dead-letter queue; of `runs` the runs, whose ids are the messages' ids. Needs
        `ops.read`.
        """
        return cast("models.DeadLettersBody", self.call(Call("GET", f"/ops/dlq/{path_part(queue)}", query={"cursor": cursor, "limit": limit})))

    def discard_dead_letters(self, queue: str, body: models.DiscardBody) -> models.MovedBody:
        """Delete messages. A run stays FAILED, and leaves the dead letters. The reason is stored in the audit log.
        Needs `ops.write`.
        """
        return cast("models.MovedBody", self.call(Call("POST", f"/ops/dlq/{path_part(queue)}/discard", body=body)))

    def replay_dead_letters(self, queue: str, body: models.ReplayBody) -> models.MovedBody:
        """Send messages back to the queue where they failed; start runs again. Needs `ops.write`."""
        return cast("models.MovedBody", self.call(Call("POST", f"/ops/dlq/{path_part(queue)}/replay", body=body)))

    def get_fairness(
        self,
        *,
        window_seconds: int | None = None,
        pool: Literal["gpu", "enterprise"] | None = None,
    ) -> models.FairnessBody:
        """Share of the GPUs against weight, and the worst pair against the bound. Needs `ops.read`."""
        return cast("models.FairnessBody", self.call(Call("GET", "/ops/fairness", query={"windowSeconds": window_seconds, "pool": pool})))

    def operations_list_generations(
        self,
        *,
        tenant_id: str | None = None,
        user_id: str | None = None,
        status: Literal["PENDING_OCR", "QUEUED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"] | None = None,
        service: str | None = None,
        lane: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.OpsGenerationsBody:
        """Texts of all tenants, newest first. The texts themselves are not shown. Needs `ops.read`."""
        return cast("models.OpsGenerationsBody", self.call(Call("GET", "/ops/generations", query={"tenantId": tenant_id, "userId": user_id, "status": status, "service": service, "lane": lane, "from": from_, "to": to, "cursor": cursor, "limit": limit})))

    def cancel_generations(self, body: models.GenerationIdsBody) -> models.HandledGenerationsBody:
        """Stop texts of any tenant. What was delivered is charged. Needs `ops.write`."""
        return cast("models.HandledGenerationsBody", self.call(Call("POST", "/ops/generations/cancel", body=body)))

    def retry_generations(self, body: models.GenerationIdsBody) -> models.HandledGenerationsBody:
        """Submit failed texts again, each as a new generation of its user. One that cannot be retried has an error
        code. Needs `ops.write`.
        """
        return cast("models.HandledGenerationsBody", self.call(Call("POST", "/ops/generations/retry", body=body)))

    def get_guard(self) -> models.GuardBody:
        """Whether the platform is degraded, and the readings behind that. Needs `ops.read`."""
        return cast("models.GuardBody", self.call(Call("GET", "/ops/health")))

    def get_invariants(self, *, full: bool | None = None) -> models.InvariantsBody:
        """The invariants over all tenants: of the rows that changed since the last check, or of every row. Needs
        `ops.read`.
        """
        return cast("models.InvariantsBody", self.call(Call("GET", "/ops/invariants", query={"full": full})))

    def list_lanes(self, *, cursor: str | None = None, limit: int | None = None) -> models.LanesBody:
        """Every lane: waiting nodes or runs, running ones, its settings. Needs `ops.read`."""
        return cast("models.LanesBody", self.call(Call("GET", "/ops/lanes", query={"cursor": cursor, "limit": limit})))

    def change_lane(self, lane: str, body: models.LaneChangeBody) -> models.LaneBody:
        """Change parallelism, share or limit at once, without a deployment. A null restores the default. Needs
        `ops.write`.
        """
        return cast("models.LaneBody", self.call(Call("PATCH", f"/ops/lanes/{path_part(lane)}", body=body)))

    def pause_lane(self, lane: str, body: models.PauseBody | None = None) -> models.LaneBody:
        """Pause dispatch from this lane. It accepts nodes up to its limit. The audit log keeps the reason. Needs
        `ops.write`.
        """
        return cast("models.LaneBody", self.call(Call("POST", f"/ops/lanes/{path_part(lane)}/pause", body=body)))

    def resume_lane(self, lane: str) -> models.LaneBody:
        """Resume dispatch from this lane. Needs `ops.write`."""
        return cast("models.LaneBody", self.call(Call("POST", f"/ops/lanes/{path_part(lane)}/resume")))

    def list_margins(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        group_by: str | None = None,
        tenant_id: str | None = None,
        service: str | None = None,
        model: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.MarginsBody:
        """Cost of providers against points charged for texts, at most 92 days. `total` is of all lines. Needs
        `ops.read`.
        """
        return cast("models.MarginsBody", self.call(Call("GET", "/ops/margins", query={"from": from_, "to": to, "groupBy": group_by, "tenantId": tenant_id, "service": service, "model": model, "cursor": cursor, "limit": limit})))

    def get_metrics(self) -> str:
        """The newest closed minute of all series as OpenMetrics text, for Prometheus. Needs `ops.read`."""
        return cast("str", self.call(Call("GET", "/ops/metrics")))

    def list_models(self, *, cursor: str | None = None, limit: int | None = None) -> models.ModelsBody:
        """The models of the catalogue and of texts: limits, running and waiting nodes or texts. Needs `ops.read`.
        """
        return cast("models.ModelsBody", self.call(Call("GET", "/ops/models", query={"cursor": cursor, "limit": limit})))

    def limit_model(self, model: str, body: models.ModelLimitBody) -> models.ModelBody:
        """Set how many nodes in each pool, or texts, of a model may run at once. Those that run are not stopped.
        Needs `ops.write`.
        """
        return cast("models.ModelBody", self.call(Call("PUT", f"/ops/models/{path_part(model)}", body=body)))

    def list_reconciliations(self, *, cursor: str | None = None, limit: int | None = None) -> models.BillDaysBody:
        """Days whose bill was compared with our orders, newest first. Needs `ops.read`."""
        return cast("models.BillDaysBody", self.call(Call("GET", "/ops/reconciliations", query={"cursor": cursor, "limit": limit})))

    def get_reconciliation(
        self,
        day: str,
        *,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.BillDayViewBody:
        """One day: the differences that were found, and their resolution. Needs `ops.read`."""
        return cast("models.BillDayViewBody", self.call(Call("GET", f"/ops/reconciliations/{path_part(day)}", query={"cursor": cursor, "limit": limit})))

    def search_runs(
        self,
        *,
        tenant_id: str | None = None,
        job_id: str | None = None,
        state: models.RunState | None = None,
        kind: models.RunKind | None = None,
        dead_letter: bool | None = None,
        from_: str | None = None,
        to: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.OpsRunsBody:
        """Runs of all tenants, the newest scheduled time first. Needs `ops.read`."""
        return cast("models.OpsRunsBody", self.call(Call("GET", "/ops/runs", query={"tenantId": tenant_id, "jobId": job_id, "state": state, "kind": kind, "deadLetter": dead_letter, "from": from_, "to": to, "cursor": cursor, "limit": limit})))

    def cancel_runs(self, body: models.IdsBody) -> models.ChangedBody:
        """Terminate runs that have not ended. Needs `ops.write`."""
        return cast("models.ChangedBody", self.call(Call("POST", "/ops/runs/cancel", body=body)))

    def retry_runs(self, body: models.IdsBody) -> models.ChangedBody:
        """Replay runs that have ended. Needs `ops.write`."""
        return cast("models.ChangedBody", self.call(Call("POST", "/ops/runs/retry", body=body)))

    def get_scheduler(self) -> models.SchedulerBody:
        """The virtual clocks of the pools and their tenants. Needs `ops.read`."""
        return cast("models.SchedulerBody", self.call(Call("GET", "/ops/scheduler")))

    def get_series(
        self,
        *,
        name: Literal["throughput", "waiting", "running", "wait_p50", "wait_p95", "failures", "utilisation", "share", "dead_letters", "node_duration_p95", "requests", "server_errors", "availability", "wait_within_target", "burn_rate", "error_budget", "trigger_latency_p50", "trigger_latency_p95", "runs_on_time", "run_backlog", "runs_ended", "run_failures", "tokens_per_second", "first_token_p95"],
        from_: str | None = None,
        to: str | None = None,
        step: int | None = None,
    ) -> models.SeriesBody:
        """Minute aggregates of a series, merged over steps. A range has at most 720 steps. Needs `ops.read`."""
        return cast("models.SeriesBody", self.call(Call("GET", "/ops/series", query={"name": name, "from": from_, "to": to, "step": step})))

    def list_settings(self, *, cursor: str | None = None, limit: int | None = None) -> models.SettingsBody:
        """Every setting by key: its value, default and bounds. Needs `ops.read`."""
        return cast("models.SettingsBody", self.call(Call("GET", "/ops/settings", query={"cursor": cursor, "limit": limit})))

    def change_setting(self, key: str, body: models.SettingChangeBody) -> models.SettingBody:
        """Change a setting. All processes use the new value within a minute, usually within two seconds. Needs
        `ops.write`.
        """
        return cast("models.SettingBody", self.call(Call("PUT", f"/ops/settings/{path_part(key)}", body=body)))

    def restore_setting(self, key: str) -> models.SettingBody:
        """Restore the default of a setting. Needs `ops.write`."""
        return cast("models.SettingBody", self.call(Call("DELETE", f"/ops/settings/{path_part(key)}")))

    def simulate(self, body: models.SimulateBody) -> models.SimulationBody:
        """Replay the last arrivals with other weights, caps or workers. Production does not change. Needs
        `ops.read`.
        """
        return cast("models.SimulationBody", self.call(Call("POST", "/ops/simulate", body=body)))

    def search_tasks(
        self,
        *,
        q: str | None = None,
        tenant_id: str | None = None,
        user_id: str | None = None,
        status: Literal["QUEUED", "PROCESSING", "COMPLETED", "PARTIAL", "FAILED", "CANCELLED"] | None = None,
        tool: str | None = None,
        lane: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.OpsTasksBody:
        """Tasks of all tenants, newest first. A trace id is found in the tasks of the last seven days. Needs
        `ops.read`.
        """
        return cast("models.OpsTasksBody", self.call(Call("GET", "/ops/tasks", query={"q": q, "tenantId": tenant_id, "userId": user_id, "status": status, "tool": tool, "lane": lane, "from": from_, "to": to, "cursor": cursor, "limit": limit})))

    def cancel_tasks(self, body: models.TaskIdsBody) -> models.HandledTasksBody:
        """Cancel tasks of any tenant. Delivered results are charged, other points released. Needs `ops.write`."""
        return cast("models.HandledTasksBody", self.call(Call("POST", "/ops/tasks/cancel", body=body)))

    def retry_tasks(self, body: models.TaskIdsBody) -> models.HandledTasksBody:
        """Retry failed or partial tasks of any tenant, for their own users' points. Needs `ops.write`."""
        return cast("models.HandledTasksBody", self.call(Call("POST", "/ops/tasks/retry", body=body)))

    def get_task_history(self, any_task_id: str) -> models.OpsTaskViewBody:
        """A task of any tenant: nodes, attempts, workers, timeline, and why it waits. Pictures are not shown. Needs
        `ops.read`.
        """
        return cast("models.OpsTaskViewBody", self.call(Call("GET", f"/ops/tasks/{path_part(any_task_id)}")))

    def list_workers(self, *, cursor: str | None = None, limit: int | None = None) -> models.WorkersBody:
        """Workers that are alive. Needs `ops.read`."""
        return cast("models.WorkersBody", self.call(Call("GET", "/ops/workers", query={"cursor": cursor, "limit": limit})))

    def drain_worker(self, worker_id: str) -> models.WorkerBody:
        """The worker takes no new node, finishes or releases those that it holds, and ends. Needs `ops.write`."""
        return cast("models.WorkerBody", self.call(Call("POST", f"/ops/workers/{path_part(worker_id)}/drain")))

    def list_orders(self, *, cursor: str | None = None, limit: int | None = None) -> models.OrdersBody:
        """The caller's orders, newest first; with `order.refund` those of the tenant. Needs `order.create`."""
        return cast("models.OrdersBody", self.call(Call("GET", "/orders", query={"cursor": cursor, "limit": limit})))

    def create_order(self, body: models.NewOrderBody, *, idempotency_key: str | None = None) -> models.OrderBody:
        """Order a package. A repeated Idempotency-Key returns the same order with a valid code. Needs
        `order.create`.
        """
        return cast("models.OrderBody", self.call(Call("POST", "/orders", body=body, is_keyed=True, key=idempotency_key)))

    def get_order(self, order_id: str) -> models.OrderBody:
        """One order as it is stored. Needs `order.create`."""
        return cast("models.OrderBody", self.call(Call("GET", f"/orders/{path_part(order_id)}")))

    def check_order(self, order_id: str) -> models.OrderBody:
        """Query WeChat now, at most once in a few seconds. For the page that a payer returns to. Needs
        `order.create`.
        """
        return cast("models.OrderBody", self.call(Call("POST", f"/orders/{path_part(order_id)}/check")))

    def close_order(self, order_id: str) -> models.OrderBody:
        """Close an open order at WeChat and here. An order that was paid meanwhile is completed instead. Needs
        `order.create`.
        """
        return cast("models.OrderBody", self.call(Call("POST", f"/orders/{path_part(order_id)}/close")))

    def pay_order(self, order_id: str) -> models.OrderBody:
        """The payment code of an open order: the same while it is valid, then a new one. Needs `order.create`."""
        return cast("models.OrderBody", self.call(Call("POST", f"/orders/{path_part(order_id)}/pay")))

    def get_receipt(self, order_id: str) -> models.ReceiptBody:
        """What a receipt of a paid order shows. Needs `order.create`."""
        return cast("models.ReceiptBody", self.call(Call("GET", f"/orders/{path_part(order_id)}/receipt")))

    def refund_order(
        self,
        order_id: str,
        body: models.NewRefundBody,
        *,
        idempotency_key: str | None = None,
    ) -> models.RefundBody:
        """Refund an order in full or in part, if the points are not spent. Needs `order.refund`."""
        return cast("models.RefundBody", self.call(Call("POST", f"/orders/{path_part(order_id)}/refunds", body=body, is_keyed=True, key=idempotency_key)))

    def list_packages(self, *, cursor: str | None = None, limit: int | None = None) -> models.PackagesBody:
        """The packages of points."""
        return cast("models.PackagesBody", self.call(Call("GET", "/packages", query={"cursor": cursor, "limit": limit})))

    def get_points(self) -> models.AccountBody:
        """The caller's balance, and the points that are held for tasks. Needs `points.read`."""
        return cast("models.AccountBody", self.call(Call("GET", "/points")))

    def grant_points(self, body: models.GrantBody, *, idempotency_key: str | None = None) -> models.EntryBody:
        """Grant points to a user of any tenant. A campaign grants to each user once. Needs `points.grant`."""
        return cast("models.EntryBody", self.call(Call("POST", "/points/grants", body=body, is_keyed=True, key=idempotency_key)))

    def list_entries(
        self,
        *,
        kind: models.Kind | None = None,
        from_: str | None = None,
        to: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
        format: Literal["json", "csv"] | None = None,
    ) -> models.LedgerBody:
        """Every change of the caller's points, newest first. A CSV page has 10,000 lines and an X-Next-Cursor.
        Needs `points.read`.
        """
        return cast("models.LedgerBody", self.call(Call("GET", "/points/ledger", query={"kind": kind, "from": from_, "to": to, "cursor": cursor, "limit": limit, "format": format})))

    def transfer_points(self, body: models.TransferBody, *, idempotency_key: str | None = None) -> models.EntryBody:
        """Transfer points to another user of the tenant. Needs `points.transfer`."""
        return cast("models.EntryBody", self.call(Call("POST", "/points/transfers", body=body, is_keyed=True, key=idempotency_key)))

    def take_trial(self) -> models.EntryBody:
        """Trial points for a new tenant, once. A new tenant has none before it asks."""
        return cast("models.EntryBody", self.call(Call("POST", "/points/trial")))

    def list_refunds(
        self,
        *,
        order_id: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.RefundsBody:
        """Refunds of the caller's orders, newest first; with `order.refund` those of the tenant. Needs
        `order.create`.
        """
        return cast("models.RefundsBody", self.call(Call("GET", "/refunds", query={"orderId": order_id, "cursor": cursor, "limit": limit})))

    def list_roles(self, *, cursor: str | None = None, limit: int | None = None) -> models.RolesBody:
        """Built-in roles and the tenant's own. Needs `user.manage`."""
        return cast("models.RolesBody", self.call(Call("GET", "/roles", query={"cursor": cursor, "limit": limit})))

    def add_role(self, body: models.NewRoleBody) -> models.RoleBody:
        """Create a role of the tenant. Needs `user.manage`."""
        return cast("models.RoleBody", self.call(Call("POST", "/roles", body=body)))

    def change_role(self, name: str, body: models.RoleChangeBody) -> models.RoleBody:
        """Replace the permissions of a role of the tenant. Needs `user.manage`."""
        return cast("models.RoleBody", self.call(Call("PUT", f"/roles/{path_part(name)}", body=body)))

    def delete_role(self, name: str) -> None:
        """Delete a role that no user has. Needs `user.manage`."""
        self.call(Call("DELETE", f"/roles/{path_part(name)}"))

    def list_runs(
        self,
        *,
        job_id: str | None = None,
        state: models.RunState | None = None,
        kind: models.RunKind | None = None,
        dead_letter: bool | None = None,
        from_: str | None = None,
        to: str | None = None,
        tenant_id: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.RunsBody:
        """The tenant's runs, the newest scheduled time first. Needs `job.read`."""
        return cast("models.RunsBody", self.call(Call("GET", "/runs", query={"jobId": job_id, "state": state, "kind": kind, "deadLetter": dead_letter, "from": from_, "to": to, "tenantId": tenant_id, "cursor": cursor, "limit": limit})))

    def get_run(self, run_id: str, *, tenant_id: str | None = None) -> models.RunBody:
        """One firing of a job. Needs `job.read`."""
        return cast("models.RunBody", self.call(Call("GET", f"/runs/{path_part(run_id)}", query={"tenantId": tenant_id})))

    def list_log_lines(
        self,
        run_id: str,
        *,
        tenant_id: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.LogLinesBody:
        """The log of a run, oldest line first. Needs `job.read`."""
        return cast("models.LogLinesBody", self.call(Call("GET", f"/runs/{path_part(run_id)}/logs", query={"tenantId": tenant_id, "cursor": cursor, "limit": limit})))

    def replay_run(self, run_id: str) -> models.RunIdBody:
        """Start an ended run again, with a new idempotency key. Needs `job.ops`."""
        return cast("models.RunIdBody", self.call(Call("POST", f"/runs/{path_part(run_id)}/replay")))

    def terminate_run(self, run_id: str) -> models.RunIdBody:
        """End a run now. A task of it is cancelled; the result of a call that is under way changes nothing. Needs
        `job.ops`.
        """
        return cast("models.RunIdBody", self.call(Call("POST", f"/runs/{path_part(run_id)}/terminate")))

    def list_secrets(self, *, cursor: str | None = None, limit: int | None = None) -> models.SecretsBody:
        """Names and dates. No route shows a value. Needs `job.write`."""
        return cast("models.SecretsBody", self.call(Call("GET", "/secrets", query={"cursor": cursor, "limit": limit})))

    def put_secret(self, secret_name: str, body: models.SecretValueBody) -> models.SecretBody:
        """Store a value that jobs name as `secret:NAME`. Runs that start from now on use it. Needs `job.write`."""
        return cast("models.SecretBody", self.call(Call("PUT", f"/secrets/{path_part(secret_name)}", body=body)))

    def delete_secret(self, secret_name: str) -> None:
        """Delete a secret that no job names. Needs `job.write`."""
        self.call(Call("DELETE", f"/secrets/{path_part(secret_name)}"))

    def list_services(self, *, cursor: str | None = None, limit: int | None = None) -> models.ServicesBody:
        """The services that write texts, with the prices and limits in force."""
        return cast("models.ServicesBody", self.call(Call("GET", "/services", query={"cursor": cursor, "limit": limit})))

    def list_tasks(
        self,
        *,
        user_id: str | None = None,
        status: Literal["QUEUED", "PROCESSING", "COMPLETED", "PARTIAL", "FAILED", "CANCELLED"] | None = None,
        tool: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.TasksBody:
        """The tenant's tasks, newest first. Needs `task.read`."""
        return cast("models.TasksBody", self.call(Call("GET", "/tasks", query={"userId": user_id, "status": status, "tool": tool, "from": from_, "to": to, "cursor": cursor, "limit": limit})))

    def submit_task(self, body: models.SubmitBody, *, idempotency_key: str | None = None) -> models.AcceptedBody:
        """Submit a task. Its points are held now, and charged for delivered results. Needs `task.submit`."""
        return cast("models.AcceptedBody", self.call(Call("POST", "/tasks", body=body, is_keyed=True, key=idempotency_key)))

    def estimate_task(self, body: models.SubmitBody) -> models.EstimateBody:
        """The price and duration of a submission. Changes nothing. Needs `task.submit`."""
        return cast("models.EstimateBody", self.call(Call("POST", "/tasks/estimate", body=body)))

    def get_task(self, task_id: str) -> models.TaskViewBody:
        """A task with its nodes and results. Needs `task.read`."""
        return cast("models.TaskViewBody", self.call(Call("GET", f"/tasks/{path_part(task_id)}")))

    def cancel_task(self, task_id: str) -> models.TaskIdBody:
        """Cancel a task. Delivered results are charged, other points released. Another user's task needs
        task.manage. Needs `task.cancel`.
        """
        return cast("models.TaskIdBody", self.call(Call("POST", f"/tasks/{path_part(task_id)}/cancel")))

    def delete_result(self, task_id: str, name: str) -> None:
        """Delete a result of an ended task. Another user's task needs task.manage. Needs `task.submit`."""
        self.call(Call("DELETE", f"/tasks/{path_part(task_id)}/results/{path_part(name)}"))

    def retry_task(self, task_id: str) -> models.TaskIdBody:
        """Run the nodes of a failed or partial task that did not complete. Another user's task needs task.manage.
        Needs `task.submit`.
        """
        return cast("models.TaskIdBody", self.call(Call("POST", f"/tasks/{path_part(task_id)}/retry")))

    def explain_task(self, task_id: str) -> models.WhyBody:
        """Why each node that has not ended waits, and for how long. Needs `task.read`."""
        return cast("models.WhyBody", self.call(Call("GET", f"/tasks/{path_part(task_id)}/why")))

    def get_tenant(self) -> models.OrganisationBody:
        """The caller's tenant. Needs `user.manage`."""
        return cast("models.OrganisationBody", self.call(Call("GET", "/tenant")))

    def change_own_tenant(self, body: models.OrganisationChangeBody) -> models.OrganisationBody:
        """Change the given fields of the caller's tenant. A limit acts within seconds on nodes that wait. Needs
        `user.manage`.
        """
        return cast("models.OrganisationBody", self.call(Call("PATCH", "/tenant", body=body)))

    def list_tenants(
        self,
        *,
        q: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.TenantsBody:
        """All tenants and their limits. Needs `tenant.manage`."""
        return cast("models.TenantsBody", self.call(Call("GET", "/tenants", query={"q": q, "cursor": cursor, "limit": limit})))

    def create_tenant(self, body: models.NewTenantBody) -> models.TenantBody:
        """Create a tenant, and its first user if one is given. Needs `tenant.manage`."""
        return cast("models.TenantBody", self.call(Call("POST", "/tenants", body=body)))

    def change_tenant(self, tenant_id: str, body: models.TenantChangeBody) -> models.TenantBody:
        """Change the given fields. An override set to null falls back to the tier. Takes effect within a minute.
        Needs `tenant.manage`.
        """
        return cast("models.TenantBody", self.call(Call("PATCH", f"/tenants/{path_part(tenant_id)}", body=body)))

    def list_tenant_orders(
        self,
        tenant_id: str,
        *,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.TenantOrdersBody:
        """The orders of a tenant, newest first, with what was refunded. Needs `tenant.manage`."""
        return cast("models.TenantOrdersBody", self.call(Call("GET", f"/tenants/{path_part(tenant_id)}/orders", query={"cursor": cursor, "limit": limit})))

    def list_tenant_users(
        self,
        tenant_id: str,
        *,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.TenantUsersBody:
        """The users of a tenant with their points, to whom `POST /points/grants` can give. Needs `tenant.manage`.
        """
        return cast("models.TenantUsersBody", self.call(Call("GET", f"/tenants/{path_part(tenant_id)}/users", query={"cursor": cursor, "limit": limit})))

    def list_tools(self, *, cursor: str | None = None, limit: int | None = None) -> models.ToolsBody:
        """The tools of the catalogue."""
        return cast("models.ToolsBody", self.call(Call("GET", "/tools", query={"cursor": cursor, "limit": limit})))

    def create_upload(self, body: models.UploadBody) -> models.TicketBody:
        """Permission to upload one picture directly to S3. Needs `task.submit`."""
        return cast("models.TicketBody", self.call(Call("POST", "/uploads", body=body)))

    def list_usage(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        group_by: str | None = None,
        user_id: str | None = None,
        time_zone: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.UsageBody:
        """Tasks, texts and points by day, tool and person, at most 92 days. With `user.manage` of the whole tenant.
        Needs `points.read`.
        """
        return cast("models.UsageBody", self.call(Call("GET", "/usage", query={"from": from_, "to": to, "groupBy": group_by, "userId": user_id, "timeZone": time_zone, "cursor": cursor, "limit": limit})))

    def list_users(self, *, cursor: str | None = None, limit: int | None = None) -> models.UsersBody:
        """The users of the tenant. Needs `user.manage`."""
        return cast("models.UsersBody", self.call(Call("GET", "/users", query={"cursor": cursor, "limit": limit})))

    def invite_user(self, body: models.InviteBody) -> models.UserBody:
        """Add a user with roles. Needs `user.manage`."""
        return cast("models.UserBody", self.call(Call("POST", "/users", body=body)))

    def disable_user(self, user_id: str) -> None:
        """Disable a user. The user's data stays. Needs `user.manage`."""
        self.call(Call("DELETE", f"/users/{path_part(user_id)}"))

    def change_user(self, user_id: str, body: models.UserChangeBody) -> models.UserBody:
        """Set a user's roles or own concurrency, disable or enable the user. Needs `user.manage`."""
        return cast("models.UserBody", self.call(Call("PATCH", f"/users/{path_part(user_id)}", body=body)))

    def list_logins(
        self,
        user_id: str,
        *,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.SeenLoginsBody:
        """The logins of a user of the tenant, newest first. Needs `user.manage`."""
        return cast("models.SeenLoginsBody", self.call(Call("GET", f"/users/{path_part(user_id)}/logins", query={"cursor": cursor, "limit": limit})))

    def list_webhooks(self, *, cursor: str | None = None, limit: int | None = None) -> models.WebhooksBody:
        """The addresses that are called when a task has ended. Needs `webhook.manage`."""
        return cast("models.WebhooksBody", self.call(Call("GET", "/webhooks", query={"cursor": cursor, "limit": limit})))

    def create_webhook(self, body: models.NewWebhookBody) -> models.CreatedWebhookBody:
        """Send every ended task to an address. A known address gets a new secret. A tenant has 20 at most, by
        default. Needs `webhook.manage`.
        """
        return cast("models.CreatedWebhookBody", self.call(Call("POST", "/webhooks", body=body)))

    def delete_webhook(self, webhook_id: str) -> None:
        """Stop calling this address. Needs `webhook.manage`."""
        self.call(Call("DELETE", f"/webhooks/{path_part(webhook_id)}"))

    def list_deliveries(
        self,
        webhook_id: str,
        *,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.DeliveriesBody:
        """The deliveries to an address, with its answers. Needs `webhook.manage`."""
        return cast("models.DeliveriesBody", self.call(Call("GET", f"/webhooks/{path_part(webhook_id)}/deliveries", query={"cursor": cursor, "limit": limit})))

    def redeliver(self, webhook_id: str, delivery_id: str) -> dict[str, str]:
        """Send it again, starting with the first attempt. Needs `webhook.manage`."""
        return cast("dict[str, str]", self.call(Call("POST", f"/webhooks/{path_part(webhook_id)}/deliveries/{path_part(delivery_id)}/redeliver")))

    def send_test(self, webhook_id: str) -> dict[str, str]:
        """Send an event of type `webhook.test`, signed and retried as any other. Its delivery is in the log. Needs
        `webhook.manage`.
        """
        return cast("dict[str, str]", self.call(Call("POST", f"/webhooks/{path_part(webhook_id)}/test")))
