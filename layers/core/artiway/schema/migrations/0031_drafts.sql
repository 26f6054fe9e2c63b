-- Drafts: results of a step that needs a network, made without one.

-- The steps that a worker serves with a network. A worker of the release before reports none.
ALTER TABLE worker ADD COLUMN neural text[] NOT NULL DEFAULT '{}' CHECK (cardinality(neural) <= 200);

-- Whether the submitter was shown a draft: decided with the price, at submission.
ALTER TABLE task ADD COLUMN is_draft boolean NOT NULL DEFAULT false;
