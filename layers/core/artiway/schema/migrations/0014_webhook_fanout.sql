-- Deliveries are created after a task has ended, by a consumer of their own, and each tenant has a bounded share of sends.

-- The run of the task that a delivery reports. Rows from before have none. There is no foreign key: it would lock the task's
-- row, which a retry of the task may hold.
ALTER TABLE webhook_delivery
    ADD COLUMN task_id uuid,
    ADD COLUMN run integer,
    -- Set while a function sends it. It counts against the tenant's limit until then, also if that function died.
    ADD COLUMN sending_until timestamptz,
    -- Set while it waits for another send of the tenant to end, which then takes it or publishes its message.
    ADD COLUMN parked_at timestamptz,
    ADD CHECK ((task_id IS NULL) = (run IS NULL));

-- A repeated message creates nothing: one delivery for a webhook and a run of a task.
CREATE UNIQUE INDEX webhook_delivery_once ON webhook_delivery (tenant_id, task_id, run, webhook_id) WHERE task_id IS NOT NULL;
CREATE INDEX webhook_delivery_sending ON webhook_delivery (tenant_id, sending_until) WHERE sending_until IS NOT NULL;
CREATE INDEX webhook_delivery_parked ON webhook_delivery (tenant_id, parked_at) WHERE parked_at IS NOT NULL;
-- By tenant, so that one with many due deliveries is not read before the others.
DROP INDEX webhook_delivery_due;
CREATE INDEX webhook_delivery_due ON webhook_delivery (tenant_id, next_try_at) WHERE status = 'PENDING';
CREATE INDEX webhook_delivery_pending ON webhook_delivery (tenant_id, webhook_id) WHERE status = 'PENDING';
-- The end of each task asks whether there is one.
CREATE INDEX webhook_registered ON webhook (tenant_id) WHERE deleted_at IS NULL AND NOT is_implied;

GRANT UPDATE (sending_until, parked_at) ON webhook_delivery TO artiway_app;
