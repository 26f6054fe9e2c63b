-- The guard of runs: the lanes that it has paused, and circuits of tenants and target hosts.
CREATE TABLE run_guard (
    is_single    boolean PRIMARY KEY DEFAULT true CHECK (is_single),
    shed         integer NOT NULL DEFAULT 0 CHECK (shed BETWEEN 0 AND 2),
    -- The lanes that are paused, least urgent first. Admissions read them.
    lanes        text[] NOT NULL DEFAULT '{}',
    late_since   timestamptz,
    full_since   timestamptz,
    calm_since   timestamptz,
    changed_at   timestamptz,
    latency_s    double precision,
    backlog      bigint,
    read_at      timestamptz
);

-- A circuit that is not closed, or closed a short while ago. The tenant is the zero id for a circuit of a task type.
CREATE TABLE run_circuit (
    tenant_id  uuid NOT NULL,
    target     text NOT NULL CHECK (length(target) BETWEEN 1 AND 300),
    state      text NOT NULL CHECK (state IN ('OPEN', 'HALF_OPEN', 'CLOSED')),
    until      timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    -- How often in a row it opened without closing; the time until a probe doubles.
    openings   integer NOT NULL CHECK (openings >= 0),
    -- Runs that may still start while it is half open.
    probes     integer NOT NULL CHECK (probes >= 0),
    runs       integer NOT NULL,
    failures   integer NOT NULL,
    PRIMARY KEY (tenant_id, target)
);
ALTER TABLE run_guard ENABLE ROW LEVEL SECURITY;
ALTER TABLE run_guard FORCE ROW LEVEL SECURITY;
ALTER TABLE run_circuit ENABLE ROW LEVEL SECURITY;
ALTER TABLE run_circuit FORCE ROW LEVEL SECURITY;
-- A tenant may know which lanes are paused: a request that needs one is answered with 503.
CREATE POLICY all_may_read ON run_guard FOR SELECT TO artiway_app USING (true);
CREATE POLICY all_rows ON run_guard TO artiway_service USING (true) WITH CHECK (true);
CREATE POLICY all_rows ON run_circuit TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT ON run_guard TO artiway_app;
GRANT SELECT, INSERT, UPDATE ON run_guard TO artiway_service;
GRANT SELECT, INSERT, UPDATE, DELETE ON run_circuit TO artiway_service;

-- Host and port that an HTTP job calls.
ALTER TABLE job ADD COLUMN target_host text
    GENERATED ALWAYS AS (lower(substring(task ->> 'url' FROM '^[A-Za-z]+://([^/?#]+)'))) STORED;
