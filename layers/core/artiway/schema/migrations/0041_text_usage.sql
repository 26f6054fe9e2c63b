-- The margin of texts: what providers cost and what users were charged, by day (UTC), user, service and model. The rows are
-- added to in the transaction that ends an attempt, so they agree with the ledger, and the report reads no history of texts.
-- The release before adds nothing: its attempts are missing from the report.

CREATE TABLE text_usage (
    day              date NOT NULL,
    tenant_id        uuid NOT NULL,
    user_id          uuid NOT NULL,
    service          text NOT NULL CHECK (length(service) BETWEEN 1 AND 64),
    -- Both empty: no model was asked.
    provider         text NOT NULL CHECK (length(provider) <= 100),
    model_id         text NOT NULL CHECK (length(model_id) <= 200),
    -- Calls of the model, with the tokens that the provider counted or, where it did not, that were estimated.
    calls            bigint NOT NULL CHECK (calls >= 0),
    estimated_calls  bigint NOT NULL CHECK (estimated_calls BETWEEN 0 AND calls),
    input_tokens     bigint NOT NULL CHECK (input_tokens >= 0),
    output_tokens    bigint NOT NULL CHECK (output_tokens >= 0),
    estimated_tokens bigint NOT NULL CHECK (estimated_tokens BETWEEN 0 AND input_tokens + output_tokens),
    cost_points      numeric NOT NULL CHECK (cost_points >= 0),
    -- Texts that ended, and what was charged for them.
    completed        bigint NOT NULL CHECK (completed >= 0),
    failed           bigint NOT NULL CHECK (failed >= 0),
    cancelled        bigint NOT NULL CHECK (cancelled >= 0),
    free_texts       bigint NOT NULL CHECK (free_texts BETWEEN 0 AND completed + failed + cancelled),
    charged_points   bigint NOT NULL CHECK (charged_points >= 0),
    PRIMARY KEY (day, tenant_id, user_id, service, provider, model_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES app_user
) WITH (fillfactor = 80);

ALTER TABLE text_usage ENABLE ROW LEVEL SECURITY;
ALTER TABLE text_usage FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON text_usage TO artiway_app
    USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY all_rows ON text_usage TO artiway_service USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON text_usage TO artiway_app;
GRANT UPDATE (calls, estimated_calls, input_tokens, output_tokens, estimated_tokens, cost_points, completed, failed, cancelled,
              free_texts, charged_points) ON text_usage TO artiway_app;
GRANT SELECT, DELETE ON text_usage TO artiway_service;

-- What the model of the running attempt costs us for 1,000 tokens: the worker knows it, and may be lost.
-- Without a CHECK, which would read the whole table under its lock.
ALTER TABLE generation ADD COLUMN input_cost numeric NOT NULL DEFAULT 0, ADD COLUMN output_cost numeric NOT NULL DEFAULT 0;
GRANT UPDATE (input_cost, output_cost) ON generation TO artiway_service;
