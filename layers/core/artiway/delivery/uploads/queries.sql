-- name: lock_uploads
-- Uploads of a tenant are added one at a time, so that no other is added between the count and the insert.
SELECT pg_advisory_xact_lock(hashtextextended('uploads:' || current_tenant()::text, 0));

-- name: count_open_uploads
-- The uploads that no task has used; the limits bound their number.
SELECT count(*) AS of_tenant, count(*) FILTER (WHERE user_id = %(user_id)s) AS of_user
  FROM upload
 WHERE tenant_id = current_tenant() AND width IS NULL AND cleanup_status = 0 AND expires_at > statement_timestamp();

-- name: insert_upload
INSERT INTO upload (tenant_id, input_id, user_id, key, content_type, bytes, expires_at)
SELECT current_tenant(), %(input_id)s, %(user_id)s, %(key)s, %(content_type)s, %(bytes)s,
       clock_timestamp() + make_interval(days => artefact_days)
  FROM tenant_policy
 WHERE tenant_id = current_tenant();

-- name: uploads
-- S3 deletes an object 363 days after its upload, so a task can use an input for 360 days.
SELECT input_id, user_id, key, content_type, bytes, width, height, expires_at
  FROM upload
 WHERE input_id = ANY (%(input_ids)s::uuid[]) AND cleanup_status = 0 AND expires_at > clock_timestamp()
   AND created_at > clock_timestamp() - interval '360 days';

-- name: note_size
UPDATE upload SET width = %(width)s, height = %(height)s WHERE input_id = %(input_id)s;

-- name: extend_uploads
-- An upload that is used by a task is kept as long as the results of the task, but not longer than S3 keeps the object.
UPDATE upload
   SET expires_at = greatest(expires_at, least(clock_timestamp() + make_interval(days => artefact_days),
                                               created_at + interval '362 days'))
  FROM tenant_policy AS policy
 WHERE policy.tenant_id = current_tenant() AND input_id = ANY (%(input_ids)s::uuid[]) AND cleanup_status = 0;

-- name: request_of_task
SELECT params, (request ->> 'count')::integer AS count FROM task WHERE task_id = %(task_id)s;

-- name: originals_of_task
-- The uploads of a task by the names that its submitter gave. `is_kept`: the picture can still be read.
SELECT given.key AS name, upload.input_id, upload.key, upload.content_type, upload.width, upload.height, upload.expires_at,
       upload.cleanup_status = 0 AND upload.expires_at > clock_timestamp() AS is_kept
  FROM task
 CROSS JOIN jsonb_each_text(coalesce(task.request -> 'inputs', '{}')) AS given
  JOIN upload ON upload.tenant_id = task.tenant_id AND upload.input_id = given.value::uuid
 WHERE task.task_id = %(task_id)s
 ORDER BY given.key;

-- name: deleted_results
SELECT DISTINCT node.name
  FROM artefact JOIN task_node AS node ON node.tenant_id = artefact.tenant_id AND node.node_id = artefact.node_id
 WHERE artefact.task_id = %(task_id)s AND artefact.is_result AND artefact.deleted_at IS NOT NULL
 ORDER BY node.name;

-- name: first_results
SELECT DISTINCT ON (artefact.task_id) artefact.task_id, artefact.key, artefact.content_type, artefact.width, artefact.height,
       artefact.expires_at
  FROM artefact JOIN task_node AS node ON node.tenant_id = artefact.tenant_id AND node.node_id = artefact.node_id
 WHERE artefact.tenant_id = current_tenant() AND artefact.task_id = ANY (%(task_ids)s::uuid[]) AND artefact.is_result
   AND artefact.cleanup_status = 0 AND artefact.expires_at > clock_timestamp() AND node.status = 'COMPLETED'
 ORDER BY artefact.task_id, node.position, node.node_id, artefact.name;

-- name: task_to_clean
SELECT user_id, ended_at FROM task WHERE task_id = %(task_id)s FOR SHARE;

-- name: result_exists
SELECT FROM artefact JOIN task_node AS node ON node.tenant_id = artefact.tenant_id AND node.node_id = artefact.node_id
 WHERE artefact.task_id = %(task_id)s AND artefact.is_result AND node.name = %(name)s AND node.superseded_at IS NULL
 LIMIT 1;

-- name: delete_result
-- The row stays and says when; the object leaves with the next pass over expired objects.
UPDATE artefact SET deleted_at = clock_timestamp(), expires_at = least(artefact.expires_at, clock_timestamp())
  FROM task_node AS node
 WHERE node.tenant_id = artefact.tenant_id AND node.node_id = artefact.node_id AND artefact.task_id = %(task_id)s
   AND artefact.is_result AND node.name = %(name)s AND artefact.deleted_at IS NULL;

-- name: results_of_task
SELECT node.name, artefact.key, artefact.content_type, artefact.width, artefact.height, artefact.expires_at,
       coalesce(nullif(task.name, ''), task.tool) AS title, task.created_at AS made_at
  FROM artefact
  JOIN task ON task.tenant_id = artefact.tenant_id AND task.task_id = artefact.task_id
  JOIN task_node AS node ON node.tenant_id = artefact.tenant_id AND node.node_id = artefact.node_id
 WHERE artefact.task_id = %(task_id)s AND artefact.is_result AND artefact.cleanup_status = 0
   AND artefact.expires_at > clock_timestamp() AND node.status = 'COMPLETED'
 ORDER BY node.position, node.node_id, artefact.name;
