-- name: list_tenants
SELECT tenant.*, policy.priority, policy.weight AS policy_weight, policy.concurrency AS policy_concurrency,
       policy.queue_depth AS policy_queue_depth, policy.rate_per_second AS policy_rate_per_second,
       policy.burst AS policy_burst, policy.artefact_days AS policy_artefact_days
  FROM tenant JOIN tenant_policy AS policy USING (tenant_id)
 WHERE (%(tenant_id)s::uuid IS NULL OR tenant_id = %(tenant_id)s)
   AND (%(after)s::uuid IS NULL OR tenant_id > %(after)s)
   AND (%(q)s::text IS NULL OR position(lower(%(q)s) IN lower(tenant.name)) > 0
        OR 'tnt_' || replace(tenant_id::text, '-', '') = lower(%(q)s)
        OR tenant_id = (SELECT person.tenant_id FROM app_user AS person WHERE person.email = lower(%(q)s)))
 ORDER BY tenant_id
 LIMIT %(limit)s;

-- name: users_of_tenant
SELECT person.user_id, person.email, person.phone, person.display_name, person.status, person.created_at,
       coalesce(account.balance, 0) AS balance, coalesce(account.frozen, 0) AS frozen,
       ARRAY(SELECT role FROM user_role AS held
              WHERE held.tenant_id = person.tenant_id AND held.user_id = person.user_id ORDER BY role) AS roles
  FROM app_user AS person LEFT JOIN points_account AS account USING (tenant_id, user_id)
 WHERE person.tenant_id = %(tenant_id)s AND (%(after)s::uuid IS NULL OR person.user_id > %(after)s)
 ORDER BY person.user_id
 LIMIT %(limit)s;

-- name: orders_of_tenant
SELECT paid.order_id, paid.user_id, person.email, paid.status, paid.package_id, paid.amount_fen, paid.points, paid.refunded_fen,
       paid.channel, paid.transaction_id, paid.flag, paid.created_at, paid.paid_at
  FROM pay_order AS paid JOIN app_user AS person USING (tenant_id, user_id)
 WHERE paid.tenant_id = %(tenant_id)s AND (%(before)s::uuid IS NULL OR paid.order_id < %(before)s)
 ORDER BY paid.order_id DESC
 LIMIT %(limit)s;

-- name: lock_tenant
SELECT tenant_id, name, tier, status, is_platform, weight, concurrency, queue_depth, rate_per_second, burst, user_concurrency,
       job_concurrency, job_per_minute, job_period_s
  FROM tenant WHERE tenant_id = %(tenant_id)s FOR UPDATE;

-- name: update_tenant
UPDATE tenant
   SET name = %(name)s, tier = %(tier)s, status = %(status)s, weight = %(weight)s, concurrency = %(concurrency)s,
       queue_depth = %(queue_depth)s, rate_per_second = %(rate_per_second)s, burst = %(burst)s,
       user_concurrency = %(user_concurrency)s, job_concurrency = %(job_concurrency)s,
       job_per_minute = %(job_per_minute)s, job_period_s = %(job_period_s)s, updated_at = now()
 WHERE tenant_id = %(tenant_id)s;

-- name: policies
SELECT tenant_id, tier, status, priority, weight, concurrency, queue_depth, rate_per_second, burst, artefact_days, user_concurrency
  FROM tenant_policy
 WHERE tenant_id = ANY(%(tenant_ids)s);
