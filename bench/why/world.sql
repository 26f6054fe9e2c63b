-- A pool with waiting nodes, as submissions and the scheduler leave it.

-- name: add_tenants
WITH made AS (
    INSERT INTO tenant (tenant_id, name, tier, weight, concurrency)
    SELECT gen_random_uuid(), 'T', 'vip', (ARRAY[1, 2, 5])[1 + place %% 3], (ARRAY[2, 5, 20])[1 + place %% 3]
      FROM generate_series(1, %(tenants)s) AS place
    RETURNING tenant_id)
INSERT INTO app_user (tenant_id, user_id) SELECT tenant_id, gen_random_uuid() FROM made, generate_series(1, 2);

-- name: add_tasks
-- One node each, of three types. The tenants have them in turn.
WITH person AS (
    SELECT tenant_id, user_id, row_number() OVER (ORDER BY user_id) - 1 AS place, count(*) OVER () AS people FROM app_user),
made AS (
    INSERT INTO task (tenant_id, task_id, user_id, tool, hold_id, lane, pool, price_points)
    SELECT tenant_id, gen_random_uuid(), user_id, 'crop', gen_random_uuid(),
           CASE WHEN person.place %% 2 = 0 THEN 'vip_short' ELSE 'free_default' END, 'gpu', 1
      FROM generate_series(1, %(waiting)s) AS number JOIN person ON person.place = number %% person.people
    RETURNING tenant_id, task_id, user_id, lane, pool)
INSERT INTO task_node (tenant_id, node_id, task_id, user_id, position, name, type, step, lane, pool, cost_us, is_result, in_degree)
SELECT tenant_id, gen_random_uuid(), task_id, user_id, 0, 'n', kind.type, kind.step, lane, pool, kind.cost_us, true, 0
  FROM (SELECT *, row_number() OVER () %% 3 AS choice FROM made) AS made
  JOIN (VALUES (0, 'cutout', 'crop', 6000000), (1, 'model', 'style', 8000000), (2, 'compose', 'convert', 4000000))
       AS kind (choice, type, step, cost_us) USING (choice);

-- name: add_worker
INSERT INTO worker (worker_id, pool, types, slots) VALUES ('w', 'gpu', ARRAY['cutout', 'model', 'compose'], 20);

-- name: make_ready
UPDATE task_node SET status = 'QUEUED', version = version + 1, ready_at = clock_timestamp();

-- name: waiting_tasks
SELECT tenant_id, task_id FROM task_node WHERE status = 'QUEUED' AND dispatched_at IS NULL ORDER BY random() LIMIT 2000;
