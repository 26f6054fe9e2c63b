-- What the submitter asked for, beside the parameters: {"inputs": {name: id of the upload}, "count": number of outputs}. A task of
-- the release before has none.
ALTER TABLE task ADD COLUMN request jsonb NOT NULL DEFAULT '{}' CHECK (octet_length(request::text) <= 65536);

-- The accounts that may have risen above the warning level since their notice.
CREATE INDEX points_account_noticed ON points_account (tenant_id) WHERE low_noticed_at IS NOT NULL;
