-- name: overrides
SELECT key, value, updated_at, updated_by FROM live_setting ORDER BY key;

-- name: lock_setting
-- Two changes of one setting follow each other, so that each audit entry has the value before it.
SELECT pg_advisory_xact_lock(hashtext('live_setting'), hashtext(%(key)s));

-- name: override
SELECT value FROM live_setting WHERE key = %(key)s;

-- name: put
INSERT INTO live_setting (key, value, updated_by) VALUES (%(key)s, %(value)s::jsonb, %(actor_id)s)
ON CONFLICT (key) DO UPDATE
   SET value = excluded.value, updated_by = excluded.updated_by, updated_at = clock_timestamp();

-- name: delete
DELETE FROM live_setting WHERE key = %(key)s;
