-- transaction: none
-- Finished rows leave after a time per table (docs/retention.md). Every purge reads only the rows that it deletes: the
-- indexes below hold them in the order of their age. Every statement can run again.

-- How far a finished task was purged: 0 nothing, 1 its events, 2 also its history. Then the task itself leaves.
ALTER TABLE task ADD COLUMN IF NOT EXISTS purge_stage smallint NOT NULL DEFAULT 0 CHECK (purge_stage BETWEEN 0 AND 2);
CREATE INDEX CONCURRENTLY IF NOT EXISTS task_purge ON task (purge_stage, ended_at, task_id) WHERE ended_at IS NOT NULL;

-- A hold is kept as long as its task. The sweep of holds without a live task searches by it too.
CREATE INDEX CONCURRENTLY IF NOT EXISTS task_hold ON task (hold_id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS points_hold_ended ON points_hold (ended_at, hold_id) WHERE ended_at IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS points_lot_spent ON points_lot (expires_at, lot_id) WHERE remaining = 0;
CREATE INDEX CONCURRENTLY IF NOT EXISTS points_hold_lot_of_lot ON points_hold_lot (tenant_id, lot_id);

-- The foreign key of a deleted node searches its artefacts.
CREATE INDEX CONCURRENTLY IF NOT EXISTS artefact_of_node ON artefact (tenant_id, node_id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS upload_cleaned ON upload (expires_at, input_id) WHERE cleanup_status = 1;

CREATE INDEX CONCURRENTLY IF NOT EXISTS node_token_answered ON node_token (answered_at, token_id) WHERE answered_at IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS webhook_delivery_ended ON webhook_delivery (next_try_at, delivery_id) WHERE status <> 'PENDING';
CREATE INDEX CONCURRENTLY IF NOT EXISTS webhook_deleted ON webhook (deleted_at, webhook_id) WHERE deleted_at IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS pay_alert_sent ON pay_alert (sent_at) WHERE sent_at IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS pay_order_ended ON pay_order (created_at, order_id) WHERE status IN ('COMPLETED', 'REFUNDED', 'CLOSED');
CREATE INDEX CONCURRENTLY IF NOT EXISTS pay_transaction_of_order ON pay_transaction (tenant_id, order_id) WHERE order_id IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS bill_difference_open ON bill_difference (tenant_id, order_id) WHERE resolution = 'OPEN';

-- The invariants find the charge of a task and the credit of an order. Without it each check reads the user's whole ledger.
CREATE INDEX CONCURRENTLY IF NOT EXISTS points_ledger_reference ON points_ledger (tenant_id, reference) WHERE kind IN ('CONFIRM', 'RECHARGE');

-- Purged history leaves free space in old pages, which new rows fill. Block ranges no longer follow time then.
CREATE INDEX CONCURRENTLY IF NOT EXISTS node_history_changed ON node_history (changed_at);
DROP INDEX CONCURRENTLY IF EXISTS node_history_age;

-- Where the last pass over a large table stopped. The next pass continues there.
CREATE TABLE IF NOT EXISTS sweep_position (
    name     text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 100),
    position jsonb NOT NULL
);
ALTER TABLE sweep_position ENABLE ROW LEVEL SECURITY;
ALTER TABLE sweep_position FORCE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS all_rows ON sweep_position;
CREATE POLICY all_rows ON sweep_position TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON sweep_position TO artiway_service;

-- The rows that broke an invariant in the last pass. They are checked again until they are right.
ALTER TABLE invariant_pass ADD COLUMN IF NOT EXISTS suspects jsonb NOT NULL DEFAULT '{}';

-- Nothing that lives, is unsettled or not delivered can be deleted, whatever a purge asks for.
GRANT UPDATE (purge_stage) ON task TO artiway_app, artiway_service;
GRANT DELETE ON task, task_node, node_dependency, node_history, task_event, artefact, upload, webhook, webhook_delivery TO artiway_service;
GRANT DELETE ON pay_alert, pay_order, pay_refund, pay_transaction, points_hold, points_hold_lot, points_lot TO artiway_service;
GRANT UPDATE (next_try_at) ON webhook_delivery TO artiway_service;
DROP POLICY IF EXISTS ended_rows ON task;
CREATE POLICY ended_rows ON task AS RESTRICTIVE FOR DELETE TO artiway_service USING (ended_at < now() - interval '1 day');
DROP POLICY IF EXISTS ended_rows ON task_node;
CREATE POLICY ended_rows ON task_node AS RESTRICTIVE FOR DELETE TO artiway_service USING (ended_at < now() - interval '1 day');
DROP POLICY IF EXISTS old_rows ON node_history;
CREATE POLICY old_rows ON node_history AS RESTRICTIVE FOR DELETE TO artiway_service USING (changed_at < now() - interval '1 day');
DROP POLICY IF EXISTS cleaned_rows ON artefact;
CREATE POLICY cleaned_rows ON artefact AS RESTRICTIVE FOR DELETE TO artiway_service USING (cleanup_status = 1);
DROP POLICY IF EXISTS cleaned_rows ON upload;
CREATE POLICY cleaned_rows ON upload AS RESTRICTIVE FOR DELETE TO artiway_service USING (cleanup_status = 1);
DROP POLICY IF EXISTS sent_rows ON pay_alert;
CREATE POLICY sent_rows ON pay_alert AS RESTRICTIVE FOR DELETE TO artiway_service USING (sent_at < now() - interval '90 days');
DROP POLICY IF EXISTS settled_rows ON pay_order;
CREATE POLICY settled_rows ON pay_order AS RESTRICTIVE FOR DELETE TO artiway_service
    USING (status IN ('COMPLETED', 'REFUNDED', 'CLOSED') AND created_at < now() - interval '180 days');
DROP POLICY IF EXISTS settled_rows ON pay_refund;
CREATE POLICY settled_rows ON pay_refund AS RESTRICTIVE FOR DELETE TO artiway_service
    USING (ended_at < now() - interval '180 days');
DROP POLICY IF EXISTS old_rows ON pay_transaction;
CREATE POLICY old_rows ON pay_transaction AS RESTRICTIVE FOR DELETE TO artiway_service
    USING (seen_at < now() - interval '180 days');
DROP POLICY IF EXISTS ended_rows ON points_hold;
CREATE POLICY ended_rows ON points_hold FOR DELETE TO artiway_service
    USING (status <> 'HELD' AND ended_at < now() - interval '30 days');
DROP POLICY IF EXISTS of_ended_holds ON points_hold_lot;
CREATE POLICY of_ended_holds ON points_hold_lot FOR DELETE TO artiway_service
    USING (EXISTS (SELECT FROM points_hold AS hold
                    WHERE hold.tenant_id = points_hold_lot.tenant_id AND hold.hold_id = points_hold_lot.hold_id
                      AND hold.status <> 'HELD'));
DROP POLICY IF EXISTS spent_rows ON points_lot;
CREATE POLICY spent_rows ON points_lot FOR DELETE TO artiway_service
    USING (remaining = 0 AND expires_at < now() - interval '30 days');
DROP POLICY IF EXISTS ended_rows ON webhook_delivery;
CREATE POLICY ended_rows ON webhook_delivery FOR DELETE TO artiway_service USING (status <> 'PENDING');
DROP POLICY IF EXISTS lockable ON webhook_delivery;
CREATE POLICY lockable ON webhook_delivery FOR UPDATE TO artiway_service USING (true) WITH CHECK (false);
DROP POLICY IF EXISTS deleted_rows ON webhook;
CREATE POLICY deleted_rows ON webhook FOR DELETE TO artiway_service USING (deleted_at < now() - interval '1 day');
DROP POLICY IF EXISTS purged_rows ON node_dependency;
CREATE POLICY purged_rows ON node_dependency FOR DELETE TO artiway_service USING (true);

-- Vacuum after two rows in a hundred, so that the space of purged rows is used again soon.
ALTER TABLE task SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE task_node SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE task_event SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE node_history SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE node_dependency SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE artefact SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE outbox SET (autovacuum_vacuum_scale_factor = 0.02);
