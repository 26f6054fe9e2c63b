-- The schema as the migrations leave it. Written by `make schema`; a test keeps it true.
CREATE FUNCTION public.current_tenant() RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT nullif(current_setting('app.tenant_id', true), '')::uuid $$;

CREATE TABLE public.api_key (
    tenant_id uuid NOT NULL,
    key_id uuid NOT NULL,
    user_id uuid NOT NULL,
    name text NOT NULL,
    permissions text[] NOT NULL,
    secret_hash bytea NOT NULL,
    is_signed boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    CONSTRAINT api_key_name_check CHECK (((length(name) >= 1) AND (length(name) <= 100))),
    CONSTRAINT api_key_permissions_check CHECK ((cardinality(permissions) <= 64)),
    CONSTRAINT api_key_secret_hash_check CHECK ((octet_length(secret_hash) = 32))
);

ALTER TABLE ONLY public.api_key FORCE ROW LEVEL SECURITY;

CREATE TABLE public.api_key_nonce (
    tenant_id uuid NOT NULL,
    key_id uuid NOT NULL,
    nonce text NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT api_key_nonce_nonce_check CHECK (((length(nonce) >= 8) AND (length(nonce) <= 128)))
);

ALTER TABLE ONLY public.api_key_nonce FORCE ROW LEVEL SECURITY;

CREATE TABLE public.app_user (
    tenant_id uuid NOT NULL,
    user_id uuid NOT NULL,
    email text,
    phone text,
    password_hash text,
    status text DEFAULT 'ACTIVE'::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT app_user_email_check CHECK (((email = lower(email)) AND ((length(email) >= 3) AND (length(email) <= 254)))),
    CONSTRAINT app_user_phone_check CHECK ((phone ~ '^\+[0-9]{6,15}$'::text)),
    CONSTRAINT app_user_status_check CHECK ((status = ANY (ARRAY['ACTIVE'::text, 'DISABLED'::text])))
);

ALTER TABLE ONLY public.app_user FORCE ROW LEVEL SECURITY;

CREATE VIEW public.built_in_role WITH (security_invoker='true') AS
 SELECT name,
    string_to_array(permissions, ' '::text) AS permissions,
    (name = 'platform_admin'::text) AS is_platform
   FROM ( VALUES ('owner'::text,'task.submit task.read task.cancel points.read points.transfer order.create order.refund job.write job.run job.ops user.manage'::text), ('admin'::text,'task.submit task.read task.cancel points.read points.transfer order.create job.write job.run job.ops user.manage'::text), ('operator'::text,'task.submit task.read task.cancel points.read job.write job.run job.ops'::text), ('member'::text,'task.submit task.read task.cancel points.read order.create'::text), ('viewer'::text,'task.read points.read'::text), ('platform_admin'::text,'task.submit task.read task.cancel points.read points.grant points.transfer order.create order.refund job.write job.run job.ops user.manage tenant.manage ops.read ops.write'::text)) role(name, permissions);

CREATE TABLE public.login_event (
    tenant_id uuid NOT NULL,
    login_id uuid NOT NULL,
    user_id uuid NOT NULL,
    method text NOT NULL,
    address text NOT NULL,
    location text NOT NULL,
    logged_at timestamp with time zone NOT NULL,
    CONSTRAINT login_event_address_check CHECK ((length(address) <= 64)),
    CONSTRAINT login_event_location_check CHECK ((length(location) <= 200)),
    CONSTRAINT login_event_method_check CHECK ((method = ANY (ARRAY['register'::text, 'password'::text, 'wechat_mini'::text, 'wechat_web'::text])))
);

ALTER TABLE ONLY public.login_event FORCE ROW LEVEL SECURITY;

CREATE TABLE public.login_failure (
    subject bytea NOT NULL,
    failures integer NOT NULL,
    last_at timestamp with time zone NOT NULL,
    blocked_until timestamp with time zone NOT NULL,
    CONSTRAINT login_failure_failures_check CHECK ((failures >= 0)),
    CONSTRAINT login_failure_subject_check CHECK ((octet_length(subject) = 32))
);

ALTER TABLE ONLY public.login_failure FORCE ROW LEVEL SECURITY;

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

CREATE TABLE public.refresh_token (
    token_hash bytea NOT NULL,
    tenant_id uuid NOT NULL,
    session_id uuid NOT NULL,
    issued_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone,
    CONSTRAINT refresh_token_token_hash_check CHECK ((octet_length(token_hash) = 32))
);

ALTER TABLE ONLY public.refresh_token FORCE ROW LEVEL SECURITY;

CREATE TABLE public.session (
    tenant_id uuid NOT NULL,
    session_id uuid NOT NULL,
    user_id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone,
    revoked_reason text,
    CONSTRAINT session_check CHECK (((revoked_at IS NULL) = (revoked_reason IS NULL))),
    CONSTRAINT session_revoked_reason_check CHECK ((revoked_reason = ANY (ARRAY['logout'::text, 'reuse'::text, 'disabled'::text, 'password'::text])))
);

ALTER TABLE ONLY public.session FORCE ROW LEVEL SECURITY;

CREATE TABLE public.tenant (
    tenant_id uuid NOT NULL,
    name text NOT NULL,
    tier text DEFAULT 'free'::text NOT NULL,
    status text DEFAULT 'ACTIVE'::text NOT NULL,
    is_platform boolean DEFAULT false NOT NULL,
    weight integer,
    concurrency integer,
    queue_depth integer,
    rate_per_second integer,
    burst integer,
    artefact_days integer,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT tenant_artefact_days_check CHECK (((artefact_days >= 1) AND (artefact_days <= 180))),
    CONSTRAINT tenant_burst_check CHECK (((burst >= 1) AND (burst <= 2000000))),
    CONSTRAINT tenant_concurrency_check CHECK (((concurrency >= 0) AND (concurrency <= 100000))),
    CONSTRAINT tenant_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT tenant_queue_depth_check CHECK (((queue_depth >= 0) AND (queue_depth <= 1000000))),
    CONSTRAINT tenant_rate_per_second_check CHECK (((rate_per_second >= 1) AND (rate_per_second <= 1000000))),
    CONSTRAINT tenant_status_check CHECK ((status = ANY (ARRAY['ACTIVE'::text, 'SUSPENDED'::text]))),
    CONSTRAINT tenant_tier_check CHECK ((tier = ANY (ARRAY['enterprise'::text, 'vip'::text, 'standard'::text, 'free'::text]))),
    CONSTRAINT tenant_weight_check CHECK (((weight >= 1) AND (weight <= 1000)))
);

ALTER TABLE ONLY public.tenant FORCE ROW LEVEL SECURITY;

CREATE VIEW public.tier_default WITH (security_invoker='true') AS
 SELECT tier,
    weight,
    concurrency,
    queue_depth,
    priority,
    rate_per_second,
    burst,
    artefact_days
   FROM ( VALUES ('enterprise'::text,10,50,500,'CRITICAL'::text,100,200,180), ('vip'::text,5,20,100,'HIGH'::text,50,100,30), ('standard'::text,2,5,30,'NORMAL'::text,20,40,15), ('free'::text,1,2,10,'LOW'::text,5,10,3)) tier(tier, weight, concurrency, queue_depth, priority, rate_per_second, burst, artefact_days);

CREATE VIEW public.tenant_policy WITH (security_invoker='true') AS
 SELECT tenant.tenant_id,
    tenant.tier,
    tenant.status,
    tier.priority,
    COALESCE(tenant.weight, tier.weight) AS weight,
    COALESCE(tenant.concurrency, tier.concurrency) AS concurrency,
    COALESCE(tenant.queue_depth, tier.queue_depth) AS queue_depth,
    COALESCE(tenant.rate_per_second, tier.rate_per_second) AS rate_per_second,
    COALESCE(tenant.burst, (2 * tenant.rate_per_second), tier.burst) AS burst,
    COALESCE(tenant.artefact_days, tier.artefact_days) AS artefact_days
   FROM (public.tenant
     JOIN public.tier_default tier USING (tier));

CREATE TABLE public.tenant_role (
    tenant_id uuid NOT NULL,
    name text NOT NULL,
    permissions text[] NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT tenant_role_name_check CHECK ((name ~ '^[a-z][a-z0-9_-]{1,39}$'::text)),
    CONSTRAINT tenant_role_permissions_check CHECK ((cardinality(permissions) <= 64))
);

ALTER TABLE ONLY public.tenant_role FORCE ROW LEVEL SECURITY;

CREATE TABLE public.user_role (
    tenant_id uuid NOT NULL,
    user_id uuid NOT NULL,
    role text NOT NULL
);

ALTER TABLE ONLY public.user_role FORCE ROW LEVEL SECURITY;

CREATE VIEW public.user_permission WITH (security_invoker='true') AS
 SELECT held.tenant_id,
    held.user_id,
    permission.permission
   FROM (((public.user_role held
     JOIN public.tenant USING (tenant_id))
     JOIN public.built_in_role known ON (((known.name = held.role) AND ((NOT known.is_platform) OR tenant.is_platform))))
     CROSS JOIN LATERAL unnest(known.permissions) permission(permission))
UNION
 SELECT held.tenant_id,
    held.user_id,
    permission.permission
   FROM ((public.user_role held
     JOIN public.tenant_role known ON (((known.tenant_id = held.tenant_id) AND (known.name = held.role))))
     CROSS JOIN LATERAL unnest(known.permissions) permission(permission));

CREATE TABLE public.websocket_connection (
    connection_id text NOT NULL,
    tenant_id uuid NOT NULL,
    user_id uuid NOT NULL,
    connected_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT websocket_connection_connection_id_check CHECK ((connection_id <> ''::text))
);

ALTER TABLE ONLY public.websocket_connection FORCE ROW LEVEL SECURITY;

CREATE TABLE public.wechat_identity (
    appid text NOT NULL,
    openid text NOT NULL,
    unionid text,
    tenant_id uuid NOT NULL,
    user_id uuid NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT wechat_identity_appid_check CHECK (((length(appid) >= 1) AND (length(appid) <= 64))),
    CONSTRAINT wechat_identity_openid_check CHECK (((length(openid) >= 1) AND (length(openid) <= 128))),
    CONSTRAINT wechat_identity_unionid_check CHECK (((length(unionid) >= 1) AND (length(unionid) <= 128)))
);

ALTER TABLE ONLY public.wechat_identity FORCE ROW LEVEL SECURITY;

ALTER TABLE ONLY public.api_key_nonce
    ADD CONSTRAINT api_key_nonce_pkey PRIMARY KEY (tenant_id, key_id, nonce);

ALTER TABLE ONLY public.api_key
    ADD CONSTRAINT api_key_pkey PRIMARY KEY (tenant_id, key_id);

ALTER TABLE ONLY public.app_user
    ADD CONSTRAINT app_user_email_key UNIQUE (email);

ALTER TABLE ONLY public.app_user
    ADD CONSTRAINT app_user_id_key UNIQUE (user_id);

ALTER TABLE ONLY public.app_user
    ADD CONSTRAINT app_user_phone_key UNIQUE (phone);

ALTER TABLE ONLY public.app_user
    ADD CONSTRAINT app_user_pkey PRIMARY KEY (tenant_id, user_id);

ALTER TABLE ONLY public.login_event
    ADD CONSTRAINT login_event_pkey PRIMARY KEY (tenant_id, login_id);

ALTER TABLE ONLY public.login_failure
    ADD CONSTRAINT login_failure_pkey PRIMARY KEY (subject);

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (outbox_id);

ALTER TABLE ONLY public.refresh_token
    ADD CONSTRAINT refresh_token_pkey PRIMARY KEY (token_hash);

ALTER TABLE ONLY public.session
    ADD CONSTRAINT session_pkey PRIMARY KEY (tenant_id, session_id);

ALTER TABLE ONLY public.tenant
    ADD CONSTRAINT tenant_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY public.tenant_role
    ADD CONSTRAINT tenant_role_pkey PRIMARY KEY (tenant_id, name);

ALTER TABLE ONLY public.user_role
    ADD CONSTRAINT user_role_pkey PRIMARY KEY (tenant_id, user_id, role);

ALTER TABLE ONLY public.websocket_connection
    ADD CONSTRAINT websocket_connection_pkey PRIMARY KEY (connection_id);

ALTER TABLE ONLY public.wechat_identity
    ADD CONSTRAINT wechat_identity_pkey PRIMARY KEY (appid, openid);

CREATE INDEX api_key_nonce_expiry ON public.api_key_nonce USING btree (tenant_id, key_id, expires_at);

CREATE INDEX api_key_of_user ON public.api_key USING btree (tenant_id, user_id, key_id);

CREATE INDEX login_event_age ON public.login_event USING btree (logged_at);

CREATE INDEX login_failure_age ON public.login_failure USING btree (last_at);

CREATE INDEX outbox_sent ON public.outbox USING btree (sent_at) WHERE (sent_at IS NOT NULL);

CREATE INDEX outbox_unsent_by_age ON public.outbox USING btree (created_at) WHERE (sent_at IS NULL);

CREATE INDEX outbox_unsent_by_aggregate ON public.outbox USING btree (aggregate, outbox_id) WHERE (sent_at IS NULL);

CREATE UNIQUE INDEX refresh_token_live ON public.refresh_token USING btree (tenant_id, session_id) WHERE (used_at IS NULL);

CREATE INDEX refresh_token_of_session ON public.refresh_token USING btree (tenant_id, session_id);

CREATE INDEX session_expiry ON public.session USING btree (expires_at);

CREATE INDEX session_of_user ON public.session USING btree (tenant_id, user_id) WHERE (revoked_at IS NULL);

CREATE UNIQUE INDEX tenant_platform ON public.tenant USING btree (is_platform) WHERE is_platform;

CREATE INDEX user_role_by_role ON public.user_role USING btree (tenant_id, role);

CREATE INDEX websocket_connection_expiry ON public.websocket_connection USING btree (expires_at);

CREATE INDEX websocket_connection_of_user ON public.websocket_connection USING btree (tenant_id, user_id);

CREATE INDEX wechat_identity_by_unionid ON public.wechat_identity USING btree (unionid) WHERE (unionid IS NOT NULL);

CREATE INDEX wechat_identity_of_user ON public.wechat_identity USING btree (tenant_id, user_id);

ALTER TABLE ONLY public.api_key_nonce
    ADD CONSTRAINT api_key_nonce_tenant_id_key_id_fkey FOREIGN KEY (tenant_id, key_id) REFERENCES public.api_key(tenant_id, key_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.api_key
    ADD CONSTRAINT api_key_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.app_user
    ADD CONSTRAINT app_user_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(tenant_id);

ALTER TABLE ONLY public.login_event
    ADD CONSTRAINT login_event_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.refresh_token
    ADD CONSTRAINT refresh_token_tenant_id_session_id_fkey FOREIGN KEY (tenant_id, session_id) REFERENCES public.session(tenant_id, session_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.session
    ADD CONSTRAINT session_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.tenant_role
    ADD CONSTRAINT tenant_role_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES public.tenant(tenant_id);

ALTER TABLE ONLY public.user_role
    ADD CONSTRAINT user_role_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.wechat_identity
    ADD CONSTRAINT wechat_identity_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES public.app_user(tenant_id, user_id) ON DELETE CASCADE;

CREATE POLICY all_rows ON public.app_user TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.login_event TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.login_failure TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.outbox TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.refresh_token TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.session TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.tenant TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.user_role TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.websocket_connection TO artiway_service USING (true) WITH CHECK (true);

CREATE POLICY all_rows ON public.wechat_identity TO artiway_service USING (true) WITH CHECK (true);

ALTER TABLE public.api_key ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.api_key_nonce ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.app_user ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.login_event ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.login_failure ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.outbox ENABLE ROW LEVEL SECURITY;

CREATE POLICY readable ON public.tenant_role FOR SELECT TO artiway_service USING (true);

ALTER TABLE public.refresh_token ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.session ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.tenant ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.tenant_role ENABLE ROW LEVEL SECURITY;

CREATE POLICY tenant_rows ON public.api_key TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.api_key_nonce TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.app_user TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.login_event FOR SELECT TO artiway_app USING ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.outbox TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.session TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.tenant TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.tenant_role TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.user_role TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.websocket_connection TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

CREATE POLICY tenant_rows ON public.wechat_identity TO artiway_app USING ((tenant_id = public.current_tenant())) WITH CHECK ((tenant_id = public.current_tenant()));

ALTER TABLE public.user_role ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.websocket_connection ENABLE ROW LEVEL SECURITY;

ALTER TABLE public.wechat_identity ENABLE ROW LEVEL SECURITY;

GRANT USAGE ON SCHEMA public TO artiway_app;

GRANT USAGE ON SCHEMA public TO artiway_service;

GRANT SELECT,INSERT,DELETE ON TABLE public.api_key TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.api_key_nonce TO artiway_app;

GRANT INSERT ON TABLE public.app_user TO artiway_app;

GRANT SELECT,INSERT ON TABLE public.app_user TO artiway_service;

GRANT SELECT(tenant_id) ON TABLE public.app_user TO artiway_app;

GRANT SELECT(user_id) ON TABLE public.app_user TO artiway_app;

GRANT SELECT(email) ON TABLE public.app_user TO artiway_app;

GRANT SELECT(phone) ON TABLE public.app_user TO artiway_app;

GRANT UPDATE(password_hash) ON TABLE public.app_user TO artiway_service;

GRANT SELECT(status),UPDATE(status) ON TABLE public.app_user TO artiway_app;

GRANT UPDATE(status) ON TABLE public.app_user TO artiway_service;

GRANT SELECT(created_at) ON TABLE public.app_user TO artiway_app;

GRANT SELECT(updated_at),UPDATE(updated_at) ON TABLE public.app_user TO artiway_app;

GRANT UPDATE(updated_at) ON TABLE public.app_user TO artiway_service;

GRANT SELECT ON TABLE public.built_in_role TO artiway_app;

GRANT SELECT ON TABLE public.built_in_role TO artiway_service;

GRANT SELECT ON TABLE public.login_event TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.login_event TO artiway_service;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.login_failure TO artiway_service;

GRANT SELECT,INSERT ON TABLE public.outbox TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.outbox TO artiway_service;

GRANT UPDATE(sent_at) ON TABLE public.outbox TO artiway_app;

GRANT UPDATE(sent_at) ON TABLE public.outbox TO artiway_service;

GRANT SELECT,INSERT,DELETE ON TABLE public.refresh_token TO artiway_service;

GRANT UPDATE(used_at) ON TABLE public.refresh_token TO artiway_service;

GRANT SELECT ON TABLE public.session TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.session TO artiway_service;

GRANT UPDATE(revoked_at) ON TABLE public.session TO artiway_app;

GRANT UPDATE(revoked_at) ON TABLE public.session TO artiway_service;

GRANT UPDATE(revoked_reason) ON TABLE public.session TO artiway_app;

GRANT UPDATE(revoked_reason) ON TABLE public.session TO artiway_service;

GRANT SELECT ON TABLE public.tenant TO artiway_app;

GRANT SELECT,INSERT ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(name) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(tier) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(status) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(weight) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(concurrency) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(queue_depth) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(rate_per_second) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(burst) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(artefact_days) ON TABLE public.tenant TO artiway_service;

GRANT UPDATE(updated_at) ON TABLE public.tenant TO artiway_service;

GRANT SELECT ON TABLE public.tier_default TO artiway_app;

GRANT SELECT ON TABLE public.tier_default TO artiway_service;

GRANT SELECT ON TABLE public.tenant_policy TO artiway_app;

GRANT SELECT ON TABLE public.tenant_policy TO artiway_service;

GRANT SELECT,INSERT,DELETE ON TABLE public.tenant_role TO artiway_app;

GRANT SELECT ON TABLE public.tenant_role TO artiway_service;

GRANT UPDATE(permissions) ON TABLE public.tenant_role TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.user_role TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.user_role TO artiway_service;

GRANT SELECT ON TABLE public.user_permission TO artiway_app;

GRANT SELECT ON TABLE public.user_permission TO artiway_service;

GRANT SELECT ON TABLE public.websocket_connection TO artiway_app;

GRANT SELECT,INSERT,DELETE ON TABLE public.websocket_connection TO artiway_service;

GRANT SELECT ON TABLE public.wechat_identity TO artiway_app;

GRANT SELECT,INSERT ON TABLE public.wechat_identity TO artiway_service;

GRANT UPDATE(unionid) ON TABLE public.wechat_identity TO artiway_service;
