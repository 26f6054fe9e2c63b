-- The schema as the migrations leave it. Written by `make schema`; a test keeps it true.
CREATE FUNCTION public.current_tenant() RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT nullif(current_setting('app.tenant_id', true), '')::uuid $$;

CREATE FUNCTION public.is_socket_allowed(the_tenant uuid, the_user uuid, the_session uuid, the_scope text) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    AS $$
BEGIN
    RETURN EXISTS (SELECT FROM open_session
                    WHERE tenant_id = the_tenant AND session_id = the_session AND user_id = the_user)
       AND (the_scope = 'user' OR is_tenant_wide_allowed(the_tenant, the_user));

END
$$;

CREATE FUNCTION public.is_tenant_wide_allowed(the_tenant uuid, the_user uuid) RETURNS boolean
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    RETURN EXISTS (SELECT FROM user_permission
                    WHERE tenant_id = the_tenant AND user_id = the_user AND permission = 'task.manage');

END
$$;

CREATE FUNCTION public.job_partition_days() RETURNS TABLE(kind text, day date)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
SELECT parent.relname::text, to_date(right(part.relname, 8), 'YYYYMMDD')
  FROM pg_inherits JOIN pg_class AS part ON part.oid = inhrelid JOIN pg_class AS parent ON parent.oid = inhparent
 WHERE parent.relname IN ('job_run', 'run_result', 'run_log') AND parent.relkind = 'p'
$$;

CREATE FUNCTION public.job_partition_drop(kind text, day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    SET lock_timeout TO '2s'
    AS $$
BEGIN
    PERFORM job_partition_lock(kind, day);
    EXECUTE format('DROP TABLE %I', format('%s_%s', kind, to_char(day, 'YYYYMMDD')));

END
$$;

CREATE FUNCTION public.job_partition_ensure(day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    parent text;
    part text;

BEGIN
    IF day < current_date - 400 OR day > current_date + 400 THEN
        RAISE EXCEPTION 'no partition for %', day USING ERRCODE = 'datetime_field_overflow';
    END IF;
    FOREACH parent IN ARRAY ARRAY['job_run', 'run_result', 'run_log'] LOOP
        part := format('%s_%s', parent, to_char(day, 'YYYYMMDD'));
        IF to_regclass(part) IS NULL THEN
            PERFORM pg_advisory_xact_lock(11, hashtext(part));
            IF to_regclass(part) IS NULL THEN
                EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', part, parent,
                               day::text || ' 00:00:00+00', (day + 1)::text || ' 00:00:00+00');
                EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', part);
                EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', part);
            END IF;
        END IF;
    END LOOP;

END
$$;

CREATE FUNCTION public.job_partition_lock(kind text, day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    SET lock_timeout TO '2s'
    AS $$
BEGIN
    IF kind NOT IN ('job_run', 'run_result', 'run_log') OR day >= current_date THEN
        RAISE EXCEPTION 'no partition that can leave: % %', kind, day USING ERRCODE = 'invalid_parameter_value';
    END IF;
    EXECUTE format('LOCK TABLE %I IN SHARE ROW EXCLUSIVE MODE', format('%s_%s', kind, to_char(day, 'YYYYMMDD')));

END
$$;

CREATE FUNCTION public.keep_cursor_holder() RETURNS trigger
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

CREATE FUNCTION public.keep_node_history() RETURNS trigger
    LANGUAGE plpgsql
    SET enable_nestloop TO 'off'
    AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO node_history (tenant_id, node_id, version, from_status, to_status, attempt)
        SELECT tenant_id, node_id, version, NULL, status, attempt FROM after_rows;
        RETURN NULL;
    END IF;
    -- Whatever differs in state, version or attempt is written down; what may not differ so is refused on the way.
    INSERT INTO node_history (tenant_id, node_id, version, from_status, to_status, attempt, worker_id, reason)
    SELECT a.tenant_id, a.node_id,
           CASE WHEN a.version = b.version + 1
                 AND (a.status = b.status OR legal.to_status IS NOT NULL)
                 AND (a.attempt = b.attempt
                      OR a.attempt = b.attempt + 1 AND b.dispatched_at IS NULL AND a.dispatched_at IS NOT NULL)
                THEN a.version
                ELSE refuse_node_change(b.status, a.status, b.version, a.version)
           END,
           b.status, a.status, a.attempt, coalesce(a.worker_id, b.worker_id), a.error ->> 'code'
      FROM before_rows AS b
      JOIN after_rows AS a USING (node_id)
      LEFT JOIN node_transition AS legal ON legal.from_status = b.status AND legal.to_status = a.status
     WHERE a.version <> b.version OR a.status <> b.status OR a.attempt <> b.attempt;
    RETURN NULL;

END
$$;

CREATE FUNCTION public.node_dispatch(the_nodes uuid[], charges_us bigint[], tags_us bigint[]) RETURNS TABLE(node_id text, tenant_id text, task_id text, pool text, type text, attempt integer)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_nestloop TO 'off'
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

CREATE FUNCTION public.node_finish(the_task uuid, the_node uuid, the_attempt integer, the_output jsonb, the_engine jsonb, the_gpu_us bigint, artefacts json) RETURNS TABLE(name text, pool text, is_leaf boolean, ready json, answers json)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
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

CREATE FUNCTION public.node_mark_ready(the_nodes uuid[]) RETURNS TABLE(node_id text, tenant_id text, user_id text, pool text, lane text, type text, model text, cost_us bigint, weight integer, cap integer)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
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

CREATE FUNCTION public.node_ready(the_nodes uuid[]) RETURNS TABLE(node_id text, tenant_id text, user_id text, pool text, lane text, type text, model text, cost_us bigint, priority text, weight integer, cap integer, user_cap integer, own_cap integer, step text)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
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

CREATE FUNCTION public.node_waiting(the_nodes uuid[]) RETURNS TABLE(node_id text, tenant_id text, user_id text, pool text, lane text, type text, model text, cost_us bigint, priority text, weight integer, cap integer, user_cap integer, own_cap integer, step text)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
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

CREATE FUNCTION public.outbox_publish(messages json, the_trace text) RETURNS TABLE(outbox_id bigint, is_due boolean)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
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

CREATE FUNCTION public.outbox_put(messages json, the_trace text) RETURNS SETOF text
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
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

CREATE FUNCTION public.outbox_sent(the_tenant text, ids bigint[], tokens uuid[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
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

CREATE FUNCTION public.outbox_serialise(tenants uuid[], aggregates text[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
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

CREATE FUNCTION public.points_end_hold(the_hold uuid, ended_as text, charge bigint, the_entry uuid, the_kind text, the_reference text, the_key text, at timestamp with time zone) RETURNS TABLE(hold_id uuid, user_id uuid, amount bigint, charged bigint, status text, expires_at timestamp with time zone, lot_points bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH held AS (
        SELECT tenant_id, hold_id, user_id, amount, lot_points, expires_at
          FROM points_hold
         WHERE hold_id = the_hold AND status = 'HELD' AND amount >= charge
    ), account AS (
        UPDATE points_account AS account
           SET balance = account.balance + held.amount - charge,
               frozen = account.frozen - held.amount,
               version = account.version + 1
          FROM held
         WHERE account.tenant_id = held.tenant_id AND account.user_id = held.user_id AND account.frozen >= held.amount
        RETURNING account.balance, account.frozen, account.version
    ), ended AS (
        UPDATE points_hold AS hold
           SET status = ended_as, charged = charge, ended_at = at
          FROM held, account
         WHERE hold.tenant_id = held.tenant_id AND hold.hold_id = held.hold_id
    ), entry AS (
        INSERT INTO points_ledger (tenant_id, user_id, version, entry_id, kind, balance_delta, frozen_delta, balance, frozen,
                                   hold_id, reference, idempotency_key, created_at)
        SELECT held.tenant_id, held.user_id, account.version, the_entry, the_kind, held.amount - charge, -held.amount,
               account.balance, account.frozen, held.hold_id, the_reference, the_key, at
          FROM held, account
    )
    SELECT held.hold_id, held.user_id, held.amount, charge, ended_as, held.expires_at, held.lot_points FROM held, account;

END
$$;

CREATE FUNCTION public.points_place_hold(the_hold uuid, the_user uuid, points bigint, the_entry uuid, the_reference text, the_key text, at timestamp with time zone, until timestamp with time zone) RETURNS TABLE(next_expiry_at timestamp with time zone)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH account AS (
        UPDATE points_account
           SET balance = balance - points, frozen = frozen + points, version = version + 1
         WHERE user_id = the_user AND balance >= points AND (next_expiry_at IS NULL OR next_expiry_at > at)
        RETURNING tenant_id, user_id, balance, frozen, version, next_expiry_at
    ), hold AS (
        INSERT INTO points_hold (tenant_id, hold_id, user_id, amount, status, created_at, expires_at)
        SELECT tenant_id, the_hold, user_id, points, 'HELD', at, until FROM account
    ), entry AS (
        INSERT INTO points_ledger (tenant_id, user_id, version, entry_id, kind, balance_delta, frozen_delta, balance, frozen,
                                   hold_id, reference, idempotency_key, created_at)
        SELECT tenant_id, user_id, version, the_entry, 'FREEZE', -points, points, balance, frozen,
               the_hold, the_reference, the_key, at
          FROM account
    )
    SELECT next_expiry_at FROM account;

END
$$;

CREATE FUNCTION public.refuse_node_change(from_status text, to_status text, from_version integer, to_version integer) RETURNS integer
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'illegal change of a node: % -> % (version % -> %)', from_status, to_status, from_version, to_version
        USING ERRCODE = 'check_violation', TABLE = 'task_node';

END
$$;

CREATE FUNCTION public.task_publish(events json, messages json, the_trace text) RETURNS TABLE(outbox_id bigint, is_due boolean)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
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

CREATE FUNCTION public.token_answers(the_nodes uuid[]) RETURNS TABLE(tenant_id uuid, token_id uuid, node_id uuid, token text, status text)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
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

CREATE FUNCTION public.token_keep(given json) RETURNS TABLE(tenant_id uuid, token_id uuid, node_id uuid, token text, status text)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
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

CREATE FUNCTION public.wait_for_speakers() RETURNS trigger
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

CREATE FUNCTION public.whole_number(value jsonb, lowest integer, highest integer) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE WHEN jsonb_typeof(value) <> 'number' THEN NULL
                WHEN value::numeric BETWEEN lowest AND highest AND value::numeric = trunc(value::numeric)
                THEN value::integer END;
$$;

CREATE TABLE public.api_key (
    tenant_id uuid NOT NULL,
    key_id uuid NOT NULL,
    user_id uuid NOT NULL,
    name text NOT NULL,
    permissions text[] NOT NULL,
    secret_hash bytea NOT NULL,
    is_signed boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    parent_key_id uuid,
    CONSTRAINT api_key_name_check CHECK (((length(name) >= 1) AND (length(name) <= 100))),
    CONSTRAINT api_key_parent_check CHECK ((parent_key_id <> key_id)),
    CONSTRAINT api_key_permissions_check CHECK ((cardinality(permissions) <= 64)),
    CONSTRAINT api_key_secret_hash_check CHECK ((octet_length(secret_hash) = 32))
);

ALTER TABLE ONLY public.api_key FORCE ROW LEVEL SECURITY;

CREATE TABLE public.api_key_nonce (
    tenant_id uuid NOT NULL,
    key_id uuid NOT NULL,
    nonce text NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT api_key_nonce_nonce_check CHECK (((length(nonce) >= 8) AND (length(nonce) <= 128)))
);

ALTER TABLE ONLY public.api_key_nonce FORCE ROW LEVEL SECURITY;

CREATE TABLE public.app_user (
    tenant_id uuid NOT NULL,
    user_id uuid NOT NULL,
    email text,
    phone text,
    password_hash text,
    status text DEFAULT 'ACTIVE'::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    concurrency integer,
    concurrency_set_at timestamp with time zone,
    display_name text,
    language text,
    email_notices boolean DEFAULT true NOT NULL,
    logins_seen_at timestamp with time zone,
    CONSTRAINT app_user_concurrency_check CHECK (((concurrency >= 0) AND (concurrency <= 100000))),
    CONSTRAINT app_user_display_name_check CHECK (((length(display_name) >= 1) AND (length(display_name) <= 80))),
    CONSTRAINT app_user_email_check CHECK (((email = lower(email)) AND ((length(email) >= 3) AND (length(email) <= 254)))),
    CONSTRAINT app_user_language_check CHECK ((language = ANY (ARRAY['zh'::text, 'en'::text]))),
    CONSTRAINT app_user_phone_check CHECK ((phone ~ '^\+[0-9]{6,15}$'::text)),
    CONSTRAINT app_user_status_check CHECK ((status = ANY (ARRAY['ACTIVE'::text, 'DISABLED'::text])))
);

ALTER TABLE ONLY public.app_user FORCE ROW LEVEL SECURITY;

CREATE TABLE public.artefact (
    tenant_id uuid NOT NULL,
    artefact_id uuid NOT NULL,
    task_id uuid NOT NULL,
    node_id uuid NOT NULL,
    name text NOT NULL,
    key text NOT NULL,
    content_type text NOT NULL,
    width integer NOT NULL,
    height integer NOT NULL,
    bytes bigint NOT NULL,
    is_result boolean NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    cleanup_status smallint DEFAULT 0 NOT NULL,
    deleted_at timestamp with time zone,
    CONSTRAINT artefact_cleanup_status_check CHECK ((cleanup_status = ANY (ARRAY[0, 1])))
)
WITH (autovacuum_vacuum_scale_factor='0.02');

ALTER TABLE ONLY public.artefact FORCE ROW LEVEL SECURITY;

CREATE TABLE public.audit_log (
    audit_id uuid NOT NULL,
    tenant_id uuid,
    actor_id uuid,
    action text NOT NULL,
    target text NOT NULL,
    details jsonb DEFAULT '{}'::jsonb NOT NULL,
    trace_id text DEFAULT ''::text NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT audit_log_action_check CHECK (((action <> ''::text) AND (length(action) <= 100))),
    CONSTRAINT audit_log_details_check CHECK ((octet_length((details)::text) <= 32768)),
    CONSTRAINT audit_log_target_check CHECK ((length(target) <= 200))
);

ALTER TABLE ONLY public.audit_log FORCE ROW LEVEL SECURITY;

CREATE TABLE public.backfill (
    tenant_id uuid NOT NULL,
    backfill_id uuid NOT NULL,
    job_id uuid NOT NULL,
    actor_id uuid NOT NULL,
    since timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL,
    parallelism integer NOT NULL,
    reprocess text NOT NULL,
    status text DEFAULT 'RUNNING'::text NOT NULL,
    total integer NOT NULL,
    done integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    minute timestamp with time zone,
    released integer DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT backfill_check CHECK ((since < until)),
    CONSTRAINT backfill_check1 CHECK (((status = 'RUNNING'::text) = (ended_at IS NULL))),
    CONSTRAINT backfill_done_check CHECK ((done >= 0)),
    CONSTRAINT backfill_failed_check CHECK ((failed >= 0)),
    CONSTRAINT backfill_parallelism_check CHECK (((parallelism >= 1) AND (parallelism <= 1000))),
    CONSTRAINT backfill_released_check CHECK ((released >= 0)),
    CONSTRAINT backfill_reprocess_check CHECK ((reprocess = ANY (ARRAY['none'::text, 'failed'::text, 'completed'::text]))),
    CONSTRAINT backfill_status_check CHECK ((status = ANY (ARRAY['RUNNING'::text, 'COMPLETED'::text, 'CANCELLED'::text]))),
    CONSTRAINT backfill_total_check CHECK ((total >= 0))
);

ALTER TABLE ONLY public.backfill FORCE ROW LEVEL SECURITY;

CREATE TABLE public.bill_day (
    day date NOT NULL,
    status text NOT NULL,
    tries integer NOT NULL,
    payments integer,
    refunds integer,
    total_fen bigint,
    differences integer,
    last_error text,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT bill_day_status_check CHECK ((status = ANY (ARRAY['WAITING'::text, 'FAILED'::text, 'COMPARED'::text, 'DONE'::text])))
);

ALTER TABLE ONLY public.bill_day FORCE ROW LEVEL SECURITY;

CREATE TABLE public.bill_difference (
    day date NOT NULL,
    kind text NOT NULL,
    reference text NOT NULL,
    tenant_id uuid,
    order_id uuid,
    ours_fen bigint,
    theirs_fen bigint,
    resolution text NOT NULL,
    found_at timestamp with time zone NOT NULL,
    resolved_at timestamp with time zone,
    CONSTRAINT bill_difference_kind_check CHECK ((kind = ANY (ARRAY['MISSING_HERE'::text, 'MISSING_THERE'::text, 'UNPAID_HERE'::text, 'AMOUNT'::text, 'REFUND_MISSING_HERE'::text, 'REFUND_MISSING_THERE'::text, 'REFUND_AMOUNT'::text]))),
    CONSTRAINT bill_difference_resolution_check CHECK ((resolution = ANY (ARRAY['OPEN'::text, 'REPAIRED'::text])))
);

ALTER TABLE ONLY public.bill_difference FORCE ROW LEVEL SECURITY;

CREATE VIEW public.built_in_role WITH (security_invoker='true') AS
 SELECT name,
    string_to_array(permissions, ' '::text) AS permissions,
    (name = 'platform_admin'::text) AS is_platform
   FROM ( VALUES ('owner'::text,'task.submit task.read task.cancel task.manage points.read points.transfer order.create order.refund job.read job.write job.run job.ops webhook.manage user.manage'::text), ('admin'::text,'task.submit task.read task.cancel task.manage points.read points.transfer order.create job.read job.write job.run job.ops webhook.manage user.manage'::text), ('operator'::text,'task.submit task.read task.cancel task.manage points.read job.read job.write job.run job.ops webhook.manage'::text), ('member'::text,'task.submit task.read task.cancel points.read order.create job.read'::text), ('viewer'::text,'task.read points.read job.read'::text), ('platform_admin'::text,'task.submit task.read task.cancel task.manage points.read points.grant points.transfer order.create order.refund job.read job.write job.run job.ops webhook.manage user.manage tenant.manage ops.read ops.write'::text)) role(name, permissions);

CREATE TABLE public.circuit (
    pool text NOT NULL,
    step text NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    opened_at timestamp with time zone,
    probe_at timestamp with time zone,
    probes_failed integer DEFAULT 0 NOT NULL,
    last_error text DEFAULT ''::text NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT circuit_check CHECK (((probe_at IS NULL) = (opened_at IS NULL))),
    CONSTRAINT circuit_failures_check CHECK ((failures >= 0)),
    CONSTRAINT circuit_pool_check CHECK (((length(pool) >= 1) AND (length(pool) <= 64))),
    CONSTRAINT circuit_probes_failed_check CHECK ((probes_failed >= 0)),
    CONSTRAINT circuit_step_check CHECK (((length(step) >= 1) AND (length(step) <= 64)))
);

ALTER TABLE ONLY public.circuit FORCE ROW LEVEL SECURITY;

CREATE TABLE public.cursor_holder (
    tenant_id uuid NOT NULL,
    user_id uuid NOT NULL,
    scope text NOT NULL,
    held_until timestamp with time zone NOT NULL,
    CONSTRAINT cursor_holder_scope_check CHECK ((scope = ANY (ARRAY['user'::text, 'tenant'::text])))
);

ALTER TABLE ONLY public.cursor_holder FORCE ROW LEVEL SECURITY;

CREATE TABLE public.generation (
    tenant_id uuid NOT NULL,
    generation_id uuid NOT NULL,
    user_id uuid NOT NULL,
    service text NOT NULL,
    lane text NOT NULL,
    is_free boolean NOT NULL,
    status text DEFAULT 'QUEUED'::text NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    input jsonb NOT NULL,
    params jsonb DEFAULT '{}'::jsonb NOT NULL,
    max_tokens integer NOT NULL,
    input_tokens integer NOT NULL,
    input_price integer NOT NULL,
    output_price integer NOT NULL,
    hold_id uuid,
    price_points bigint NOT NULL,
    charged_points bigint DEFAULT 0 NOT NULL,
    allowance_day date,
    not_before timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    message_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    worker_id text DEFAULT ''::text NOT NULL,
    lease_until timestamp with time zone,
    provider text DEFAULT ''::text NOT NULL,
    model_id text DEFAULT ''::text NOT NULL,
    text text DEFAULT ''::text NOT NULL,
    result jsonb,
    used_input integer,
    used_output integer,
    usage_source text,
    finish_reason text,
    error jsonb,
    trace_id text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    started_at timestamp with time zone,
    first_token_at timestamp with time zone,
    ended_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    chain jsonb,
    input_cost numeric DEFAULT 0 NOT NULL,
    output_cost numeric DEFAULT 0 NOT NULL,
    CONSTRAINT generation_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT generation_chain_check CHECK (((jsonb_typeof(chain) = 'object'::text) AND (chain ?& ARRAY['dependency'::text, 'reservedTokens'::text, 'lane'::text, 'inputTokens'::text, 'maxTokens'::text]))),
    CONSTRAINT generation_check CHECK (((charged_points >= 0) AND (charged_points <= price_points))),
    CONSTRAINT generation_check1 CHECK (((status = ANY (ARRAY['COMPLETED'::text, 'FAILED'::text, 'CANCELLED'::text])) = (ended_at IS NOT NULL))),
    CONSTRAINT generation_check2 CHECK (((status = 'RUNNING'::text) = (lease_until IS NOT NULL))),
    CONSTRAINT generation_check3 CHECK (((is_free = (price_points = 0)) AND (is_free = (hold_id IS NULL)) AND (is_free = (allowance_day IS NOT NULL)))),
    CONSTRAINT generation_check4 CHECK ((((used_input IS NULL) = (usage_source IS NULL)) AND ((used_output IS NULL) = (usage_source IS NULL)))),
    CONSTRAINT generation_failures_check CHECK ((failures >= 0)),
    CONSTRAINT generation_finish_reason_check CHECK ((length(finish_reason) <= 64)),
    CONSTRAINT generation_input_price_check CHECK ((input_price >= 0)),
    CONSTRAINT generation_input_tokens_check CHECK (((input_tokens >= 0) AND (input_tokens <= 10000000))),
    CONSTRAINT generation_lane_check CHECK (((length(lane) >= 1) AND (length(lane) <= 64))),
    CONSTRAINT generation_max_tokens_check CHECK (((max_tokens >= 1) AND (max_tokens <= 1000000))),
    CONSTRAINT generation_model_id_check CHECK ((length(model_id) <= 200)),
    CONSTRAINT generation_output_price_check CHECK ((output_price >= 0)),
    CONSTRAINT generation_price_points_check CHECK ((price_points >= 0)),
    CONSTRAINT generation_provider_check CHECK ((length(provider) <= 100)),
    CONSTRAINT generation_service_check CHECK (((length(service) >= 1) AND (length(service) <= 64))),
    CONSTRAINT generation_status_check CHECK ((status = ANY (ARRAY['QUEUED'::text, 'RUNNING'::text, 'COMPLETED'::text, 'FAILED'::text, 'CANCELLED'::text]))),
    CONSTRAINT generation_trace_id_check CHECK ((length(trace_id) <= 64)),
    CONSTRAINT generation_usage_source_check CHECK ((usage_source = ANY (ARRAY['provider'::text, 'estimated'::text]))),
    CONSTRAINT generation_used_input_check CHECK ((used_input >= 0)),
    CONSTRAINT generation_used_output_check CHECK ((used_output >= 0)),
    CONSTRAINT generation_worker_id_check CHECK ((length(worker_id) <= 200))
)
WITH (autovacuum_vacuum_scale_factor='0.02');

ALTER TABLE ONLY public.generation FORCE ROW LEVEL SECURITY;

CREATE TABLE public.generation_allowance (
    tenant_id uuid NOT NULL,
    user_id uuid NOT NULL,
    day date NOT NULL,
    tokens bigint NOT NULL,
    CONSTRAINT generation_allowance_tokens_check CHECK ((tokens >= 0))
);

ALTER TABLE ONLY public.generation_allowance FORCE ROW LEVEL SECURITY;

CREATE TABLE public.generation_clock (
    lane text NOT NULL,
    start_tag bigint DEFAULT 0 NOT NULL,
    CONSTRAINT generation_clock_lane_check CHECK (((length(lane) >= 1) AND (length(lane) <= 64))),
    CONSTRAINT generation_clock_start_tag_check CHECK ((start_tag >= 0))
);

ALTER TABLE ONLY public.generation_clock FORCE ROW LEVEL SECURITY;

CREATE TABLE public.generation_share (
    tenant_id uuid NOT NULL,
    lane text NOT NULL,
    finish_tag bigint NOT NULL,
    CONSTRAINT generation_share_finish_tag_check CHECK ((finish_tag >= 0)),
    CONSTRAINT generation_share_lane_check CHECK (((length(lane) >= 1) AND (length(lane) <= 64)))
);

ALTER TABLE ONLY public.generation_share FORCE ROW LEVEL SECURITY;

CREATE TABLE public.idempotency_key (
    tenant_id uuid NOT NULL,
    idempotency_key text NOT NULL,
    request_hash text NOT NULL,
    status smallint NOT NULL,
    body text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT idempotency_key_body_check CHECK ((octet_length(body) <= 1048576)),
    CONSTRAINT idempotency_key_idempotency_key_check CHECK (((length(idempotency_key) >= 1) AND (length(idempotency_key) <= 255))),
    CONSTRAINT idempotency_key_request_hash_check CHECK ((request_hash <> ''::text)),
    CONSTRAINT idempotency_key_status_check CHECK (((status >= 100) AND (status <= 599)))
);

ALTER TABLE ONLY public.idempotency_key FORCE ROW LEVEL SECURITY;

CREATE TABLE public.invariant_pass (
    is_only boolean DEFAULT true NOT NULL,
    clean_at timestamp with time zone NOT NULL,
    suspects jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT invariant_pass_is_only_check CHECK (is_only)
);

ALTER TABLE ONLY public.invariant_pass FORCE ROW LEVEL SECURITY;

CREATE TABLE public.invitation (
    tenant_id uuid NOT NULL,
    invitation_id uuid NOT NULL,
    email text NOT NULL,
    roles text[] NOT NULL,
    language text,
    invited_by uuid NOT NULL,
    token_hash bytea,
    created_at timestamp with time zone NOT NULL,
    sent_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    accepted_at timestamp with time zone,
    revoked_at timestamp with time zone,
    user_id uuid,
    CONSTRAINT invitation_check CHECK (((accepted_at IS NULL) = (user_id IS NULL))),
    CONSTRAINT invitation_check1 CHECK (((accepted_at IS NULL) OR (revoked_at IS NULL))),
    CONSTRAINT invitation_email_check CHECK (((email = lower(email)) AND ((length(email) >= 3) AND (length(email) <= 254)))),
    CONSTRAINT invitation_language_check CHECK ((language = ANY (ARRAY['zh'::text, 'en'::text]))),
    CONSTRAINT invitation_roles_check CHECK (((cardinality(roles) >= 1) AND (cardinality(roles) <= 20))),
    CONSTRAINT invitation_token_hash_check CHECK ((octet_length(token_hash) = 32))
);

ALTER TABLE ONLY public.invitation FORCE ROW LEVEL SECURITY;

CREATE TABLE public.job (
    tenant_id uuid NOT NULL,
    job_id uuid NOT NULL,
    user_id uuid NOT NULL,
    name text NOT NULL,
    status text DEFAULT 'ACTIVE'::text NOT NULL,
    version integer DEFAULT 1 NOT NULL,
    schedule_type text NOT NULL,
    expr text,
    at timestamp with time zone,
    timezone text DEFAULT 'UTC'::text NOT NULL,
    tzdata_version text NOT NULL,
    jitter_s integer DEFAULT 0 NOT NULL,
    starts_at timestamp with time zone,
    ends_at timestamp with time zone,
    next_fire_at timestamp with time zone,
    last_fire_at timestamp with time zone,
    task_type text NOT NULL,
    task jsonb NOT NULL,
    priority text NOT NULL,
    max_attempts integer NOT NULL,
    base_delay_ms integer NOT NULL,
    max_delay_ms integer NOT NULL,
    concurrency_limit integer NOT NULL,
    overlap_policy text NOT NULL,
    misfire_policy text NOT NULL,
    catchup_window_s integer NOT NULL,
    timeout_s integer NOT NULL,
    note text,
    paused_by uuid,
    paused_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    target_host text GENERATED ALWAYS AS (lower("substring"((task ->> 'url'::text), '^[A-Za-z]+://([^/?#]+)'::text))) STORED,
    CONSTRAINT job_base_delay_ms_check CHECK (((base_delay_ms >= 0) AND (base_delay_ms <= 86400000))),
    CONSTRAINT job_catchup_window_s_check CHECK (((catchup_window_s >= 0) AND (catchup_window_s <= 86400))),
    CONSTRAINT job_check CHECK (((schedule_type = 'CRON'::text) = (expr IS NOT NULL))),
    CONSTRAINT job_check1 CHECK (((schedule_type = 'ONCE'::text) = (at IS NOT NULL))),
    CONSTRAINT job_check2 CHECK (((next_fire_at IS NULL) OR (status = 'ACTIVE'::text))),
    CONSTRAINT job_concurrency_limit_check CHECK (((concurrency_limit >= 1) AND (concurrency_limit <= 10000))),
    CONSTRAINT job_expr_check CHECK (((length(expr) >= 1) AND (length(expr) <= 120))),
    CONSTRAINT job_jitter_s_check CHECK (((jitter_s >= 0) AND (jitter_s <= 86400))),
    CONSTRAINT job_max_attempts_check CHECK (((max_attempts >= 1) AND (max_attempts <= 100))),
    CONSTRAINT job_max_delay_ms_check CHECK (((max_delay_ms >= 0) AND (max_delay_ms <= 86400000))),
    CONSTRAINT job_misfire_policy_check CHECK ((misfire_policy = ANY (ARRAY['FIRE_ONCE'::text, 'FIRE_ALL'::text, 'SKIP'::text]))),
    CONSTRAINT job_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT job_note_check CHECK ((length(note) <= 500)),
    CONSTRAINT job_overlap_policy_check CHECK ((overlap_policy = ANY (ARRAY['ALLOW_ALL'::text, 'SKIP'::text, 'BUFFER_ONE'::text, 'BUFFER_ALL'::text, 'CANCEL_OTHER'::text]))),
    CONSTRAINT job_priority_check CHECK ((priority = ANY (ARRAY['CRITICAL'::text, 'HIGH'::text, 'NORMAL'::text, 'LOW'::text]))),
    CONSTRAINT job_schedule_type_check CHECK ((schedule_type = ANY (ARRAY['CRON'::text, 'ONCE'::text, 'AFTER'::text]))),
    CONSTRAINT job_status_check CHECK ((status = ANY (ARRAY['ACTIVE'::text, 'PAUSED'::text, 'COMPLETED'::text, 'DELETED'::text]))),
    CONSTRAINT job_task_check CHECK ((octet_length((task)::text) <= 131072)),
    CONSTRAINT job_task_type_check CHECK ((task_type = ANY (ARRAY['HTTP'::text, 'TASK'::text, 'FLOW'::text]))),
    CONSTRAINT job_timeout_s_check CHECK (((timeout_s >= 1) AND (timeout_s <= 86400))),
    CONSTRAINT job_timezone_check CHECK (((length(timezone) >= 1) AND (length(timezone) <= 64))),
    CONSTRAINT job_tzdata_version_check CHECK (((length(tzdata_version) >= 1) AND (length(tzdata_version) <= 20))),
    CONSTRAINT job_version_check CHECK ((version > 0))
);

ALTER TABLE ONLY public.job FORCE ROW LEVEL SECURITY;

CREATE TABLE public.job_after (
    tenant_id uuid NOT NULL,
    job_id uuid NOT NULL,
    predecessor_id uuid NOT NULL,
    place smallint NOT NULL,
    CONSTRAINT job_after_check CHECK ((job_id <> predecessor_id)),
    CONSTRAINT job_after_place_check CHECK ((place >= 0))
);

ALTER TABLE ONLY public.job_after FORCE ROW LEVEL SECURITY;

CREATE TABLE public.job_change (
    tenant_id uuid NOT NULL,
    job_id uuid NOT NULL,
    version integer NOT NULL,
    action text NOT NULL,
    actor_id uuid,
    note text,
    schedule jsonb NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    superseded_at timestamp with time zone,
    CONSTRAINT job_change_action_check CHECK ((action = ANY (ARRAY['created'::text, 'updated'::text, 'paused'::text, 'resumed'::text, 'deleted'::text, 'completed'::text])))
);

ALTER TABLE ONLY public.job_change FORCE ROW LEVEL SECURITY;

CREATE TABLE public.job_fire_note (
    tenant_id uuid NOT NULL,
    job_id uuid NOT NULL,
    first_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    fires integer NOT NULL,
    reason text NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT job_fire_note_check CHECK ((first_at <= last_at)),
    CONSTRAINT job_fire_note_fires_check CHECK ((fires > 0)),
    CONSTRAINT job_fire_note_outcome_check CHECK ((outcome = ANY (ARRAY['SKIPPED_OVERLAP'::text, 'MISFIRED'::text, 'COALESCED'::text, 'TENANT_SUSPENDED'::text, 'CANCELLED_BY_EDIT'::text, 'PREDECESSOR_FAILED'::text, 'PAUSED'::text]))),
    CONSTRAINT job_fire_note_reason_check CHECK ((length(reason) <= 500))
);

ALTER TABLE ONLY public.job_fire_note FORCE ROW LEVEL SECURITY;

CREATE TABLE public.job_load (
    tenant_id uuid NOT NULL,
    lane text NOT NULL,
    is_call boolean NOT NULL,
    running integer DEFAULT 0 NOT NULL,
    deferred integer DEFAULT 0 NOT NULL,
    blocked integer DEFAULT 0 NOT NULL,
    CONSTRAINT job_load_blocked_check CHECK ((blocked >= 0)),
    CONSTRAINT job_load_deferred_check CHECK ((deferred >= 0)),
    CONSTRAINT job_load_running_check CHECK ((running >= 0))
);

ALTER TABLE ONLY public.job_load FORCE ROW LEVEL SECURITY;

CREATE TABLE public.job_minute (
    tenant_id uuid NOT NULL,
    minute timestamp with time zone NOT NULL,
    started integer NOT NULL,
    put_off integer DEFAULT 0 NOT NULL,
    slot_at timestamp with time zone,
    CONSTRAINT job_minute_put_off_check CHECK ((put_off >= 0)),
    CONSTRAINT job_minute_started_check CHECK ((started >= 0))
);

ALTER TABLE ONLY public.job_minute FORCE ROW LEVEL SECURITY;

CREATE TABLE public.job_run (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    job_id uuid NOT NULL,
    scheduled_at timestamp with time zone NOT NULL,
    assigned_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    hinted_at timestamp with time zone,
    kind text NOT NULL,
    state text DEFAULT 'PENDING'::text NOT NULL,
    task_type text NOT NULL,
    lane text NOT NULL,
    job_version integer NOT NULL,
    generation integer DEFAULT 1 NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    is_deferred boolean DEFAULT false NOT NULL,
    defer_reason text,
    deferred_at timestamp with time zone,
    started_at timestamp with time zone,
    lease_until timestamp with time zone,
    ended_at timestamp with time zone,
    http_status smallint,
    answer text,
    last_error text,
    task_id uuid,
    dead_at timestamp with time zone,
    trace_id text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    backfill_id uuid,
    predecessors jsonb,
    CONSTRAINT job_run_answer_check CHECK ((length(answer) <= 4000)),
    CONSTRAINT job_run_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT job_run_check CHECK (((state = 'RUNNING'::text) = (lease_until IS NOT NULL))),
    CONSTRAINT job_run_check1 CHECK (((ended_at IS NULL) = (state = ANY (ARRAY['PENDING'::text, 'RUNNING'::text, 'RETRYING'::text])))),
    CONSTRAINT job_run_check2 CHECK (((NOT is_deferred) OR ((state = ANY (ARRAY['PENDING'::text, 'RETRYING'::text])) AND (defer_reason IS NOT NULL)))),
    CONSTRAINT job_run_defer_reason_check CHECK ((length(defer_reason) <= 40)),
    CONSTRAINT job_run_generation_check CHECK ((generation > 0)),
    CONSTRAINT job_run_kind_check CHECK ((kind = ANY (ARRAY['SCHEDULED'::text, 'CATCHUP'::text, 'MANUAL'::text, 'BACKFILL'::text]))),
    CONSTRAINT job_run_lane_check CHECK ((lane = ANY (ARRAY['run_critical'::text, 'run_high'::text, 'run_normal'::text, 'run_low'::text]))),
    CONSTRAINT job_run_last_error_check CHECK ((length(last_error) <= 1000)),
    CONSTRAINT job_run_state_check CHECK ((state = ANY (ARRAY['PENDING'::text, 'RUNNING'::text, 'RETRYING'::text, 'SUCCESS'::text, 'FAILED'::text, 'TERMINATED'::text]))),
    CONSTRAINT job_run_task_type_check CHECK ((task_type = ANY (ARRAY['HTTP'::text, 'TASK'::text, 'FLOW'::text])))
)
PARTITION BY RANGE (scheduled_at);

ALTER TABLE ONLY public.job_run FORCE ROW LEVEL SECURITY;

CREATE TABLE public.job_secret (
    tenant_id uuid NOT NULL,
    name text NOT NULL,
    ciphertext bytea NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT job_secret_ciphertext_check CHECK ((octet_length(ciphertext) <= 8192)),
    CONSTRAINT job_secret_name_check CHECK ((name ~ '^[A-Z][A-Z0-9_]{0,63}$'::text))
);

ALTER TABLE ONLY public.job_secret FORCE ROW LEVEL SECURITY;

CREATE TABLE public.job_signing_key (
    tenant_id uuid NOT NULL,
    ciphertext bytea NOT NULL,
    previous bytea,
    previous_until timestamp with time zone,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

ALTER TABLE ONLY public.job_signing_key FORCE ROW LEVEL SECURITY;

CREATE VIEW public.lane_default WITH (security_invoker='true') AS
 SELECT lane,
    pool,
    share_percent,
    depth_limit
   FROM ( VALUES ('enterprise_exclusive'::text,'enterprise'::text,NULL::integer,10000), ('vip_short'::text,'gpu'::text,NULL::integer,10000), ('vip_long'::text,'gpu'::text,50,10000), ('free_default'::text,'gpu'::text,50,10000), ('paid_stream'::text,'text'::text,NULL::integer,10000), ('free_stream'::text,'text'::text,NULL::integer,10000), ('paid_batch'::text,'text'::text,NULL::integer,10000), ('free_batch'::text,'text'::text,NULL::integer,10000), ('paid_vision'::text,'text'::text,NULL::integer,10000), ('free_vision'::text,'text'::text,NULL::integer,10000)) lane(lane, pool, share_percent, depth_limit);

CREATE TABLE public.lane_setting (
    lane text NOT NULL,
    is_paused boolean DEFAULT false NOT NULL,
    parallelism integer,
    share_percent integer,
    depth_limit integer,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT lane_setting_depth_limit_check CHECK (((depth_limit >= 0) AND (depth_limit <= 1000000))),
    CONSTRAINT lane_setting_parallelism_check CHECK (((parallelism >= 0) AND (parallelism <= 1000000))),
    CONSTRAINT lane_setting_share_percent_check CHECK (((share_percent >= 1) AND (share_percent <= 100)))
);

ALTER TABLE ONLY public.lane_setting FORCE ROW LEVEL SECURITY;

CREATE VIEW public.lane_policy WITH (security_invoker='true') AS
 SELECT base.lane,
    base.pool,
    COALESCE(setting.is_paused, false) AS is_paused,
    setting.parallelism,
    COALESCE(setting.share_percent, base.share_percent) AS share_percent,
    COALESCE(setting.depth_limit, base.depth_limit) AS depth_limit
   FROM (public.lane_default base
     LEFT JOIN public.lane_setting setting USING (lane));

CREATE TABLE public.live_setting (
    key text NOT NULL,
    value jsonb NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_by uuid,
    CONSTRAINT live_setting_key_check CHECK (((length(key) >= 1) AND (length(key) <= 100)))
);

ALTER TABLE ONLY public.live_setting FORCE ROW LEVEL SECURITY;

CREATE TABLE public.login_event (
    tenant_id uuid NOT NULL,
    login_id uuid NOT NULL,
    user_id uuid NOT NULL,
    method text NOT NULL,
    address text NOT NULL,
    location text NOT NULL,
    logged_at timestamp with time zone NOT NULL,
    is_new_place boolean DEFAULT false NOT NULL,
    CONSTRAINT login_event_address_check CHECK ((length(address) <= 64)),
    CONSTRAINT login_event_location_check CHECK ((length(location) <= 200)),
    CONSTRAINT login_event_method_check CHECK ((method = ANY (ARRAY['register'::text, 'password'::text, 'wechat_mini'::text, 'wechat_web'::text])))
);

ALTER TABLE ONLY public.login_event FORCE ROW LEVEL SECURITY;

CREATE TABLE public.login_failure (
    subject bytea NOT NULL,
    failures integer NOT NULL,
    last_at timestamp with time zone NOT NULL,
    blocked_until timestamp with time zone NOT NULL,
    CONSTRAINT login_failure_failures_check CHECK ((failures >= 0)),
    CONSTRAINT login_failure_subject_check CHECK ((octet_length(subject) = 32))
);

ALTER TABLE ONLY public.login_failure FORCE ROW LEVEL SECURITY;

CREATE TABLE public.model_setting (
    model text NOT NULL,
    max_running integer NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT model_setting_max_running_check CHECK (((max_running >= 0) AND (max_running <= 1000000))),
    CONSTRAINT model_setting_model_check CHECK (((length(model) >= 1) AND (length(model) <= 200)))
);

ALTER TABLE ONLY public.model_setting FORCE ROW LEVEL SECURITY;

CREATE TABLE public.node_dependency (
    tenant_id uuid NOT NULL,
    node_id uuid NOT NULL,
    depends_on_id uuid NOT NULL,
    CONSTRAINT node_dependency_check CHECK ((depends_on_id <> node_id))
)
WITH (autovacuum_vacuum_scale_factor='0.02');

ALTER TABLE ONLY public.node_dependency FORCE ROW LEVEL SECURITY;

CREATE TABLE public.node_history (
    tenant_id uuid NOT NULL,
    node_id uuid NOT NULL,
    version integer NOT NULL,
    from_status text,
    to_status text NOT NULL,
    attempt integer NOT NULL,
    worker_id text,
    reason text,
    changed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02');

ALTER TABLE ONLY public.node_history FORCE ROW LEVEL SECURITY;

CREATE TABLE public.node_token (
    tenant_id uuid NOT NULL,
    token_id uuid NOT NULL,
    node_id uuid NOT NULL,
    kind text NOT NULL,
    token text NOT NULL,
    issued_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    answered_at timestamp with time zone,
    CONSTRAINT node_token_kind_check CHECK ((kind = ANY (ARRAY['gate'::text, 'ready'::text]))),
    CONSTRAINT node_token_token_check CHECK (((length(token) >= 1) AND (length(token) <= 2048)))
);

ALTER TABLE ONLY public.node_token FORCE ROW LEVEL SECURITY;

CREATE VIEW public.node_transition WITH (security_invoker='true') AS
 SELECT from_status,
    to_status
   FROM ( VALUES ('PENDING'::text,'QUEUED'::text), ('PENDING'::text,'CANCELLED'::text), ('QUEUED'::text,'PROCESSING'::text), ('QUEUED'::text,'CANCELLED'::text), ('QUEUED'::text,'TIMEOUT'::text), ('PROCESSING'::text,'COMPLETED'::text), ('PROCESSING'::text,'FAILED'::text), ('PROCESSING'::text,'TIMEOUT'::text), ('PROCESSING'::text,'CANCELLED'::text), ('FAILED'::text,'PENDING'::text), ('TIMEOUT'::text,'PENDING'::text)) legal(from_status, to_status);

CREATE TABLE public.session (
    tenant_id uuid NOT NULL,
    session_id uuid NOT NULL,
    user_id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone,
    revoked_reason text,
    CONSTRAINT session_check CHECK (((revoked_at IS NULL) = (revoked_reason IS NULL))),
    CONSTRAINT session_revoked_reason_check CHECK ((revoked_reason = ANY (ARRAY['logout'::text, 'reuse'::text, 'disabled'::text, 'password'::text, 'limit'::text])))
);

ALTER TABLE ONLY public.session FORCE ROW LEVEL SECURITY;

CREATE TABLE public.tenant (
    tenant_id uuid NOT NULL,
    name text NOT NULL,
    tier text DEFAULT 'free'::text NOT NULL,
    status text DEFAULT 'ACTIVE'::text NOT NULL,
    is_platform boolean DEFAULT false NOT NULL,
    weight integer,
    concurrency integer,
    queue_depth integer,
    rate_per_second integer,
    burst integer,
    artefact_days integer,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    user_concurrency integer,
    job_concurrency integer,
    job_per_minute integer,
    job_period_s integer,
    low_balance_points bigint,
    CONSTRAINT tenant_artefact_days_check CHECK (((artefact_days >= 1) AND (artefact_days <= 180))),
    CONSTRAINT tenant_burst_check CHECK (((burst >= 1) AND (burst <= 200000))),
    CONSTRAINT tenant_concurrency_check CHECK (((concurrency >= 0) AND (concurrency <= 100000))),
    CONSTRAINT tenant_job_concurrency_check CHECK (((job_concurrency >= 0) AND (job_concurrency <= 100000))),
    CONSTRAINT tenant_job_per_minute_check CHECK (((job_per_minute >= 0) AND (job_per_minute <= 1000000))),
    CONSTRAINT tenant_job_period_s_check CHECK (((job_period_s >= 1) AND (job_period_s <= 86400))),
    CONSTRAINT tenant_low_balance_points_check CHECK (((low_balance_points >= 0) AND (low_balance_points <= 1000000000))),
    CONSTRAINT tenant_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT tenant_queue_depth_check CHECK (((queue_depth >= 0) AND (queue_depth <= 1000000))),
    CONSTRAINT tenant_rate_per_second_check CHECK (((rate_per_second >= 1) AND (rate_per_second <= 100000))),
    CONSTRAINT tenant_status_check CHECK ((status = ANY (ARRAY['ACTIVE'::text, 'SUSPENDED'::text]))),
    CONSTRAINT tenant_tier_check CHECK ((tier = ANY (ARRAY['enterprise'::text, 'vip'::text, 'standard'::text, 'free'::text]))),
    CONSTRAINT tenant_user_concurrency_check CHECK (((user_concurrency >= 0) AND (user_concurrency <= 100000))),
    CONSTRAINT tenant_weight_check CHECK (((weight >= 1) AND (weight <= 1000)))
);

ALTER TABLE ONLY public.tenant FORCE ROW LEVEL SECURITY;

CREATE VIEW public.open_session WITH (security_invoker='true') AS
 SELECT session.tenant_id,
    session.session_id,
    session.user_id
   FROM ((public.session
     JOIN public.app_user USING (tenant_id, user_id))
     JOIN public.tenant USING (tenant_id))
  WHERE ((session.revoked_at IS NULL) AND (session.expires_at > now()) AND (app_user.status = 'ACTIVE'::text) AND (tenant.status = 'ACTIVE'::text));

CREATE TABLE public.outbox (
    outbox_id bigint NOT NULL,
    tenant_id uuid,
    aggregate text NOT NULL,
    destination text NOT NULL,
    body text NOT NULL,
    delay_s smallint DEFAULT 0 NOT NULL,
    trace_id text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    sent_at timestamp with time zone,
    task_id uuid,
    sequence bigint,
    due_at timestamp with time zone,
    CONSTRAINT outbox_aggregate_check CHECK ((aggregate <> ''::text)),
    CONSTRAINT outbox_body_check CHECK ((octet_length(body) <= 262144)),
    CONSTRAINT outbox_delay_s_check CHECK (((delay_s >= 0) AND (delay_s <= 900))),
    CONSTRAINT outbox_destination_check CHECK ((destination <> ''::text))
)
WITH (autovacuum_vacuum_scale_factor='0.02');

ALTER TABLE ONLY public.outbox FORCE ROW LEVEL SECURITY;

ALTER TABLE public.outbox ALTER COLUMN outbox_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.outbox_outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.password_reset (
    reset_id uuid NOT NULL,
    login text NOT NULL,
    language text,
    user_id uuid,
    token_hash bytea,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT password_reset_check CHECK (((token_hash IS NULL) = (user_id IS NULL))),
    CONSTRAINT password_reset_language_check CHECK ((language = ANY (ARRAY['zh'::text, 'en'::text]))),
    CONSTRAINT password_reset_login_check CHECK (((length(login) >= 3) AND (length(login) <= 254))),
    CONSTRAINT password_reset_token_hash_check CHECK ((octet_length(token_hash) = 32))
);

ALTER TABLE ONLY public.password_reset FORCE ROW LEVEL SECURITY;

CREATE TABLE public.pay_alert (
    alert_key text NOT NULL,
    tenant_id uuid,
    kind text NOT NULL,
    details jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    sent_at timestamp with time zone
);

ALTER TABLE ONLY public.pay_alert FORCE ROW LEVEL SECURITY;

CREATE TABLE public.pay_order (
    tenant_id uuid NOT NULL,
    order_id uuid NOT NULL,
    user_id uuid NOT NULL,
    out_trade_no text NOT NULL,
    mchid text NOT NULL,
    appid text NOT NULL,
    package_id text NOT NULL,
    amount_fen integer NOT NULL,
    points bigint NOT NULL,
    channel text NOT NULL,
    openid text,
    status text NOT NULL,
    close_reason text,
    flag text,
    prepay_body text NOT NULL,
    prepay_code text,
    prepay_until timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    transaction_id text,
    paid_at timestamp with time zone,
    completed_at timestamp with time zone,
    payer_openid text,
    payer_total_fen integer,
    refunded_fen integer DEFAULT 0 NOT NULL,
    refunded_points bigint DEFAULT 0 NOT NULL,
    idempotency_key text,
    request_hash text,
    next_query_at timestamp with time zone NOT NULL,
    query_tries integer DEFAULT 0 NOT NULL,
    polled_at timestamp with time zone,
    CONSTRAINT pay_order_amount_fen_check CHECK ((amount_fen > 0)),
    CONSTRAINT pay_order_channel_check CHECK ((channel = ANY (ARRAY['native'::text, 'jsapi'::text, 'h5'::text]))),
    CONSTRAINT pay_order_check CHECK (((refunded_fen >= 0) AND (refunded_fen <= amount_fen))),
    CONSTRAINT pay_order_check1 CHECK (((refunded_points >= 0) AND (refunded_points <= points))),
    CONSTRAINT pay_order_check2 CHECK (((status = ANY (ARRAY['PAID'::text, 'COMPLETED'::text, 'REFUNDING'::text, 'REFUNDED'::text])) = (transaction_id IS NOT NULL))),
    CONSTRAINT pay_order_check3 CHECK (((transaction_id IS NULL) = (paid_at IS NULL))),
    CONSTRAINT pay_order_check4 CHECK (((status = 'CLOSED'::text) = (close_reason IS NOT NULL))),
    CONSTRAINT pay_order_close_reason_check CHECK ((close_reason = ANY (ARRAY['REQUESTED'::text, 'EXPIRED'::text, 'NEVER_PREPAID'::text, 'REFUSED'::text, 'CLOSED_THERE'::text]))),
    CONSTRAINT pay_order_flag_check CHECK ((flag = ANY (ARRAY['MISMATCH'::text, 'OVERPAID'::text, 'PAID_LATE'::text]))),
    CONSTRAINT pay_order_out_trade_no_check CHECK ((out_trade_no ~ '^[0-9A-Za-z_|*-]{6,32}$'::text)),
    CONSTRAINT pay_order_points_check CHECK ((points > 0)),
    CONSTRAINT pay_order_status_check CHECK ((status = ANY (ARRAY['CREATED'::text, 'PAYING'::text, 'PAID'::text, 'COMPLETED'::text, 'CLOSED'::text, 'REFUNDING'::text, 'REFUNDED'::text])))
);

ALTER TABLE ONLY public.pay_order FORCE ROW LEVEL SECURITY;

CREATE TABLE public.pay_refund (
    tenant_id uuid NOT NULL,
    refund_id uuid NOT NULL,
    order_id uuid NOT NULL,
    out_refund_no text NOT NULL,
    amount_fen integer NOT NULL,
    points bigint NOT NULL,
    points_taken bigint DEFAULT 0 NOT NULL,
    is_debited boolean NOT NULL,
    is_external boolean DEFAULT false NOT NULL,
    reason text NOT NULL,
    request_body text NOT NULL,
    status text NOT NULL,
    wechat_id text,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    idempotency_key text,
    request_hash text,
    next_query_at timestamp with time zone NOT NULL,
    query_tries integer DEFAULT 0 NOT NULL,
    CONSTRAINT pay_refund_amount_fen_check CHECK ((amount_fen > 0)),
    CONSTRAINT pay_refund_check CHECK (((points_taken >= 0) AND (points_taken <= points))),
    CONSTRAINT pay_refund_check1 CHECK (((status = ANY (ARRAY['SUCCESS'::text, 'CLOSED'::text])) = (ended_at IS NOT NULL))),
    CONSTRAINT pay_refund_points_check CHECK ((points >= 0)),
    CONSTRAINT pay_refund_status_check CHECK ((status = ANY (ARRAY['REQUESTED'::text, 'PROCESSING'::text, 'ABNORMAL'::text, 'SUCCESS'::text, 'CLOSED'::text])))
);

ALTER TABLE ONLY public.pay_refund FORCE ROW LEVEL SECURITY;

CREATE TABLE public.pay_transaction (
    mchid text NOT NULL,
    transaction_id text NOT NULL,
    tenant_id uuid,
    order_id uuid,
    out_trade_no text NOT NULL,
    outcome text NOT NULL,
    amount_fen integer,
    currency text,
    paid_at timestamp with time zone,
    source text NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    CONSTRAINT pay_transaction_outcome_check CHECK ((outcome = ANY (ARRAY['CREDITED'::text, 'OVERPAID'::text, 'MISMATCH'::text, 'ORPHAN'::text, 'FOREIGN'::text]))),
    CONSTRAINT pay_transaction_source_check CHECK ((source = ANY (ARRAY['callback'::text, 'query'::text, 'bill'::text])))
);

ALTER TABLE ONLY public.pay_transaction FORCE ROW LEVEL SECURITY;

CREATE TABLE public.points_account (
    tenant_id uuid NOT NULL,
    user_id uuid NOT NULL,
    balance bigint NOT NULL,
    frozen bigint NOT NULL,
    version bigint NOT NULL,
    next_expiry_at timestamp with time zone,
    low_noticed_at timestamp with time zone,
    CONSTRAINT points_account_balance_check CHECK ((balance >= 0)),
    CONSTRAINT points_account_frozen_check CHECK ((frozen >= 0)),
    CONSTRAINT points_account_version_check CHECK ((version > 0))
);

ALTER TABLE ONLY public.points_account FORCE ROW LEVEL SECURITY;

CREATE TABLE public.points_campaign_grant (
    tenant_id uuid NOT NULL,
    campaign text NOT NULL,
    user_id uuid NOT NULL,
    granted_at timestamp with time zone NOT NULL,
    CONSTRAINT points_campaign_grant_campaign_check CHECK (((length(campaign) >= 1) AND (length(campaign) <= 100)))
);

ALTER TABLE ONLY public.points_campaign_grant FORCE ROW LEVEL SECURITY;

CREATE TABLE public.points_hold (
    tenant_id uuid NOT NULL,
    hold_id uuid NOT NULL,
    user_id uuid NOT NULL,
    amount bigint NOT NULL,
    charged bigint DEFAULT 0 NOT NULL,
    lot_points bigint DEFAULT 0 NOT NULL,
    status text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT points_hold_amount_check CHECK ((amount >= 0)),
    CONSTRAINT points_hold_check CHECK (((charged >= 0) AND (charged <= amount))),
    CONSTRAINT points_hold_check1 CHECK (((lot_points >= 0) AND (lot_points <= amount))),
    CONSTRAINT points_hold_check2 CHECK (((status = 'HELD'::text) = (ended_at IS NULL))),
    CONSTRAINT points_hold_check3 CHECK (((status = 'CONFIRMED'::text) OR (charged = 0))),
    CONSTRAINT points_hold_status_check CHECK ((status = ANY (ARRAY['HELD'::text, 'CONFIRMED'::text, 'CANCELLED'::text])))
);

ALTER TABLE ONLY public.points_hold FORCE ROW LEVEL SECURITY;

CREATE TABLE public.points_hold_lot (
    tenant_id uuid NOT NULL,
    hold_id uuid NOT NULL,
    lot_id uuid NOT NULL,
    amount bigint NOT NULL,
    CONSTRAINT points_hold_lot_amount_check CHECK ((amount > 0))
);

ALTER TABLE ONLY public.points_hold_lot FORCE ROW LEVEL SECURITY;

CREATE TABLE public.points_ledger (
    tenant_id uuid NOT NULL,
    user_id uuid NOT NULL,
    version bigint NOT NULL,
    entry_id uuid NOT NULL,
    kind text NOT NULL,
    balance_delta bigint NOT NULL,
    frozen_delta bigint NOT NULL,
    balance bigint NOT NULL,
    frozen bigint NOT NULL,
    hold_id uuid,
    reference text NOT NULL,
    idempotency_key text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    version_before bigint GENERATED ALWAYS AS (NULLIF((version - 1), 0)) STORED,
    balance_before bigint GENERATED ALWAYS AS ((balance - balance_delta)) STORED,
    frozen_before bigint GENERATED ALWAYS AS ((frozen - frozen_delta)) STORED,
    CONSTRAINT points_ledger_balance_check CHECK ((balance >= 0)),
    CONSTRAINT points_ledger_check CHECK (((version > 1) OR ((balance_delta = balance) AND (frozen_delta = frozen)))),
    CONSTRAINT points_ledger_check1 CHECK (((kind = ANY (ARRAY['FREEZE'::text, 'CONFIRM'::text, 'CANCEL'::text])) = (hold_id IS NOT NULL))),
    CONSTRAINT points_ledger_check2 CHECK (
CASE kind
    WHEN 'FREEZE'::text THEN ((balance_delta < 0) AND (frozen_delta = (- balance_delta)))
    WHEN 'CONFIRM'::text THEN ((balance_delta >= 0) AND (frozen_delta <= (- balance_delta)))
    WHEN 'CANCEL'::text THEN ((balance_delta > 0) AND (frozen_delta = (- balance_delta)))
    WHEN 'TRANSFER_OUT'::text THEN ((balance_delta < 0) AND (frozen_delta = 0))
    WHEN 'REFUND'::text THEN ((balance_delta <> 0) AND (frozen_delta = 0))
    WHEN 'ADJUST'::text THEN ((balance_delta <> 0) AND (frozen_delta = 0))
    ELSE ((balance_delta > 0) AND (frozen_delta = 0))
END),
    CONSTRAINT points_ledger_frozen_check CHECK ((frozen >= 0)),
    CONSTRAINT points_ledger_idempotency_key_check CHECK (((length(idempotency_key) >= 1) AND (length(idempotency_key) <= 300))),
    CONSTRAINT points_ledger_kind_check CHECK ((kind = ANY (ARRAY['RECHARGE'::text, 'GIFT'::text, 'FREEZE'::text, 'CONFIRM'::text, 'CANCEL'::text, 'REFUND'::text, 'TRANSFER_IN'::text, 'TRANSFER_OUT'::text, 'ADJUST'::text]))),
    CONSTRAINT points_ledger_reference_check CHECK ((length(reference) <= 200)),
    CONSTRAINT points_ledger_version_check CHECK ((version > 0))
);

ALTER TABLE ONLY public.points_ledger FORCE ROW LEVEL SECURITY;

CREATE TABLE public.points_lot (
    tenant_id uuid NOT NULL,
    lot_id uuid NOT NULL,
    user_id uuid NOT NULL,
    granted bigint NOT NULL,
    remaining bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT points_lot_check CHECK (((remaining >= 0) AND (remaining <= granted))),
    CONSTRAINT points_lot_granted_check CHECK ((granted > 0))
);

ALTER TABLE ONLY public.points_lot FORCE ROW LEVEL SECURITY;

CREATE TABLE public.refresh_token (
    token_hash bytea NOT NULL,
    tenant_id uuid NOT NULL,
    session_id uuid NOT NULL,
    issued_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone,
    CONSTRAINT refresh_token_token_hash_check CHECK ((octet_length(token_hash) = 32))
);

ALTER TABLE ONLY public.refresh_token FORCE ROW LEVEL SECURITY;

CREATE TABLE public.run_archive (
    kind text NOT NULL,
    day date NOT NULL,
    batch integer NOT NULL,
    state text DEFAULT 'COPYING'::text NOT NULL,
    rows bigint NOT NULL,
    fingerprint numeric NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    dropped_at timestamp with time zone,
    CONSTRAINT run_archive_batch_check CHECK ((batch > 0)),
    CONSTRAINT run_archive_check CHECK (((state = 'DROPPED'::text) = (dropped_at IS NOT NULL))),
    CONSTRAINT run_archive_kind_check CHECK ((kind = ANY (ARRAY['job_run'::text, 'run_result'::text, 'run_log'::text]))),
    CONSTRAINT run_archive_rows_check CHECK ((rows >= 0)),
    CONSTRAINT run_archive_state_check CHECK ((state = ANY (ARRAY['COPYING'::text, 'DROPPED'::text])))
);

ALTER TABLE ONLY public.run_archive FORCE ROW LEVEL SECURITY;

CREATE TABLE public.run_archive_part (
    kind text NOT NULL,
    day date NOT NULL,
    batch integer NOT NULL,
    part integer NOT NULL,
    first_id uuid NOT NULL,
    last_id uuid NOT NULL,
    key text NOT NULL,
    rows integer NOT NULL,
    bytes bigint NOT NULL,
    sha256 text NOT NULL,
    members jsonb NOT NULL,
    CONSTRAINT run_archive_part_rows_check CHECK ((rows > 0)),
    CONSTRAINT run_archive_part_sha256_check CHECK ((length(sha256) = 64))
);

ALTER TABLE ONLY public.run_archive_part FORCE ROW LEVEL SECURITY;

CREATE TABLE public.run_circuit (
    tenant_id uuid NOT NULL,
    target text NOT NULL,
    state text NOT NULL,
    until timestamp with time zone NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    openings integer NOT NULL,
    probes integer NOT NULL,
    runs integer NOT NULL,
    failures integer NOT NULL,
    CONSTRAINT run_circuit_openings_check CHECK ((openings >= 0)),
    CONSTRAINT run_circuit_probes_check CHECK ((probes >= 0)),
    CONSTRAINT run_circuit_state_check CHECK ((state = ANY (ARRAY['OPEN'::text, 'HALF_OPEN'::text, 'CLOSED'::text]))),
    CONSTRAINT run_circuit_target_check CHECK (((length(target) >= 1) AND (length(target) <= 300)))
);

ALTER TABLE ONLY public.run_circuit FORCE ROW LEVEL SECURITY;

CREATE TABLE public.run_guard (
    is_single boolean DEFAULT true NOT NULL,
    shed integer DEFAULT 0 NOT NULL,
    lanes text[] DEFAULT '{}'::text[] NOT NULL,
    late_since timestamp with time zone,
    full_since timestamp with time zone,
    calm_since timestamp with time zone,
    changed_at timestamp with time zone,
    latency_s double precision,
    backlog bigint,
    read_at timestamp with time zone,
    CONSTRAINT run_guard_is_single_check CHECK (is_single),
    CONSTRAINT run_guard_shed_check CHECK (((shed >= 0) AND (shed <= 2)))
);

ALTER TABLE ONLY public.run_guard FORCE ROW LEVEL SECURITY;

CREATE TABLE public.run_log (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    log_id uuid NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attempt integer NOT NULL,
    level text NOT NULL,
    message text NOT NULL,
    CONSTRAINT run_log_level_check CHECK ((level = ANY (ARRAY['INFO'::text, 'WARN'::text, 'ERROR'::text]))),
    CONSTRAINT run_log_message_check CHECK ((length(message) <= 4000))
)
PARTITION BY RANGE (at);

ALTER TABLE ONLY public.run_log FORCE ROW LEVEL SECURITY;

CREATE TABLE public.run_result (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    generation integer NOT NULL,
    attempt integer NOT NULL,
    outcome text NOT NULL,
    http_status smallint,
    error text,
    answer text,
    retry_after_s integer,
    elapsed_ms integer,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT run_result_answer_check CHECK ((length(answer) <= 4000)),
    CONSTRAINT run_result_error_check CHECK ((length(error) <= 1000)),
    CONSTRAINT run_result_outcome_check CHECK ((outcome = ANY (ARRAY['SUCCEEDED'::text, 'FAILED'::text, 'REFUSED'::text, 'EXPIRED'::text])))
)
PARTITION BY RANGE (at);

ALTER TABLE ONLY public.run_result FORCE ROW LEVEL SECURITY;

CREATE TABLE public.series_day (
    name text NOT NULL,
    day date NOT NULL,
    labels jsonb DEFAULT '{}'::jsonb NOT NULL,
    value double precision NOT NULL,
    weight double precision NOT NULL
);

ALTER TABLE ONLY public.series_day FORCE ROW LEVEL SECURITY;

CREATE TABLE public.series_minute (
    name text NOT NULL,
    minute timestamp with time zone NOT NULL,
    labels jsonb DEFAULT '{}'::jsonb NOT NULL,
    value double precision NOT NULL,
    weight double precision,
    buckets jsonb,
    CONSTRAINT series_minute_minute_check CHECK ((date_bin('00:01:00'::interval, minute, '1970-01-01 00:00:00+00'::timestamp with time zone) = minute)),
    CONSTRAINT series_minute_name_check CHECK (((length(name) >= 1) AND (length(name) <= 64)))
);

ALTER TABLE ONLY public.series_minute FORCE ROW LEVEL SECURITY;

CREATE TABLE public.series_pass (
    is_only boolean DEFAULT true NOT NULL,
    closed_until timestamp with time zone NOT NULL,
    CONSTRAINT series_pass_is_only_check CHECK (is_only)
);

ALTER TABLE ONLY public.series_pass FORCE ROW LEVEL SECURITY;

CREATE TABLE public.task_node (
    tenant_id uuid NOT NULL,
    node_id uuid NOT NULL,
    task_id uuid NOT NULL,
    user_id uuid NOT NULL,
    "position" integer NOT NULL,
    name text NOT NULL,
    type text NOT NULL,
    step text NOT NULL,
    model text DEFAULT ''::text NOT NULL,
    lane text NOT NULL,
    pool text NOT NULL,
    params jsonb DEFAULT '{}'::jsonb NOT NULL,
    inputs jsonb DEFAULT '[]'::jsonb NOT NULL,
    cost_us bigint NOT NULL,
    price_points bigint DEFAULT 0 NOT NULL,
    is_result boolean NOT NULL,
    is_charged boolean DEFAULT false NOT NULL,
    status text DEFAULT 'PENDING'::text NOT NULL,
    version integer DEFAULT 0 NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    in_degree integer NOT NULL,
    not_before timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ready_at timestamp with time zone,
    dispatched_at timestamp with time zone,
    charged_us bigint,
    tag_us bigint,
    hinted_at timestamp with time zone,
    started_at timestamp with time zone,
    lease_until timestamp with time zone,
    worker_id text,
    progress smallint DEFAULT 0 NOT NULL,
    progress_at timestamp with time zone,
    gpu_us bigint,
    output jsonb DEFAULT '[]'::jsonb NOT NULL,
    engine jsonb,
    error jsonb,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    superseded_at timestamp with time zone,
    priority text DEFAULT 'NORMAL'::text NOT NULL,
    CONSTRAINT task_node_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT task_node_check CHECK (((status <> ALL (ARRAY['QUEUED'::text, 'PROCESSING'::text, 'COMPLETED'::text])) OR (in_degree = 0))),
    CONSTRAINT task_node_check1 CHECK (((status <> 'PENDING'::text) OR (dispatched_at IS NULL))),
    CONSTRAINT task_node_check2 CHECK (((status <> 'QUEUED'::text) OR (ready_at IS NOT NULL))),
    CONSTRAINT task_node_check3 CHECK (((status = 'PROCESSING'::text) = (lease_until IS NOT NULL))),
    CONSTRAINT task_node_check4 CHECK (((status <> 'PROCESSING'::text) OR ((dispatched_at IS NOT NULL) AND (worker_id IS NOT NULL) AND (attempt > 0)))),
    CONSTRAINT task_node_check5 CHECK (((status = ANY (ARRAY['COMPLETED'::text, 'FAILED'::text, 'TIMEOUT'::text, 'CANCELLED'::text])) = (ended_at IS NOT NULL))),
    CONSTRAINT task_node_check6 CHECK (((superseded_at IS NULL) OR (status = 'CANCELLED'::text))),
    CONSTRAINT task_node_check7 CHECK (((NOT is_charged) OR (status = 'COMPLETED'::text))),
    CONSTRAINT task_node_cost_us_check CHECK ((cost_us > 0)),
    CONSTRAINT task_node_failures_check CHECK ((failures >= 0)),
    CONSTRAINT task_node_gpu_us_check CHECK ((gpu_us >= 0)),
    CONSTRAINT task_node_in_degree_check CHECK ((in_degree >= 0)),
    CONSTRAINT task_node_name_check CHECK (((length(name) >= 1) AND (length(name) <= 64))),
    CONSTRAINT task_node_position_check CHECK (("position" >= 0)),
    CONSTRAINT task_node_price_points_check CHECK ((price_points >= 0)),
    CONSTRAINT task_node_priority_check CHECK ((priority = ANY (ARRAY['HIGH'::text, 'NORMAL'::text, 'LOW'::text]))),
    CONSTRAINT task_node_progress_check CHECK (((progress >= 0) AND (progress <= 100))),
    CONSTRAINT task_node_status_check CHECK ((status = ANY (ARRAY['PENDING'::text, 'QUEUED'::text, 'PROCESSING'::text, 'COMPLETED'::text, 'FAILED'::text, 'TIMEOUT'::text, 'CANCELLED'::text]))),
    CONSTRAINT task_node_type_check CHECK (((length(type) >= 1) AND (length(type) <= 64)))
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.02');

ALTER TABLE ONLY public.task_node FORCE ROW LEVEL SECURITY;

CREATE VIEW public.slot_in_use WITH (security_invoker='true') AS
 SELECT node_id,
    tenant_id,
    user_id,
    task_id,
    pool,
    lane,
    type,
    model,
    cost_us,
    charged_us,
    tag_us,
    status,
    worker_id,
    step
   FROM public.task_node
  WHERE ((status = ANY (ARRAY['QUEUED'::text, 'PROCESSING'::text])) AND (dispatched_at IS NOT NULL));

CREATE TABLE public.sweep_position (
    name text NOT NULL,
    "position" jsonb NOT NULL,
    CONSTRAINT sweep_position_name_check CHECK (((length(name) >= 1) AND (length(name) <= 100)))
);

ALTER TABLE ONLY public.sweep_position FORCE ROW LEVEL SECURITY;

CREATE TABLE public.task (
    tenant_id uuid NOT NULL,
    task_id uuid NOT NULL,
    user_id uuid NOT NULL,
    tool text NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    status text DEFAULT 'QUEUED'::text NOT NULL,
    run integer DEFAULT 1 NOT NULL,
    hold_id uuid NOT NULL,
    lane text NOT NULL,
    pool text NOT NULL,
    params jsonb DEFAULT '{}'::jsonb NOT NULL,
    price_points bigint NOT NULL,
    charged_points bigint DEFAULT 0 NOT NULL,
    webhook_url text,
    event_sequence bigint DEFAULT 0 NOT NULL,
    error jsonb,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    execution_asked_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    cancel_requested_at timestamp with time zone,
    priority text DEFAULT 'NORMAL'::text NOT NULL,
    eta_s integer,
    eta_model_s real,
    purge_stage smallint DEFAULT 0 NOT NULL,
    trace_id text DEFAULT ''::text NOT NULL,
    submission_key text,
    is_draft boolean DEFAULT false NOT NULL,
    request jsonb DEFAULT '{}'::jsonb NOT NULL,
    on_failure text DEFAULT 'continue'::text NOT NULL,
    CONSTRAINT task_check CHECK (((charged_points >= 0) AND (charged_points <= price_points))),
    CONSTRAINT task_check1 CHECK (((status = ANY (ARRAY['COMPLETED'::text, 'PARTIAL'::text, 'FAILED'::text, 'CANCELLED'::text])) = (ended_at IS NOT NULL))),
    CONSTRAINT task_eta_model_s_check CHECK ((eta_model_s > (0)::double precision)),
    CONSTRAINT task_eta_s_check CHECK ((eta_s >= 0)),
    CONSTRAINT task_name_check CHECK ((length(name) <= 200)),
    CONSTRAINT task_on_failure_check CHECK ((on_failure = ANY (ARRAY['continue'::text, 'stop'::text]))),
    CONSTRAINT task_price_points_check CHECK ((price_points > 0)),
    CONSTRAINT task_priority_check CHECK ((priority = ANY (ARRAY['HIGH'::text, 'NORMAL'::text, 'LOW'::text]))),
    CONSTRAINT task_purge_stage_check CHECK (((purge_stage >= 0) AND (purge_stage <= 2))),
    CONSTRAINT task_request_check CHECK ((octet_length((request)::text) <= 65536)),
    CONSTRAINT task_run_check CHECK (((run >= 1) AND (run <= 1000))),
    CONSTRAINT task_status_check CHECK ((status = ANY (ARRAY['QUEUED'::text, 'PROCESSING'::text, 'COMPLETED'::text, 'PARTIAL'::text, 'FAILED'::text, 'CANCELLED'::text]))),
    CONSTRAINT task_submission_key_check CHECK (((length(submission_key) >= 1) AND (length(submission_key) <= 200))),
    CONSTRAINT task_tool_check CHECK (((length(tool) >= 1) AND (length(tool) <= 64))),
    CONSTRAINT task_trace_id_check CHECK ((length(trace_id) <= 64)),
    CONSTRAINT task_webhook_url_check CHECK ((length(webhook_url) <= 2000))
)
WITH (autovacuum_vacuum_scale_factor='0.02');

ALTER TABLE ONLY public.task FORCE ROW LEVEL SECURITY;

CREATE TABLE public.task_event (
    tenant_id uuid NOT NULL,
    task_id uuid NOT NULL,
    sequence bigint CONSTRAINT task_event_sequence_not_null1 NOT NULL,
    event text NOT NULL,
    body jsonb NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02');

ALTER TABLE ONLY public.task_event FORCE ROW LEVEL SECURITY;

CREATE VIEW public.tier_default WITH (security_invoker='true') AS
 SELECT tier,
    COALESCE(( SELECT public.whole_number(live_setting.value, 1, 1000) AS whole_number
           FROM public.live_setting
          WHERE (live_setting.key = (('tier.'::text || tier.tier) || '.weight'::text))), weight) AS weight,
    COALESCE(( SELECT public.whole_number(live_setting.value, 0, 100000) AS whole_number
           FROM public.live_setting
          WHERE (live_setting.key = (('tier.'::text || tier.tier) || '.concurrency'::text))), concurrency) AS concurrency,
    COALESCE(( SELECT public.whole_number(live_setting.value, 0, 1000000) AS whole_number
           FROM public.live_setting
          WHERE (live_setting.key = (('tier.'::text || tier.tier) || '.queue_depth'::text))), queue_depth) AS queue_depth,
    priority,
    COALESCE(( SELECT public.whole_number(live_setting.value, 1, 100000) AS whole_number
           FROM public.live_setting
          WHERE (live_setting.key = (('tier.'::text || tier.tier) || '.rate_per_second'::text))), rate_per_second) AS rate_per_second,
    COALESCE(( SELECT public.whole_number(live_setting.value, 1, 200000) AS whole_number
           FROM public.live_setting
          WHERE (live_setting.key = (('tier.'::text || tier.tier) || '.burst'::text))), burst) AS burst,
    COALESCE(( SELECT public.whole_number(live_setting.value, 1, 180) AS whole_number
           FROM public.live_setting
          WHERE (live_setting.key = (('tier.'::text || tier.tier) || '.artefact_days'::text))), artefact_days) AS artefact_days
   FROM ( VALUES ('enterprise'::text,10,50,500,'CRITICAL'::text,100,200,180), ('vip'::text,5,20,100,'HIGH'::text,50,100,30), ('standard'::text,2,5,30,'NORMAL'::text,20,40,15), ('free'::text,1,2,10,'LOW'::text,5,10,3)) tier(tier, weight, concurrency, queue_depth, priority, rate_per_second, burst, artefact_days);

CREATE VIEW public.tenant_policy WITH (security_invoker='true') AS
 SELECT tenant.tenant_id,
    tenant.tier,
    tenant.status,
    tier.priority,
    COALESCE(tenant.weight, tier.weight) AS weight,
    COALESCE(tenant.concurrency, tier.concurrency) AS concurrency,
    COALESCE(tenant.queue_depth, tier.queue_depth) AS queue_depth,
    COALESCE(tenant.rate_per_second, tier.rate_per_second) AS rate_per_second,
    COALESCE(tenant.burst, (2 * tenant.rate_per_second), tier.burst) AS burst,
    COALESCE(tenant.artefact_days, tier.artefact_days) AS artefact_days,
        CASE
            WHEN (tenant.status = 'ACTIVE'::text) THEN COALESCE(tenant.concurrency, tier.concurrency)
            ELSE 0
        END AS cap,
    tenant.user_concurrency
   FROM (public.tenant
     JOIN public.tier_default tier USING (tier));

CREATE TABLE public.tenant_role (
    tenant_id uuid NOT NULL,
    name text NOT NULL,
    permissions text[] NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT tenant_role_name_check CHECK ((name ~ '^[a-z][a-z0-9_-]{1,39}$'::text)),
    CONSTRAINT tenant_role_permissions_check CHECK ((cardinality(permissions) <= 64))
);

ALTER TABLE ONLY public.tenant_role FORCE ROW LEVEL SECURITY;

CREATE TABLE public.text_route (
    lane text NOT NULL,
    service text NOT NULL,
    "position" smallint NOT NULL,
    model text NOT NULL,
    CONSTRAINT text_route_lane_check CHECK (((length(lane) >= 1) AND (length(lane) <= 64))),
    CONSTRAINT text_route_model_check CHECK (((length(model) >= 1) AND (length(model) <= 200))),
    CONSTRAINT text_route_position_check CHECK ((("position" >= 0) AND ("position" <= 100))),
    CONSTRAINT text_route_service_check CHECK (((length(service) >= 1) AND (length(service) <= 64)))
);

ALTER TABLE ONLY public.text_route FORCE ROW LEVEL SECURITY;

CREATE TABLE public.text_usage (
    day date NOT NULL,
    tenant_id uuid NOT NULL,
    user_id uuid NOT NULL,
    service text NOT NULL,
    provider text NOT NULL,
    model_id text NOT NULL,
    calls bigint NOT NULL,
    estimated_calls bigint NOT NULL,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    estimated_tokens bigint NOT NULL,
    cost_points numeric NOT NULL,
    completed bigint NOT NULL,
    failed bigint NOT NULL,
    cancelled bigint NOT NULL,
    free_texts bigint NOT NULL,
    charged_points bigint NOT NULL,
    CONSTRAINT text_usage_calls_check CHECK ((calls >= 0)),
    CONSTRAINT text_usage_cancelled_check CHECK ((cancelled >= 0)),
    CONSTRAINT text_usage_charged_points_check CHECK ((charged_points >= 0)),
    CONSTRAINT text_usage_check CHECK (((estimated_calls >= 0) AND (estimated_calls <= calls))),
    CONSTRAINT text_usage_check1 CHECK (((estimated_tokens >= 0) AND (estimated_tokens <= (input_tokens + output_tokens)))),
    CONSTRAINT text_usage_check2 CHECK (((free_texts >= 0) AND (free_texts <= ((completed + failed) + cancelled)))),
    CONSTRAINT text_usage_completed_check CHECK ((completed >= 0)),
    CONSTRAINT text_usage_cost_points_check CHECK ((cost_points >= (0)::numeric)),
    CONSTRAINT text_usage_failed_check CHECK ((failed >= 0)),
    CONSTRAINT text_usage_input_tokens_check CHECK ((input_tokens >= 0)),
    CONSTRAINT text_usage_model_id_check CHECK ((length(model_id) <= 200)),
    CONSTRAINT text_usage_output_tokens_check CHECK ((output_tokens >= 0)),
    CONSTRAINT text_usage_provider_check CHECK ((length(provider) <= 100)),
    CONSTRAINT text_usage_service_check CHECK (((length(service) >= 1) AND (length(service) <= 64)))
)
WITH (fillfactor='80');

ALTER TABLE ONLY public.text_usage FORCE ROW LEVEL SECURITY;

CREATE TABLE public.upload (
    tenant_id uuid NOT NULL,
    input_id uuid NOT NULL,
    user_id uuid NOT NULL,
    key text NOT NULL,
    content_type text NOT NULL,
    bytes bigint NOT NULL,
    width integer,
    height integer,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    cleanup_status smallint DEFAULT 0 NOT NULL,
    CONSTRAINT upload_bytes_check CHECK ((bytes > 0)),
    CONSTRAINT upload_cleanup_status_check CHECK ((cleanup_status = ANY (ARRAY[0, 1]))),
    CONSTRAINT upload_content_type_check CHECK ((content_type = ANY (ARRAY['image/png'::text, 'image/jpeg'::text, 'image/webp'::text]))),
    CONSTRAINT upload_height_check CHECK ((height > 0)),
    CONSTRAINT upload_width_check CHECK ((width > 0))
);

ALTER TABLE ONLY public.upload FORCE ROW LEVEL SECURITY;

CREATE TABLE public.user_role (
    tenant_id uuid NOT NULL,
    user_id uuid NOT NULL,
    role text NOT NULL
);

ALTER TABLE ONLY public.user_role FORCE ROW LEVEL SECURITY;

CREATE VIEW public.user_permission WITH (security_invoker='true') AS
 SELECT held.tenant_id,
    held.user_id,
    permission.permission
   FROM (((public.user_role held
     JOIN public.tenant USING (tenant_id))
     JOIN public.built_in_role known ON (((known.name = held.role) AND ((NOT known.is_platform) OR tenant.is_platform))))
     CROSS JOIN LATERAL unnest(known.permissions) permission(permission))
UNION
 SELECT held.tenant_id,
    held.user_id,
    permission.permission
   FROM ((public.user_role held
     JOIN public.tenant_role known ON (((known.tenant_id = held.tenant_id) AND (known.name = held.role))))
     CROSS JOIN LATERAL unnest(known.permissions) permission(permission));

CREATE TABLE public.webhook (
    tenant_id uuid NOT NULL,
    webhook_id uuid NOT NULL,
    url text NOT NULL,
    secret text NOT NULL,
    is_implied boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    deleted_at timestamp with time zone,
    CONSTRAINT webhook_url_check CHECK (((length(url) >= 10) AND (length(url) <= 2000)))
);

ALTER TABLE ONLY public.webhook FORCE ROW LEVEL SECURITY;

CREATE TABLE public.webhook_delivery (
    tenant_id uuid NOT NULL,
    delivery_id uuid NOT NULL,
    webhook_id uuid NOT NULL,
    event text NOT NULL,
    body text NOT NULL,
    status text DEFAULT 'PENDING'::text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    next_try_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    answer_code integer,
    answer text,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    delivered_at timestamp with time zone,
    task_id uuid,
    run integer,
    sending_until timestamp with time zone,
    parked_at timestamp with time zone,
    CONSTRAINT webhook_delivery_answer_check CHECK ((length(answer) <= 1000)),
    CONSTRAINT webhook_delivery_check CHECK (((task_id IS NULL) = (run IS NULL))),
    CONSTRAINT webhook_delivery_status_check CHECK ((status = ANY (ARRAY['PENDING'::text, 'DELIVERED'::text, 'FAILED'::text])))
);

ALTER TABLE ONLY public.webhook_delivery FORCE ROW LEVEL SECURITY;

CREATE TABLE public.websocket_connection (
    connection_id text NOT NULL,
    tenant_id uuid NOT NULL,
    user_id uuid NOT NULL,
    connected_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    session_id uuid,
    last_sent bigint DEFAULT 0 CONSTRAINT websocket_connection_told_not_null NOT NULL,
    is_greeted boolean DEFAULT false NOT NULL,
    posting bigint,
    posting_until timestamp with time zone,
    closed_at timestamp with time zone,
    scope text DEFAULT 'user'::text NOT NULL,
    CONSTRAINT posting_has_an_end CHECK (((posting IS NULL) = (posting_until IS NULL))),
    CONSTRAINT websocket_connection_connection_id_check CHECK ((connection_id <> ''::text)),
    CONSTRAINT websocket_connection_last_sent_check CHECK ((last_sent >= 0)),
    CONSTRAINT websocket_connection_scope_check CHECK ((scope = ANY (ARRAY['user'::text, 'tenant'::text])))
);

ALTER TABLE ONLY public.websocket_connection FORCE ROW LEVEL SECURITY;

CREATE TABLE public.wechat_identity (
    appid text NOT NULL,
    openid text NOT NULL,
    unionid text,
    tenant_id uuid NOT NULL,
    user_id uuid NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT wechat_identity_appid_check CHECK (((length(appid) >= 1) AND (length(appid) <= 64))),
    CONSTRAINT wechat_identity_openid_check CHECK (((length(openid) >= 1) AND (length(openid) <= 128))),
    CONSTRAINT wechat_identity_unionid_check CHECK (((length(unionid) >= 1) AND (length(unionid) <= 128)))
);

ALTER TABLE ONLY public.wechat_identity FORCE ROW LEVEL SECURITY;

CREATE TABLE public.worker (
    worker_id text NOT NULL,
    pool text NOT NULL,
    types text[] NOT NULL,
    slots integer NOT NULL,
    engine text DEFAULT ''::text NOT NULL,
    registered_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    beat_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    drain_at timestamp with time zone,
    neural text[] DEFAULT '{}'::text[] NOT NULL,
    CONSTRAINT worker_engine_check CHECK ((length(engine) <= 100)),
    CONSTRAINT worker_neural_check CHECK ((cardinality(neural) <= 200)),
    CONSTRAINT worker_slots_check CHECK (((slots >= 0) AND (slots <= 1000))),
    CONSTRAINT worker_types_check CHECK (((cardinality(types) >= 1) AND (cardinality(types) <= 32))),
    CONSTRAINT worker_worker_id_check CHECK (((length(worker_id) >= 1) AND (length(worker_id) <= 200)))
);

ALTER TABLE ONLY public.worker FORCE ROW LEVEL SECURITY;

ALTER TABLE ONLY public.api_key_nonce
    ADD CONSTRAINT api_key_nonce_pkey PRIMARY KEY (tenant_id, key_id, nonce);

ALTER TABLE ONLY public.api_key
    ADD CONSTRAINT api_key_pkey PRIMARY KEY (tenant_id, key_id);

ALTER TABLE ONLY public.app_user
    ADD CONSTRAINT app_user_email_key UNIQUE (email);

ALTER TABLE ONLY public.app_user
    ADD CONSTRAINT app_user_id_key UNIQUE (user_id);

ALTER TABLE ONLY public.app_user
    ADD CONSTRAINT app_user_phone_key UNIQUE (phone);

ALTER TABLE ONLY public.app_user
    ADD CONSTRAINT app_user_pkey PRIMARY KEY (tenant_id, user_id);

ALTER TABLE ONLY public.artefact
    ADD CONSTRAINT artefact_key_key UNIQUE (key);

ALTER TABLE ONLY public.artefact
    ADD CONSTRAINT artefact_pkey PRIMARY KEY (tenant_id, artefact_id);

ALTER TABLE ONLY public.audit_log
    ADD CONSTRAINT audit_log_pkey PRIMARY KEY (audit_id);

ALTER TABLE ONLY public.backfill
    ADD CONSTRAINT backfill_pkey PRIMARY KEY (tenant_id, backfill_id);

ALTER TABLE ONLY public.bill_day
    ADD CONSTRAINT bill_day_pkey PRIMARY KEY (day);

ALTER TABLE ONLY public.bill_difference
    ADD CONSTRAINT bill_difference_pkey PRIMARY KEY (day, kind, reference);

ALTER TABLE ONLY public.circuit
    ADD CONSTRAINT circuit_pkey PRIMARY KEY (pool, step);

ALTER TABLE ONLY public.cursor_holder
    ADD CONSTRAINT cursor_holder_pkey PRIMARY KEY (tenant_id, user_id, scope);

ALTER TABLE ONLY public.generation_allowance
    ADD CONSTRAINT generation_allowance_pkey PRIMARY KEY (tenant_id, user_id, day);

ALTER TABLE ONLY public.generation_clock
    ADD CONSTRAINT generation_clock_pkey PRIMARY KEY (lane);

ALTER TABLE ONLY public.generation
    ADD CONSTRAINT generation_generation_id_key UNIQUE (generation_id);

ALTER TABLE ONLY public.generation
    ADD CONSTRAINT generation_pkey PRIMARY KEY (tenant_id, generation_id);

ALTER TABLE ONLY public.generation_share
    ADD CONSTRAINT generation_share_pkey PRIMARY KEY (tenant_id, lane);

ALTER TABLE ONLY public.idempotency_key
    ADD CONSTRAINT idempotency_key_pkey PRIMARY KEY (tenant_id, idempotency_key);

ALTER TABLE ONLY public.invariant_pass
    ADD CONSTRAINT invariant_pass_pkey PRIMARY KEY (is_only);

ALTER TABLE ONLY public.invitation
    ADD CONSTRAINT invitation_pkey PRIMARY KEY (tenant_id, invitation_id);

ALTER TABLE ONLY public.invitation
    ADD CONSTRAINT invitation_token_hash_key UNIQUE (token_hash);

ALTER TABLE ONLY public.job_after
    ADD CONSTRAINT job_after_pkey PRIMARY KEY (tenant_id, job_id, predecessor_id);

ALTER TABLE ONLY public.job_change
    ADD CONSTRAINT job_change_pkey PRIMARY KEY (tenant_id, job_id, version);

ALTER TABLE ONLY public.job_fire_note
    ADD CONSTRAINT job_fire_note_pkey PRIMARY KEY (tenant_id, job_id, first_at, outcome);

ALTER TABLE ONLY public.job_load
    ADD CONSTRAINT job_load_pkey PRIMARY KEY (tenant_id, lane, is_call);

ALTER TABLE ONLY public.job_minute
    ADD CONSTRAINT job_minute_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY public.job
    ADD CONSTRAINT job_pkey PRIMARY KEY (tenant_id, job_id);

ALTER TABLE ONLY public.job_run
    ADD CONSTRAINT job_run_pkey PRIMARY KEY (tenant_id, job_id, scheduled_at);

ALTER TABLE ONLY public.job_secret
    ADD CONSTRAINT job_secret_pkey PRIMARY KEY (tenant_id, name);

ALTER TABLE ONLY public.job_signing_key
    ADD CONSTRAINT job_signing_key_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY public.lane_setting
    ADD CONSTRAINT lane_setting_pkey PRIMARY KEY (lane);

ALTER TABLE ONLY public.live_setting
    ADD CONSTRAINT live_setting_pkey PRIMARY KEY (key);

ALTER TABLE ONLY public.login_event
    ADD CONSTRAINT login_event_pkey PRIMARY KEY (tenant_id, login_id);

ALTER TABLE ONLY public.login_failure
    ADD CONSTRAINT login_failure_pkey PRIMARY KEY (subject);

ALTER TABLE ONLY public.model_setting
    ADD CONSTRAINT model_setting_pkey PRIMARY KEY (model);

ALTER TABLE ONLY public.node_dependency
    ADD CONSTRAINT node_dependency_pkey PRIMARY KEY (tenant_id, node_id, depends_on_id);

ALTER TABLE ONLY public.node_history
    ADD CONSTRAINT node_history_pkey PRIMARY KEY (tenant_id, node_id, version);

ALTER TABLE ONLY public.node_token
    ADD CONSTRAINT node_token_node_id_token_key UNIQUE (node_id, token);

ALTER TABLE ONLY public.node_token
    ADD CONSTRAINT node_token_pkey PRIMARY KEY (token_id);

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (outbox_id);

ALTER TABLE ONLY public.password_reset
    ADD CONSTRAINT password_reset_pkey PRIMARY KEY (reset_id);

ALTER TABLE ONLY public.password_reset
    ADD CONSTRAINT password_reset_token_hash_key UNIQUE (token_hash);

ALTER TABLE ONLY public.pay_alert
    ADD CONSTRAINT pay_alert_pkey PRIMARY KEY (alert_key);

ALTER TABLE ONLY public.pay_order
    ADD CONSTRAINT pay_order_out_trade_no_key UNIQUE (out_trade_no);

ALTER TABLE ONLY public.pay_order
    ADD CONSTRAINT pay_order_pkey PRIMARY KEY (tenant_id, order_id);

ALTER TABLE ONLY public.pay_order
    ADD CONSTRAINT pay_order_tenant_id_idempotency_key_key UNIQUE (tenant_id, idempotency_key);

ALTER TABLE ONLY public.pay_refund
    ADD CONSTRAINT pay_refund_out_refund_no_key UNIQUE (out_refund_no);

ALTER TABLE ONLY public.pay_refund
    ADD CONSTRAINT pay_refund_pkey PRIMARY KEY (tenant_id, refund_id);

ALTER TABLE ONLY public.pay_refund
    ADD CONSTRAINT pay_refund_tenant_id_idempotency_key_key UNIQUE (tenant_id, idempotency_key);

ALTER TABLE ONLY public.pay_transaction
    ADD CONSTRAINT pay_transaction_pkey PRIMARY KEY (mchid, transaction_id);

ALTER TABLE ONLY public.points_account
    ADD CONSTRAINT points_account_pkey PRIMARY KEY (tenant_id, user_id);

ALTER TABLE ONLY public.points_campaign_grant
    ADD CONSTRAINT points_campaign_grant_pkey PRIMARY KEY (tenant_id, campaign, user_id);

ALTER TABLE ONLY public.points_hold_lot
    ADD CONSTRAINT points_hold_lot_pkey PRIMARY KEY (tenant_id, hold_id, lot_id);

ALTER TABLE ONLY public.points_hold
    ADD CONSTRAINT points_hold_pkey PRIMARY KEY (tenant_id, hold_id);

ALTER TABLE ONLY public.points_ledger
    ADD CONSTRAINT points_ledger_pkey PRIMARY KEY (tenant_id, user_id, version);

ALTER TABLE ONLY public.points_ledger
    ADD CONSTRAINT points_ledger_tenant_id_idempotency_key_key UNIQUE (tenant_id, idempotency_key);

ALTER TABLE ONLY public.points_ledger
    ADD CONSTRAINT points_ledger_tenant_id_user_id_version_balance_frozen_key UNIQUE (tenant_id, user_id, version, balance, frozen);

ALTER TABLE ONLY public.points_lot
    ADD CONSTRAINT points_lot_pkey PRIMARY KEY (tenant_id, lot_id);

ALTER TABLE ONLY public.refresh_token
    ADD CONSTRAINT refresh_token_pkey PRIMARY KEY (token_hash);

ALTER TABLE ONLY public.run_archive_part
    ADD CONSTRAINT run_archive_part_pkey PRIMARY KEY (kind, day, batch, part);

ALTER TABLE ONLY public.run_archive
    ADD CONSTRAINT run_archive_pkey PRIMARY KEY (kind, day, batch);

ALTER TABLE ONLY public.run_circuit
    ADD CONSTRAINT run_circuit_pkey PRIMARY KEY (tenant_id, target);

ALTER TABLE ONLY public.run_guard
    ADD CONSTRAINT run_guard_pkey PRIMARY KEY (is_single);

ALTER TABLE ONLY public.run_log
    ADD CONSTRAINT run_log_pkey PRIMARY KEY (run_id, log_id, at);

ALTER TABLE ONLY public.run_result
    ADD CONSTRAINT run_result_pkey PRIMARY KEY (run_id, generation, attempt, at);

ALTER TABLE ONLY public.series_day
    ADD CONSTRAINT series_day_pkey PRIMARY KEY (name, day, labels);

ALTER TABLE ONLY public.series_minute
    ADD CONSTRAINT series_minute_pkey PRIMARY KEY (name, minute, labels);

ALTER TABLE ONLY public.series_pass
    ADD CONSTRAINT series_pass_pkey PRIMARY KEY (is_only);

ALTER TABLE ONLY public.session
    ADD CONSTRAINT session_pkey PRIMARY KEY (tenant_id, session_id);

ALTER TABLE ONLY public.sweep_position
    ADD CONSTRAINT sweep_position_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.task_event
    ADD CONSTRAINT task_event_pkey PRIMARY KEY (tenant_id, task_id, sequence);

ALTER TABLE ONLY public.task_node
    ADD CONSTRAINT task_node_pkey PRIMARY KEY (node_id, tenant_id);

ALTER TABLE ONLY public.task
    ADD CONSTRAINT task_pkey PRIMARY KEY (tenant_id, task_id);

ALTER TABLE ONLY public.task
    ADD CONSTRAINT task_task_id_key UNIQUE (task_id);

ALTER TABLE ONLY public.tenant
    ADD CONSTRAINT tenant_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY public.tenant_role
    ADD CONSTRAINT tenant_role_pkey PRIMARY KEY (tenant_id, name);

ALTER TABLE ONLY public.text_route
    ADD CONSTRAINT text_route_pkey PRIMARY KEY (lane, service, "position");

ALTER TABLE ONLY public.text_usage
    ADD CONSTRAINT text_usage_pkey PRIMARY KEY (day, tenant_id, user_id, service, provider, model_id);

ALTER TABLE ONLY public.upload
    ADD CONSTRAINT upload_pkey PRIMARY KEY (tenant_id, input_id);

ALTER TABLE ONLY public.user_role
    ADD CONSTRAINT user_role_pkey PRIMARY KEY (tenant_id, user_id, role);

ALTER TABLE ONLY public.webhook_delivery
    ADD CONSTRAINT webhook_delivery_pkey PRIMARY KEY (tenant_id, delivery_id);

ALTER TABLE ONLY public.webhook
    ADD CONSTRAINT webhook_pkey PRIMARY KEY (tenant_id, webhook_id);

ALTER TABLE ONLY public.websocket_connection
    ADD CONSTRAINT websocket_connection_pkey PRIMARY KEY (connection_id);

ALTER TABLE ONLY public.wechat_identity
    ADD CONSTRAINT wechat_identity_pkey PRIMARY KEY (appid, openid);

ALTER TABLE ONLY public.worker
    ADD CONSTRAINT worker_pkey PRIMARY KEY (worker_id);

CREATE INDEX api_key_nonce_expiry ON public.api_key_nonce USING btree (tenant_id, key_id, expires_at);

CREATE INDEX api_key_of_parent ON public.api_key USING btree (tenant_id, parent_key_id) WHERE (parent_key_id IS NOT NULL);

CREATE INDEX api_key_of_user ON public.api_key USING btree (tenant_id, user_id, key_id);

CREATE INDEX app_user_concurrency ON public.app_user USING btree (tenant_id) WHERE (concurrency IS NOT NULL);

CREATE INDEX app_user_concurrency_set ON public.app_user USING btree (concurrency_set_at) WHERE (concurrency_set_at IS NOT NULL);

CREATE INDEX artefact_expiry ON public.artefact USING btree (expires_at) WHERE (cleanup_status = 0);

CREATE INDEX artefact_of_node ON public.artefact USING btree (tenant_id, node_id);

CREATE INDEX artefact_of_task ON public.artefact USING btree (tenant_id, task_id);

CREATE INDEX audit_log_by_time ON public.audit_log USING btree (at DESC, audit_id DESC);

CREATE INDEX audit_log_of_actor ON public.audit_log USING btree (actor_id, at DESC, audit_id DESC) WHERE (actor_id IS NOT NULL);

CREATE INDEX audit_log_of_target ON public.audit_log USING btree (target, at DESC, audit_id DESC);

CREATE INDEX audit_log_of_tenant ON public.audit_log USING btree (tenant_id, at DESC, audit_id DESC);

CREATE INDEX backfill_running ON public.backfill USING btree (created_at) WHERE (status = 'RUNNING'::text);

CREATE INDEX bill_difference_open ON public.bill_difference USING btree (tenant_id, order_id) WHERE (resolution = 'OPEN'::text);

CREATE INDEX cursor_holder_of_tenant ON public.cursor_holder USING btree (tenant_id) WHERE (scope = 'tenant'::text);

CREATE INDEX generation_allowance_age ON public.generation_allowance USING btree (day);

CREATE INDEX generation_ended ON public.generation USING btree (ended_at) WHERE (ended_at IS NOT NULL);

CREATE INDEX generation_live ON public.generation USING btree (tenant_id) WHERE (status = ANY (ARRAY['QUEUED'::text, 'RUNNING'::text]));

CREATE INDEX generation_of_tenant ON public.generation USING btree (tenant_id, ended_at) WHERE (ended_at IS NOT NULL);

CREATE INDEX generation_of_user ON public.generation USING btree (tenant_id, user_id, generation_id);

CREATE INDEX generation_running ON public.generation USING btree (lease_until) WHERE (status = 'RUNNING'::text);

CREATE INDEX generation_waiting ON public.generation USING btree (lane, tenant_id, created_at, generation_id) WHERE (status = 'QUEUED'::text);

CREATE INDEX idempotency_key_age ON public.idempotency_key USING btree (created_at);

CREATE INDEX invitation_expiry ON public.invitation USING btree (expires_at);

CREATE UNIQUE INDEX invitation_open ON public.invitation USING btree (tenant_id, email) WHERE ((accepted_at IS NULL) AND (revoked_at IS NULL));

CREATE INDEX job_after_predecessor ON public.job_after USING btree (tenant_id, predecessor_id);

CREATE INDEX job_change_superseded ON public.job_change USING btree (superseded_at) WHERE (superseded_at IS NOT NULL);

CREATE INDEX job_ending ON public.job USING btree (last_fire_at) WHERE ((status = 'ACTIVE'::text) AND (next_fire_at IS NULL));

CREATE INDEX job_fire_note_age ON public.job_fire_note USING btree (at);

CREATE INDEX job_load_in_use ON public.job_load USING btree (lane, tenant_id) WHERE ((running > 0) OR (deferred > 0) OR (blocked > 0));

CREATE INDEX job_next_fire ON public.job USING btree (next_fire_at, job_id) WHERE (next_fire_at IS NOT NULL);

CREATE INDEX job_run_active ON ONLY public.job_run USING btree (tenant_id, job_id) WHERE (state = ANY (ARRAY['RUNNING'::text, 'RETRYING'::text]));

CREATE INDEX job_run_by_id ON ONLY public.job_run USING btree (run_id);

CREATE INDEX job_run_dead ON ONLY public.job_run USING btree (dead_at, run_id) WHERE (dead_at IS NOT NULL);

CREATE INDEX job_run_deferred ON ONLY public.job_run USING btree (tenant_id, lane, ((task_type = 'HTTP'::text)), due_at, run_id) WHERE (is_deferred AND (defer_reason <> ALL (ARRAY['overlap'::text, 'job_concurrency'::text])));

CREATE INDEX job_run_due ON ONLY public.job_run USING btree (due_at, run_id) WHERE ((state = ANY (ARRAY['PENDING'::text, 'RETRYING'::text])) AND (NOT is_deferred));

CREATE INDEX job_run_ended ON ONLY public.job_run USING brin (ended_at) WITH (pages_per_range='32');

CREATE INDEX job_run_lease ON ONLY public.job_run USING btree (lease_until, run_id) WHERE (state = 'RUNNING'::text);

CREATE INDEX job_run_of_backfill ON ONLY public.job_run USING btree (tenant_id, backfill_id, state) WHERE (backfill_id IS NOT NULL);

CREATE INDEX job_run_of_job ON ONLY public.job_run USING btree (tenant_id, job_id, due_at, run_id) WHERE is_deferred;

CREATE INDEX job_run_of_tenant ON ONLY public.job_run USING btree (tenant_id, run_id);

CREATE INDEX job_run_parked ON ONLY public.job_run USING btree (tenant_id, backfill_id, scheduled_at) WHERE (due_at >= '9000-01-01 00:00:00+00'::timestamp with time zone);

CREATE INDEX job_run_started ON ONLY public.job_run USING brin (started_at) WITH (pages_per_range='32');

CREATE INDEX job_run_unhinted ON ONLY public.job_run USING btree (due_at) WHERE ((state = ANY (ARRAY['PENDING'::text, 'RETRYING'::text])) AND (NOT is_deferred) AND (hinted_at IS NULL));

CREATE INDEX job_zone ON public.job USING btree (tzdata_version) WHERE (status = 'ACTIVE'::text);

CREATE INDEX login_event_age ON public.login_event USING btree (logged_at);

CREATE INDEX login_event_of_user ON public.login_event USING btree (tenant_id, user_id, logged_at DESC, login_id DESC);

CREATE INDEX login_failure_age ON public.login_failure USING btree (last_at);

CREATE INDEX node_dependency_dependents ON public.node_dependency USING btree (tenant_id, depends_on_id);

CREATE INDEX node_history_changed ON public.node_history USING btree (changed_at);

CREATE INDEX node_token_answered ON public.node_token USING btree (answered_at, token_id) WHERE (answered_at IS NOT NULL);

CREATE INDEX outbox_events_of_tenant ON public.outbox USING btree (tenant_id, outbox_id) WHERE ((destination = 'push'::text) AND (aggregate ~~ 'user:%'::text));

CREATE INDEX outbox_events_of_user ON public.outbox USING btree (tenant_id, aggregate, outbox_id) WHERE (destination = 'push'::text);

CREATE INDEX outbox_unsent_by_age ON public.outbox USING btree (created_at) WHERE (sent_at IS NULL);

CREATE INDEX password_reset_expiry ON public.password_reset USING btree (expires_at);

CREATE INDEX password_reset_open ON public.password_reset USING btree (user_id) WHERE ((ended_at IS NULL) AND (user_id IS NOT NULL));

CREATE INDEX pay_alert_sent ON public.pay_alert USING btree (sent_at) WHERE (sent_at IS NOT NULL);

CREATE INDEX pay_alert_unsent ON public.pay_alert USING btree (created_at) WHERE (sent_at IS NULL);

CREATE INDEX pay_order_due ON public.pay_order USING btree (next_query_at) WHERE (status = ANY (ARRAY['CREATED'::text, 'PAYING'::text]));

CREATE INDEX pay_order_ended ON public.pay_order USING btree (created_at, order_id) WHERE (status = ANY (ARRAY['COMPLETED'::text, 'REFUNDED'::text, 'CLOSED'::text]));

CREATE INDEX pay_order_of_user ON public.pay_order USING btree (tenant_id, user_id, order_id);

CREATE INDEX pay_order_open ON public.pay_order USING btree (tenant_id, user_id) WHERE (status = ANY (ARRAY['CREATED'::text, 'PAYING'::text]));

CREATE INDEX pay_order_paid ON public.pay_order USING btree (paid_at) WHERE (paid_at IS NOT NULL);

CREATE UNIQUE INDEX pay_order_transaction ON public.pay_order USING btree (mchid, transaction_id) WHERE (transaction_id IS NOT NULL);

CREATE INDEX pay_refund_due ON public.pay_refund USING btree (next_query_at) WHERE (status = ANY (ARRAY['REQUESTED'::text, 'PROCESSING'::text]));

CREATE INDEX pay_refund_of_order ON public.pay_refund USING btree (tenant_id, order_id);

CREATE INDEX pay_refund_started ON public.pay_refund USING btree (started_at);

CREATE UNIQUE INDEX pay_transaction_credited ON public.pay_transaction USING btree (tenant_id, order_id) WHERE (outcome = 'CREDITED'::text);

CREATE INDEX pay_transaction_of_order ON public.pay_transaction USING btree (tenant_id, order_id) WHERE (order_id IS NOT NULL);

CREATE INDEX points_account_expiry ON public.points_account USING btree (next_expiry_at) WHERE (next_expiry_at IS NOT NULL);

CREATE INDEX points_account_noticed ON public.points_account USING btree (tenant_id) WHERE (low_noticed_at IS NOT NULL);

CREATE INDEX points_hold_ended ON public.points_hold USING btree (ended_at, hold_id) WHERE (ended_at IS NOT NULL);

CREATE INDEX points_hold_lot_of_lot ON public.points_hold_lot USING btree (tenant_id, lot_id);

CREATE INDEX points_hold_overdue ON public.points_hold USING btree (expires_at) WHERE (status = 'HELD'::text);

CREATE INDEX points_ledger_age ON public.points_ledger USING brin (created_at) WITH (pages_per_range='16', autosummarize='on');

CREATE UNIQUE INDEX points_ledger_hold_end ON public.points_ledger USING btree (tenant_id, hold_id) WHERE (kind = ANY (ARRAY['CONFIRM'::text, 'CANCEL'::text]));

CREATE INDEX points_ledger_reference ON public.points_ledger USING btree (tenant_id, reference) WHERE (kind = ANY (ARRAY['CONFIRM'::text, 'RECHARGE'::text]));

CREATE INDEX points_lot_live ON public.points_lot USING btree (tenant_id, user_id, expires_at, lot_id) WHERE (remaining > 0);

CREATE INDEX points_lot_of_user ON public.points_lot USING btree (tenant_id, user_id, expires_at);

CREATE INDEX points_lot_spent ON public.points_lot USING btree (expires_at, lot_id) WHERE (remaining = 0);

CREATE UNIQUE INDEX refresh_token_live ON public.refresh_token USING btree (tenant_id, session_id) WHERE (used_at IS NULL);

CREATE INDEX refresh_token_of_session ON public.refresh_token USING btree (tenant_id, session_id);

CREATE INDEX series_minute_age ON public.series_minute USING btree (minute);

CREATE INDEX session_ended ON public.session USING btree (revoked_at) WHERE (revoked_at IS NOT NULL);

CREATE INDEX session_expiry ON public.session USING btree (expires_at);

CREATE INDEX session_of_user ON public.session USING btree (tenant_id, user_id) WHERE (revoked_at IS NULL);

CREATE INDEX task_ended ON public.task USING btree (tenant_id, ended_at) WHERE (ended_at IS NOT NULL);

CREATE INDEX task_execution ON public.task USING btree (execution_asked_at) WHERE (ended_at IS NULL);

CREATE INDEX task_hold ON public.task USING btree (hold_id);

CREATE INDEX task_live ON public.task USING btree (tenant_id) WHERE (ended_at IS NULL);

CREATE INDEX task_node_calls ON public.task_node USING btree (tenant_id, ready_at) WHERE ((pool = 'http'::text) AND (status = 'QUEUED'::text) AND (dispatched_at IS NULL));

CREATE INDEX task_node_ended ON public.task_node USING btree (pool, ended_at) WHERE (ended_at IS NOT NULL);

CREATE INDEX task_node_long ON public.task_node USING btree (started_at) WHERE (status = 'PROCESSING'::text);

CREATE UNIQUE INDEX task_node_name ON public.task_node USING btree (task_id, name, superseded_at) NULLS NOT DISTINCT;

CREATE INDEX task_node_pending ON public.task_node USING btree (lane) WHERE (status = 'PENDING'::text);

CREATE INDEX task_node_slot ON public.task_node USING btree (pool) WHERE ((status = ANY (ARRAY['QUEUED'::text, 'PROCESSING'::text])) AND (dispatched_at IS NOT NULL));

CREATE INDEX task_node_unready ON public.task_node USING btree (not_before) WHERE ((status = 'PENDING'::text) AND (in_degree = 0));

CREATE INDEX task_node_waiting ON public.task_node USING btree (pool, lane, ready_at) WHERE ((status = 'QUEUED'::text) AND (dispatched_at IS NULL));

CREATE INDEX task_of_user ON public.task USING btree (tenant_id, user_id, task_id);

CREATE INDEX task_purge ON public.task USING btree (purge_stage, ended_at, task_id) WHERE (ended_at IS NOT NULL);

CREATE UNIQUE INDEX task_submission_key ON public.task USING btree (tenant_id, submission_key) WHERE (submission_key IS NOT NULL);

CREATE INDEX tenant_changed ON public.tenant USING btree (updated_at);

CREATE INDEX tenant_low_balance ON public.tenant USING btree (tenant_id) WHERE (low_balance_points IS NOT NULL);

CREATE UNIQUE INDEX tenant_platform ON public.tenant USING btree (is_platform) WHERE is_platform;

CREATE INDEX upload_cleaned ON public.upload USING btree (expires_at, input_id) WHERE (cleanup_status = 1);

CREATE INDEX upload_expiry ON public.upload USING btree (expires_at) WHERE (cleanup_status = 0);

CREATE INDEX upload_open ON public.upload USING btree (tenant_id, user_id) WHERE ((width IS NULL) AND (cleanup_status = 0));

CREATE INDEX user_role_by_role ON public.user_role USING btree (tenant_id, role);

CREATE INDEX webhook_deleted ON public.webhook USING btree (deleted_at, webhook_id) WHERE (deleted_at IS NOT NULL);

CREATE INDEX webhook_delivery_due ON public.webhook_delivery USING btree (tenant_id, next_try_at) WHERE (status = 'PENDING'::text);

CREATE INDEX webhook_delivery_ended ON public.webhook_delivery USING btree (next_try_at, delivery_id) WHERE (status <> 'PENDING'::text);

CREATE INDEX webhook_delivery_of_webhook ON public.webhook_delivery USING btree (tenant_id, webhook_id, delivery_id);

CREATE UNIQUE INDEX webhook_delivery_once ON public.webhook_delivery USING btree (tenant_id, task_id, run, webhook_id) WHERE (task_id IS NOT NULL);

CREATE INDEX webhook_delivery_parked ON public.webhook_delivery USING btree (tenant_id, parked_at) WHERE (parked_at IS NOT NULL);

CREATE INDEX webhook_delivery_pending ON public.webhook_delivery USING btree (tenant_id, webhook_id) WHERE (status = 'PENDING'::text);

CREATE INDEX webhook_delivery_sending ON public.webhook_delivery USING btree (tenant_id, sending_until) WHERE (sending_until IS NOT NULL);

CREATE INDEX webhook_registered ON public.webhook USING btree (tenant_id) WHERE ((deleted_at IS NULL) AND (NOT is_implied));

CREATE UNIQUE INDEX webhook_url ON public.webhook USING btree (tenant_id, url) WHERE (deleted_at IS NULL);

CREATE INDEX websocket_connection_expiry ON public.websocket_connection USING btree (expires_at);

CREATE INDEX websocket_connection_of_user ON public.websocket_connection USING btree (tenant_id, user_id);

CREATE INDEX websocket_connection_open ON public.websocket_connection USING btree (tenant_id, user_id) WHERE (closed_at IS NULL);

CREATE INDEX websocket_connection_tenant_wide ON public.websocket_connection USING btree (tenant_id) WHERE ((scope = 'tenant'::text) AND (closed_at IS NULL));

CREATE INDEX wechat_identity_by_unionid ON public.wechat_identity USING btree (unionid) WHERE (unionid IS NOT NULL);

CREATE INDEX wechat_identity_of_user ON public.wechat_identity USING btree (tenant_id, user_id);

CREATE INDEX worker_beat ON public.worker USING btree (beat_at);

CREATE TRIGGER keep_cursor_holder AFTER INSERT ON public.websocket_connection FOR EACH ROW EXECUTE FUNCTION public.keep_cursor_holder();

CREATE TRIGGER node_changed AFTER UPDATE ON public.task_node REFERENCING OLD TABLE AS before_rows NEW TABLE AS after_rows FOR EACH STATEMENT EXECUTE FUNCTION public.keep_node_history();

CREATE TRIGGER node_created AFTER INSERT ON public.task_node REFERENCING NEW TABLE AS after_rows FOR EACH STATEMENT EXECUTE FUNCTION public.keep_node_history();

CREATE TRIGGER wait_for_speakers BEFORE INSERT ON public.websocket_connection FOR EACH ROW EXECUTE FUNCTION public.wait_for_speakers();

ALTER TABLE ONLY public.api_key_nonce
    ADD CONSTRAINT api_key_nonce_tenant_id_key_id_fkey FOREIGN KEY (tenant_id, key_id) REFERENCES public.api_key(tenant_id, key_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.api_key
    ADD CONSTRAINT api_key_parent_fkey FOREIGN KEY (tenant_id, parent_key_id) REFERENCES public.api_key(tenant_id, key_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.api_key
    ADD CONSTRAINT api_key_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.app_user
    ADD CONSTRAINT app_user_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(tenant_id);

ALTER TABLE ONLY public.artefact
    ADD CONSTRAINT artefact_tenant_id_node_id_fkey FOREIGN KEY (tenant_id, node_id) REFERENCES public.task_node(tenant_id, node_id);

ALTER TABLE ONLY public.artefact
    ADD CONSTRAINT artefact_tenant_id_task_id_fkey FOREIGN KEY (tenant_id, task_id) REFERENCES public.task(tenant_id, task_id);

ALTER TABLE ONLY public.backfill
    ADD CONSTRAINT backfill_tenant_id_job_id_fkey FOREIGN KEY (tenant_id, job_id) REFERENCES public.job(tenant_id, job_id);

ALTER TABLE ONLY public.bill_difference
    ADD CONSTRAINT bill_difference_day_fkey FOREIGN KEY (day) REFERENCES public.bill_day(day);

ALTER TABLE ONLY public.generation_allowance
    ADD CONSTRAINT generation_allowance_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id);

ALTER TABLE ONLY public.generation_share
    ADD CONSTRAINT generation_share_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(tenant_id);

ALTER TABLE ONLY public.generation
    ADD CONSTRAINT generation_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id);

ALTER TABLE ONLY public.invitation
    ADD CONSTRAINT invitation_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(tenant_id);

ALTER TABLE ONLY public.invitation
    ADD CONSTRAINT invitation_tenant_id_invited_by_fkey FOREIGN KEY (tenant_id, invited_by) REFERENCES public.app_user(tenant_id, user_id);

ALTER TABLE ONLY public.invitation
    ADD CONSTRAINT invitation_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id);

ALTER TABLE ONLY public.job_after
    ADD CONSTRAINT job_after_tenant_id_job_id_fkey FOREIGN KEY (tenant_id, job_id) REFERENCES public.job(tenant_id, job_id);

ALTER TABLE ONLY public.job_after
    ADD CONSTRAINT job_after_tenant_id_predecessor_id_fkey FOREIGN KEY (tenant_id, predecessor_id) REFERENCES public.job(tenant_id, job_id);

ALTER TABLE ONLY public.job_change
    ADD CONSTRAINT job_change_tenant_id_job_id_fkey FOREIGN KEY (tenant_id, job_id) REFERENCES public.job(tenant_id, job_id);

ALTER TABLE ONLY public.job_fire_note
    ADD CONSTRAINT job_fire_note_tenant_id_job_id_fkey FOREIGN KEY (tenant_id, job_id) REFERENCES public.job(tenant_id, job_id);

ALTER TABLE ONLY public.job
    ADD CONSTRAINT job_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id);

ALTER TABLE ONLY public.login_event
    ADD CONSTRAINT login_event_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.node_dependency
    ADD CONSTRAINT node_dependency_tenant_id_depends_on_id_fkey FOREIGN KEY (tenant_id, depends_on_id) REFERENCES public.task_node(tenant_id, node_id);

ALTER TABLE ONLY public.node_dependency
    ADD CONSTRAINT node_dependency_tenant_id_node_id_fkey FOREIGN KEY (tenant_id, node_id) REFERENCES public.task_node(tenant_id, node_id);

ALTER TABLE ONLY public.pay_order
    ADD CONSTRAINT pay_order_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id);

ALTER TABLE ONLY public.pay_refund
    ADD CONSTRAINT pay_refund_tenant_id_order_id_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES public.pay_order(tenant_id, order_id);

ALTER TABLE ONLY public.pay_transaction
    ADD CONSTRAINT pay_transaction_tenant_id_order_id_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES public.pay_order(tenant_id, order_id);

ALTER TABLE ONLY public.points_account
    ADD CONSTRAINT points_account_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id);

ALTER TABLE ONLY public.points_account
    ADD CONSTRAINT points_account_tenant_id_user_id_version_balance_frozen_fkey FOREIGN KEY (tenant_id, user_id, version, balance, frozen) REFERENCES public.points_ledger(tenant_id, user_id, version, balance, frozen);

ALTER TABLE ONLY public.points_campaign_grant
    ADD CONSTRAINT points_campaign_grant_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.points_account(tenant_id, user_id);

ALTER TABLE ONLY public.points_hold_lot
    ADD CONSTRAINT points_hold_lot_tenant_id_hold_id_fkey FOREIGN KEY (tenant_id, hold_id) REFERENCES public.points_hold(tenant_id, hold_id);

ALTER TABLE ONLY public.points_hold_lot
    ADD CONSTRAINT points_hold_lot_tenant_id_lot_id_fkey FOREIGN KEY (tenant_id, lot_id) REFERENCES public.points_lot(tenant_id, lot_id);

ALTER TABLE ONLY public.points_hold
    ADD CONSTRAINT points_hold_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id);

ALTER TABLE ONLY public.points_ledger
    ADD CONSTRAINT points_ledger_tenant_id_user_id_version_before_balance_bef_fkey FOREIGN KEY (tenant_id, user_id, version_before, balance_before, frozen_before) REFERENCES public.points_ledger(tenant_id, user_id, version, balance, frozen);

ALTER TABLE ONLY public.points_lot
    ADD CONSTRAINT points_lot_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.points_account(tenant_id, user_id);

ALTER TABLE ONLY public.refresh_token
    ADD CONSTRAINT refresh_token_tenant_id_session_id_fkey FOREIGN KEY (tenant_id, session_id) REFERENCES public.session(tenant_id, session_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.run_archive_part
    ADD CONSTRAINT run_archive_part_kind_day_batch_fkey FOREIGN KEY (kind, day, batch) REFERENCES public.run_archive(kind, day, batch) ON DELETE CASCADE;

ALTER TABLE ONLY public.session
    ADD CONSTRAINT session_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.task_event
    ADD CONSTRAINT task_event_tenant_id_task_id_fkey FOREIGN KEY (tenant_id, task_id) REFERENCES public.task(tenant_id, task_id);

ALTER TABLE ONLY public.task_node
    ADD CONSTRAINT task_node_tenant_id_task_id_fkey FOREIGN KEY (tenant_id, task_id) REFERENCES public.task(tenant_id, task_id);

ALTER TABLE ONLY public.task
    ADD CONSTRAINT task_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id);

ALTER TABLE ONLY public.tenant_role
    ADD CONSTRAINT tenant_role_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(tenant_id);

ALTER TABLE ONLY public.text_usage
    ADD CONSTRAINT text_usage_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id);

ALTER TABLE ONLY public.upload
    ADD CONSTRAINT upload_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id);

ALTER TABLE ONLY public.user_role
    ADD CONSTRAINT user_role_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.webhook_delivery
    ADD CONSTRAINT webhook_delivery_tenant_id_webhook_id_fkey FOREIGN KEY (tenant_id, webhook_id) REFERENCES public.webhook(tenant_id, webhook_id);

ALTER TABLE ONLY public.wechat_identity
    ADD CONSTRAINT wechat_identity_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id) ON DELETE CASCADE;

CREATE POLICY all_may_read ON public.run_archive FOR SELECT TO artiway_app USING (true);

CREATE POLICY all_may_read ON public.run_archive_part FOR SELECT TO artiway_app USING (true);

CREATE POLICY all_may_read ON public.run_guard FOR SELECT TO artiway_app USING (true);

CREATE POLICY all_rows ON public.app_user TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.artefact TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.audit_log FOR SELECT TO artiway_service USING (true);

CREATE POLICY all_rows ON public.backfill TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.bill_day TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.bill_difference TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.circuit TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.cursor_holder TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.generation TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.generation_allowance TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.generation_clock TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.generation_share TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.idempotency_key TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.invariant_pass TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.invitation TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.job TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.job_after FOR SELECT TO artiway_service USING (true);

CREATE POLICY all_rows ON public.job_change TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.job_fire_note TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.job_load TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.job_minute TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.job_run TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.job_secret FOR SELECT TO artiway_service USING (true);

CREATE POLICY all_rows ON public.job_signing_key FOR SELECT TO artiway_service USING (true);

CREATE POLICY all_rows ON public.lane_setting TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.live_setting TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.login_event TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.login_failure TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.model_setting TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.node_history TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.node_token TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.outbox TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.password_reset TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.pay_alert TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.pay_order TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.pay_refund TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.pay_transaction TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.refresh_token TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.run_archive TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.run_archive_part TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.run_circuit TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.run_guard TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.run_log TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.run_result TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.series_day TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.series_minute TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.series_pass TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.session TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.sweep_position TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.task TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.task_event TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.task_node TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.tenant TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.text_route TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.text_usage TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.upload TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.user_role TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.websocket_connection TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.wechat_identity TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.worker TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY any_row ON public.audit_log FOR INSERT TO artiway_service WITH CHECK (true);

ALTER TABLE public.api_key ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.api_key_nonce ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.app_user ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.artefact ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.audit_log ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.backfill ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.bill_day ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.bill_difference ENABLE ROW LEVEL SECURITY;

CREATE POLICY by_trigger ON public.node_history AS RESTRICTIVE FOR INSERT TO artiway_app, artiway_service WITH CHECK ((pg_trigger_depth() > 0));

ALTER TABLE public.circuit ENABLE ROW LEVEL SECURITY;

CREATE POLICY cleaned_rows ON public.artefact AS RESTRICTIVE FOR DELETE TO artiway_service USING ((cleanup_status = 1));

CREATE POLICY cleaned_rows ON public.upload AS RESTRICTIVE FOR DELETE TO artiway_service USING ((cleanup_status = 1));

ALTER TABLE public.cursor_holder ENABLE ROW LEVEL SECURITY;

CREATE POLICY deleted_rows ON public.webhook FOR DELETE TO artiway_service USING ((deleted_at < (now() - '1 day'::interval)));

CREATE POLICY ended_rows ON public.points_hold FOR DELETE TO artiway_service USING (((status <> 'HELD'::text) AND (ended_at < (now() - '30 days'::interval))));

CREATE POLICY ended_rows ON public.task AS RESTRICTIVE FOR DELETE TO artiway_service USING ((ended_at < (now() - '1 day'::interval)));

CREATE POLICY ended_rows ON public.task_node AS RESTRICTIVE FOR DELETE TO artiway_service USING ((ended_at < (now() - '1 day'::interval)));

CREATE POLICY ended_rows ON public.webhook_delivery FOR DELETE TO artiway_service USING ((status <> 'PENDING'::text));

ALTER TABLE public.generation ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.generation_allowance ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.generation_clock ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.generation_share ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.idempotency_key ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.invariant_pass ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.invitation ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.job ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.job_after ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.job_change ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.job_fire_note ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.job_load ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.job_minute ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.job_run ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.job_secret ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.job_signing_key ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.lane_setting ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.live_setting ENABLE ROW LEVEL SECURITY;

CREATE POLICY lockable ON public.webhook_delivery FOR UPDATE TO artiway_service USING (true) WITH CHECK (false);

ALTER TABLE public.login_event ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.login_failure ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.model_setting ENABLE ROW LEVEL SECURITY;

CREATE POLICY no_event ON public.outbox AS RESTRICTIVE FOR DELETE TO artiway_app USING ((destination <> 'push'::text));

ALTER TABLE public.node_dependency ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.node_history ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.node_token ENABLE ROW LEVEL SECURITY;

CREATE POLICY noticed ON public.points_account FOR UPDATE TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY of_ended_holds ON public.points_hold_lot FOR DELETE TO artiway_service USING ((EXISTS ( SELECT
   FROM public.points_hold hold
  WHERE ((hold.tenant_id = points_hold_lot.tenant_id) AND (hold.hold_id = points_hold_lot.hold_id) AND (hold.status <> 'HELD'::text)))));

CREATE POLICY old_rows ON public.audit_log FOR DELETE TO artiway_service USING ((at < (now() - '180 days'::interval)));

CREATE POLICY old_rows ON public.job_change AS RESTRICTIVE FOR DELETE TO artiway_service USING ((superseded_at < (now() - '30 days'::interval)));

CREATE POLICY old_rows ON public.job_fire_note AS RESTRICTIVE FOR DELETE TO artiway_service USING ((at < (now() - '30 days'::interval)));

CREATE POLICY old_rows ON public.node_history AS RESTRICTIVE FOR DELETE TO artiway_service USING ((changed_at < (now() - '1 day'::interval)));

CREATE POLICY old_rows ON public.pay_transaction AS RESTRICTIVE FOR DELETE TO artiway_service USING ((seen_at < (now() - '180 days'::interval)));

ALTER TABLE public.outbox ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.password_reset ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.pay_alert ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.pay_order ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.pay_refund ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.pay_transaction ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.points_account ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.points_campaign_grant ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.points_hold ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.points_hold_lot ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.points_ledger ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.points_lot ENABLE ROW LEVEL SECURITY;

CREATE POLICY purged_rows ON public.node_dependency FOR DELETE TO artiway_service USING (true);

CREATE POLICY read_all ON public.points_account FOR SELECT TO artiway_service USING (true);

CREATE POLICY read_all ON public.points_hold FOR SELECT TO artiway_service USING (true);

CREATE POLICY read_all ON public.points_hold_lot FOR SELECT TO artiway_service USING (true);

CREATE POLICY read_all ON public.points_ledger FOR SELECT TO artiway_service USING (true);

CREATE POLICY read_all ON public.points_lot FOR SELECT TO artiway_service USING (true);

CREATE POLICY readable ON public.circuit FOR SELECT TO artiway_app USING (true);

CREATE POLICY readable ON public.lane_setting FOR SELECT TO artiway_app USING (true);

CREATE POLICY readable ON public.live_setting FOR SELECT TO artiway_app USING (true);

CREATE POLICY readable ON public.node_dependency FOR SELECT TO artiway_service USING (true);

CREATE POLICY readable ON public.tenant_role FOR SELECT TO artiway_service USING (true);

CREATE POLICY readable ON public.webhook FOR SELECT TO artiway_service USING (true);

CREATE POLICY readable ON public.webhook_delivery FOR SELECT TO artiway_service USING (true);

ALTER TABLE public.refresh_token ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.run_archive ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.run_archive_part ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.run_circuit ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.run_guard ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.run_log ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.run_result ENABLE ROW LEVEL SECURITY;

CREATE POLICY sent_rows ON public.pay_alert AS RESTRICTIVE FOR DELETE TO artiway_service USING ((sent_at < (now() - '90 days'::interval)));

ALTER TABLE public.series_day ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.series_minute ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.series_pass ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.session ENABLE ROW LEVEL SECURITY;

CREATE POLICY settled_rows ON public.pay_order AS RESTRICTIVE FOR DELETE TO artiway_service USING (((status = ANY (ARRAY['COMPLETED'::text, 'REFUNDED'::text, 'CLOSED'::text])) AND (created_at < (now() - '180 days'::interval))));

CREATE POLICY settled_rows ON public.pay_refund AS RESTRICTIVE FOR DELETE TO artiway_service USING ((ended_at < (now() - '180 days'::interval)));

CREATE POLICY spent_rows ON public.points_lot FOR DELETE TO artiway_service USING (((remaining = 0) AND (expires_at < (now() - '30 days'::interval))));

ALTER TABLE public.sweep_position ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.task ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.task_event ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.task_node ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.tenant ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.tenant_role ENABLE ROW LEVEL SECURITY;

CREATE POLICY tenant_rows ON public.api_key TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.api_key_nonce TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.app_user TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.artefact TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.audit_log TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.backfill TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.cursor_holder TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.generation TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.generation_allowance TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.generation_share TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.idempotency_key TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.invitation TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.job TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.job_after TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.job_change TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.job_fire_note TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.job_load TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.job_minute FOR SELECT TO artiway_app USING ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.job_run TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.job_secret TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.job_signing_key TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.login_event FOR SELECT TO artiway_app USING ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.node_dependency TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.node_history TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.node_token TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.outbox TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.pay_alert FOR INSERT TO artiway_app WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.pay_order TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.pay_refund TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.pay_transaction TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.points_account TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.points_campaign_grant TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.points_hold TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.points_hold_lot TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.points_ledger TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.points_lot TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.run_log TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.run_result FOR SELECT TO artiway_app USING ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.session TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.task TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.task_event TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.task_node TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.tenant TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.tenant_role TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.text_usage TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.upload TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.user_role TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.webhook TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.webhook_delivery TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.websocket_connection TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.wechat_identity TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

ALTER TABLE public.text_route ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.text_usage ENABLE ROW LEVEL SECURITY;

CREATE POLICY unstarted_rows ON public.job_run AS RESTRICTIVE FOR DELETE TO artiway_app, artiway_service USING (((state = 'PENDING'::text) AND (attempt = 0) AND (generation = 1)));

ALTER TABLE public.upload ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.user_role ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.webhook ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.webhook_delivery ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.websocket_connection ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.wechat_identity ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.worker ENABLE ROW LEVEL SECURITY;

GRANT USAGE ON SCHEMA public TO artiway_app;

GRANT USAGE ON SCHEMA public TO artiway_service;

REVOKE ALL ON FUNCTION public.is_socket_allowed(the_tenant uuid, the_user uuid, the_session uuid, the_scope text) FROM PUBLIC;

GRANT ALL ON FUNCTION public.is_socket_allowed(the_tenant uuid, the_user uuid, the_session uuid, the_scope text) TO artiway_service;

REVOKE ALL ON FUNCTION public.is_tenant_wide_allowed(the_tenant uuid, the_user uuid) FROM PUBLIC;

GRANT ALL ON FUNCTION public.is_tenant_wide_allowed(the_tenant uuid, the_user uuid) TO artiway_service;

REVOKE ALL ON FUNCTION public.job_partition_days() FROM PUBLIC;

GRANT ALL ON FUNCTION public.job_partition_days() TO artiway_service;

REVOKE ALL ON FUNCTION public.job_partition_drop(kind text, day date) FROM PUBLIC;

GRANT ALL ON FUNCTION public.job_partition_drop(kind text, day date) TO artiway_service;

REVOKE ALL ON FUNCTION public.job_partition_ensure(day date) FROM PUBLIC;

GRANT ALL ON FUNCTION public.job_partition_ensure(day date) TO artiway_app;

GRANT ALL ON FUNCTION public.job_partition_ensure(day date) TO artiway_service;

REVOKE ALL ON FUNCTION public.job_partition_lock(kind text, day date) FROM PUBLIC;

GRANT ALL ON FUNCTION public.job_partition_lock(kind text, day date) TO artiway_service;

REVOKE ALL ON FUNCTION public.node_dispatch(the_nodes uuid[], charges_us bigint[], tags_us bigint[]) FROM PUBLIC;

GRANT ALL ON FUNCTION public.node_dispatch(the_nodes uuid[], charges_us bigint[], tags_us bigint[]) TO artiway_service;

REVOKE ALL ON FUNCTION public.node_finish(the_task uuid, the_node uuid, the_attempt integer, the_output jsonb, the_engine jsonb, the_gpu_us bigint, artefacts json) FROM PUBLIC;

GRANT ALL ON FUNCTION public.node_finish(the_task uuid, the_node uuid, the_attempt integer, the_output jsonb, the_engine jsonb, the_gpu_us bigint, artefacts json) TO artiway_app;

REVOKE ALL ON FUNCTION public.node_mark_ready(the_nodes uuid[]) FROM PUBLIC;

GRANT ALL ON FUNCTION public.node_mark_ready(the_nodes uuid[]) TO artiway_service;

REVOKE ALL ON FUNCTION public.node_ready(the_nodes uuid[]) FROM PUBLIC;

GRANT ALL ON FUNCTION public.node_ready(the_nodes uuid[]) TO artiway_service;

REVOKE ALL ON FUNCTION public.node_waiting(the_nodes uuid[]) FROM PUBLIC;

GRANT ALL ON FUNCTION public.node_waiting(the_nodes uuid[]) TO artiway_app;

GRANT ALL ON FUNCTION public.node_waiting(the_nodes uuid[]) TO artiway_service;

REVOKE ALL ON FUNCTION public.outbox_publish(messages json, the_trace text) FROM PUBLIC;

GRANT ALL ON FUNCTION public.outbox_publish(messages json, the_trace text) TO artiway_app;

GRANT ALL ON FUNCTION public.outbox_publish(messages json, the_trace text) TO artiway_service;

REVOKE ALL ON FUNCTION public.outbox_put(messages json, the_trace text) FROM PUBLIC;

GRANT ALL ON FUNCTION public.outbox_put(messages json, the_trace text) TO artiway_app;

GRANT ALL ON FUNCTION public.outbox_put(messages json, the_trace text) TO artiway_service;

REVOKE ALL ON FUNCTION public.outbox_sent(the_tenant text, ids bigint[], tokens uuid[]) FROM PUBLIC;

GRANT ALL ON FUNCTION public.outbox_sent(the_tenant text, ids bigint[], tokens uuid[]) TO artiway_app;

GRANT ALL ON FUNCTION public.outbox_sent(the_tenant text, ids bigint[], tokens uuid[]) TO artiway_service;

REVOKE ALL ON FUNCTION public.outbox_serialise(tenants uuid[], aggregates text[]) FROM PUBLIC;

GRANT ALL ON FUNCTION public.outbox_serialise(tenants uuid[], aggregates text[]) TO artiway_app;

GRANT ALL ON FUNCTION public.outbox_serialise(tenants uuid[], aggregates text[]) TO artiway_service;

REVOKE ALL ON FUNCTION public.points_end_hold(the_hold uuid, ended_as text, charge bigint, the_entry uuid, the_kind text, the_reference text, the_key text, at timestamp with time zone) FROM PUBLIC;

GRANT ALL ON FUNCTION public.points_end_hold(the_hold uuid, ended_as text, charge bigint, the_entry uuid, the_kind text, the_reference text, the_key text, at timestamp with time zone) TO artiway_app;

REVOKE ALL ON FUNCTION public.points_place_hold(the_hold uuid, the_user uuid, points bigint, the_entry uuid, the_reference text, the_key text, at timestamp with time zone, until timestamp with time zone) FROM PUBLIC;

GRANT ALL ON FUNCTION public.points_place_hold(the_hold uuid, the_user uuid, points bigint, the_entry uuid, the_reference text, the_key text, at timestamp with time zone, until timestamp with time zone) TO artiway_app;

REVOKE ALL ON FUNCTION public.task_publish(events json, messages json, the_trace text) FROM PUBLIC;

GRANT ALL ON FUNCTION public.task_publish(events json, messages json, the_trace text) TO artiway_app;

REVOKE ALL ON FUNCTION public.token_answers(the_nodes uuid[]) FROM PUBLIC;

GRANT ALL ON FUNCTION public.token_answers(the_nodes uuid[]) TO artiway_app;

GRANT ALL ON FUNCTION public.token_answers(the_nodes uuid[]) TO artiway_service;

REVOKE ALL ON FUNCTION public.token_keep(given json) FROM PUBLIC;

GRANT ALL ON FUNCTION public.token_keep(given json) TO artiway_service;

REVOKE ALL ON FUNCTION public.whole_number(value jsonb, lowest integer, highest integer) FROM PUBLIC;

GRANT ALL ON FUNCTION public.whole_number(value jsonb, lowest integer, highest integer) TO artiway_app;

GRANT ALL ON FUNCTION public.whole_number(value jsonb, lowest integer, highest integer) TO artiway_service;

GRANT SELECT,INSERT,DELETE ON TABLE public.api_key TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.api_key_nonce TO artiway_app;

GRANT INSERT ON TABLE public.app_user TO artiway_app;

GRANT SELECT,INSERT ON TABLE public.app_user TO artiway_service;

GRANT SELECT(tenant_id) ON TABLE public.app_user TO artiway_app;

GRANT SELECT(user_id) ON TABLE public.app_user TO artiway_app;

GRANT SELECT(email) ON TABLE public.app_user TO artiway_app;

GRANT SELECT(phone) ON TABLE public.app_user TO artiway_app;

GRANT UPDATE(password_hash) ON TABLE public.app_user TO artiway_service;

GRANT SELECT(status),UPDATE(status) ON TABLE public.app_user TO artiway_app;

GRANT UPDATE(status) ON TABLE public.app_user TO artiway_service;

GRANT SELECT(created_at) ON TABLE public.app_user TO artiway_app;

GRANT SELECT(updated_at),UPDATE(updated_at) ON TABLE public.app_user TO artiway_app;

GRANT UPDATE(updated_at) ON TABLE public.app_user TO artiway_service;

GRANT SELECT(concurrency),UPDATE(concurrency) ON TABLE public.app_user TO artiway_app;

GRANT UPDATE(concurrency_set_at) ON TABLE public.app_user TO artiway_app;

GRANT SELECT(display_name),UPDATE(display_name) ON TABLE public.app_user TO artiway_app;

GRANT SELECT(language),UPDATE(language) ON TABLE public.app_user TO artiway_app;

GRANT SELECT(email_notices),UPDATE(email_notices) ON TABLE public.app_user TO artiway_app;

GRANT SELECT(logins_seen_at),UPDATE(logins_seen_at) ON TABLE public.app_user TO artiway_app;

GRANT SELECT,INSERT ON TABLE public.artefact TO artiway_app;

GRANT SELECT,DELETE ON TABLE public.artefact TO artiway_service;

GRANT UPDATE(expires_at) ON TABLE public.artefact TO artiway_app;

GRANT UPDATE(cleanup_status) ON TABLE public.artefact TO artiway_service;

GRANT UPDATE(deleted_at) ON TABLE public.artefact TO artiway_app;

GRANT SELECT,INSERT ON TABLE public.audit_log TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.audit_log TO artiway_service;

GRANT SELECT,INSERT,UPDATE ON TABLE public.backfill TO artiway_app;

GRANT SELECT,UPDATE ON TABLE public.backfill TO artiway_service;

GRANT SELECT,INSERT,UPDATE ON TABLE public.bill_day TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.bill_difference TO artiway_service;

GRANT UPDATE(resolution) ON TABLE public.bill_difference TO artiway_service;

GRANT UPDATE(resolved_at) ON TABLE public.bill_difference TO artiway_service;

GRANT SELECT ON TABLE public.built_in_role TO artiway_app;

GRANT SELECT ON TABLE public.built_in_role TO artiway_service;

GRANT SELECT ON TABLE public.circuit TO artiway_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.circuit TO artiway_service;

GRANT SELECT ON TABLE public.cursor_holder TO artiway_app;

GRANT SELECT,INSERT ON TABLE public.cursor_holder TO artiway_service;

GRANT UPDATE(held_until) ON TABLE public.cursor_holder TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.generation TO artiway_app;

GRANT SELECT,DELETE ON TABLE public.generation TO artiway_service;

GRANT UPDATE(lane) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(is_free) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(status) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(status) ON TABLE public.generation TO artiway_service;

GRANT UPDATE(attempt) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(attempt) ON TABLE public.generation TO artiway_service;

GRANT UPDATE(failures) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(max_tokens) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(input_tokens) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(hold_id) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(price_points) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(charged_points) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(allowance_day) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(not_before) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(message_at) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(message_at) ON TABLE public.generation TO artiway_service;

GRANT UPDATE(worker_id) ON TABLE public.generation TO artiway_service;

GRANT UPDATE(lease_until) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(lease_until) ON TABLE public.generation TO artiway_service;

GRANT UPDATE(provider) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(provider) ON TABLE public.generation TO artiway_service;

GRANT UPDATE(model_id) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(model_id) ON TABLE public.generation TO artiway_service;

GRANT UPDATE(text) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(text) ON TABLE public.generation TO artiway_service;

GRANT UPDATE(result) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(used_input) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(used_output) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(usage_source) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(finish_reason) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(error) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(started_at) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(started_at) ON TABLE public.generation TO artiway_service;

GRANT UPDATE(first_token_at) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(first_token_at) ON TABLE public.generation TO artiway_service;

GRANT UPDATE(ended_at) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(cancel_requested_at) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(chain) ON TABLE public.generation TO artiway_app;

GRANT UPDATE(input_cost) ON TABLE public.generation TO artiway_service;

GRANT UPDATE(output_cost) ON TABLE public.generation TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.generation_allowance TO artiway_app;

GRANT SELECT,DELETE ON TABLE public.generation_allowance TO artiway_service;

GRANT UPDATE(tokens) ON TABLE public.generation_allowance TO artiway_app;

GRANT SELECT,INSERT ON TABLE public.generation_clock TO artiway_service;

GRANT UPDATE(start_tag) ON TABLE public.generation_clock TO artiway_service;

GRANT SELECT ON TABLE public.generation_share TO artiway_app;

GRANT SELECT,INSERT ON TABLE public.generation_share TO artiway_service;

GRANT UPDATE(finish_tag) ON TABLE public.generation_share TO artiway_app;

GRANT UPDATE(finish_tag) ON TABLE public.generation_share TO artiway_service;

GRANT SELECT,INSERT,UPDATE ON TABLE public.idempotency_key TO artiway_app;

GRANT SELECT,DELETE ON TABLE public.idempotency_key TO artiway_service;

GRANT SELECT,INSERT,UPDATE ON TABLE public.invariant_pass TO artiway_service;

GRANT INSERT ON TABLE public.invitation TO artiway_app;

GRANT SELECT,DELETE ON TABLE public.invitation TO artiway_service;

GRANT SELECT(tenant_id) ON TABLE public.invitation TO artiway_app;

GRANT SELECT(invitation_id) ON TABLE public.invitation TO artiway_app;

GRANT SELECT(email) ON TABLE public.invitation TO artiway_app;

GRANT SELECT(roles),UPDATE(roles) ON TABLE public.invitation TO artiway_app;

GRANT SELECT(language) ON TABLE public.invitation TO artiway_app;

GRANT SELECT(invited_by) ON TABLE public.invitation TO artiway_app;

GRANT UPDATE(token_hash) ON TABLE public.invitation TO artiway_app;

GRANT UPDATE(token_hash) ON TABLE public.invitation TO artiway_service;

GRANT SELECT(created_at) ON TABLE public.invitation TO artiway_app;

GRANT SELECT(sent_at),UPDATE(sent_at) ON TABLE public.invitation TO artiway_app;

GRANT SELECT(expires_at),UPDATE(expires_at) ON TABLE public.invitation TO artiway_app;

GRANT SELECT(accepted_at) ON TABLE public.invitation TO artiway_app;

GRANT UPDATE(accepted_at) ON TABLE public.invitation TO artiway_service;

GRANT SELECT(revoked_at),UPDATE(revoked_at) ON TABLE public.invitation TO artiway_app;

GRANT SELECT(user_id) ON TABLE public.invitation TO artiway_app;

GRANT UPDATE(user_id) ON TABLE public.invitation TO artiway_service;

GRANT SELECT,INSERT,UPDATE ON TABLE public.job TO artiway_app;

GRANT SELECT,UPDATE ON TABLE public.job TO artiway_service;

GRANT SELECT,INSERT,DELETE ON TABLE public.job_after TO artiway_app;

GRANT SELECT ON TABLE public.job_after TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.job_change TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.job_change TO artiway_service;

GRANT UPDATE(superseded_at) ON TABLE public.job_change TO artiway_app;

GRANT UPDATE(superseded_at) ON TABLE public.job_change TO artiway_service;

GRANT SELECT,INSERT,UPDATE ON TABLE public.job_fire_note TO artiway_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.job_fire_note TO artiway_service;

GRANT SELECT,INSERT,UPDATE ON TABLE public.job_load TO artiway_app;

GRANT SELECT,INSERT,UPDATE ON TABLE public.job_load TO artiway_service;

GRANT SELECT ON TABLE public.job_minute TO artiway_app;

GRANT SELECT,INSERT,UPDATE ON TABLE public.job_minute TO artiway_service;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.job_run TO artiway_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.job_run TO artiway_service;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.job_secret TO artiway_app;

GRANT SELECT ON TABLE public.job_secret TO artiway_service;

GRANT SELECT,INSERT,UPDATE ON TABLE public.job_signing_key TO artiway_app;

GRANT SELECT ON TABLE public.job_signing_key TO artiway_service;

GRANT SELECT ON TABLE public.lane_default TO artiway_app;

GRANT SELECT ON TABLE public.lane_default TO artiway_service;

GRANT SELECT ON TABLE public.lane_setting TO artiway_app;

GRANT SELECT,INSERT,UPDATE ON TABLE public.lane_setting TO artiway_service;

GRANT SELECT ON TABLE public.lane_policy TO artiway_app;

GRANT SELECT ON TABLE public.lane_policy TO artiway_service;

GRANT SELECT ON TABLE public.live_setting TO artiway_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.live_setting TO artiway_service;

GRANT SELECT ON TABLE public.login_event TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.login_event TO artiway_service;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.login_failure TO artiway_service;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.model_setting TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.node_dependency TO artiway_app;

GRANT SELECT,DELETE ON TABLE public.node_dependency TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.node_history TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.node_history TO artiway_service;

GRANT SELECT,INSERT,DELETE ON TABLE public.node_token TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.node_token TO artiway_service;

GRANT UPDATE(answered_at) ON TABLE public.node_token TO artiway_app;

GRANT UPDATE(answered_at) ON TABLE public.node_token TO artiway_service;

GRANT SELECT ON TABLE public.node_transition TO artiway_app;

GRANT SELECT ON TABLE public.node_transition TO artiway_service;

GRANT SELECT ON TABLE public.session TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.session TO artiway_service;

GRANT UPDATE(revoked_at) ON TABLE public.session TO artiway_app;

GRANT UPDATE(revoked_at) ON TABLE public.session TO artiway_service;

GRANT UPDATE(revoked_reason) ON TABLE public.session TO artiway_app;

GRANT UPDATE(revoked_reason) ON TABLE public.session TO artiway_service;

GRANT SELECT ON TABLE public.tenant TO artiway_app;

GRANT SELECT,INSERT ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(name) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(name) ON TABLE public.tenant TO artiway_app;

GRANT UPDATE(tier) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(status) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(weight) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(concurrency) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(queue_depth) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(rate_per_second) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(burst) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(artefact_days) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(updated_at) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(updated_at) ON TABLE public.tenant TO artiway_app;

GRANT UPDATE(user_concurrency) ON TABLE public.tenant TO artiway_app;

GRANT UPDATE(user_concurrency) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(job_concurrency) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(job_per_minute) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(job_period_s) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(low_balance_points) ON TABLE public.tenant TO artiway_app;

GRANT SELECT ON TABLE public.open_session TO artiway_service;

GRANT SELECT,INSERT,DELETE ON TABLE public.outbox TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.outbox TO artiway_service;

GRANT UPDATE(sent_at) ON TABLE public.outbox TO artiway_app;

GRANT UPDATE(sent_at) ON TABLE public.outbox TO artiway_service;

GRANT SELECT,INSERT,DELETE ON TABLE public.password_reset TO artiway_service;

GRANT UPDATE(user_id) ON TABLE public.password_reset TO artiway_service;

GRANT UPDATE(token_hash) ON TABLE public.password_reset TO artiway_service;

GRANT UPDATE(ended_at) ON TABLE public.password_reset TO artiway_service;

GRANT INSERT ON TABLE public.pay_alert TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.pay_alert TO artiway_service;

GRANT UPDATE(sent_at) ON TABLE public.pay_alert TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.pay_order TO artiway_app;

GRANT SELECT,DELETE ON TABLE public.pay_order TO artiway_service;

GRANT UPDATE(status) ON TABLE public.pay_order TO artiway_app;

GRANT UPDATE(close_reason) ON TABLE public.pay_order TO artiway_app;

GRANT UPDATE(flag) ON TABLE public.pay_order TO artiway_app;

GRANT UPDATE(prepay_code) ON TABLE public.pay_order TO artiway_app;

GRANT UPDATE(prepay_until) ON TABLE public.pay_order TO artiway_app;

GRANT UPDATE(transaction_id) ON TABLE public.pay_order TO artiway_app;

GRANT UPDATE(paid_at) ON TABLE public.pay_order TO artiway_app;

GRANT UPDATE(completed_at) ON TABLE public.pay_order TO artiway_app;

GRANT UPDATE(payer_openid) ON TABLE public.pay_order TO artiway_app;

GRANT UPDATE(payer_total_fen) ON TABLE public.pay_order TO artiway_app;

GRANT UPDATE(refunded_fen) ON TABLE public.pay_order TO artiway_app;

GRANT UPDATE(refunded_points) ON TABLE public.pay_order TO artiway_app;

GRANT UPDATE(idempotency_key) ON TABLE public.pay_order TO artiway_app;

GRANT UPDATE(next_query_at) ON TABLE public.pay_order TO artiway_service;

GRANT UPDATE(query_tries) ON TABLE public.pay_order TO artiway_service;

GRANT UPDATE(polled_at) ON TABLE public.pay_order TO artiway_app;

GRANT SELECT,INSERT ON TABLE public.pay_refund TO artiway_app;

GRANT SELECT,DELETE ON TABLE public.pay_refund TO artiway_service;

GRANT UPDATE(points_taken) ON TABLE public.pay_refund TO artiway_app;

GRANT UPDATE(is_debited) ON TABLE public.pay_refund TO artiway_app;

GRANT UPDATE(status) ON TABLE public.pay_refund TO artiway_app;

GRANT UPDATE(wechat_id) ON TABLE public.pay_refund TO artiway_app;

GRANT UPDATE(started_at) ON TABLE public.pay_refund TO artiway_app;

GRANT UPDATE(ended_at) ON TABLE public.pay_refund TO artiway_app;

GRANT UPDATE(idempotency_key) ON TABLE public.pay_refund TO artiway_app;

GRANT UPDATE(next_query_at) ON TABLE public.pay_refund TO artiway_service;

GRANT UPDATE(query_tries) ON TABLE public.pay_refund TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.pay_transaction TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.pay_transaction TO artiway_service;

GRANT UPDATE(tenant_id) ON TABLE public.pay_transaction TO artiway_service;

GRANT UPDATE(order_id) ON TABLE public.pay_transaction TO artiway_service;

GRANT UPDATE(out_trade_no) ON TABLE public.pay_transaction TO artiway_service;

GRANT UPDATE(outcome) ON TABLE public.pay_transaction TO artiway_app;

GRANT UPDATE(amount_fen) ON TABLE public.pay_transaction TO artiway_app;

GRANT UPDATE(currency) ON TABLE public.pay_transaction TO artiway_app;

GRANT UPDATE(paid_at) ON TABLE public.pay_transaction TO artiway_app;

GRANT UPDATE(source) ON TABLE public.pay_transaction TO artiway_app;

GRANT SELECT,INSERT ON TABLE public.points_account TO artiway_app;

GRANT SELECT ON TABLE public.points_account TO artiway_service;

GRANT UPDATE(balance) ON TABLE public.points_account TO artiway_app;

GRANT UPDATE(frozen) ON TABLE public.points_account TO artiway_app;

GRANT UPDATE(version) ON TABLE public.points_account TO artiway_app;

GRANT UPDATE(next_expiry_at) ON TABLE public.points_account TO artiway_app;

GRANT UPDATE(low_noticed_at) ON TABLE public.points_account TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.points_campaign_grant TO artiway_app;

GRANT SELECT,INSERT ON TABLE public.points_hold TO artiway_app;

GRANT SELECT,DELETE ON TABLE public.points_hold TO artiway_service;

GRANT UPDATE(charged) ON TABLE public.points_hold TO artiway_app;

GRANT UPDATE(lot_points) ON TABLE public.points_hold TO artiway_app;

GRANT UPDATE(status) ON TABLE public.points_hold TO artiway_app;

GRANT UPDATE(ended_at) ON TABLE public.points_hold TO artiway_app;

GRANT SELECT,INSERT ON TABLE public.points_hold_lot TO artiway_app;

GRANT SELECT,DELETE ON TABLE public.points_hold_lot TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.points_ledger TO artiway_app;

GRANT SELECT ON TABLE public.points_ledger TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.points_lot TO artiway_app;

GRANT SELECT,DELETE ON TABLE public.points_lot TO artiway_service;

GRANT UPDATE(granted) ON TABLE public.points_lot TO artiway_app;

GRANT UPDATE(remaining) ON TABLE public.points_lot TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.refresh_token TO artiway_service;

GRANT UPDATE(used_at) ON TABLE public.refresh_token TO artiway_service;

GRANT SELECT ON TABLE public.run_archive TO artiway_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.run_archive TO artiway_service;

GRANT SELECT ON TABLE public.run_archive_part TO artiway_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.run_archive_part TO artiway_service;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.run_circuit TO artiway_service;

GRANT SELECT ON TABLE public.run_guard TO artiway_app;

GRANT SELECT,INSERT,UPDATE ON TABLE public.run_guard TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.run_log TO artiway_app;

GRANT SELECT,INSERT ON TABLE public.run_log TO artiway_service;

GRANT SELECT ON TABLE public.run_result TO artiway_app;

GRANT SELECT,INSERT ON TABLE public.run_result TO artiway_service;

GRANT SELECT,INSERT,DELETE ON TABLE public.series_day TO artiway_service;

GRANT UPDATE(value) ON TABLE public.series_day TO artiway_service;

GRANT UPDATE(weight) ON TABLE public.series_day TO artiway_service;

GRANT SELECT,INSERT,DELETE ON TABLE public.series_minute TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.series_pass TO artiway_service;

GRANT UPDATE(closed_until) ON TABLE public.series_pass TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.task_node TO artiway_app;

GRANT SELECT,DELETE ON TABLE public.task_node TO artiway_service;

GRANT UPDATE(is_charged) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(status) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(status) ON TABLE public.task_node TO artiway_service;

GRANT UPDATE(version) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(version) ON TABLE public.task_node TO artiway_service;

GRANT UPDATE(attempt) ON TABLE public.task_node TO artiway_service;

GRANT UPDATE(failures) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(in_degree) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(not_before) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(ready_at) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(ready_at) ON TABLE public.task_node TO artiway_service;

GRANT UPDATE(dispatched_at) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(dispatched_at) ON TABLE public.task_node TO artiway_service;

GRANT UPDATE(charged_us) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(charged_us) ON TABLE public.task_node TO artiway_service;

GRANT UPDATE(tag_us) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(tag_us) ON TABLE public.task_node TO artiway_service;

GRANT UPDATE(hinted_at) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(hinted_at) ON TABLE public.task_node TO artiway_service;

GRANT UPDATE(started_at) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(lease_until) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(lease_until) ON TABLE public.task_node TO artiway_service;

GRANT UPDATE(worker_id) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(progress) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(progress_at) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(gpu_us) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(output) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(engine) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(error) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(ended_at) ON TABLE public.task_node TO artiway_app;

GRANT UPDATE(superseded_at) ON TABLE public.task_node TO artiway_app;

GRANT SELECT ON TABLE public.slot_in_use TO artiway_app;

GRANT SELECT ON TABLE public.slot_in_use TO artiway_service;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.sweep_position TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.task TO artiway_app;

GRANT SELECT,DELETE ON TABLE public.task TO artiway_service;

GRANT UPDATE(status) ON TABLE public.task TO artiway_app;

GRANT UPDATE(run) ON TABLE public.task TO artiway_app;

GRANT UPDATE(hold_id) ON TABLE public.task TO artiway_app;

GRANT UPDATE(charged_points) ON TABLE public.task TO artiway_app;

GRANT UPDATE(event_sequence) ON TABLE public.task TO artiway_app;

GRANT UPDATE(error) ON TABLE public.task TO artiway_app;

GRANT UPDATE(started_at) ON TABLE public.task TO artiway_app;

GRANT UPDATE(ended_at) ON TABLE public.task TO artiway_app;

GRANT UPDATE(execution_asked_at) ON TABLE public.task TO artiway_app;

GRANT UPDATE(execution_asked_at) ON TABLE public.task TO artiway_service;

GRANT UPDATE(cancel_requested_at) ON TABLE public.task TO artiway_app;

GRANT UPDATE(purge_stage) ON TABLE public.task TO artiway_app;

GRANT UPDATE(purge_stage) ON TABLE public.task TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.task_event TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.task_event TO artiway_service;

GRANT SELECT ON TABLE public.tier_default TO artiway_app;

GRANT SELECT ON TABLE public.tier_default TO artiway_service;

GRANT SELECT ON TABLE public.tenant_policy TO artiway_app;

GRANT SELECT ON TABLE public.tenant_policy TO artiway_service;

GRANT SELECT,INSERT,DELETE ON TABLE public.tenant_role TO artiway_app;

GRANT SELECT ON TABLE public.tenant_role TO artiway_service;

GRANT UPDATE(permissions) ON TABLE public.tenant_role TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.text_route TO artiway_service;

GRANT UPDATE(model) ON TABLE public.text_route TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.text_usage TO artiway_app;

GRANT SELECT,DELETE ON TABLE public.text_usage TO artiway_service;

GRANT UPDATE(calls) ON TABLE public.text_usage TO artiway_app;

GRANT UPDATE(estimated_calls) ON TABLE public.text_usage TO artiway_app;

GRANT UPDATE(input_tokens) ON TABLE public.text_usage TO artiway_app;

GRANT UPDATE(output_tokens) ON TABLE public.text_usage TO artiway_app;

GRANT UPDATE(estimated_tokens) ON TABLE public.text_usage TO artiway_app;

GRANT UPDATE(cost_points) ON TABLE public.text_usage TO artiway_app;

GRANT UPDATE(completed) ON TABLE public.text_usage TO artiway_app;

GRANT UPDATE(failed) ON TABLE public.text_usage TO artiway_app;

GRANT UPDATE(cancelled) ON TABLE public.text_usage TO artiway_app;

GRANT UPDATE(free_texts) ON TABLE public.text_usage TO artiway_app;

GRANT UPDATE(charged_points) ON TABLE public.text_usage TO artiway_app;

GRANT SELECT,INSERT ON TABLE public.upload TO artiway_app;

GRANT SELECT,DELETE ON TABLE public.upload TO artiway_service;

GRANT UPDATE(width) ON TABLE public.upload TO artiway_app;

GRANT UPDATE(height) ON TABLE public.upload TO artiway_app;

GRANT UPDATE(expires_at) ON TABLE public.upload TO artiway_app;

GRANT UPDATE(cleanup_status) ON TABLE public.upload TO artiway_service;

GRANT SELECT,INSERT,DELETE ON TABLE public.user_role TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.user_role TO artiway_service;

GRANT SELECT ON TABLE public.user_permission TO artiway_app;

GRANT SELECT ON TABLE public.user_permission TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.webhook TO artiway_app;

GRANT SELECT,DELETE ON TABLE public.webhook TO artiway_service;

GRANT UPDATE(secret) ON TABLE public.webhook TO artiway_app;

GRANT UPDATE(is_implied) ON TABLE public.webhook TO artiway_app;

GRANT UPDATE(deleted_at) ON TABLE public.webhook TO artiway_app;

GRANT SELECT,INSERT ON TABLE public.webhook_delivery TO artiway_app;

GRANT SELECT,DELETE ON TABLE public.webhook_delivery TO artiway_service;

GRANT UPDATE(status) ON TABLE public.webhook_delivery TO artiway_app;

GRANT UPDATE(attempts) ON TABLE public.webhook_delivery TO artiway_app;

GRANT UPDATE(next_try_at) ON TABLE public.webhook_delivery TO artiway_app;

GRANT UPDATE(next_try_at) ON TABLE public.webhook_delivery TO artiway_service;

GRANT UPDATE(answer_code) ON TABLE public.webhook_delivery TO artiway_app;

GRANT UPDATE(answer) ON TABLE public.webhook_delivery TO artiway_app;

GRANT UPDATE(delivered_at) ON TABLE public.webhook_delivery TO artiway_app;

GRANT UPDATE(sending_until) ON TABLE public.webhook_delivery TO artiway_app;

GRANT UPDATE(parked_at) ON TABLE public.webhook_delivery TO artiway_app;

GRANT SELECT ON TABLE public.websocket_connection TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.websocket_connection TO artiway_service;

GRANT UPDATE(last_sent) ON TABLE public.websocket_connection TO artiway_service;

GRANT UPDATE(is_greeted) ON TABLE public.websocket_connection TO artiway_service;

GRANT UPDATE(posting) ON TABLE public.websocket_connection TO artiway_service;

GRANT UPDATE(posting_until) ON TABLE public.websocket_connection TO artiway_service;

GRANT UPDATE(closed_at) ON TABLE public.websocket_connection TO artiway_service;

GRANT SELECT ON TABLE public.wechat_identity TO artiway_app;

GRANT SELECT,INSERT ON TABLE public.wechat_identity TO artiway_service;

GRANT UPDATE(unionid) ON TABLE public.wechat_identity TO artiway_service;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.worker TO artiway_service;
