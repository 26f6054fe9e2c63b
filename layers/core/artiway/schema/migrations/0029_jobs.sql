-- Scheduled jobs: definitions, runs, the runs' logs and results, and the fires that made no run.

-- A job is a definition. `next_fire_at` is the next nominal time for which no run exists yet; NULL when there is none.
CREATE TABLE job (
    tenant_id          uuid NOT NULL,
    job_id             uuid NOT NULL,
    -- The user whose points pay for TASK and FLOW runs.
    user_id            uuid NOT NULL,
    name               text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    status             text NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'PAUSED', 'COMPLETED', 'DELETED')),
    -- Rises with each change of the definition or the status. A run keeps the version that made it.
    version            integer NOT NULL DEFAULT 1 CHECK (version > 0),
    schedule_type      text NOT NULL CHECK (schedule_type IN ('CRON', 'ONCE')),
    expr               text CHECK (length(expr) BETWEEN 1 AND 120),
    at                 timestamptz,
    timezone           text NOT NULL DEFAULT 'UTC' CHECK (length(timezone) BETWEEN 1 AND 64),
    -- The release of the time zone data that computed next_fire_at.
    tzdata_version     text NOT NULL CHECK (length(tzdata_version) BETWEEN 1 AND 20),
    jitter_s           integer NOT NULL DEFAULT 0 CHECK (jitter_s BETWEEN 0 AND 86400),
    starts_at          timestamptz,
    ends_at            timestamptz,
    next_fire_at       timestamptz,
    -- The newest nominal time that made a run or a note. No later pass goes back behind it.
    last_fire_at       timestamptz,
    task_type          text NOT NULL CHECK (task_type IN ('HTTP', 'TASK', 'FLOW')),
    task               jsonb NOT NULL CHECK (octet_length(task::text) <= 131072),
    priority           text NOT NULL CHECK (priority IN ('CRITICAL', 'HIGH', 'NORMAL', 'LOW')),
    max_attempts       integer NOT NULL CHECK (max_attempts BETWEEN 1 AND 100),
    base_delay_ms      integer NOT NULL CHECK (base_delay_ms BETWEEN 0 AND 86400000),
    max_delay_ms       integer NOT NULL CHECK (max_delay_ms BETWEEN 0 AND 86400000),
    concurrency_limit  integer NOT NULL CHECK (concurrency_limit BETWEEN 1 AND 10000),
    overlap_policy     text NOT NULL CHECK (overlap_policy IN ('ALLOW_ALL', 'SKIP', 'BUFFER_ONE', 'BUFFER_ALL', 'CANCEL_OTHER')),
    misfire_policy     text NOT NULL CHECK (misfire_policy IN ('FIRE_ONCE', 'FIRE_ALL', 'SKIP')),
    catchup_window_s   integer NOT NULL CHECK (catchup_window_s BETWEEN 0 AND 86400),
    timeout_s          integer NOT NULL CHECK (timeout_s BETWEEN 1 AND 86400),
    note               text CHECK (length(note) <= 500),
    paused_by          uuid,
    paused_at          timestamptz,
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, job_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES app_user,
    CHECK ((schedule_type = 'CRON') = (expr IS NOT NULL)),
    CHECK ((schedule_type = 'ONCE') = (at IS NOT NULL)),
    CHECK (next_fire_at IS NULL OR status = 'ACTIVE')
);
-- The trigger's pass reads this index alone.
CREATE INDEX job_next_fire ON job (next_fire_at, job_id) WHERE next_fire_at IS NOT NULL;
-- Jobs whose last run is created, but not due yet. They are complete once its time has passed.
CREATE INDEX job_ending ON job (last_fire_at) WHERE status = 'ACTIVE' AND next_fire_at IS NULL;
CREATE INDEX job_zone ON job (tzdata_version) WHERE status = 'ACTIVE';

ALTER TABLE job ENABLE ROW LEVEL SECURITY;
ALTER TABLE job FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON job TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON job TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE ON job TO artiway_app;
GRANT SELECT, UPDATE ON job TO artiway_service;

-- Every change of a definition: the schedule that was in force, since when, by whom. It explains past fires.
CREATE TABLE job_change (
    tenant_id uuid NOT NULL,
    job_id    uuid NOT NULL,
    version   integer NOT NULL,
    action    text NOT NULL CHECK (action IN ('created', 'updated', 'paused', 'resumed', 'deleted', 'completed')),
    actor_id  uuid,
    note      text,
    schedule  jsonb NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When the next change came into force. NULL: this is the present one, and it stays.
    superseded_at timestamptz,
    PRIMARY KEY (tenant_id, job_id, version),
    FOREIGN KEY (tenant_id, job_id) REFERENCES job
);
CREATE INDEX job_change_superseded ON job_change (superseded_at) WHERE superseded_at IS NOT NULL;
ALTER TABLE job_change ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_change FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON job_change TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON job_change TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE (superseded_at) ON job_change TO artiway_app, artiway_service;
GRANT DELETE ON job_change TO artiway_service;
CREATE POLICY old_rows ON job_change AS RESTRICTIVE FOR DELETE TO artiway_service
    USING (superseded_at < now() - interval '30 days');

-- A run is one firing of a job. One partition per UTC day of scheduled_at, made by job_partition_ensure.
-- The unique key keeps (job, scheduled time) single. `generation` rises with each replay, `attempt` with each start; both
-- fence results. `is_deferred`: due, but over a limit; it starts when there is room.
CREATE TABLE job_run (
    tenant_id     uuid NOT NULL,
    run_id        uuid NOT NULL,
    job_id        uuid NOT NULL,
    scheduled_at  timestamptz NOT NULL,
    -- scheduled_at and the job's slot of jitter or catch-up spreading: the time at which it should start.
    assigned_at   timestamptz NOT NULL,
    -- When it may start next: assigned_at, or later after a failed attempt or over a rate limit.
    due_at        timestamptz NOT NULL,
    -- When a message about it was last published; NULL for none since it became due at another time.
    hinted_at     timestamptz,
    kind          text NOT NULL CHECK (kind IN ('SCHEDULED', 'CATCHUP', 'MANUAL', 'BACKFILL')),
    state         text NOT NULL DEFAULT 'PENDING'
                  CHECK (state IN ('PENDING', 'RUNNING', 'RETRYING', 'SUCCESS', 'FAILED', 'TERMINATED')),
    task_type     text NOT NULL CHECK (task_type IN ('HTTP', 'TASK', 'FLOW')),
    lane          text NOT NULL CHECK (lane IN ('run_critical', 'run_high', 'run_normal', 'run_low')),
    job_version   integer NOT NULL,
    generation    integer NOT NULL DEFAULT 1 CHECK (generation > 0),
    attempt       integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    is_deferred   boolean NOT NULL DEFAULT false,
    defer_reason  text CHECK (length(defer_reason) <= 40),
    -- The first time that the dispatcher considered it, if it could not start then.
    deferred_at   timestamptz,
    -- The start of the current or last attempt.
    started_at    timestamptz,
    lease_until   timestamptz,
    ended_at      timestamptz,
    http_status   smallint,
    answer        text CHECK (length(answer) <= 4000),
    last_error    text CHECK (length(last_error) <= 1000),
    task_id       uuid,
    -- In the run dead letters since then.
    dead_at       timestamptz,
    trace_id      text NOT NULL DEFAULT '',
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, job_id, scheduled_at),
    CHECK ((state = 'RUNNING') = (lease_until IS NOT NULL)),
    CHECK ((ended_at IS NULL) = (state IN ('PENDING', 'RUNNING', 'RETRYING'))),
    CHECK (NOT is_deferred OR state IN ('PENDING', 'RETRYING') AND defer_reason IS NOT NULL)
) PARTITION BY RANGE (scheduled_at);
CREATE INDEX job_run_by_id ON job_run (run_id);
-- Waiting runs by the time at which they are due, and those that no message announced yet.
CREATE INDEX job_run_due ON job_run (due_at, run_id) WHERE state IN ('PENDING', 'RETRYING') AND NOT is_deferred;
CREATE INDEX job_run_unhinted ON job_run (due_at) WHERE state IN ('PENDING', 'RETRYING') AND NOT is_deferred AND hinted_at IS NULL;
-- Deferred runs: those that wait for a place of the tenant, the lane or the platform, and those that wait for their own job.
CREATE INDEX job_run_deferred ON job_run (tenant_id, lane, (task_type = 'HTTP'), due_at, run_id)
    WHERE is_deferred AND defer_reason NOT IN ('overlap', 'job_concurrency');
CREATE INDEX job_run_of_job ON job_run (tenant_id, job_id, due_at, run_id) WHERE is_deferred;
CREATE INDEX job_run_active ON job_run (tenant_id, job_id) WHERE state IN ('RUNNING', 'RETRYING');
CREATE INDEX job_run_lease ON job_run (lease_until, run_id) WHERE state = 'RUNNING';
CREATE INDEX job_run_dead ON job_run (dead_at, run_id) WHERE dead_at IS NOT NULL;
CREATE INDEX job_run_of_tenant ON job_run (tenant_id, run_id);
-- Minute aggregates find a minute by these. An update of a column that only BRIN indexes stays cheap.
CREATE INDEX job_run_started ON job_run USING brin (started_at) WITH (pages_per_range = 32);
CREATE INDEX job_run_ended ON job_run USING brin (ended_at) WITH (pages_per_range = 32);

ALTER TABLE job_run ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_run FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON job_run TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON job_run TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON job_run TO artiway_app, artiway_service;
-- A run that began stays. Only a run that no attempt has started yet may be deleted (pause, edit, skipped by overlap).
CREATE POLICY unstarted_rows ON job_run AS RESTRICTIVE FOR DELETE TO artiway_app, artiway_service
    USING (state = 'PENDING' AND attempt = 0 AND generation = 1);

-- Fires that made no run, and why. `fires` nominal times from first_at to last_at.
CREATE TABLE job_fire_note (
    tenant_id uuid NOT NULL,
    job_id    uuid NOT NULL,
    first_at  timestamptz NOT NULL,
    last_at   timestamptz NOT NULL,
    outcome   text NOT NULL CHECK (outcome IN ('SKIPPED_OVERLAP', 'MISFIRED', 'COALESCED', 'TENANT_SUSPENDED', 'CANCELLED_BY_EDIT')),
    fires     integer NOT NULL CHECK (fires > 0),
    reason    text NOT NULL CHECK (length(reason) <= 500),
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, job_id, first_at, outcome),
    FOREIGN KEY (tenant_id, job_id) REFERENCES job,
    CHECK (first_at <= last_at)
);
CREATE INDEX job_fire_note_age ON job_fire_note (at);
ALTER TABLE job_fire_note ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_fire_note FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON job_fire_note TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON job_fire_note TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE ON job_fire_note TO artiway_app, artiway_service;
GRANT DELETE ON job_fire_note TO artiway_service;
CREATE POLICY old_rows ON job_fire_note AS RESTRICTIVE FOR DELETE TO artiway_service USING (at < now() - interval '30 days');

-- The result of each attempt, written once, in the transaction that moves the run. Reconciliation compares both.
CREATE TABLE run_result (
    tenant_id   uuid NOT NULL,
    run_id      uuid NOT NULL,
    generation  integer NOT NULL,
    attempt     integer NOT NULL,
    outcome     text NOT NULL CHECK (outcome IN ('SUCCEEDED', 'FAILED', 'REFUSED', 'EXPIRED')),
    http_status smallint,
    error       text CHECK (length(error) <= 1000),
    answer      text CHECK (length(answer) <= 4000),
    retry_after_s integer,
    elapsed_ms  integer,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, generation, attempt, at)
) PARTITION BY RANGE (at);
ALTER TABLE run_result ENABLE ROW LEVEL SECURITY;
ALTER TABLE run_result FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON run_result FOR SELECT TO artiway_app USING (tenant_id = current_tenant());
CREATE POLICY all_rows ON run_result TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT ON run_result TO artiway_app;
GRANT SELECT, INSERT ON run_result TO artiway_service;

-- The log of a run, one partition per UTC day of `at`.
CREATE TABLE run_log (
    tenant_id uuid NOT NULL,
    run_id    uuid NOT NULL,
    log_id    uuid NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempt   integer NOT NULL,
    level     text NOT NULL CHECK (level IN ('INFO', 'WARN', 'ERROR')),
    message   text NOT NULL CHECK (length(message) <= 4000),
    PRIMARY KEY (run_id, log_id, at)
) PARTITION BY RANGE (at);
ALTER TABLE run_log ENABLE ROW LEVEL SECURITY;
ALTER TABLE run_log FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON run_log TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON run_log TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON run_log TO artiway_app, artiway_service;

-- Running and deferred runs of a tenant in a lane (is_call: HTTP runs, which share the capacity of the callers), so that a free
-- place is given without reading every run; and the runs that a tenant started in the current minute. Changed only under the
-- lock of admissions, in the transaction that moves the runs. `deferred` waits for the tenant, the lane or the platform,
-- `blocked` for another run of the same job.
CREATE TABLE job_load (
    tenant_id uuid NOT NULL,
    lane      text NOT NULL,
    is_call   boolean NOT NULL,
    running   integer NOT NULL DEFAULT 0 CHECK (running >= 0),
    deferred  integer NOT NULL DEFAULT 0 CHECK (deferred >= 0),
    blocked   integer NOT NULL DEFAULT 0 CHECK (blocked >= 0),
    PRIMARY KEY (tenant_id, lane, is_call)
);
CREATE INDEX job_load_in_use ON job_load (lane, tenant_id) WHERE running > 0 OR deferred > 0 OR blocked > 0;
CREATE TABLE job_minute (
    tenant_id uuid PRIMARY KEY,
    minute    timestamptz NOT NULL,
    started   integer NOT NULL CHECK (started >= 0),
    put_off   integer NOT NULL DEFAULT 0 CHECK (put_off >= 0),
    -- The time that the next run over the rate gets; NULL when none waits.
    slot_at   timestamptz
);
ALTER TABLE job_load ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_load FORCE ROW LEVEL SECURITY;
ALTER TABLE job_minute ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_minute FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON job_load TO artiway_app USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON job_load TO artiway_service USING (true) WITH CHECK (true);
CREATE POLICY tenant_rows ON job_minute FOR SELECT TO artiway_app USING (tenant_id = current_tenant());
CREATE POLICY all_rows ON job_minute TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE ON job_load TO artiway_app, artiway_service;
GRANT SELECT ON job_minute TO artiway_app;
GRANT SELECT, INSERT, UPDATE ON job_minute TO artiway_service;

-- Values that a call inserts where its job says secret:NAME. Encrypted by KMS with the tenant and the name in the context.
CREATE TABLE job_secret (
    tenant_id  uuid NOT NULL,
    name       text NOT NULL CHECK (name ~ '^[A-Z][A-Z0-9_]{0,63}$'),
    ciphertext bytea NOT NULL CHECK (octet_length(ciphertext) <= 8192),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, name)
);
-- Signs the calls of a tenant's jobs (Standard Webhooks). After a rotation the earlier key signs too, until its time is over.
CREATE TABLE job_signing_key (
    tenant_id      uuid PRIMARY KEY,
    ciphertext     bytea NOT NULL,
    previous       bytea,
    previous_until timestamptz,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
ALTER TABLE job_secret ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_secret FORCE ROW LEVEL SECURITY;
ALTER TABLE job_signing_key ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_signing_key FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON job_secret TO artiway_app USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON job_secret FOR SELECT TO artiway_service USING (true);
CREATE POLICY tenant_rows ON job_signing_key TO artiway_app USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON job_signing_key FOR SELECT TO artiway_service USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON job_secret TO artiway_app;
GRANT SELECT ON job_secret TO artiway_service;
GRANT SELECT, INSERT, UPDATE ON job_signing_key TO artiway_app;
GRANT SELECT ON job_signing_key TO artiway_service;

-- The partitions of one UTC day. Nobody is granted a partition: all access goes through the parents and their policies.
CREATE FUNCTION job_partition_ensure(day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp
    AS $$
DECLARE
    parent text;
    part text;
BEGIN
    IF day < current_date - 400 OR day > current_date + 400 THEN
        RAISE EXCEPTION 'no partition for %', day USING ERRCODE = 'datetime_field_overflow';
    END IF;
    FOREACH parent IN ARRAY ARRAY['job_run', 'run_result', 'run_log'] LOOP
        part := format('%s_%s', parent, to_char(day, 'YYYYMMDD'));
        IF to_regclass(part) IS NULL THEN
            PERFORM pg_advisory_xact_lock(11, hashtext(part));
            IF to_regclass(part) IS NULL THEN
                EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', part, parent,
                               day::text || ' 00:00:00+00', (day + 1)::text || ' 00:00:00+00');
                EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', part);
                EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', part);
            END IF;
        END IF;
    END LOOP;
END
$$;
REVOKE EXECUTE ON FUNCTION job_partition_ensure FROM PUBLIC;
GRANT EXECUTE ON FUNCTION job_partition_ensure TO artiway_app, artiway_service;

-- A message that must arrive at a time, and not a number of seconds after it was sent.
ALTER TABLE outbox ADD COLUMN due_at timestamptz;
CREATE OR REPLACE FUNCTION outbox_publish(messages json, the_trace text) RETURNS TABLE (outbox_id bigint, is_due boolean)
    LANGUAGE plpgsql
    SET enable_seqscan = off
    AS $$
#variable_conflict use_column
DECLARE
    tenants uuid[];
    aggregates text[];
BEGIN
    SELECT array_agg(DISTINCT coalesce(current_tenant(), message.tenant_id)), array_agg(DISTINCT message.aggregate)
      INTO tenants, aggregates
      FROM json_to_recordset(messages) AS message (tenant_id uuid, aggregate text, destination text)
     WHERE message.destination = 'push' AND message.aggregate LIKE 'user:%';
    IF aggregates IS NOT NULL THEN
        PERFORM outbox_serialise(tenants, aggregates);
    END IF;
    RETURN QUERY
    INSERT INTO outbox (tenant_id, aggregate, destination, body, delay_s, trace_id, task_id, sequence, due_at, sent_at)
    SELECT coalesce(current_tenant(), tenant_id), aggregate, destination, body, delay_s, coalesce(trace_id, the_trace), task_id, sequence, due_at,
           CASE WHEN destination = 'push' AND aggregate LIKE 'user:%'
                 AND NOT EXISTS (SELECT FROM websocket_connection AS socket
                                  WHERE socket.tenant_id = coalesce(current_tenant(), message.tenant_id)
                                    AND socket.user_id = substr(aggregate, 6)::uuid
                                    AND socket.closed_at IS NULL AND socket.expires_at > clock_timestamp())
                 AND NOT EXISTS (SELECT FROM websocket_connection AS socket
                                  WHERE socket.tenant_id = coalesce(current_tenant(), message.tenant_id)
                                    AND socket.scope = 'tenant'
                                    AND socket.closed_at IS NULL AND socket.expires_at > clock_timestamp())
                THEN clock_timestamp() END
      FROM ROWS FROM (json_to_recordset(messages)
                      AS (tenant_id uuid, aggregate text, destination text, body text, delay_s smallint, trace_id text,
                          task_id uuid, sequence bigint, due_at timestamptz))
           WITH ORDINALITY AS message (tenant_id, aggregate, destination, body, delay_s, trace_id, task_id, sequence, due_at, place)
     ORDER BY place
    RETURNING outbox_id, sent_at IS NULL;
END
$$;

-- A submission with a key of its caller is accepted once: a run is the key of its task.
ALTER TABLE task ADD COLUMN submission_key text CHECK (length(submission_key) BETWEEN 1 AND 200);
CREATE UNIQUE INDEX task_submission_key ON task (tenant_id, submission_key) WHERE submission_key IS NOT NULL;

-- Limits of jobs that differ from the tier's: runs at once, runs started per minute, shortest period.
ALTER TABLE tenant
    ADD COLUMN job_concurrency integer CHECK (job_concurrency BETWEEN 0 AND 100000),
    ADD COLUMN job_per_minute integer CHECK (job_per_minute BETWEEN 0 AND 1000000),
    ADD COLUMN job_period_s integer CHECK (job_period_s BETWEEN 1 AND 86400);
GRANT UPDATE (job_concurrency, job_per_minute, job_period_s) ON tenant TO artiway_service;
