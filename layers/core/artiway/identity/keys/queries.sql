-- Inside one tenant: the row policies do the choosing.

-- name: insert_api_key
INSERT INTO api_key (tenant_id, key_id, user_id, name, permissions, secret_hash, is_signed, created_at, expires_at)
VALUES (%(tenant_id)s, %(key_id)s, %(user_id)s, %(name)s, %(permissions)s, %(secret_hash)s, %(is_signed)s,
        %(created_at)s, %(expires_at)s);

-- name: api_keys
SELECT tenant_id, key_id, user_id, name, permissions, is_signed, created_at, expires_at
  FROM api_key
 WHERE (%(user_id)s::uuid IS NULL OR user_id = %(user_id)s)
   AND (%(after)s::uuid IS NULL OR key_id > %(after)s)
 ORDER BY key_id
 LIMIT %(limit)s;

-- name: count_api_keys
SELECT count(*) AS keys FROM api_key WHERE user_id = %(user_id)s;

-- name: delete_api_key
DELETE FROM api_key WHERE key_id = %(key_id)s AND (%(user_id)s::uuid IS NULL OR user_id = %(user_id)s);
