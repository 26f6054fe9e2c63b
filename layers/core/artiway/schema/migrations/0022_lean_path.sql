-- Fewer requests per node. Each function below is one request where there were two to five, and is planned once per
-- connection. The functions of the release before stay, because both releases run during a deployment.

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
    INSERT INTO outbox (tenant_id, aggregate, destination, body, delay_s, trace_id, sent_at)
    SELECT coalesce(current_tenant(), tenant_id), aggregate, destination, body, delay_s, the_trace,
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
                      AS (tenant_id uuid, aggregate text, destination text, body text, delay_s smallint))
           WITH ORDINALITY AS message (tenant_id, aggregate, destination, body, delay_s, place)
     ORDER BY place
    RETURNING outbox_id, sent_at IS NULL;
END
$$;

-- The queue has accepted these messages. Events stay, because sockets read them behind their cursors; other rows go. A row that
-- a sweep has locked is left to the sweep. A crash may undo this: the messages are then sent again.
CREATE FUNCTION outbox_sent(the_tenant text, ids bigint[]) RETURNS void
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

-- The sweep takes the oldest messages whatever their aggregate.
DROP INDEX outbox_unsent_by_aggregate;

-- Events are purged by their age, never by a function that serves tenants.
CREATE POLICY no_event ON outbox AS RESTRICTIVE FOR DELETE TO artiway_app USING (destination <> 'push');
