-- transaction: none
-- Logins of a user and texts of a tenant, by time. Every statement can run again.

CREATE INDEX CONCURRENTLY IF NOT EXISTS login_event_of_user ON login_event (tenant_id, user_id, logged_at DESC, login_id DESC);
CREATE INDEX CONCURRENTLY IF NOT EXISTS generation_of_tenant ON generation (tenant_id, ended_at) WHERE ended_at IS NOT NULL;
