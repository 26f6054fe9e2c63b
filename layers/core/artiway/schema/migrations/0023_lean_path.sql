-- Fewer requests per node. Each function below is one request where there were two to five, and is planned once per
-- connection. The functions of the release before stay, because both releases run during a deployment.

-- An event of a task is stored once, in task_event: its row in the outbox has no body and names the event.
ALTER TABLE outbox ADD COLUMN task_id uuid, ADD COLUMN sequence bigint;

-- Stores messages in their order. Returns the number of each message and whether it has to be sent: an event is stored only,
-- if no socket of its user or tenant is open. A statement of a function sees the rows that were committed before the statement
-- began, so the INSERT sees a socket for which outbox_serialise waited.
CREATE FUNCTION outbox_publish(messages json, the_trace text) RETURNS TABLE (outbox_id bigint, is_due boolean)
    LANGUAGE plpgsql
    SET enable_seqscan = off
    AS $$
#variable_conflict use_column
DECLARE
    tenants uuid[];
    aggregates text[];
BEGIN
    SELECT array_agg(DISTINCT coalesce(current_tenant(), message.tenant_id)), array_agg(DISTINCT message.aggregate)
      INTO tenants, aggregates
      FROM json_to_recordset(messages) AS message (tenant_id uuid, aggregate text, destination text)
     WHERE message.destination = 'push' AND message.aggregate LIKE 'user:%';
    IF aggregates IS NOT NULL THEN
        PERFORM outbox_serialise(tenants, aggregates);
    END IF;
    RETURN QUERY
    INSERT INTO outbox (tenant_id, aggregate, destination, body, delay_s, trace_id, task_id, sequence, sent_at)
    SELECT coalesce(current_tenant(), tenant_id), aggregate, destination, body, delay_s, coalesce(trace_id, the_trace), task_id, sequence,
           CASE WHEN destination = 'push' AND aggregate LIKE 'user:%'
                 AND NOT EXISTS (SELECT FROM websocket_connection AS socket
                                  WHERE socket.tenant_id = coalesce(current_tenant(), message.tenant_id)
                                    AND socket.user_id = substr(aggregate, 6)::uuid
                                    AND socket.closed_at IS NULL AND socket.expires_at > clock_timestamp())
                 AND NOT EXISTS (SELECT FROM websocket_connection AS socket
                                  WHERE socket.tenant_id = coalesce(current_tenant(), message.tenant_id)
                                    AND socket.scope = 'tenant'
                                    AND socket.closed_at IS NULL AND socket.expires_at > clock_timestamp())
                THEN clock_timestamp() END
      FROM ROWS FROM (json_to_recordset(messages)
                      AS (tenant_id uuid, aggregate text, destination text, body text, delay_s smallint, trace_id text,
                          task_id uuid, sequence bigint))
           WITH ORDINALITY AS message (tenant_id, aggregate, destination, body, delay_s, trace_id, task_id, sequence, place)
     ORDER BY place
    RETURNING outbox_id, sent_at IS NULL;
END
$$;

-- The queue has accepted these messages, and Step Functions the answers to these tokens. Events stay, because sockets read them
-- behind their cursors; other rows go. A row that a sweep has locked is left to the sweep. A crash may undo this: the messages
-- are then sent again.
CREATE FUNCTION outbox_sent(the_tenant text, ids bigint[], tokens uuid[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan = off
    AS $$
BEGIN
    PERFORM set_config('app.tenant_id', the_tenant, true), set_config('synchronous_commit', 'off', true);
    DELETE FROM outbox
     WHERE outbox_id IN (SELECT outbox_id FROM outbox WHERE outbox_id = ANY (ids) AND destination <> 'push'
                            FOR UPDATE SKIP LOCKED);
    UPDATE outbox SET sent_at = clock_timestamp()
     WHERE outbox_id = ANY (ids) AND destination = 'push' AND sent_at IS NULL;
    DELETE FROM node_token WHERE token_id = ANY (tokens);
END
$$;

-- Events of tasks whose rows the caller has locked, and the messages of the same transaction.
CREATE FUNCTION task_publish(events json, messages json, the_trace text) RETURNS TABLE (outbox_id bigint, is_due boolean)
    LANGUAGE plpgsql
    SET enable_seqscan = off
    AS $$
DECLARE
    numbered integer;
BEGIN
    UPDATE task
       SET event_sequence = added.last
      FROM (SELECT event.task_id, min(event.sequence) - 1 AS before, max(event.sequence) AS last
              FROM json_to_recordset(events) AS event (task_id uuid, sequence bigint)
             GROUP BY event.task_id) AS added
     WHERE task.task_id = added.task_id AND task.event_sequence = added.before;
    GET DIAGNOSTICS numbered = ROW_COUNT;
    IF numbered <> (SELECT count(DISTINCT event.task_id) FROM json_to_recordset(events) AS event (task_id uuid)) THEN
        RAISE EXCEPTION 'the numbers of the events do not follow the last one' USING ERRCODE = 'serialization_failure';
    END IF;
    INSERT INTO task_event (tenant_id, task_id, sequence, event, body)
    SELECT current_tenant(), event.task_id, event.sequence, event.event, event.body
      FROM json_to_recordset(events) AS event (task_id uuid, sequence bigint, event text, body jsonb);
    RETURN QUERY SELECT * FROM outbox_publish(messages, the_trace);
END
$$;

REVOKE EXECUTE ON FUNCTION outbox_publish, outbox_sent, task_publish FROM PUBLIC;
GRANT EXECUTE ON FUNCTION outbox_publish, outbox_sent TO artiway_app, artiway_service;
GRANT EXECUTE ON FUNCTION task_publish TO artiway_app;
GRANT DELETE ON outbox TO artiway_app;

-- The sweep takes the oldest messages whatever their aggregate; the purge takes the lowest numbers.
DROP INDEX outbox_unsent_by_aggregate, outbox_sent;

-- Events are purged by their age, never by a function that serves tenants.
CREATE POLICY no_event ON outbox AS RESTRICTIVE FOR DELETE TO artiway_app USING (destination <> 'push');

-- A token stays until Step Functions has accepted its answer: the row is what the outbox is for other messages. Its id begins
-- with its time, so the sweep reads the oldest by the primary key.
DELETE FROM node_token WHERE answered_at IS NOT NULL;
DROP INDEX node_token_age, node_token_unanswered;
ALTER TABLE node_token DROP CONSTRAINT node_token_pkey, ADD PRIMARY KEY (token_id);
GRANT DELETE ON node_token TO artiway_app, artiway_service;

-- With room on its page the next version of a node is beside the one before, and the WAL has only what differs.
ALTER TABLE task_node SET (fillfactor = 70);

-- A node changes four times, and each change writes an entry into each index: one index is enough to find a node by its id, with
-- or without its tenant. Tokens are short-lived and are only stored for a node that exists, so they need no check of their own.
ALTER TABLE node_token DROP CONSTRAINT node_token_tenant_id_node_id_fkey;
ALTER TABLE artefact DROP CONSTRAINT artefact_tenant_id_node_id_fkey;
ALTER TABLE node_dependency
    DROP CONSTRAINT node_dependency_tenant_id_node_id_fkey, DROP CONSTRAINT node_dependency_tenant_id_depends_on_id_fkey;
ALTER TABLE task_node
    DROP CONSTRAINT task_node_pkey, DROP CONSTRAINT task_node_node_id_key, ADD PRIMARY KEY (node_id, tenant_id);
ALTER TABLE artefact ADD FOREIGN KEY (tenant_id, node_id) REFERENCES task_node (tenant_id, node_id);
ALTER TABLE node_dependency
    ADD FOREIGN KEY (tenant_id, node_id) REFERENCES task_node (tenant_id, node_id),
    ADD FOREIGN KEY (tenant_id, depends_on_id) REFERENCES task_node (tenant_id, node_id);

-- Those of these nodes that wait in the fair queue, with what the queue needs to know. A CASE hides the guards from the planner,
-- which would otherwise read all that is pending to find the nodes that are named by their ids.
CREATE FUNCTION node_waiting(the_nodes uuid[])
    RETURNS TABLE (
        node_id text, tenant_id text, user_id text, pool text, lane text, type text, model text, cost_us bigint, priority text,
        weight integer, cap integer, user_cap integer, own_cap integer, step text
    )
    LANGUAGE plpgsql
    SET enable_seqscan = off
    AS $$
#variable_conflict use_column
BEGIN
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

-- From here on these nodes wait in the fair queue. One that waits for its back-off or its dependencies stays. Returns those that
-- wait now, also if they did before.
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
    RETURN QUERY SELECT * FROM node_waiting(the_nodes);
END
$$;

-- A node ends with pictures: its state, its artefacts, the in-degrees of its dependents (Kahn), the dependents that became ready
-- and the tokens that can be answered. No row if it is not the running attempt. The caller has locked the task.
CREATE FUNCTION node_finish(
    the_task uuid, the_node uuid, the_attempt integer, the_output jsonb, the_engine jsonb, the_gpu_us bigint, artefacts json
)
    RETURNS TABLE (name text, pool text, is_leaf boolean, ready json, answers json)
    LANGUAGE plpgsql
    SET enable_seqscan = off
    AS $$
DECLARE
    finished record;
    dependents uuid[];
    opened uuid[];
    ended timestamptz := clock_timestamp();
BEGIN
    UPDATE task_node AS node
       SET status = 'COMPLETED', version = version + 1, progress = 100, progress_at = ended, output = the_output,
           engine = the_engine, gpu_us = the_gpu_us, error = NULL, lease_until = NULL, ended_at = ended
     WHERE node.node_id = the_node AND node.task_id = the_task AND node.status = 'PROCESSING' AND node.attempt = the_attempt
    RETURNING * INTO finished;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO artefact (tenant_id, artefact_id, task_id, node_id, name, key, content_type, width, height, bytes, is_result,
                          expires_at)
    SELECT finished.tenant_id, made.artefact_id, the_task, the_node, made.name, made.key, made.content_type, made.width,
           made.height, made.bytes, finished.is_result, clock_timestamp() + make_interval(days => policy.artefact_days)
      FROM json_to_recordset(artefacts) AS made (artefact_id uuid, name text, key text, content_type text, width integer,
                                                 height integer, bytes bigint)
      JOIN tenant_policy AS policy ON policy.tenant_id = finished.tenant_id
    ON CONFLICT (key) DO NOTHING;
    WITH lowered AS (
        UPDATE task_node AS node
           SET in_degree = node.in_degree - 1,
               status = CASE WHEN node.in_degree = 1 AND node.not_before <= ended THEN 'QUEUED' ELSE 'PENDING' END,
               version = node.version + (node.in_degree = 1 AND node.not_before <= ended)::integer,
               ready_at = CASE WHEN node.in_degree = 1 AND node.not_before <= ended THEN ended END
          FROM node_dependency AS edge
         WHERE edge.depends_on_id = the_node AND node.node_id = edge.node_id AND node.status = 'PENDING'
        RETURNING node.node_id, node.in_degree
    )
    SELECT array_agg(lowered.node_id), array_agg(lowered.node_id) FILTER (WHERE lowered.in_degree = 0)
      INTO dependents, opened
      FROM lowered;
    RETURN QUERY
    SELECT finished.name, finished.pool, dependents IS NULL,
           (SELECT json_agg(waiting) FROM node_waiting(opened) AS waiting),
           (SELECT json_agg(answer) FROM token_answers(array_append(opened, the_node)) AS answer);
END
$$;

-- The tokens of these nodes whose wait is over. A dependency token (kind `gate`) is answered when the dependencies completed or
-- the node ended, a ready token when the node ended.
CREATE FUNCTION token_answers(the_nodes uuid[])
    RETURNS TABLE (tenant_id uuid, token_id uuid, node_id uuid, token text, status text)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off
    AS $$
BEGIN
    RETURN QUERY
    SELECT waiting.tenant_id, waiting.token_id, waiting.node_id, waiting.token, node.status
      FROM node_token AS waiting
      JOIN task_node AS node ON node.node_id = waiting.node_id
     WHERE waiting.node_id = ANY (the_nodes)
       AND (node.status IN ('COMPLETED', 'FAILED', 'TIMEOUT', 'CANCELLED') OR waiting.kind = 'gate' AND node.in_degree = 0)
     ORDER BY waiting.token_id;
END
$$;

-- Keeps the tokens of executions that wait, and returns those whose wait is over already. The lock on the tasks prevents that a
-- node ends between the two steps and leaves its token unanswered. A token of an unknown node is not kept and times out.
CREATE FUNCTION token_keep(given json)
    RETURNS TABLE (tenant_id uuid, token_id uuid, node_id uuid, token text, status text)
    LANGUAGE plpgsql
    SET enable_seqscan = off
    AS $$
BEGIN
    PERFORM FROM task
     WHERE task.task_id IN (SELECT node.task_id
                              FROM json_to_recordset(given) AS one (node_id uuid)
                              JOIN task_node AS node ON node.node_id = one.node_id)
     ORDER BY task.task_id
       FOR SHARE;
    INSERT INTO node_token (tenant_id, token_id, node_id, kind, token)
    SELECT node.tenant_id, one.token_id, node.node_id, one.kind, one.token
      FROM json_to_recordset(given) AS one (token_id uuid, node_id uuid, kind text, token text)
      JOIN task_node AS node ON node.node_id = one.node_id
    ON CONFLICT ON CONSTRAINT node_token_node_id_token_key DO NOTHING;
    RETURN QUERY
    SELECT * FROM token_answers(ARRAY(SELECT one.node_id FROM json_to_recordset(given) AS one (node_id uuid)));
END
$$;

REVOKE EXECUTE ON FUNCTION node_waiting, node_ready, node_finish, token_answers, token_keep FROM PUBLIC;
GRANT EXECUTE ON FUNCTION node_finish TO artiway_app;
GRANT EXECUTE ON FUNCTION node_ready TO artiway_service;
GRANT EXECUTE ON FUNCTION node_waiting, token_answers TO artiway_app, artiway_service;
GRANT EXECUTE ON FUNCTION token_keep TO artiway_service;

-- Also returns the task, which the work message names: a claim then needs no search for it.
DROP FUNCTION node_dispatch;
CREATE FUNCTION node_dispatch(the_nodes uuid[], charges_us bigint[], tags_us bigint[])
    RETURNS TABLE (node_id text, tenant_id text, task_id text, pool text, type text, attempt integer)
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
    RETURNING node.node_id::text, node.tenant_id::text, node.task_id::text, node.pool, node.type, node.attempt;
END
$$;
REVOKE EXECUTE ON FUNCTION node_dispatch FROM PUBLIC;
GRANT EXECUTE ON FUNCTION node_dispatch TO artiway_service;
