-- The trace id of the request that submitted a task. Everything that is done for the task later, by other functions, workers
-- and sweeps, is logged and published under this id.
ALTER TABLE task ADD COLUMN trace_id text NOT NULL DEFAULT '' CHECK (length(trace_id) <= 64);
