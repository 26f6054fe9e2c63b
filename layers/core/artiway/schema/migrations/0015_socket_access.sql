-- A socket ends with its session, user or tenant. With task.manage it receives the events of the whole tenant.

ALTER TABLE websocket_connection
    ADD COLUMN scope text NOT NULL DEFAULT 'user' CHECK (scope IN ('user', 'tenant'));

CREATE INDEX websocket_connection_open ON websocket_connection (tenant_id, user_id) WHERE closed_at IS NULL;
CREATE INDEX websocket_connection_tenant_wide ON websocket_connection (tenant_id)
 WHERE scope = 'tenant' AND closed_at IS NULL;
-- The events of all users of a tenant, in the order of their numbers.
CREATE INDEX outbox_events_of_tenant ON outbox (tenant_id, outbox_id)
 WHERE destination = 'push' AND aggregate LIKE 'user:%';

-- Sessions that may receive events now.
CREATE VIEW open_session WITH (security_invoker = true) AS
SELECT tenant_id, session_id, user_id
  FROM session
  JOIN app_user USING (tenant_id, user_id)
  JOIN tenant USING (tenant_id)
 WHERE revoked_at IS NULL AND session.expires_at > now()
   AND app_user.status = 'ACTIVE' AND tenant.status = 'ACTIVE';
GRANT SELECT ON open_session TO artiway_service;

CREATE FUNCTION is_tenant_wide_allowed(the_tenant uuid, the_user uuid) RETURNS boolean
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    RETURN EXISTS (SELECT FROM user_permission
                    WHERE tenant_id = the_tenant AND user_id = the_user AND permission = 'task.manage');
END
$$;

-- Whether a socket may still receive events. A function, since it is planned once per connection and not at each event;
-- one that was planned while a table was small goes by its index all the same.
CREATE FUNCTION is_socket_allowed(the_tenant uuid, the_user uuid, the_session uuid, the_scope text) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET enable_seqscan = off
    AS $$
BEGIN
    RETURN EXISTS (SELECT FROM open_session
                    WHERE tenant_id = the_tenant AND session_id = the_session AND user_id = the_user)
       AND (the_scope = 'user' OR is_tenant_wide_allowed(the_tenant, the_user));
END
$$;

REVOKE EXECUTE ON FUNCTION is_tenant_wide_allowed, is_socket_allowed FROM PUBLIC;
GRANT EXECUTE ON FUNCTION is_tenant_wide_allowed, is_socket_allowed TO artiway_service;

-- Advisory locks on events, always taken in this order and held until the commit:
--   4, tenant     writers share it; a tenant-wide socket that opens has it alone
--   5, tenant     writers have it alone, while the tenant has an open tenant-wide socket
--   1, aggregate  writers of one aggregate, and a socket of one user that opens, have it alone
-- The first makes the check for a socket exact: a writer that found none commits before the socket opens, one that begins
-- after that finds it. The second makes the numbers of all events of the tenant rise in the order of commits, as the
-- third does for those of one user. Without a tenant-wide socket the writers of a tenant do not wait for each other.
-- Each statement of the function sees what was committed when it began, so also a socket for which the first one waited.
CREATE FUNCTION outbox_serialise(tenants uuid[], aggregates text[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan = off
    AS $$
BEGIN
    IF cardinality(tenants) > 0 THEN
        PERFORM pg_advisory_xact_lock_shared(4, key)
           FROM (SELECT DISTINCT hashtext(tenant::text) AS key FROM unnest(tenants) AS tenant ORDER BY 1) AS keys;
        PERFORM pg_advisory_xact_lock(5, key)
           FROM (SELECT DISTINCT hashtext(tenant_id::text) AS key
                   FROM websocket_connection
                  WHERE tenant_id = ANY (tenants) AND scope = 'tenant' AND closed_at IS NULL
                    AND expires_at > clock_timestamp()
                  ORDER BY 1) AS keys;
    END IF;
    PERFORM pg_advisory_xact_lock(1, key)
       FROM (SELECT DISTINCT hashtext(aggregate) AS key FROM unnest(aggregates) AS aggregate ORDER BY 1) AS keys;
END
$$;

REVOKE EXECUTE ON FUNCTION outbox_serialise FROM PUBLIC;
GRANT EXECUTE ON FUNCTION outbox_serialise TO artiway_app, artiway_service;

CREATE OR REPLACE FUNCTION wait_for_speakers() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NEW.scope = 'tenant' THEN
        PERFORM pg_advisory_xact_lock(4, hashtext(NEW.tenant_id::text));
    ELSE
        PERFORM pg_advisory_xact_lock(1, hashtext('user:' || NEW.user_id));
    END IF;
    RETURN NEW;
END
$$;

-- As before, and an event is sent on also while a tenant-wide socket is open.
CREATE OR REPLACE FUNCTION outbox_put(messages json, the_trace text) RETURNS SETOF text
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
                     AND NOT EXISTS (SELECT FROM websocket_connection AS socket
                                      WHERE socket.tenant_id = coalesce(current_tenant(), message.tenant_id)
                                        AND socket.scope = 'tenant'
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
