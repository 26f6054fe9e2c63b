-- name: record
INSERT INTO audit_log (audit_id, tenant_id, actor_id, action, target, details, trace_id)
VALUES (%(audit_id)s, coalesce(current_tenant(), %(tenant_id)s), %(actor_id)s, %(action)s, %(target)s,
        %(details)s::jsonb, %(trace_id)s);

-- name: find
-- Newest first. The row policies filter by tenant, so tenants and operators use the same query.
SELECT audit_id, audit_log.tenant_id, actor_id, action, target, details, trace_id, at, person.email AS actor_email,
       person.display_name AS actor_name, tenant.name AS tenant_name
  FROM audit_log
  LEFT JOIN app_user AS person ON person.user_id = audit_log.actor_id
  LEFT JOIN tenant ON tenant.tenant_id = audit_log.tenant_id
 WHERE (%(actor_id)s::uuid IS NULL OR actor_id = %(actor_id)s)
   AND (%(action)s::text IS NULL OR action = %(action)s)
   AND (%(target)s::text IS NULL OR target = %(target)s)
   AND (%(start)s::timestamptz IS NULL OR at >= %(start)s)
   AND (%(end)s::timestamptz IS NULL OR at < %(end)s)
   AND (%(after_at)s::timestamptz IS NULL OR (at, audit_id) < (%(after_at)s, %(after_id)s::uuid))
 ORDER BY at DESC, audit_id DESC
 LIMIT %(limit)s;

-- name: user_of_email
SELECT user_id FROM app_user WHERE email = %(email)s;
