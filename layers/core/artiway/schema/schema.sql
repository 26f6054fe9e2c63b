-- The schema as the migrations leave it. Written by `make schema`; a test keeps it true.
CREATE FUNCTION public.current_tenant() RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT nullif(current_setting('app.tenant_id', true), '')::uuid $$;

CREATE TABLE public.outbox (
    outbox_id bigint NOT NULL,
    tenant_id uuid,
    aggregate text NOT NULL,
    destination text NOT NULL,
    body text NOT NULL,
    delay_s smallint DEFAULT 0 NOT NULL,
    trace_id text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    sent_at timestamp with time zone,
    CONSTRAINT outbox_aggregate_check CHECK ((aggregate <> ''::text)),
    CONSTRAINT outbox_body_check CHECK ((octet_length(body) <= 262144)),
    CONSTRAINT outbox_delay_s_check CHECK (((delay_s >= 0) AND (delay_s <= 900))),
    CONSTRAINT outbox_destination_check CHECK ((destination <> ''::text))
);

ALTER TABLE ONLY public.outbox FORCE ROW LEVEL SECURITY;

ALTER TABLE public.outbox ALTER COLUMN outbox_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.outbox_outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.websocket_connection (
    connection_id text NOT NULL,
    tenant_id uuid NOT NULL,
    user_id uuid NOT NULL,
    connected_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT websocket_connection_connection_id_check CHECK ((connection_id <> ''::text))
);

ALTER TABLE ONLY public.websocket_connection FORCE ROW LEVEL SECURITY;

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (outbox_id);

ALTER TABLE ONLY public.websocket_connection
    ADD CONSTRAINT websocket_connection_pkey PRIMARY KEY (connection_id);

CREATE INDEX outbox_sent ON public.outbox USING btree (sent_at) WHERE (sent_at IS NOT NULL);

CREATE INDEX outbox_unsent_by_age ON public.outbox USING btree (created_at) WHERE (sent_at IS NULL);

CREATE INDEX outbox_unsent_by_aggregate ON public.outbox USING btree (aggregate, outbox_id) WHERE (sent_at IS NULL);

CREATE INDEX websocket_connection_expiry ON public.websocket_connection USING btree (expires_at);

CREATE INDEX websocket_connection_of_user ON public.websocket_connection USING btree (tenant_id, user_id);

CREATE POLICY all_rows ON public.outbox TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.websocket_connection TO artiway_service USING (true) WITH CHECK (true);

ALTER TABLE public.outbox ENABLE ROW LEVEL SECURITY;

CREATE POLICY tenant_rows ON public.outbox TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.websocket_connection TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

ALTER TABLE public.websocket_connection ENABLE ROW LEVEL SECURITY;

GRANT USAGE ON SCHEMA public TO artiway_app;

GRANT USAGE ON SCHEMA public TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.outbox TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.outbox TO artiway_service;

GRANT UPDATE(sent_at) ON TABLE public.outbox TO artiway_app;

GRANT UPDATE(sent_at) ON TABLE public.outbox TO artiway_service;

GRANT SELECT ON TABLE public.websocket_connection TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.websocket_connection TO artiway_service;
