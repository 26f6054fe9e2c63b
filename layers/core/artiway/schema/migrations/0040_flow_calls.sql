-- transaction: none
-- Flows that stop at the first failure, and HTTP nodes (pool `http`), which wait for a place among the calls of their tenant.
-- Every statement can run again. The release before writes `continue` and makes no HTTP node.
ALTER TABLE task ADD COLUMN IF NOT EXISTS on_failure text NOT NULL DEFAULT 'continue'
    CONSTRAINT task_on_failure_check CHECK (on_failure IN ('continue', 'stop'));

CREATE INDEX CONCURRENTLY IF NOT EXISTS task_node_calls ON task_node (tenant_id, ready_at)
 WHERE pool = 'http' AND status = 'QUEUED' AND dispatched_at IS NULL;
