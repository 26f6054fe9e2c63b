-- What every dispatch does is planned once per connection, as the holds are: planning took a tenth of PostgreSQL's time for a
-- batch of a hundred nodes, and a sixth for a single one.

-- A suspended tenant keeps what it runs and gets nothing more.
CREATE OR REPLACE VIEW tenant_policy WITH (security_invoker = true) AS
SELECT tenant_id, tier, status, priority,
       coalesce(tenant.weight, tier.weight) AS weight,
       coalesce(tenant.concurrency, tier.concurrency) AS concurrency,
       coalesce(tenant.queue_depth, tier.queue_depth) AS queue_depth,
       coalesce(tenant.rate_per_second, tier.rate_per_second) AS rate_per_second,
       coalesce(tenant.burst, 2 * tenant.rate_per_second, tier.burst) AS burst,
       coalesce(tenant.artefact_days, tier.artefact_days) AS artefact_days,
       CASE WHEN tenant.status = 'ACTIVE' THEN coalesce(tenant.concurrency, tier.concurrency) ELSE 0 END AS cap
  FROM tenant JOIN tier_default AS tier USING (tier);

-- The three below may meet a table that was small when they were planned: they go by its index all the same.

-- From here on a node waits in the fair queue. One that has to wait for its back-off or its dependencies stays. Returns all
-- that the queue asks, which takes ids for names.
-- In these two a CASE hides the guard from the planner: with statistics of a quiet hour it would read a partial index of all
-- that is pending or waiting to find the nodes that are named by their ids.
CREATE FUNCTION node_mark_ready(the_nodes uuid[])
    RETURNS TABLE (
        node_id text, tenant_id text, user_id text, pool text, lane text, type text, model text, cost_us bigint,
        weight integer, cap integer
    )
    LANGUAGE plpgsql
    SET enable_seqscan = off
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH readied AS (
        UPDATE task_node
           SET status = 'QUEUED', version = version + 1, ready_at = clock_timestamp()
         WHERE node_id = ANY (the_nodes)
           AND CASE WHEN in_degree = 0 AND not_before <= clock_timestamp() THEN status = 'PENDING' END
        RETURNING node_id, tenant_id, user_id, pool, lane, type, model, cost_us, ready_at
    )
    SELECT node_id::text, tenant_id::text, user_id::text, pool, lane, type, model, cost_us, policy.weight, policy.cap
      FROM readied JOIN tenant_policy AS policy USING (tenant_id)
     ORDER BY ready_at, node_id;
END
$$;

-- The only place where an attempt begins.
CREATE FUNCTION node_dispatch(the_nodes uuid[], charges_us bigint[], tags_us bigint[])
    RETURNS TABLE (node_id text, tenant_id text, pool text, type text, attempt integer)
    LANGUAGE plpgsql
    SET enable_seqscan = off
    SET enable_nestloop = off
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    UPDATE task_node AS node
       SET dispatched_at = clock_timestamp(), hinted_at = clock_timestamp(), attempt = attempt + 1, version = version + 1,
           charged_us = chosen.charged_us, tag_us = chosen.tag_us
      FROM unnest(the_nodes, charges_us, tags_us) AS chosen (node_id, charged_us, tag_us)
     WHERE node.node_id = ANY (the_nodes) AND node.node_id = chosen.node_id
       AND CASE WHEN node.dispatched_at IS NULL THEN node.status = 'QUEUED' END
    RETURNING node.node_id::text, node.tenant_id::text, node.pool, node.type, node.attempt;
END
$$;

REVOKE EXECUTE ON FUNCTION node_mark_ready, node_dispatch FROM PUBLIC;
GRANT EXECUTE ON FUNCTION node_mark_ready, node_dispatch TO artiway_service;

-- Messages in their order, and behind a lock for each aggregate: two transactions that speak of one commit in the order of
-- their rows. The locks are sorted, so that none can deadlock. News of a user to whom nobody listens are kept and not sent.
-- Returns what has to be. One JSON document, since psycopg takes ten times as long over arrays of quoted text.
CREATE FUNCTION outbox_put(messages json, the_trace text) RETURNS SETOF text
    LANGUAGE plpgsql
    SET enable_seqscan = off
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH message AS MATERIALIZED (
        SELECT * FROM ROWS FROM (json_to_recordset(messages)
                                 AS (tenant_id uuid, aggregate text, destination text, body text, delay_s smallint))
                      WITH ORDINALITY AS one (tenant_id, aggregate, destination, body, delay_s, place)
    ), locked AS MATERIALIZED (
        SELECT pg_advisory_xact_lock(1, key)
          FROM (SELECT DISTINCT hashtext(aggregate) AS key FROM message ORDER BY 1) AS keys
    ), kept AS (
        INSERT INTO outbox (tenant_id, aggregate, destination, body, delay_s, trace_id, sent_at)
        SELECT coalesce(current_tenant(), tenant_id), aggregate, destination, body, delay_s, the_trace,
               CASE WHEN destination = 'push' AND aggregate LIKE 'user:%'
                     AND NOT EXISTS (SELECT FROM websocket_connection AS socket
                                      WHERE socket.tenant_id = coalesce(current_tenant(), message.tenant_id)
                                        AND socket.user_id = substr(aggregate, 6)::uuid
                                        AND socket.closed_at IS NULL AND socket.expires_at > clock_timestamp())
                    THEN clock_timestamp() END
          FROM message
         WHERE (SELECT count(*) FROM locked) > 0
         ORDER BY place
        RETURNING aggregate, sent_at
    )
    SELECT DISTINCT aggregate FROM kept WHERE sent_at IS NULL ORDER BY aggregate;
END
$$;

REVOKE EXECUTE ON FUNCTION outbox_put FROM PUBLIC;
GRANT EXECUTE ON FUNCTION outbox_put TO artiway_app, artiway_service;

-- A lane's depth is counted in two indexes, one of what is pending and one of what waits. One index of both was written by
-- every change of state, and those were a twelfth of PostgreSQL's time for a dispatch.
DROP INDEX task_node_depth;
DROP INDEX task_node_waiting;
CREATE INDEX task_node_pending ON task_node (lane) WHERE status = 'PENDING';
CREATE INDEX task_node_waiting ON task_node (pool, lane, ready_at) WHERE status = 'QUEUED' AND dispatched_at IS NULL;
