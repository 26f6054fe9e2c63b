-- An event of a task is stored in task_event. Its row in the outbox numbers it for sockets and their cursors, so it is written
-- only where a client may hold a cursor: the user, or a reader of the whole tenant's events, has opened a socket in the last 31
-- days. The outbox keeps events for 30 days at most (retention.outbox_hours), and a client gets its first cursor from a socket.
-- Clients that use webhooks, event streams or polling need no such rows: an eighth of the WAL of a node.

CREATE TABLE cursor_holder (
    tenant_id  uuid NOT NULL,
    user_id    uuid NOT NULL,
    scope      text NOT NULL CHECK (scope IN ('user', 'tenant')),
    held_until timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, user_id, scope)
);
CREATE INDEX cursor_holder_of_tenant ON cursor_holder (tenant_id) WHERE scope = 'tenant';

-- The release before kept no such rows: users who are signed in may hold a cursor of either scope.
ALTER TABLE session NO FORCE ROW LEVEL SECURITY;
INSERT INTO cursor_holder (tenant_id, user_id, scope, held_until)
SELECT DISTINCT tenant_id, user_id, scope, now() + interval '31 days'
  FROM session, unnest(ARRAY['user', 'tenant']) AS scope;
ALTER TABLE session FORCE ROW LEVEL SECURITY;

ALTER TABLE cursor_holder ENABLE ROW LEVEL SECURITY;
ALTER TABLE cursor_holder FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON cursor_holder TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON cursor_holder TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT ON cursor_holder TO artiway_app;
GRANT SELECT, INSERT ON cursor_holder TO artiway_service;
GRANT UPDATE (held_until) ON cursor_holder TO artiway_service;

-- In the transaction that opens the socket, which waits for the writers that have not seen it: see outbox_serialise. The row
-- changes once a day at most.
CREATE FUNCTION keep_cursor_holder() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO cursor_holder AS known (tenant_id, user_id, scope, held_until)
    VALUES (NEW.tenant_id, NEW.user_id, NEW.scope, clock_timestamp() + interval '31 days')
    ON CONFLICT (tenant_id, user_id, scope) DO UPDATE SET held_until = excluded.held_until
     WHERE known.held_until < excluded.held_until - interval '1 day';
    RETURN NULL;

END
$$;
CREATE TRIGGER keep_cursor_holder AFTER INSERT ON websocket_connection FOR EACH ROW EXECUTE FUNCTION keep_cursor_holder();

CREATE OR REPLACE FUNCTION outbox_publish(messages json, the_trace text) RETURNS TABLE (outbox_id bigint, is_due boolean)
    LANGUAGE plpgsql
    SET enable_seqscan = off
    AS $$
#variable_conflict use_column
DECLARE
    tenants uuid[];
    aggregates text[];
    users uuid[];
    is_events_only boolean;

BEGIN
    SELECT array_agg(DISTINCT coalesce(current_tenant(), message.tenant_id)) FILTER (WHERE is_of_user),
           array_agg(DISTINCT message.aggregate) FILTER (WHERE is_of_user),
           array_agg(DISTINCT substr(message.aggregate, 6)::uuid) FILTER (WHERE is_of_user),
           bool_and(is_of_user AND message.task_id IS NOT NULL)
      INTO tenants, aggregates, users, is_events_only
      FROM (SELECT tenant_id, aggregate, task_id, destination = 'push' AND aggregate LIKE 'user:%' AS is_of_user
              FROM json_to_recordset(messages) AS (tenant_id uuid, aggregate text, destination text, task_id uuid)) AS message;
    IF aggregates IS NOT NULL THEN
        PERFORM outbox_serialise(tenants, aggregates);
    END IF;
    -- Where messages of another kind leave too, which is rare, the events are numbered with them.
    IF is_events_only
       AND NOT EXISTS (SELECT FROM cursor_holder
                        WHERE tenant_id = ANY (tenants) AND user_id = ANY (users) AND held_until > clock_timestamp())
       AND NOT EXISTS (SELECT FROM cursor_holder
                        WHERE tenant_id = ANY (tenants) AND scope = 'tenant' AND held_until > clock_timestamp()) THEN
        RETURN QUERY SELECT 0::bigint, false FROM generate_series(1, json_array_length(messages));
        RETURN;
    END IF;
    RETURN QUERY
    INSERT INTO outbox (tenant_id, aggregate, destination, body, delay_s, trace_id, task_id, sequence, due_at, sent_at)
    SELECT coalesce(current_tenant(), tenant_id), aggregate, destination, body, delay_s, coalesce(trace_id, the_trace), task_id, sequence, due_at,
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
                          task_id uuid, sequence bigint, due_at timestamptz))
           WITH ORDINALITY AS message (tenant_id, aggregate, destination, body, delay_s, trace_id, task_id, sequence, due_at, place)
     ORDER BY place
    RETURNING outbox_id, sent_at IS NULL;

END
$$;
