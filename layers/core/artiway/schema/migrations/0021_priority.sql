-- The priority of a task among the work of its own tenant, and the duration that was promised at submission: `eta_s`, and
-- before it was corrected by how earlier promises were kept (`eta_model_s`, only where every step was measured before).
-- The release before does not set them: its tasks are NORMAL and promise nothing.
ALTER TABLE task
    ADD COLUMN priority text NOT NULL DEFAULT 'NORMAL' CHECK (priority IN ('HIGH', 'NORMAL', 'LOW')),
    ADD COLUMN eta_s integer CHECK (eta_s >= 0),
    ADD COLUMN eta_model_s real CHECK (eta_model_s > 0);

-- A copy of the task's, so that the scheduler reads one table.
ALTER TABLE task_node ADD COLUMN priority text NOT NULL DEFAULT 'NORMAL' CHECK (priority IN ('HIGH', 'NORMAL', 'LOW'));
