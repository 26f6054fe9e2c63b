-- The trace id of the request that submitted a task. Everything that is done for the task later, by other functions, workers
-- and sweeps, is logged and published under this id.
ALTER TABLE task ADD COLUMN trace_id text NOT NULL DEFAULT '' CHECK (length(trace_id) <= 64);

-- As before, and each message may have a trace id of its own: one transaction dispatches the nodes of many tasks.
CREATE OR REPLACE FUNCTION outbox_publish(messages json, the_trace text) RETURNS TABLE (outbox_id bigint, is_due boolean)
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
    SELECT coalesce(current_tenant(), tenant_id), aggregate, destination, body, delay_s, coalesce(message.trace_id, the_trace),
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
                      AS (tenant_id uuid, aggregate text, destination text, body text, delay_s smallint, trace_id text))
           WITH ORDINALITY AS message (tenant_id, aggregate, destination, body, delay_s, trace_id, place)
     ORDER BY place
    RETURNING outbox_id, sent_at IS NULL;
END
$$;
