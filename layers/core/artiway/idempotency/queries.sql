-- name: try_lock
-- Released at the end of the transaction, also when the process dies.
SELECT pg_try_advisory_xact_lock(hashtextextended('idempotency:' || current_tenant() || ':' || %(key)s, 0)) AS is_ours;

-- name: known_answer
-- Earlier releases stored a key without its user. The hash contains the user, so such a row matches only its own request.
SELECT request_hash, status, body
  FROM idempotency_key
 WHERE tenant_id = current_tenant()
   AND (idempotency_key = %(key)s OR idempotency_key = %(sent)s AND request_hash = %(request_hash)s)
   AND created_at > now() - make_interval(hours => %(keep_hours)s);

-- name: keep_answer
-- A conflicting row has expired and is not purged yet: under the lock no other request can have written it.
INSERT INTO idempotency_key (tenant_id, idempotency_key, request_hash, status, body)
VALUES (current_tenant(), %(key)s, %(request_hash)s, %(status)s, %(body)s)
ON CONFLICT (tenant_id, idempotency_key) DO UPDATE
   SET request_hash = excluded.request_hash, status = excluded.status, body = excluded.body, created_at = now();
