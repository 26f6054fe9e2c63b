-- name: take_lock
-- Of two concurrent deployments the second waits, and then has nothing to do.
SELECT pg_advisory_lock(7265217);

-- name: create_history
CREATE TABLE IF NOT EXISTS schema_migration (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- name: history
SELECT version, checksum FROM schema_migration;

-- name: remember
INSERT INTO schema_migration (version, name, checksum) VALUES (%(version)s, %(name)s, %(checksum)s);
