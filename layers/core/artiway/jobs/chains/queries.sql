-- name: successors
SELECT edge.tenant_id, edge.predecessor_id, edge.job_id
  FROM unnest(%(tenant_ids)s::uuid[], %(job_ids)s::uuid[]) AS ended (tenant_id, job_id)
  JOIN job_after AS edge ON edge.tenant_id = ended.tenant_id AND edge.predecessor_id = ended.job_id
 ORDER BY edge.tenant_id, edge.job_id, edge.predecessor_id;

-- name: all_successors
-- Direct ones and theirs. UNION ends at a job that was found before.
WITH RECURSIVE later AS (
    SELECT tenant_id, job_id FROM job_after WHERE tenant_id = %(tenant_id)s AND predecessor_id = %(job_id)s
     UNION
    SELECT edge.tenant_id, edge.job_id FROM later
      JOIN job_after AS edge ON edge.tenant_id = later.tenant_id AND edge.predecessor_id = later.job_id)
SELECT later.job_id FROM later JOIN job ON job.tenant_id = later.tenant_id AND job.job_id = later.job_id
 WHERE job.status IN ('ACTIVE', 'PAUSED')
   AND NOT EXISTS (SELECT FROM job_run AS run WHERE run.tenant_id = later.tenant_id AND run.job_id = later.job_id
                      AND run.scheduled_at = %(scheduled_at)s)
 ORDER BY later.job_id;

-- name: predecessor_runs
SELECT edge.predecessor_id AS job_id, run.run_id, run.state, run.kind, run.http_status, run.answer
  FROM job_after AS edge
  LEFT JOIN job_run AS run ON run.tenant_id = edge.tenant_id AND run.job_id = edge.predecessor_id AND run.scheduled_at = %(scheduled_at)s
 WHERE edge.tenant_id = %(tenant_id)s AND edge.job_id = %(job_id)s
 ORDER BY edge.place;

-- name: set_predecessors
UPDATE job_run SET predecessors = %(predecessors)s
 WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s AND scheduled_at = %(scheduled_at)s;

-- name: edges
SELECT job_id, predecessor_id FROM job_after WHERE tenant_id = current_tenant();

-- name: known_jobs
SELECT job_id FROM job WHERE tenant_id = current_tenant() AND job_id = ANY(%(job_ids)s) AND status <> 'DELETED';

-- name: remove_edges
DELETE FROM job_after WHERE tenant_id = current_tenant() AND job_id = %(job_id)s;

-- name: add_edges
INSERT INTO job_after (tenant_id, job_id, predecessor_id, place)
SELECT current_tenant(), %(job_id)s, predecessor_id, place - 1
  FROM unnest(%(predecessor_ids)s::uuid[]) WITH ORDINALITY AS given (predecessor_id, place);

-- name: successors_of
SELECT edge.job_id FROM job_after AS edge JOIN job ON job.tenant_id = edge.tenant_id AND job.job_id = edge.job_id
 WHERE edge.tenant_id = current_tenant() AND edge.predecessor_id = %(job_id)s AND job.status <> 'DELETED'
 ORDER BY edge.job_id;
