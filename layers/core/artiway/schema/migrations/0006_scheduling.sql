-- Tasks, their nodes and what may become of them; lanes and workers. Slots are not counted anywhere: they are the rows
-- of `slot_in_use`, so that they change in the transaction that changes the node and cannot leak.

-- Reference data is a view of constants: no role can change it, a migration can. A share is a percentage of the pool's
-- slots; the depth limit counts waiting nodes, and a submission beyond it is refused.
CREATE VIEW lane_default WITH (security_invoker = true) AS
SELECT *
  FROM (VALUES
        ('enterprise_exclusive'::text, 'enterprise'::text, NULL::integer, 10000),
        ('vip_short',    'gpu',  NULL, 10000),
        ('vip_long',     'gpu',  50,   10000),
        ('free_default', 'gpu',  50,   10000),
        ('paid_stream',  'text', NULL, 10000),
        ('free_stream',  'text', NULL, 10000),
        ('paid_batch',   'text', NULL, 10000),
        ('free_batch',   'text', NULL, 10000),
        ('paid_vision',  'text', NULL, 10000),
        ('free_vision',  'text', NULL, 10000)
       ) AS lane (lane, pool, share_percent, depth_limit);

-- What an operator set otherwise, at run time; NULL is the default.
CREATE TABLE lane_setting (
    lane          text PRIMARY KEY,
    is_paused     boolean NOT NULL DEFAULT false,
    parallelism   integer CHECK (parallelism BETWEEN 0 AND 1000000),
    share_percent integer CHECK (share_percent BETWEEN 1 AND 100),
    depth_limit   integer CHECK (depth_limit BETWEEN 0 AND 1000000),
    updated_at    timestamptz NOT NULL DEFAULT now()
);

ALTER TABLE lane_setting ENABLE ROW LEVEL SECURITY;
ALTER TABLE lane_setting FORCE ROW LEVEL SECURITY;
CREATE POLICY readable ON lane_setting FOR SELECT TO artiway_app USING (true);
CREATE POLICY all_rows ON lane_setting TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT ON lane_setting TO artiway_app;
GRANT SELECT, INSERT, UPDATE ON lane_setting TO artiway_service;

CREATE VIEW lane_policy WITH (security_invoker = true) AS
SELECT base.lane,
       base.pool,
       coalesce(setting.is_paused, false) AS is_paused,
       setting.parallelism,
       coalesce(setting.share_percent, base.share_percent) AS share_percent,
       coalesce(setting.depth_limit, base.depth_limit) AS depth_limit
  FROM lane_default AS base
  LEFT JOIN lane_setting AS setting USING (lane);
GRANT SELECT ON lane_default, lane_policy TO artiway_app, artiway_service;

-- Who serves which types, as they announce themselves. Times are the database's.
CREATE TABLE worker (
    worker_id     text PRIMARY KEY CHECK (length(worker_id) BETWEEN 1 AND 200),
    pool          text NOT NULL,
    types         text[] NOT NULL CHECK (cardinality(types) BETWEEN 1 AND 32),
    -- None while it finishes what it holds before it leaves.
    slots         integer NOT NULL CHECK (slots BETWEEN 0 AND 1000),
    engine        text NOT NULL DEFAULT '' CHECK (length(engine) <= 100),
    registered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    beat_at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX worker_beat ON worker (beat_at);

ALTER TABLE worker ENABLE ROW LEVEL SECURITY;
ALTER TABLE worker FORCE ROW LEVEL SECURITY;
CREATE POLICY all_rows ON worker TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON worker TO artiway_service;

CREATE TABLE task (
    tenant_id           uuid NOT NULL,
    task_id             uuid NOT NULL,
    user_id             uuid NOT NULL,
    tool                text NOT NULL CHECK (length(tool) BETWEEN 1 AND 64),
    name                text NOT NULL DEFAULT '' CHECK (length(name) <= 200),
    status              text NOT NULL DEFAULT 'QUEUED'
                        CHECK (status IN ('QUEUED', 'PROCESSING', 'COMPLETED', 'PARTIAL', 'FAILED', 'CANCELLED')),
    -- 1, and one more with each retry by the user. A run has a hold and an execution of its own.
    run                 integer NOT NULL DEFAULT 1 CHECK (run BETWEEN 1 AND 1000),
    hold_id             uuid NOT NULL,
    lane                text NOT NULL,
    pool                text NOT NULL,
    params              jsonb NOT NULL DEFAULT '{}',
    price_points        bigint NOT NULL CHECK (price_points > 0),
    charged_points      bigint NOT NULL DEFAULT 0 CHECK (charged_points BETWEEN 0 AND price_points),
    webhook_url         text CHECK (length(webhook_url) <= 2000),
    -- Counts the task's events; raised under the row's lock, so that their order is the order of commits.
    event_sequence      bigint NOT NULL DEFAULT 0,
    error               jsonb,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at          timestamptz,
    ended_at            timestamptz,
    -- When Step Functions was last asked to run it. Asking again is harmless: the execution's name is the task's id.
    execution_asked_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    cancel_requested_at timestamptz,
    PRIMARY KEY (tenant_id, task_id),
    UNIQUE (task_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES app_user,
    CHECK ((status IN ('COMPLETED', 'PARTIAL', 'FAILED', 'CANCELLED')) = (ended_at IS NOT NULL))
);
-- The tenant's depth, which is small by definition.
CREATE INDEX task_live ON task (tenant_id) WHERE ended_at IS NULL;
CREATE INDEX task_of_user ON task (tenant_id, user_id, task_id);
CREATE INDEX task_ended ON task (tenant_id, ended_at) WHERE ended_at IS NOT NULL;
-- Sweeper: live tasks whose execution was last asked for long ago.
CREATE INDEX task_execution ON task (execution_asked_at) WHERE ended_at IS NULL;

ALTER TABLE task ENABLE ROW LEVEL SECURITY;
ALTER TABLE task FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON task TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON task TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON task TO artiway_app;
GRANT UPDATE (status, run, hold_id, charged_points, event_sequence, error, started_at, ended_at, execution_asked_at,
              cancel_requested_at) ON task TO artiway_app;
GRANT SELECT ON task TO artiway_service;
GRANT UPDATE (execution_asked_at) ON task TO artiway_service;

-- R-TSK-5. Reference data is a view of constants: no role can change it.
CREATE VIEW node_transition WITH (security_invoker = true) AS
SELECT *
  FROM (VALUES ('PENDING'::text, 'QUEUED'::text), ('PENDING', 'CANCELLED'),
               ('QUEUED', 'PROCESSING'), ('QUEUED', 'CANCELLED'), ('QUEUED', 'TIMEOUT'),
               ('PROCESSING', 'COMPLETED'), ('PROCESSING', 'FAILED'), ('PROCESSING', 'TIMEOUT'), ('PROCESSING', 'CANCELLED'),
               ('FAILED', 'PENDING'), ('TIMEOUT', 'PENDING')) AS legal (from_status, to_status);
GRANT SELECT ON node_transition TO artiway_app, artiway_service;

CREATE TABLE task_node (
    tenant_id     uuid NOT NULL,
    node_id       uuid NOT NULL,
    task_id       uuid NOT NULL,
    user_id       uuid NOT NULL,
    -- Place in the topological order, and the name inside the task.
    position      integer NOT NULL CHECK (position >= 0),
    name          text NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    type          text NOT NULL CHECK (type IN ('cutout', 'model', 'compose', 'extend', 'hd_fix')),
    step          text NOT NULL,
    model         text NOT NULL DEFAULT '',
    lane          text NOT NULL,
    pool          text NOT NULL,
    params        jsonb NOT NULL DEFAULT '{}',
    -- [{name, key, contentType} | {name, node, output}]: an upload, or what another node of the task makes.
    inputs        jsonb NOT NULL DEFAULT '[]',
    cost_us       bigint NOT NULL CHECK (cost_us > 0),
    price_points  bigint NOT NULL DEFAULT 0 CHECK (price_points >= 0),
    is_result     boolean NOT NULL,
    is_charged    boolean NOT NULL DEFAULT false,
    status        text NOT NULL DEFAULT 'PENDING'
                  CHECK (status IN ('PENDING', 'QUEUED', 'PROCESSING', 'COMPLETED', 'FAILED', 'TIMEOUT', 'CANCELLED')),
    version       integer NOT NULL DEFAULT 0,
    -- The fencing token. It rises at dispatch and nowhere else.
    attempt       integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    -- Failed tries of this run; what was handed back does not count.
    failures      integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    in_degree     integer NOT NULL CHECK (in_degree >= 0),
    not_before    timestamptz NOT NULL DEFAULT clock_timestamp(),
    ready_at      timestamptz,
    -- Set: holds a slot and is on a work queue. With it: what the fair queue charged, and the tag that won.
    dispatched_at timestamptz,
    charged_us    bigint,
    tag_us        bigint,
    -- When the work message was last sent.
    hinted_at     timestamptz,
    started_at    timestamptz,
    lease_until   timestamptz,
    worker_id     text,
    progress      smallint NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 100),
    progress_at   timestamptz,
    gpu_us        bigint CHECK (gpu_us >= 0),
    output        jsonb NOT NULL DEFAULT '[]',
    engine        jsonb,
    error         jsonb,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at      timestamptz,
    -- A retry of the task puts a new node in the place of one that was cancelled, which has no way back.
    superseded_at timestamptz,
    PRIMARY KEY (tenant_id, node_id),
    UNIQUE (node_id),
    FOREIGN KEY (tenant_id, task_id) REFERENCES task,
    CHECK (status NOT IN ('QUEUED', 'PROCESSING', 'COMPLETED') OR in_degree = 0),
    CHECK (status <> 'PENDING' OR dispatched_at IS NULL),
    CHECK (status <> 'QUEUED' OR ready_at IS NOT NULL),
    CHECK ((status = 'PROCESSING') = (lease_until IS NOT NULL)),
    CHECK (status <> 'PROCESSING' OR (dispatched_at IS NOT NULL AND worker_id IS NOT NULL AND attempt > 0)),
    CHECK ((status IN ('COMPLETED', 'FAILED', 'TIMEOUT', 'CANCELLED')) = (ended_at IS NOT NULL)),
    CHECK (superseded_at IS NULL OR status = 'CANCELLED'),
    CHECK (NOT is_charged OR status = 'COMPLETED')
);
CREATE UNIQUE INDEX task_node_name ON task_node (task_id, name) WHERE superseded_at IS NULL;
CREATE INDEX task_node_of_task ON task_node (tenant_id, task_id, position);
-- One partial index for each sweeper: what it looks for is all that the index holds.
CREATE INDEX task_node_unready ON task_node (not_before) WHERE status = 'PENDING' AND in_degree = 0;
CREATE INDEX task_node_waiting ON task_node (pool, ready_at) WHERE status = 'QUEUED' AND dispatched_at IS NULL;
CREATE INDEX task_node_unclaimed ON task_node (hinted_at) WHERE status = 'QUEUED' AND dispatched_at IS NOT NULL;
CREATE INDEX task_node_lease ON task_node (lease_until) WHERE status = 'PROCESSING';
CREATE INDEX task_node_long ON task_node (started_at) WHERE status = 'PROCESSING';
CREATE INDEX task_node_slot ON task_node (pool) WHERE status IN ('QUEUED', 'PROCESSING') AND dispatched_at IS NOT NULL;
CREATE INDEX task_node_depth ON task_node (lane) WHERE status IN ('PENDING', 'QUEUED');
CREATE INDEX task_node_ended ON task_node (pool, ended_at) WHERE ended_at IS NOT NULL;

ALTER TABLE task_node ENABLE ROW LEVEL SECURITY;
ALTER TABLE task_node FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON task_node TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON task_node TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON task_node TO artiway_app;
GRANT UPDATE (is_charged, status, version, failures, in_degree, not_before, ready_at, dispatched_at, charged_us, tag_us,
              hinted_at, started_at, lease_until, worker_id, progress, progress_at, gpu_us, output, engine, error, ended_at,
              superseded_at) ON task_node TO artiway_app;
GRANT SELECT ON task_node TO artiway_service;
-- The service role alone dispatches, so it alone can raise the attempt.
GRANT UPDATE (status, version, attempt, ready_at, dispatched_at, charged_us, tag_us, hinted_at, lease_until)
    ON task_node TO artiway_service;

CREATE VIEW slot_in_use WITH (security_invoker = true) AS
SELECT node_id, tenant_id, user_id, task_id, pool, lane, type, model, cost_us, charged_us, tag_us, status, worker_id
  FROM task_node
 WHERE status IN ('QUEUED', 'PROCESSING') AND dispatched_at IS NOT NULL;
GRANT SELECT ON slot_in_use TO artiway_app, artiway_service;

CREATE TABLE node_dependency (
    tenant_id     uuid NOT NULL,
    node_id       uuid NOT NULL,
    depends_on_id uuid NOT NULL CHECK (depends_on_id <> node_id),
    PRIMARY KEY (tenant_id, node_id, depends_on_id),
    FOREIGN KEY (tenant_id, node_id) REFERENCES task_node,
    FOREIGN KEY (tenant_id, depends_on_id) REFERENCES task_node
);
CREATE INDEX node_dependency_dependents ON node_dependency (tenant_id, depends_on_id);

ALTER TABLE node_dependency ENABLE ROW LEVEL SECURITY;
ALTER TABLE node_dependency FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON node_dependency TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY readable ON node_dependency FOR SELECT TO artiway_service USING (true);
GRANT SELECT, INSERT ON node_dependency TO artiway_app;
GRANT SELECT ON node_dependency TO artiway_service;

-- Append-only. Written by the trigger below, so that no statement can forget it.
CREATE TABLE node_history (
    tenant_id   uuid NOT NULL,
    node_id     uuid NOT NULL,
    version     integer NOT NULL,
    from_status text,
    to_status   text NOT NULL,
    attempt     integer NOT NULL,
    worker_id   text,
    reason      text,
    changed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, node_id, version),
    FOREIGN KEY (tenant_id, node_id) REFERENCES task_node
);

ALTER TABLE node_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE node_history FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON node_history TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON node_history TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON node_history TO artiway_app, artiway_service;

CREATE FUNCTION keep_node_history() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    illegal text;
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO node_history (tenant_id, node_id, version, from_status, to_status, attempt)
        SELECT tenant_id, node_id, version, NULL, status, attempt FROM after_rows;
        RETURN NULL;
    END IF;
    SELECT format('%s -> %s (version %s -> %s)', b.status, a.status, b.version, a.version) INTO illegal
      FROM before_rows b JOIN after_rows a USING (node_id)
     WHERE (a.status <> b.status
            AND (a.version <> b.version + 1
                 OR NOT EXISTS (SELECT FROM node_transition t WHERE t.from_status = b.status AND t.to_status = a.status)))
        OR a.version NOT IN (b.version, b.version + 1)
        OR a.attempt <> b.attempt AND (a.attempt <> b.attempt + 1 OR b.dispatched_at IS NOT NULL OR a.dispatched_at IS NULL)
     LIMIT 1;
    IF illegal IS NOT NULL THEN
        RAISE EXCEPTION 'illegal change of a node: %', illegal USING ERRCODE = 'check_violation', TABLE = 'task_node';
    END IF;
    INSERT INTO node_history (tenant_id, node_id, version, from_status, to_status, attempt, worker_id, reason)
    SELECT a.tenant_id, a.node_id, a.version, b.status, a.status, a.attempt, coalesce(a.worker_id, b.worker_id), a.error ->> 'code'
      FROM before_rows b JOIN after_rows a USING (node_id)
     WHERE a.version <> b.version;
    RETURN NULL;
END
$$;

CREATE TRIGGER node_created AFTER INSERT ON task_node
    REFERENCING NEW TABLE AS after_rows FOR EACH STATEMENT EXECUTE FUNCTION keep_node_history();
CREATE TRIGGER node_changed AFTER UPDATE ON task_node
    REFERENCING OLD TABLE AS before_rows NEW TABLE AS after_rows FOR EACH STATEMENT EXECUTE FUNCTION keep_node_history();

-- What Step Functions waits on. A restarted execution brings new tokens; each is answered once.
CREATE TABLE node_token (
    tenant_id   uuid NOT NULL,
    token_id    uuid NOT NULL,
    node_id     uuid NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('gate', 'ready')),
    token       text NOT NULL CHECK (length(token) BETWEEN 1 AND 2048),
    issued_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When its answer was put into the outbox.
    answered_at timestamptz,
    PRIMARY KEY (tenant_id, token_id),
    UNIQUE (node_id, token),
    FOREIGN KEY (tenant_id, node_id) REFERENCES task_node
);
CREATE INDEX node_token_unanswered ON node_token (node_id) WHERE answered_at IS NULL;
CREATE INDEX node_token_age ON node_token (issued_at) WHERE answered_at IS NULL;

ALTER TABLE node_token ENABLE ROW LEVEL SECURITY;
ALTER TABLE node_token FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON node_token TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON node_token TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON node_token TO artiway_app, artiway_service;
GRANT UPDATE (answered_at) ON node_token TO artiway_app, artiway_service;

-- What happened to a task, in order. Redis has a copy for those who listen; this one fills its gaps.
CREATE TABLE task_event (
    tenant_id uuid NOT NULL,
    task_id   uuid NOT NULL,
    sequence  bigint NOT NULL,
    event     text NOT NULL,
    body      jsonb NOT NULL,
    PRIMARY KEY (tenant_id, task_id, sequence),
    FOREIGN KEY (tenant_id, task_id) REFERENCES task
);

ALTER TABLE task_event ENABLE ROW LEVEL SECURITY;
ALTER TABLE task_event FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON task_event TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON task_event TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON task_event TO artiway_app, artiway_service;
