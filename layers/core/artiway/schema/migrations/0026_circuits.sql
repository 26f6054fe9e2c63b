-- A step that fails again and again is stopped in its pool. The fair queue therefore knows the step of each node.

-- No row is a closed circuit without failures. `opened_at` is set while it is not closed; from `probe_at` on one node may run.
CREATE TABLE circuit (
    pool          text NOT NULL CHECK (length(pool) BETWEEN 1 AND 64),
    step          text NOT NULL CHECK (length(step) BETWEEN 1 AND 64),
    failures      integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    opened_at     timestamptz,
    probe_at      timestamptz CHECK ((probe_at IS NULL) = (opened_at IS NULL)),
    probes_failed integer NOT NULL DEFAULT 0 CHECK (probes_failed >= 0),
    last_error    text NOT NULL DEFAULT '',
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (pool, step)
);
ALTER TABLE circuit ENABLE ROW LEVEL SECURITY;
ALTER TABLE circuit FORCE ROW LEVEL SECURITY;
CREATE POLICY readable ON circuit FOR SELECT TO artiway_app USING (true);
CREATE POLICY all_rows ON circuit TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT ON circuit TO artiway_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON circuit TO artiway_service;

CREATE OR REPLACE VIEW slot_in_use WITH (security_invoker = true) AS
SELECT node_id, tenant_id, user_id, task_id, pool, lane, type, model, cost_us, charged_us, tag_us, status, worker_id, step
  FROM task_node
 WHERE status IN ('QUEUED', 'PROCESSING') AND dispatched_at IS NOT NULL;

-- As before, with the step of each node.
DROP FUNCTION node_ready;
CREATE FUNCTION node_ready(the_nodes uuid[])
    RETURNS TABLE (
        node_id text, tenant_id text, user_id text, pool text, lane text, type text, model text, cost_us bigint, priority text,
        weight integer, cap integer, user_cap integer, own_cap integer, step text
    )
    LANGUAGE plpgsql
    SET enable_seqscan = off
    AS $$
#variable_conflict use_column
BEGIN
    UPDATE task_node
       SET status = 'QUEUED', version = version + 1, ready_at = clock_timestamp()
     WHERE node_id = ANY (the_nodes)
       AND CASE WHEN in_degree = 0 AND not_before <= clock_timestamp() THEN status = 'PENDING' END;
    RETURN QUERY
    SELECT node.node_id::text, node.tenant_id::text, node.user_id::text, node.pool, node.lane, node.type, node.model,
           node.cost_us, node.priority, policy.weight, policy.cap, policy.user_concurrency,
           (SELECT concurrency FROM app_user AS person
             WHERE person.tenant_id = node.tenant_id AND person.user_id = node.user_id),
           node.step
      FROM task_node AS node JOIN tenant_policy AS policy ON policy.tenant_id = node.tenant_id
     WHERE node.node_id = ANY (the_nodes) AND CASE WHEN node.dispatched_at IS NULL THEN node.status = 'QUEUED' END
     ORDER BY node.ready_at, node.node_id;
END
$$;
REVOKE EXECUTE ON FUNCTION node_ready FROM PUBLIC;
GRANT EXECUTE ON FUNCTION node_ready TO artiway_app, artiway_service;
