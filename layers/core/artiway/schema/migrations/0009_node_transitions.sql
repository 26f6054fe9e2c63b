-- The history of a batch costs a batch, not its square. A plan is kept for the session and may have been made for one row:
-- it joined old and new rows in a nested loop, 10,000 pairs for 100 nodes, and did so twice.

CREATE FUNCTION refuse_node_change(from_status text, to_status text, from_version integer, to_version integer)
    RETURNS integer
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'illegal change of a node: % -> % (version % -> %)', from_status, to_status, from_version, to_version
        USING ERRCODE = 'check_violation', TABLE = 'task_node';
END
$$;

CREATE OR REPLACE FUNCTION keep_node_history() RETURNS trigger
    LANGUAGE plpgsql
    SET enable_nestloop = off
    AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO node_history (tenant_id, node_id, version, from_status, to_status, attempt)
        SELECT tenant_id, node_id, version, NULL, status, attempt FROM after_rows;
        RETURN NULL;
    END IF;
    -- Whatever differs in state, version or attempt is written down; what may not differ so is refused on the way.
    INSERT INTO node_history (tenant_id, node_id, version, from_status, to_status, attempt, worker_id, reason)
    SELECT a.tenant_id, a.node_id,
           CASE WHEN a.version = b.version + 1
                 AND (a.status = b.status OR legal.to_status IS NOT NULL)
                 AND (a.attempt = b.attempt
                      OR a.attempt = b.attempt + 1 AND b.dispatched_at IS NULL AND a.dispatched_at IS NOT NULL)
                THEN a.version
                ELSE refuse_node_change(b.status, a.status, b.version, a.version)
           END,
           b.status, a.status, a.attempt, coalesce(a.worker_id, b.worker_id), a.error ->> 'code'
      FROM before_rows AS b
      JOIN after_rows AS a USING (node_id)
      LEFT JOIN node_transition AS legal ON legal.from_status = b.status AND legal.to_status = a.status
     WHERE a.version <> b.version OR a.status <> b.status OR a.attempt <> b.attempt;
    RETURN NULL;
END
$$;

-- Only the triggers of `task_node` write history, so each row speaks of a node that is there, without asking the table for
-- each row once more. Nodes are never deleted.
ALTER TABLE node_history DROP CONSTRAINT node_history_tenant_id_node_id_fkey;
CREATE POLICY by_trigger ON node_history AS RESTRICTIVE FOR INSERT TO artiway_app, artiway_service
    WITH CHECK (pg_trigger_depth() > 0);

-- Each index is written by every change of state, and one whose column a beat moves makes the beat rewrite them all. What is
-- dispatched or runs is no more than the workers have slots: the sweepers find it in `task_node_slot` and `task_node_long`.
DROP INDEX task_node_unclaimed;
DROP INDEX task_node_lease;
-- One index for all nodes of a task, and for names: of those that were not superseded, each is there once.
DROP INDEX task_node_of_task;
DROP INDEX task_node_name;
CREATE UNIQUE INDEX task_node_name ON task_node (task_id, name, superseded_at) NULLS NOT DISTINCT;
