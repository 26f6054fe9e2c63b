-- name: tenant
INSERT INTO tenant (tenant_id, name, tier) VALUES (%(tenant_id)s, 'bench', 'vip');

-- name: user
INSERT INTO app_user (tenant_id, user_id) VALUES (%(tenant_id)s, %(user_id)s);

-- name: task
INSERT INTO task (tenant_id, task_id, user_id, tool, hold_id, lane, pool, price_points)
VALUES (%(tenant_id)s, %(task_id)s, %(user_id)s, 'cutout', %(task_id)s, 'vip_short', 'gpu', 1);

-- name: nodes
-- Nodes that a worker claimed some time ago.
INSERT INTO task_node (tenant_id, node_id, task_id, user_id, position, name, type, step, lane, pool, cost_us, is_result,
                       in_degree, status, attempt, ready_at, dispatched_at, worker_id, started_at, lease_until, progress_at)
SELECT %(tenant_id)s, node_id, %(task_id)s, %(user_id)s, place, 'node_' || place, 'cutout', 's', 'vip_short', 'gpu', 6000000, true,
       0, 'PROCESSING', 1, now(), now(), 'w', now(), now() + interval '1 hour', now() - interval '1 minute'
  FROM unnest(%(node_ids)s::uuid[]) WITH ORDINALITY AS numbered (node_id, place);

-- name: write_log
-- A trigger records each write to a node with its time.
CREATE TABLE write_log (node_id uuid NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());

-- name: write_log_function
CREATE FUNCTION log_write() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO write_log (node_id) VALUES (NEW.node_id);
    RETURN NULL;
END
$$;

-- name: write_log_trigger
CREATE TRIGGER log_write AFTER UPDATE ON task_node FOR EACH ROW EXECUTE FUNCTION log_write();

-- name: written
-- Rows changed in any table but the write log.
SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint AS rows,
       coalesce(sum(n_tup_upd) FILTER (WHERE relname = 'task_node'), 0)::bigint AS nodes
  FROM pg_stat_user_tables
 WHERE relname <> 'write_log';

-- name: gaps
SELECT count(*) AS writes, coalesce(extract(epoch FROM min(gap)), 0)::float8 AS smallest_s
  FROM (SELECT at - lag(at) OVER (PARTITION BY node_id ORDER BY at) AS gap FROM write_log) AS gaps;
