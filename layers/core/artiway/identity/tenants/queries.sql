-- name: list_tenants
SELECT tenant.*, policy.priority, policy.weight AS policy_weight, policy.concurrency AS policy_concurrency,
       policy.queue_depth AS policy_queue_depth, policy.rate_per_second AS policy_rate_per_second,
       policy.burst AS policy_burst, policy.artefact_days AS policy_artefact_days
  FROM tenant JOIN tenant_policy AS policy USING (tenant_id)
 WHERE (%(tenant_id)s::uuid IS NULL OR tenant_id = %(tenant_id)s)
   AND (%(after)s::uuid IS NULL OR tenant_id > %(after)s)
 ORDER BY tenant_id
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
