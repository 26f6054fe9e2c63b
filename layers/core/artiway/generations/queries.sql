-- Times are the database's. A guard is a row that runs and whose lease has not ended.

-- name: tenant_limits
SELECT status, queue_depth FROM tenant_policy WHERE tenant_id = current_tenant();

-- name: lock_submissions
-- The same lock as for tasks: submissions of a tenant run one at a time, so that no other one changes the counted depth.
SELECT pg_advisory_xact_lock(3, hashtext(current_tenant()::text));

-- name: count_live
SELECT count(*) AS live FROM generation WHERE status IN ('QUEUED', 'RUNNING');

-- name: tenant_ends
SELECT count(*) AS ended FROM generation WHERE ended_at > statement_timestamp() - make_interval(secs => %(window_s)s);

-- name: lane_load
-- Of all tenants. The count stops above the limit.
SELECT lane.depth_limit,
       (SELECT count(*) FROM (SELECT FROM generation WHERE generation.lane = lane.lane AND status = 'QUEUED'
                               LIMIT lane.depth_limit + 1) AS waiting) AS depth,
       (SELECT count(*) FROM (SELECT FROM generation
                               WHERE generation.lane = lane.lane AND ended_at > statement_timestamp() - make_interval(secs => %(window_s)s)
                               LIMIT 20000) AS ended) AS ended_lately
  FROM lane_policy AS lane
 WHERE lane.lane = %(lane)s;

-- name: reserve_allowance
-- No row if the tokens would exceed the day's allowance. The row lock keeps concurrent requests apart.
INSERT INTO generation_allowance AS used (tenant_id, user_id, day, tokens)
SELECT current_tenant(), %(user_id)s, %(day)s, %(tokens)s WHERE %(tokens)s <= %(allowance)s
ON CONFLICT (tenant_id, user_id, day) DO UPDATE SET tokens = used.tokens + excluded.tokens
 WHERE used.tokens + excluded.tokens <= %(allowance)s
RETURNING tokens;

-- name: used_allowance
SELECT tokens FROM generation_allowance WHERE user_id = %(user_id)s AND day = %(day)s;

-- name: return_allowance
UPDATE generation_allowance SET tokens = greatest(0, tokens - %(tokens)s) WHERE user_id = %(user_id)s AND day = %(day)s;

-- name: insert
INSERT INTO generation (tenant_id, generation_id, user_id, service, lane, is_free, input, params, max_tokens, input_tokens,
                        input_price, output_price, hold_id, price_points, allowance_day, trace_id, chain)
VALUES (current_tenant(), %(generation_id)s, %(user_id)s, %(service)s, %(lane)s, %(is_free)s, %(input)s, %(params)s, %(max_tokens)s,
        %(input_tokens)s, %(input_price)s, %(output_price)s, %(hold_id)s, %(price_points)s, %(allowance_day)s, %(trace_id)s, %(chain)s)
RETURNING *;

-- name: generation
SELECT * FROM generation WHERE generation_id = %(generation_id)s;

-- name: lock
SELECT * FROM generation WHERE generation_id = %(generation_id)s FOR UPDATE;

-- name: page
SELECT * FROM generation
 WHERE generation_id < coalesce(%(before)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
   AND (%(user_id)s::uuid IS NULL OR user_id = %(user_id)s)
   AND (%(status)s::text IS NULL
        OR %(status)s = CASE WHEN ended_at IS NULL AND chain IS NOT NULL AND NOT chain ? 'found' THEN 'PENDING_OCR' ELSE status END)
   AND (%(service)s::text IS NULL OR service = %(service)s)
   AND (%(lane)s::text IS NULL OR lane = %(lane)s)
   AND (%(tenant_id)s::uuid IS NULL OR tenant_id = %(tenant_id)s)
   AND (%(since)s::timestamptz IS NULL OR created_at >= %(since)s)
   AND (%(until)s::timestamptz IS NULL OR created_at < %(until)s)
 ORDER BY generation_id DESC
 LIMIT %(limit)s;

-- name: request_cancel
UPDATE generation SET cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp()) WHERE generation_id = %(generation_id)s;

-- name: end
-- Changes no row unless this attempt is the newest and has not ended. The lease may be over: the attempt is what fences.
UPDATE generation
   SET status = %(status)s, attempt = %(new_attempt)s, text = %(text)s, result = %(result)s, used_input = %(used_input)s,
       used_output = %(used_output)s, usage_source = %(usage_source)s, finish_reason = %(finish_reason)s, error = %(error)s,
       charged_points = %(charged_points)s, lease_until = NULL, ended_at = clock_timestamp(),
       first_token_at = coalesce(first_token_at, %(first_token_at)s)
 WHERE generation_id = %(generation_id)s AND attempt = %(attempt)s AND status = ANY (%(from)s)
RETURNING *;

-- name: correct_share
-- The tenant is charged for the tokens that were used, not for those that were estimated.
UPDATE generation_share AS share
   SET finish_tag = greatest(0, finish_tag + (%(used_tokens)s - %(estimated_tokens)s)::bigint * 1000000 / policy.weight)
  FROM tenant_policy AS policy
 WHERE share.tenant_id = current_tenant() AND share.lane = %(lane)s AND policy.tenant_id = current_tenant();

-- name: requeue
-- Back to the lane. The next claim is a new attempt.
UPDATE generation
   SET status = 'QUEUED', lease_until = NULL, failures = failures + %(counted)s,
       not_before = clock_timestamp() + make_interval(secs => %(delay_s)s), message_at = clock_timestamp(), error = %(error)s
 WHERE generation_id = %(generation_id)s AND attempt = %(attempt)s AND status = 'RUNNING'
RETURNING *;

-- name: advance
-- From the first stage of a chain to the second, whose attempts are counted anew. Changes no row unless this attempt is the
-- newest and runs: so a stage is never left twice.
UPDATE generation
   SET status = 'QUEUED', lane = %(lane)s, input_tokens = %(input_tokens)s, max_tokens = %(max_tokens)s, chain = %(chain)s,
       failures = 0, lease_until = NULL, not_before = clock_timestamp(), message_at = clock_timestamp(), error = NULL
 WHERE generation_id = %(generation_id)s AND attempt = %(attempt)s AND status = 'RUNNING' AND NOT chain ? 'found'
RETURNING *;

-- name: add_usage
-- Rows in the order of their key, so that two ends of one user cannot wait for each other.
INSERT INTO text_usage AS used (day, tenant_id, user_id, service, provider, model_id, calls, estimated_calls, input_tokens, output_tokens,
                                estimated_tokens, cost_points, completed, failed, cancelled, free_texts, charged_points)
SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date, current_tenant(), %(user_id)s, %(service)s, line.*
  FROM unnest(%(providers)s::text[], %(models)s::text[], %(calls)s::bigint[], %(estimated_calls)s::bigint[], %(input_tokens)s::bigint[],
              %(output_tokens)s::bigint[], %(estimated_tokens)s::bigint[], %(cost_points)s::numeric[], %(completed)s::bigint[],
              %(failed)s::bigint[], %(cancelled)s::bigint[], %(free_texts)s::bigint[], %(charged_points)s::bigint[])
       AS line (provider, model_id, calls, estimated_calls, input_tokens, output_tokens, estimated_tokens, cost_points, completed, failed,
                cancelled, free_texts, charged_points)
 ORDER BY line.provider, line.model_id
ON CONFLICT (day, tenant_id, user_id, service, provider, model_id) DO UPDATE
   SET calls = used.calls + excluded.calls, estimated_calls = used.estimated_calls + excluded.estimated_calls,
       input_tokens = used.input_tokens + excluded.input_tokens, output_tokens = used.output_tokens + excluded.output_tokens,
       estimated_tokens = used.estimated_tokens + excluded.estimated_tokens, cost_points = used.cost_points + excluded.cost_points,
       completed = used.completed + excluded.completed, failed = used.failed + excluded.failed,
       cancelled = used.cancelled + excluded.cancelled, free_texts = used.free_texts + excluded.free_texts,
       charged_points = used.charged_points + excluded.charged_points;

-- name: lock_claims
-- Claims of all lanes run one at a time, in a transaction of some milliseconds: so every guard is exact.
SELECT pg_advisory_xact_lock(4, 0);

-- name: claim
-- Start-time fair queueing: the tenant with the smallest start tag is next, and a tenant that had nothing waiting starts
-- at the lane's clock, which no waiting text is before. So the first text of a tenant waits for a free slot and no more.
WITH RECURSIVE route AS (
    SELECT * FROM unnest(%(services)s::text[], %(providers)s::text[], %(models)s::text[], %(input_costs)s::numeric[],
                         %(output_costs)s::numeric[]) AS route (service, provider, model_id, input_cost, output_cost)
), running AS MATERIALIZED (
    SELECT tenant_id, user_id, lane, split_part(lane, '_', 1) AS tier, provider, model_id
      FROM generation
     WHERE status = 'RUNNING' AND lease_until > statement_timestamp()
), open_lane AS (
    SELECT policy.lane, split_part(policy.lane, '_', 1) AS tier, coalesce(clock.start_tag, 0) AS start_tag
      FROM lane_policy AS policy LEFT JOIN generation_clock AS clock USING (lane)
     WHERE policy.lane = %(lane)s AND NOT policy.is_paused
       AND (SELECT count(*) FROM running WHERE running.lane = %(lane)s) < coalesce(policy.parallelism, %(parallelism)s)
), full_user AS (
    SELECT tenant_id, user_id FROM running GROUP BY tenant_id, user_id HAVING count(*) >= %(user_limit)s
), full_service AS (
    SELECT route.service
      FROM route CROSS JOIN open_lane
      LEFT JOIN model_setting ON model_setting.model = route.provider || '/' || route.model_id
     CROSS JOIN LATERAL (SELECT count(*) AS texts, count(*) FILTER (WHERE running.tier = open_lane.tier) AS of_tier
                           FROM running WHERE running.provider = route.provider AND running.model_id = route.model_id) AS load
     WHERE load.of_tier >= %(model_limit)s OR load.texts >= model_setting.max_running
), head (tenant_id) AS (
    (SELECT tenant_id FROM generation WHERE status = 'QUEUED' AND lane = %(lane)s ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT (SELECT tenant_id FROM generation WHERE status = 'QUEUED' AND lane = %(lane)s AND tenant_id > head.tenant_id
             ORDER BY tenant_id LIMIT 1)
      FROM head WHERE head.tenant_id IS NOT NULL
), chosen AS (
    SELECT first.generation_id, first.tenant_id, first.cost, policy.weight,
           greatest(coalesce(share.finish_tag, 0), open_lane.start_tag) AS start_tag
      FROM head
     CROSS JOIN open_lane
      JOIN tenant_policy AS policy ON policy.tenant_id = head.tenant_id
      LEFT JOIN generation_share AS share ON share.tenant_id = head.tenant_id AND share.lane = open_lane.lane
     CROSS JOIN LATERAL (SELECT waiting.generation_id, waiting.tenant_id, waiting.created_at, waiting.input_tokens + waiting.max_tokens AS cost
                           FROM generation AS waiting
                          WHERE waiting.status = 'QUEUED' AND waiting.lane = %(lane)s AND waiting.tenant_id = head.tenant_id
                            AND waiting.not_before <= statement_timestamp()
                            AND waiting.service NOT IN (SELECT service FROM full_service)
                            AND NOT EXISTS (SELECT FROM full_user WHERE full_user.tenant_id = waiting.tenant_id
                                                                    AND full_user.user_id = waiting.user_id)
                          ORDER BY waiting.created_at, waiting.generation_id
                          LIMIT 1) AS first
     ORDER BY start_tag, first.created_at, first.generation_id
     LIMIT 1
), claimed AS (
    UPDATE generation
       SET status = 'RUNNING', attempt = attempt + 1, worker_id = %(worker_id)s, text = '',
           lease_until = clock_timestamp() + make_interval(secs => %(lease_s)s),
           started_at = coalesce(started_at, clock_timestamp()),
           provider = coalesce((SELECT provider FROM route WHERE route.service = generation.service), ''),
           model_id = coalesce((SELECT model_id FROM route WHERE route.service = generation.service), ''),
           input_cost = coalesce((SELECT input_cost FROM route WHERE route.service = generation.service), 0),
           output_cost = coalesce((SELECT output_cost FROM route WHERE route.service = generation.service), 0)
      FROM chosen
     WHERE generation.generation_id = chosen.generation_id
    RETURNING generation.*
), noted AS (
    INSERT INTO generation_share AS share (tenant_id, lane, finish_tag)
    SELECT tenant_id, %(lane)s, start_tag + cost::bigint * 1000000 / weight FROM chosen
    ON CONFLICT (tenant_id, lane) DO UPDATE SET finish_tag = excluded.finish_tag
), ticked AS (
    INSERT INTO generation_clock (lane, start_tag) SELECT %(lane)s, start_tag FROM chosen
    ON CONFLICT (lane) DO UPDATE SET start_tag = excluded.start_tag
)
SELECT * FROM claimed;

-- name: refusal
-- Why nothing was claimed, for the event that a waiting reader receives.
SELECT policy.is_paused,
       (SELECT count(*) FROM generation WHERE generation.lane = policy.lane AND status = 'RUNNING' AND lease_until > statement_timestamp())
           >= coalesce(policy.parallelism, %(parallelism)s) AS is_full,
       EXISTS (SELECT FROM generation WHERE generation.lane = policy.lane AND status = 'QUEUED') AS has_waiting,
       EXISTS (SELECT FROM generation WHERE generation.lane = policy.lane AND status = 'QUEUED'
                                        AND not_before <= statement_timestamp()) AS has_due
  FROM lane_policy AS policy
 WHERE policy.lane = %(lane)s;

-- name: waiting_attempt
SELECT attempt FROM generation WHERE generation_id = %(generation_id)s AND status = 'QUEUED';

-- name: renew
-- A lease that has ended is not renewed: another attempt may hold the guards by now.
UPDATE generation
   SET lease_until = clock_timestamp() + make_interval(secs => %(lease_s)s), text = coalesce(%(text)s, text),
       first_token_at = coalesce(first_token_at, %(first_token_at)s)
 WHERE generation_id = %(generation_id)s AND attempt = %(attempt)s AND status = 'RUNNING' AND lease_until > statement_timestamp()
RETURNING cancel_requested_at IS NOT NULL AS is_cancelled;

-- name: is_cancelled
SELECT cancel_requested_at IS NOT NULL AS is_cancelled FROM generation
 WHERE generation_id = %(generation_id)s AND attempt = %(attempt)s AND status = 'RUNNING';

-- name: move_model
-- The guard of another model, after a fall-over. Changes no row if that model is at its limit.
UPDATE generation
   SET provider = %(provider)s, model_id = %(model_id)s, input_cost = %(input_cost)s, output_cost = %(output_cost)s
 WHERE generation_id = %(generation_id)s AND attempt = %(attempt)s AND status = 'RUNNING'
   AND (SELECT count(*) FROM generation AS other
         WHERE other.status = 'RUNNING' AND other.lease_until > statement_timestamp() AND other.generation_id <> generation.generation_id
           AND other.provider = %(provider)s AND other.model_id = %(model_id)s
           AND split_part(other.lane, '_', 1) = split_part(generation.lane, '_', 1)) < %(model_limit)s
   AND NOT EXISTS (SELECT FROM model_setting
                    WHERE model_setting.model = %(provider)s || '/' || %(model_id)s
                      AND model_setting.max_running <= (SELECT count(*) FROM generation AS other
                                                         WHERE other.status = 'RUNNING' AND other.lease_until > statement_timestamp()
                                                           AND other.generation_id <> generation.generation_id
                                                           AND other.provider = %(provider)s AND other.model_id = %(model_id)s));

-- name: expired_leases
SELECT tenant_id, generation_id, attempt
  FROM generation
 WHERE status = 'RUNNING' AND lease_until <= clock_timestamp()
 ORDER BY lease_until
 LIMIT %(limit)s;

-- name: unfinished_cancels
-- A cancel was requested, and the text waits again: its worker was lost, or it failed in between.
SELECT tenant_id, generation_id, attempt
  FROM generation
 WHERE status = 'QUEUED' AND cancel_requested_at IS NOT NULL
 LIMIT %(limit)s;

-- name: orphan_holds
-- Holds of texts that have ended. The hold of a live text is never released here.
SELECT hold.tenant_id, hold.user_id, hold.hold_id
  FROM points_hold AS hold
  JOIN generation ON generation.tenant_id = hold.tenant_id AND generation.hold_id = hold.hold_id
 WHERE hold.status = 'HELD' AND generation.ended_at IS NOT NULL
 LIMIT %(limit)s;

-- name: wake_lane
-- One message for each free slot that a waiting text could take, and none for a text whose message was sent lately.
WITH room AS (
    SELECT policy.lane,
           coalesce(policy.parallelism, %(parallelism)s)
           - (SELECT count(*) FROM generation WHERE generation.lane = policy.lane AND status = 'RUNNING'
                                                AND lease_until > statement_timestamp()) AS slots
      FROM lane_policy AS policy
     WHERE policy.pool = 'text' AND NOT policy.is_paused AND (%(lane)s::text IS NULL OR policy.lane = %(lane)s)
), due AS (
    SELECT first.generation_id
      FROM room
     CROSS JOIN LATERAL (SELECT generation_id
                           FROM generation
                          WHERE generation.lane = room.lane AND status = 'QUEUED' AND not_before <= statement_timestamp()
                            AND message_at <= statement_timestamp() - make_interval(secs => %(age_s)s)
                          ORDER BY created_at, generation_id
                          LIMIT greatest(0, least(room.slots, %(limit)s))) AS first
)
UPDATE generation SET message_at = clock_timestamp()
  FROM due
 WHERE generation.generation_id = due.generation_id AND generation.status = 'QUEUED'
RETURNING generation.tenant_id, generation.generation_id, generation.lane, generation.trace_id;

-- name: note_routes
-- Writes nothing if the routes are those that are stored.
WITH given AS (
    SELECT * FROM unnest(%(services)s::text[], %(positions)s::smallint[], %(models)s::text[]) AS given (service, position, model)
), gone AS (
    DELETE FROM text_route
     WHERE lane = %(lane)s
       AND NOT EXISTS (SELECT FROM given WHERE given.service = text_route.service AND given.position = text_route.position)
)
INSERT INTO text_route (lane, service, position, model) SELECT %(lane)s, service, position, model FROM given
ON CONFLICT (lane, service, position) DO UPDATE SET model = excluded.model WHERE text_route.model <> excluded.model;

-- name: text_models
-- A waiting text counts for the model that would be asked first.
SELECT route.model, array_agg(DISTINCT route.service ORDER BY route.service) AS services, setting.max_running AS limit,
       (SELECT count(*) FROM generation
         WHERE status = 'RUNNING' AND lease_until > statement_timestamp() AND provider || '/' || model_id = route.model) AS running,
       (SELECT count(*) FROM generation JOIN text_route AS first USING (lane, service)
         WHERE generation.status = 'QUEUED' AND first.position = 0 AND first.model = route.model) AS waiting
  FROM text_route AS route LEFT JOIN model_setting AS setting USING (model)
 GROUP BY route.model, setting.max_running
 ORDER BY route.model;
