-- name: old_days
-- Partitions that are old enough, oldest first. A day with a run that has not ended stays.
SELECT part.kind, part.day FROM job_partition_days() AS part
 WHERE part.day < %(before)s
 ORDER BY part.day, part.kind;

-- name: has_live_runs
SELECT EXISTS (SELECT FROM job_run WHERE scheduled_at >= %(since)s AND scheduled_at < %(until)s
                  AND state IN ('PENDING', 'RUNNING', 'RETRYING')) AS is_found;

-- name: lock_archive
SELECT pg_try_advisory_xact_lock(13, 0) AS is_locked, clock_timestamp() AS now;

-- name: fingerprint_job_run
SELECT count(*) AS rows, coalesce(sum(hashtextextended(to_jsonb(one)::text, 0)::numeric), 0) AS fingerprint
  FROM job_run AS one WHERE scheduled_at >= %(since)s AND scheduled_at < %(until)s;

-- name: fingerprint_run_result
SELECT count(*) AS rows, coalesce(sum(hashtextextended(to_jsonb(one)::text, 0)::numeric), 0) AS fingerprint
  FROM run_result AS one WHERE at >= %(since)s AND at < %(until)s;

-- name: fingerprint_run_log
SELECT count(*) AS rows, coalesce(sum(hashtextextended(to_jsonb(one)::text, 0)::numeric), 0) AS fingerprint
  FROM run_log AS one WHERE at >= %(since)s AND at < %(until)s;

-- name: rows_job_run
SELECT run_id, to_jsonb(one)::text AS line FROM job_run AS one
 WHERE scheduled_at >= %(since)s AND scheduled_at < %(until)s AND (%(after)s::uuid IS NULL OR run_id > %(after)s)
 ORDER BY run_id
 LIMIT %(limit)s;

-- name: rows_run_result
SELECT run_id, to_jsonb(one)::text AS line FROM run_result AS one
 WHERE at >= %(since)s AND at < %(until)s AND (%(after)s::uuid IS NULL OR run_id > %(after)s)
 ORDER BY run_id, generation, attempt, at
 FETCH FIRST %(limit)s ROWS WITH TIES;

-- name: rows_run_log
SELECT run_id, to_jsonb(one)::text AS line FROM run_log AS one
 WHERE at >= %(since)s AND at < %(until)s AND (%(after)s::uuid IS NULL OR run_id > %(after)s)
 ORDER BY run_id
 FETCH FIRST %(limit)s ROWS WITH TIES;

-- name: copying
SELECT batch, rows, fingerprint FROM run_archive WHERE kind = %(kind)s AND day = %(day)s AND state = 'COPYING';

-- name: begin_batch
INSERT INTO run_archive (kind, day, batch, rows, fingerprint)
SELECT %(kind)s, %(day)s, coalesce(max(batch), 0) + 1, %(rows)s, %(fingerprint)s FROM run_archive WHERE kind = %(kind)s AND day = %(day)s
RETURNING batch;

-- name: forget_batch
DELETE FROM run_archive WHERE kind = %(kind)s AND day = %(day)s AND batch = %(batch)s AND state = 'COPYING';

-- name: parts_of_batch
SELECT kind, day, batch, part, first_id, last_id, key, rows, bytes, sha256, members FROM run_archive_part
 WHERE kind = %(kind)s AND day = %(day)s AND batch = %(batch)s
 ORDER BY part;

-- name: add_part
INSERT INTO run_archive_part (kind, day, batch, part, first_id, last_id, key, rows, bytes, sha256, members)
VALUES (%(kind)s, %(day)s, %(batch)s, %(part)s, %(first_id)s, %(last_id)s, %(key)s, %(rows)s, %(bytes)s, %(sha256)s, %(members)s);

-- name: lock_day
SELECT job_partition_lock(%(kind)s, %(day)s);

-- name: drop_day
SELECT job_partition_drop(%(kind)s, %(day)s);

-- name: note_drop
UPDATE run_archive SET state = 'DROPPED', dropped_at = clock_timestamp()
 WHERE kind = %(kind)s AND day = %(day)s AND batch = %(batch)s;

-- name: parts_with
-- Of days that have left. A run may have rows in several parts.
SELECT part.kind, part.day, part.batch, part.part, part.first_id, part.last_id, part.key, part.rows, part.bytes, part.sha256, part.members
  FROM run_archive_part AS part JOIN run_archive AS batch USING (kind, day, batch)
 WHERE part.kind = %(kind)s AND part.day >= %(first)s AND part.day <= %(last)s AND batch.state = 'DROPPED'
   AND (%(run_id)s::uuid IS NULL OR %(run_id)s BETWEEN part.first_id AND part.last_id)
 ORDER BY part.day, part.batch, part.part;

-- name: expired_parts
SELECT part.kind, part.day, part.batch, part.part, part.first_id, part.last_id, part.key, part.rows, part.bytes, part.sha256, part.members
  FROM run_archive_part AS part WHERE part.day < %(before)s ORDER BY part.day LIMIT %(limit)s;

-- name: forget_part
DELETE FROM run_archive_part WHERE kind = %(kind)s AND day = %(day)s AND batch = %(batch)s AND part = %(part)s;

-- name: forget_empty
DELETE FROM run_archive AS batch WHERE batch.day < %(before)s AND batch.state = 'DROPPED'
   AND NOT EXISTS (SELECT FROM run_archive_part AS part WHERE part.kind = batch.kind AND part.day = batch.day AND part.batch = batch.batch);
