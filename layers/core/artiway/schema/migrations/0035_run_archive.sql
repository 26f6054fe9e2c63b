-- Days of runs and logs that have left PostgreSQL. A day can come back by a backfill and leave again: another batch.
CREATE TABLE run_archive (
    kind        text NOT NULL CHECK (kind IN ('job_run', 'run_result', 'run_log')),
    day         date NOT NULL,
    batch       integer NOT NULL CHECK (batch > 0),
    state       text NOT NULL DEFAULT 'COPYING' CHECK (state IN ('COPYING', 'DROPPED')),
    -- What the partition contained when copying began: the drop demands that it is the same.
    rows        bigint NOT NULL CHECK (rows >= 0),
    fingerprint numeric NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    dropped_at  timestamptz,
    PRIMARY KEY (kind, day, batch),
    CHECK ((state = 'DROPPED') = (dropped_at IS NOT NULL))
);
-- One object of a batch: rows sorted by run, in gzip members that can be read one by one.
CREATE TABLE run_archive_part (
    kind     text NOT NULL,
    day      date NOT NULL,
    batch    integer NOT NULL,
    part     integer NOT NULL,
    first_id uuid NOT NULL,
    last_id  uuid NOT NULL,
    key      text NOT NULL,
    rows     integer NOT NULL CHECK (rows > 0),
    bytes    bigint NOT NULL,
    sha256   text NOT NULL CHECK (length(sha256) = 64),
    -- [[first run, offset, length, sha256], …] of the members.
    members  jsonb NOT NULL,
    PRIMARY KEY (kind, day, batch, part),
    FOREIGN KEY (kind, day, batch) REFERENCES run_archive ON DELETE CASCADE
);
ALTER TABLE run_archive ENABLE ROW LEVEL SECURITY;
ALTER TABLE run_archive FORCE ROW LEVEL SECURITY;
ALTER TABLE run_archive_part ENABLE ROW LEVEL SECURITY;
ALTER TABLE run_archive_part FORCE ROW LEVEL SECURITY;
-- No row belongs to a tenant: objects hold rows of all, and the reader keeps those of its tenant.
CREATE POLICY all_may_read ON run_archive FOR SELECT TO artiway_app USING (true);
CREATE POLICY all_may_read ON run_archive_part FOR SELECT TO artiway_app USING (true);
CREATE POLICY all_rows ON run_archive TO artiway_service USING (true) WITH CHECK (true);
CREATE POLICY all_rows ON run_archive_part TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT ON run_archive, run_archive_part TO artiway_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON run_archive, run_archive_part TO artiway_service;

-- The partitions of a day that exist.
CREATE FUNCTION job_partition_days() RETURNS TABLE (kind text, day date)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = public, pg_temp
    AS $$
SELECT parent.relname::text, to_date(right(part.relname, 8), 'YYYYMMDD')
  FROM pg_inherits JOIN pg_class AS part ON part.oid = inhrelid JOIN pg_class AS parent ON parent.oid = inhparent
 WHERE parent.relname IN ('job_run', 'run_result', 'run_log') AND parent.relkind = 'p'
$$;
-- Keep writers out of a day until the commit, while it is compared with its copy.
CREATE FUNCTION job_partition_lock(kind text, day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp
    SET lock_timeout = '2s'
    AS $$
BEGIN
    IF kind NOT IN ('job_run', 'run_result', 'run_log') OR day >= current_date THEN
        RAISE EXCEPTION 'no partition that can leave: % %', kind, day USING ERRCODE = 'invalid_parameter_value';
    END IF;
    EXECUTE format('LOCK TABLE %I IN SHARE ROW EXCLUSIVE MODE', format('%s_%s', kind, to_char(day, 'YYYYMMDD')));
END
$$;
CREATE FUNCTION job_partition_drop(kind text, day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp
    SET lock_timeout = '2s'
    AS $$
BEGIN
    PERFORM job_partition_lock(kind, day);
    EXECUTE format('DROP TABLE %I', format('%s_%s', kind, to_char(day, 'YYYYMMDD')));
END
$$;
REVOKE EXECUTE ON FUNCTION job_partition_days, job_partition_lock, job_partition_drop FROM PUBLIC;
GRANT EXECUTE ON FUNCTION job_partition_days, job_partition_lock, job_partition_drop TO artiway_service;
