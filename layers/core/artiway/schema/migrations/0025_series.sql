-- Minute aggregates of all tenants for operators, and the daily sums from which error budgets are computed.

-- `value` is a count, a level, or the numerator of a ratio, whose denominator is `weight`. A distribution has `buckets`:
-- how many values lie in each logarithmic bucket.
CREATE TABLE series_minute (
    name    text NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    minute  timestamptz NOT NULL CHECK (date_bin('1 minute', minute, 'epoch') = minute),
    labels  jsonb NOT NULL DEFAULT '{}',
    value   double precision NOT NULL,
    weight  double precision,
    buckets jsonb,
    PRIMARY KEY (name, minute, labels)
);
-- Rows are deleted by age, and the page for Prometheus reads the newest minute.
CREATE INDEX series_minute_age ON series_minute (minute);

CREATE TABLE series_day (
    name    text NOT NULL,
    day     date NOT NULL,
    labels  jsonb NOT NULL DEFAULT '{}',
    value   double precision NOT NULL,
    weight  double precision NOT NULL,
    PRIMARY KEY (name, day, labels)
);

-- One row: the minutes before `closed_until` are written and do not change.
CREATE TABLE series_pass (
    is_only      boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    closed_until timestamptz NOT NULL
);

ALTER TABLE series_minute ENABLE ROW LEVEL SECURITY;
ALTER TABLE series_minute FORCE ROW LEVEL SECURITY;
ALTER TABLE series_day ENABLE ROW LEVEL SECURITY;
ALTER TABLE series_day FORCE ROW LEVEL SECURITY;
ALTER TABLE series_pass ENABLE ROW LEVEL SECURITY;
ALTER TABLE series_pass FORCE ROW LEVEL SECURITY;
CREATE POLICY all_rows ON series_minute TO artiway_service USING (true) WITH CHECK (true);
CREATE POLICY all_rows ON series_day TO artiway_service USING (true) WITH CHECK (true);
CREATE POLICY all_rows ON series_pass TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, DELETE ON series_minute TO artiway_service;
GRANT SELECT, INSERT, DELETE ON series_day TO artiway_service;
GRANT UPDATE (value, weight) ON series_day TO artiway_service;
GRANT SELECT, INSERT ON series_pass TO artiway_service;
GRANT UPDATE (closed_until) ON series_pass TO artiway_service;
