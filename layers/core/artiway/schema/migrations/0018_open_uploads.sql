-- Uploads that no task has used yet are counted before each new one. Those that were used outnumber them by far.
CREATE INDEX upload_open ON upload (tenant_id, user_id) WHERE width IS NULL AND cleanup_status = 0;
