-- A step that fails again and again is stopped in its pool. The fair queue therefore knows the step of each node.

-- No row is a closed circuit without failures. `opened_at` is set while it is not closed; from `probe_at` on one node may run.
CREATE TABLE circuit (
    pool          text NOT NULL CHECK (length(pool) BETWEEN 1 AND 64),
    step          text NOT NULL CHECK (length(step) BETWEEN 1 AND 64),
    failures      integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    opened_at     timestamptz,
    probe_at      timestamptz CHECK ((probe_at IS NULL) = (opened_at IS NULL)),
    probes_failed integer NOT NULL DEFAULT 0 CHECK (probes_failed >= 0),
    last_error    text NOT NULL DEFAULT '',
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (pool, step)
);
ALTER TABLE circuit ENABLE ROW LEVEL SECURITY;
ALTER TABLE circuit FORCE ROW LEVEL SECURITY;
CREATE POLICY readable ON circuit FOR SELECT TO artiway_app USING (true);
CREATE POLICY all_rows ON circuit TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT ON circuit TO artiway_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON circuit TO artiway_service;

CREATE OR REPLACE VIEW slot_in_use WITH (security_invoker = true) AS
SELECT node_id, tenant_id, user_id, task_id, pool, lane, type, model, cost_us, charged_us, tag_us, status, worker_id, step
  FROM task_node
 WHERE status IN ('QUEUED', 'PROCESSING') AND dispatched_at IS NOT NULL;
