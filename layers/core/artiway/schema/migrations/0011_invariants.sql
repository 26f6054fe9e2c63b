-- The invariants are looked at every minute: only what changed since they last held, found without reading whole tables.

-- Both tables are only ever added to, so that a few block ranges hold the newest rows.
CREATE INDEX points_ledger_age ON points_ledger USING brin (created_at) WITH (pages_per_range = 16, autosummarize = on);
CREATE INDEX node_history_age ON node_history USING brin (changed_at) WITH (pages_per_range = 16, autosummarize = on);

-- One row: when the last look that found nothing wrong began.
CREATE TABLE invariant_pass (
    is_only   boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    clean_at  timestamptz NOT NULL
);

ALTER TABLE invariant_pass ENABLE ROW LEVEL SECURITY;
ALTER TABLE invariant_pass FORCE ROW LEVEL SECURITY;
CREATE POLICY all_rows ON invariant_pass TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE ON invariant_pass TO artiway_service;
