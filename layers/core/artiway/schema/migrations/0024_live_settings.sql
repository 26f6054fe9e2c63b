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

-- A whole number within its bounds, else NULL: a value that does not fit is not in force.
CREATE FUNCTION whole_number(value jsonb, lowest integer, highest integer) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE WHEN jsonb_typeof(value) <> 'number' THEN NULL
                WHEN value::numeric BETWEEN lowest AND highest AND value::numeric = trunc(value::numeric)
                THEN value::integer END;
$$;
REVOKE EXECUTE ON FUNCTION whole_number FROM PUBLIC;
GRANT EXECUTE ON FUNCTION whole_number TO artiway_app, artiway_service;

-- The limits of a tier are settings `tier.<tier>.<limit>`. A query reads the settings of the columns that it names.
CREATE OR REPLACE VIEW tier_default WITH (security_invoker = true) AS
SELECT tier.tier,
       coalesce((SELECT whole_number(value, 1, 1000) FROM live_setting
                  WHERE key = 'tier.' || tier.tier || '.weight'), tier.weight) AS weight,
       coalesce((SELECT whole_number(value, 0, 100000) FROM live_setting
                  WHERE key = 'tier.' || tier.tier || '.concurrency'), tier.concurrency) AS concurrency,
       coalesce((SELECT whole_number(value, 0, 1000000) FROM live_setting
                  WHERE key = 'tier.' || tier.tier || '.queue_depth'), tier.queue_depth) AS queue_depth,
       tier.priority,
       coalesce((SELECT whole_number(value, 1, 100000) FROM live_setting
                  WHERE key = 'tier.' || tier.tier || '.rate_per_second'), tier.rate_per_second) AS rate_per_second,
       coalesce((SELECT whole_number(value, 1, 200000) FROM live_setting
                  WHERE key = 'tier.' || tier.tier || '.burst'), tier.burst) AS burst,
       coalesce((SELECT whole_number(value, 1, 180) FROM live_setting
                  WHERE key = 'tier.' || tier.tier || '.artefact_days'), tier.artefact_days) AS artefact_days
  FROM (VALUES
        ('enterprise'::text, 10, 50, 500, 'CRITICAL'::text, 100, 200, 180),
        ('vip',               5, 20, 100, 'HIGH',            50, 100,  30),
        ('standard',          2,  5,  30, 'NORMAL',          20,  40,  15),
        ('free',              1,  2,  10, 'LOW',              5,  10,   3)
       ) AS tier (tier, weight, concurrency, queue_depth, priority, rate_per_second, burst, artefact_days);
