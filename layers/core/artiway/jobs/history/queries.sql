-- name: changes
SELECT action, at, actor_id, note, schedule FROM job_change
 WHERE tenant_id = current_tenant() AND job_id = %(job_id)s
 ORDER BY version;

-- name: runs_between
SELECT * FROM job_run
 WHERE tenant_id = current_tenant() AND job_id = %(job_id)s AND scheduled_at >= %(since)s AND scheduled_at < %(until)s
   AND kind <> 'MANUAL'
 ORDER BY scheduled_at
 LIMIT %(limit)s;

-- name: notes_between
SELECT outcome, first_at, last_at, fires, reason FROM job_fire_note
 WHERE tenant_id = current_tenant() AND job_id = %(job_id)s AND first_at < %(until)s AND last_at >= %(since)s
 ORDER BY first_at, outcome;
