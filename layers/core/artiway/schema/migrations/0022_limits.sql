-- Limits that act on the fair queue: nodes of one user at once, nodes of one model at once; and workers that drain.

-- NULL is no limit. The first holds for each user of the tenant, the second for one user instead of it.
ALTER TABLE tenant ADD COLUMN user_concurrency integer CHECK (user_concurrency BETWEEN 0 AND 100000);
ALTER TABLE app_user ADD COLUMN concurrency integer CHECK (concurrency BETWEEN 0 AND 100000);
ALTER TABLE app_user ADD COLUMN concurrency_set_at timestamptz;

-- The scheduler reads changes of the last minute every two seconds, and all values for a rebuild.
CREATE INDEX tenant_changed ON tenant (updated_at);
CREATE INDEX app_user_concurrency_set ON app_user (concurrency_set_at) WHERE concurrency_set_at IS NOT NULL;
CREATE INDEX app_user_concurrency ON app_user (tenant_id) WHERE concurrency IS NOT NULL;

-- A tenant changes its own name and the limit of its users, nothing else of its row.
GRANT UPDATE (name, user_concurrency, updated_at) ON tenant TO artiway_app;
GRANT UPDATE (user_concurrency) ON tenant TO artiway_service;
GRANT SELECT (concurrency), UPDATE (concurrency, concurrency_set_at) ON app_user TO artiway_app;

CREATE OR REPLACE VIEW tenant_policy WITH (security_invoker = true) AS
SELECT tenant_id, tier, status, priority,
       coalesce(tenant.weight, tier.weight) AS weight,
       coalesce(tenant.concurrency, tier.concurrency) AS concurrency,
       coalesce(tenant.queue_depth, tier.queue_depth) AS queue_depth,
       coalesce(tenant.rate_per_second, tier.rate_per_second) AS rate_per_second,
       coalesce(tenant.burst, 2 * tenant.rate_per_second, tier.burst) AS burst,
       coalesce(tenant.artefact_days, tier.artefact_days) AS artefact_days,
       CASE WHEN tenant.status = 'ACTIVE' THEN coalesce(tenant.concurrency, tier.concurrency) ELSE 0 END AS cap,
       tenant.user_concurrency
  FROM tenant JOIN tier_default AS tier USING (tier);

-- A model without a row has no limit. The models are those of the catalogue.
CREATE TABLE model_setting (
    model       text PRIMARY KEY CHECK (length(model) BETWEEN 1 AND 64),
    max_running integer NOT NULL CHECK (max_running BETWEEN 0 AND 1000000),
    updated_at  timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE model_setting ENABLE ROW LEVEL SECURITY;
ALTER TABLE model_setting FORCE ROW LEVEL SECURITY;
CREATE POLICY all_rows ON model_setting TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON model_setting TO artiway_service;

-- Set by an operator. The worker's next heartbeat is answered with it, and its slots count no longer.
ALTER TABLE worker ADD COLUMN drain_at timestamptz;
