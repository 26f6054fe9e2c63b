-- name: asset
-- One row if the worker holds the node. The tenant's row level security hides the assets of others. An upload counts once
-- a task has used it: then its content was inspected.
SELECT coalesce((SELECT status FROM app_user WHERE user_id = node.user_id) = 'ACTIVE', false)
       AND coalesce((SELECT status FROM tenant_policy WHERE tenant_id = current_tenant()) = 'ACTIVE', false) AS is_user_active,
       asset.key, asset.content_type
  FROM task_node AS node
  LEFT JOIN LATERAL (
       SELECT key, content_type
         FROM upload
        WHERE input_id = %(asset_id)s AND width IS NOT NULL AND cleanup_status = 0 AND expires_at > clock_timestamp()
        UNION ALL
       SELECT key, content_type
         FROM artefact
        WHERE artefact_id = %(asset_id)s AND cleanup_status = 0 AND expires_at > clock_timestamp()) AS asset ON true
 WHERE node.node_id = %(node_id)s AND node.attempt = %(attempt)s AND node.worker_id = %(worker_id)s
   AND (%(pool)s::text IS NULL OR node.pool = %(pool)s)
   AND node.status = 'PROCESSING' AND node.lease_until > clock_timestamp();
