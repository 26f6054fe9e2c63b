-- Inside one tenant: the row policies filter by tenant.

-- name: lock_api_keys
-- Keys of one tenant are created and deleted one at a time: two concurrent inserts could both pass the limit, and a key
-- could be made by a key that is being deleted.
SELECT pg_advisory_xact_lock(hashtextextended('keys:' || current_tenant()::text, 0));

-- name: insert_api_key
-- No row if the parent was deleted meanwhile.
INSERT INTO api_key (tenant_id, key_id, user_id, name, permissions, secret_hash, is_signed, created_at, expires_at,
                     parent_key_id)
SELECT %(tenant_id)s, %(key_id)s, %(user_id)s, %(name)s, %(permissions)s, %(secret_hash)s, %(is_signed)s,
       %(created_at)s, %(expires_at)s, %(parent_key_id)s::uuid
 WHERE %(parent_key_id)s::uuid IS NULL OR EXISTS (SELECT FROM api_key WHERE key_id = %(parent_key_id)s);

-- name: api_key
SELECT tenant_id, key_id, user_id, name, permissions, is_signed, created_at, expires_at, parent_key_id
  FROM api_key
 WHERE key_id = %(key_id)s;

-- name: api_keys
SELECT tenant_id, key_id, user_id, name, permissions, is_signed, created_at, expires_at, parent_key_id
  FROM api_key
 WHERE (%(user_id)s::uuid IS NULL OR user_id = %(user_id)s)
   AND (%(root_id)s::uuid IS NULL OR key_id = %(root_id)s OR parent_key_id = %(root_id)s)
   AND (%(after)s::uuid IS NULL OR key_id > %(after)s)
 ORDER BY key_id
 LIMIT %(limit)s;

-- name: count_api_keys
SELECT count(*) AS of_tenant, count(*) FILTER (WHERE user_id = %(user_id)s) AS of_user FROM api_key;

-- name: delete_api_key
-- With the keys that it made.
DELETE FROM api_key
 WHERE (key_id = %(key_id)s OR parent_key_id = %(key_id)s)
   AND EXISTS (SELECT FROM api_key AS wanted
                WHERE wanted.key_id = %(key_id)s
                  AND (%(user_id)s::uuid IS NULL OR wanted.user_id = %(user_id)s)
                  AND (%(root_id)s::uuid IS NULL
                       OR wanted.key_id = %(root_id)s OR wanted.parent_key_id = %(root_id)s))
RETURNING key_id;
