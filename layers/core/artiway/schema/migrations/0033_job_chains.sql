-- AFTER jobs: a job that runs when all of its predecessors succeeded for the same scheduled time.
ALTER TABLE job DROP CONSTRAINT job_schedule_type_check,
    ADD CONSTRAINT job_schedule_type_check CHECK (schedule_type IN ('CRON', 'ONCE', 'AFTER'));

CREATE TABLE job_after (
    tenant_id      uuid NOT NULL,
    job_id         uuid NOT NULL,
    predecessor_id uuid NOT NULL,
    place          smallint NOT NULL CHECK (place >= 0),
    PRIMARY KEY (tenant_id, job_id, predecessor_id),
    FOREIGN KEY (tenant_id, job_id) REFERENCES job,
    FOREIGN KEY (tenant_id, predecessor_id) REFERENCES job,
    CHECK (job_id <> predecessor_id)
);
CREATE INDEX job_after_predecessor ON job_after (tenant_id, predecessor_id);
ALTER TABLE job_after ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_after FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON job_after TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON job_after FOR SELECT TO artiway_service USING (true);
GRANT SELECT, INSERT, DELETE ON job_after TO artiway_app;
GRANT SELECT ON job_after TO artiway_service;

-- The answers of the predecessors, for the body of the successor's call.
ALTER TABLE job_run ADD COLUMN predecessors jsonb;

ALTER TABLE job_fire_note DROP CONSTRAINT job_fire_note_outcome_check,
    ADD CONSTRAINT job_fire_note_outcome_check CHECK (outcome IN (
        'SKIPPED_OVERLAP', 'MISFIRED', 'COALESCED', 'TENANT_SUSPENDED', 'CANCELLED_BY_EDIT', 'PREDECESSOR_FAILED', 'PAUSED'));
