-- What an operator set otherwise than its default, at run time. Types, bounds and defaults are in the code.
CREATE TABLE live_setting (
    key        text PRIMARY KEY CHECK (length(key) BETWEEN 1 AND 100),
    value      jsonb NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_by uuid
);

ALTER TABLE live_setting ENABLE ROW LEVEL SECURITY;
ALTER TABLE live_setting FORCE ROW LEVEL SECURITY;
CREATE POLICY readable ON live_setting FOR SELECT TO artiway_app USING (true);
CREATE POLICY all_rows ON live_setting TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT ON live_setting TO artiway_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON live_setting TO artiway_service;
