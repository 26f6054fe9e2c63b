-- Chained texts: the two stages share one row, so that they have one hold, one stream and one end. `chain` has the lane and
-- the tokens of the second stage and, once the first has delivered (`found`), its result and usage. Null: a text of one stage.

ALTER TABLE generation ADD COLUMN chain jsonb
    CHECK (jsonb_typeof(chain) = 'object' AND chain ?& ARRAY['dependency', 'reservedTokens', 'lane', 'inputTokens', 'maxTokens']);
-- The row has the lane and the tokens of the stage that it is in.
GRANT UPDATE (lane, input_tokens, max_tokens, chain) ON generation TO artiway_app;
