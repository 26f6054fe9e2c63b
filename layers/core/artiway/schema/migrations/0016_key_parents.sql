-- A key that was made by a key belongs to it: it may no more, lives no longer and is deleted with it.
ALTER TABLE api_key ADD COLUMN parent_key_id uuid;
ALTER TABLE api_key ADD CONSTRAINT api_key_parent_fkey
    FOREIGN KEY (tenant_id, parent_key_id) REFERENCES api_key (tenant_id, key_id) ON DELETE CASCADE;
ALTER TABLE api_key ADD CONSTRAINT api_key_parent_check CHECK (parent_key_id <> key_id);
CREATE INDEX api_key_of_parent ON api_key (tenant_id, parent_key_id) WHERE parent_key_id IS NOT NULL;

-- A login beyond the number of open sessions ends the person's oldest session.
ALTER TABLE session DROP CONSTRAINT session_revoked_reason_check;
ALTER TABLE session ADD CONSTRAINT session_revoked_reason_check
    CHECK (revoked_reason IN ('logout', 'reuse', 'disabled', 'password', 'limit'));
-- Ended sessions are purged after a day, so that many logins do not fill the table for a month.
CREATE INDEX session_ended ON session (revoked_at) WHERE revoked_at IS NOT NULL;
