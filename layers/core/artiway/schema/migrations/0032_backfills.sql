-- Backfills: runs of a job for a range of past times. All its runs are stored at once, so that a repeated request finds
-- them; they are parked and become due a few at a time.
CREATE TABLE backfill (
    tenant_id   uuid NOT NULL,
    backfill_id uuid NOT NULL,
    job_id      uuid NOT NULL,
    actor_id    uuid NOT NULL,
    since       timestamptz NOT NULL,
    until       timestamptz NOT NULL,
    parallelism integer NOT NULL CHECK (parallelism BETWEEN 1 AND 1000),
    reprocess   text NOT NULL CHECK (reprocess IN ('none', 'failed', 'completed')),
    status      text NOT NULL DEFAULT 'RUNNING' CHECK (status IN ('RUNNING', 'COMPLETED', 'CANCELLED')),
    total       integer NOT NULL CHECK (total >= 0),
    -- Written when it ends: another backfill may start its runs again later.
    done        integer NOT NULL DEFAULT 0 CHECK (done >= 0),
    failed      integer NOT NULL DEFAULT 0 CHECK (failed >= 0),
    -- Runs that became due in this minute, for the tenant's rate.
    minute      timestamptz,
    released    integer NOT NULL DEFAULT 0 CHECK (released >= 0),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz,
    PRIMARY KEY (tenant_id, backfill_id),
    FOREIGN KEY (tenant_id, job_id) REFERENCES job,
    CHECK (since < until),
    CHECK ((status = 'RUNNING') = (ended_at IS NULL))
);
CREATE INDEX backfill_running ON backfill (created_at) WHERE status = 'RUNNING';

ALTER TABLE backfill ENABLE ROW LEVEL SECURITY;
ALTER TABLE backfill FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON backfill TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON backfill TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE ON backfill TO artiway_app;
GRANT SELECT, UPDATE ON backfill TO artiway_service;

ALTER TABLE job_run ADD COLUMN backfill_id uuid;
CREATE INDEX job_run_of_backfill ON job_run (tenant_id, backfill_id, state) WHERE backfill_id IS NOT NULL;
-- Parked: stored, but not due before its backfill says so.
CREATE INDEX job_run_parked ON job_run (tenant_id, backfill_id, scheduled_at) WHERE due_at >= '9000-01-01 00:00:00+00';
