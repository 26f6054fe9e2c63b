-- name: record
INSERT INTO audit_log (audit_id, tenant_id, actor_id, action, target, details, trace_id)
VALUES (%(audit_id)s, coalesce(current_tenant(), %(tenant_id)s), %(actor_id)s, %(action)s, %(target)s,
        %(details)s::jsonb, %(trace_id)s);

-- name: find
-- Newest first. The row policies filter by tenant, so tenants and operators use the same query.
SELECT audit_id, tenant_id, actor_id, action, target, details, trace_id, at
  FROM audit_log
 WHERE (%(actor_id)s::uuid IS NULL OR actor_id = %(actor_id)s)
   AND (%(action)s::text IS NULL OR action = %(action)s)
   AND (%(target)s::text IS NULL OR target = %(target)s)
   AND (%(start)s::timestamptz IS NULL OR at >= %(start)s)
   AND (%(end)s::timestamptz IS NULL OR at < %(end)s)
   AND (%(after_at)s::timestamptz IS NULL OR (at, audit_id) < (%(after_at)s, %(after_id)s::uuid))
 ORDER BY at DESC, audit_id DESC
 LIMIT %(limit)s;
