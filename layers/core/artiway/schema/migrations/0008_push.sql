-- How far each socket has been told, so that it hears every change once and in order however messages travel.

ALTER TABLE websocket_connection
    ADD COLUMN session_id    uuid,
    ADD COLUMN told          bigint NOT NULL DEFAULT 0 CHECK (told >= 0),
    ADD COLUMN is_greeted    boolean NOT NULL DEFAULT false,
    ADD COLUMN posting       bigint,
    ADD COLUMN posting_until timestamptz,
    ADD COLUMN closed_at     timestamptz,
    ADD CONSTRAINT posting_has_an_end CHECK ((posting IS NULL) = (posting_until IS NULL));

-- Who is connected has heard what there was.
UPDATE websocket_connection SET is_greeted = true, told = coalesce((SELECT max(outbox_id) FROM outbox), 0);

GRANT UPDATE (told, is_greeted, posting, posting_until, closed_at) ON websocket_connection TO artiway_service;

-- What a user is to hear, in its order; kept for as long as the outbox keeps what was sent.
CREATE INDEX outbox_news ON outbox (tenant_id, aggregate, outbox_id) WHERE destination = 'push';
