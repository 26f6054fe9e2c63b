"""Typed settings, read once from the environment. Every number has bounds."""

from __future__ import annotations

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """The settings of all functions. tests/unit/template/test_environment.py checks that each function has its own."""

    model_config = SettingsConfigDict(env_prefix="ARTIWAY_", frozen=True, extra="ignore")

    environment: str = Field(default="local", max_length=32)

    # Addresses contain a user; a password only without IAM authentication.
    database_url: SecretStr = SecretStr("")
    service_database_url: SecretStr = SecretStr("")
    # Host of a replica for reads of operators, with user and options of service_database_url. "off": the writer.
    reader_host: str = Field(default="off", min_length=1, max_length=255)
    owner_database_url: SecretStr = SecretStr("")
    owner_secret_arn: str = ""  # RDS's secret of the owner, for the first migration
    # For the API, which answers 503 within three seconds. Functions without a waiting client set longer ones.
    database_connect_timeout_s: float = Field(default=1, gt=0, le=10)
    database_begin_timeout_s: float = Field(default=1.5, gt=0, le=60)
    database_statement_timeout_ms: int = Field(default=1_800, ge=10, le=600_000)
    database_request_timeout_s: float = Field(default=2.5, gt=0, le=60)  # all waits of a request together

    redis_url: SecretStr = SecretStr("")
    redis_connect_timeout_s: float = Field(default=0.3, gt=0, le=10)
    redis_timeout_s: float = Field(default=0.7, gt=0, le=10)  # more than the feed blocks (TURN_MS)
    redis_rest_s: float = Field(default=2, ge=0, le=60)  # no calls for this long after an unanswered one

    token_jwks: str = ""
    token_key_id: str = ""
    token_issuer: str = "artiway"  # noqa: S105 (a name, not a secret)

    queue_address: str = ""  # of all queues: https://sqs.<region>.amazonaws.com/<account>
    # Destination of a message -> name of its queue: {"lane:vip_short": "…", "work:gpu:cutout": "…"}.
    queues: dict[str, str] = Field(default_factory=dict, max_length=100)
    text_queues: str = ""  # the beginning of the names of the six text lanes; the lane follows
    websocket_endpoint: str = ""

    outbox_sweep_age_s: int = Field(default=10, ge=0, le=600)
    outbox_batch: int = Field(default=500, ge=1, le=10_000)
    relay_pass_interval_s: int = Field(default=5, ge=0, le=60)
    relay_work_s: int = Field(default=50, ge=0, le=600)
    trigger_interval_s: float = Field(default=5, ge=0, le=30)
    trigger_work_s: int = Field(default=55, ge=0, le=600)

    worker_silence_s: int = Field(default=30, ge=5, le=3_600)
    scheduler_prefetch: int = Field(default=1, ge=0, le=100)
    scheduler_window_s: int = Field(default=3_600, ge=60, le=86_400)
    scheduler_cost_samples: int = Field(default=200, ge=20, le=10_000)

    connection_ttl_s: int = Field(default=7_200, ge=60, le=7_200)  # API Gateway ends a WebSocket after two hours
    connection_lease_s: int = Field(default=10, ge=1, le=900)  # no less than the push function may run
    connection_resume_s: int = Field(default=120, ge=0, le=3_600)
    connections_per_user: int = Field(default=10, ge=1, le=100)  # open sockets; the next one is refused with 429
    connections_per_tenant: int = Field(default=200, ge=1, le=1_000)

    task_machine_arn: str = ""
    # Steps with a network in a pool without a live worker; live workers report their own.
    neural_steps: str = Field(default="", max_length=2_000)
    hold_ttl_s: int = Field(default=172_800, ge=3_600, le=30 * 86_400)  # longer than an execution may take
    lane_load_s: float = Field(default=2, ge=0, le=60)
    forecast_s: float = Field(default=2, ge=0, le=60)
    durations_s: float = Field(default=5, ge=0, le=600)
    duration_samples: int = Field(default=500, ge=1, le=5_000)
    duration_window_s: int = Field(default=7 * 86_400, ge=60, le=90 * 86_400)
    lateness_window_s: int = Field(default=600, ge=10, le=86_400)
    node_retries: int = Field(default=3, ge=0, le=10)
    node_backoff_s: float = Field(default=1, ge=0, le=60)
    progress_interval_s: float = Field(default=5, ge=0, le=60)

    artefact_bucket: str = ""
    upload_url_s: int = Field(default=900, ge=60, le=3_600)
    result_url_s: int = Field(default=900, ge=60, le=86_400)
    result_url_step_s: int = Field(default=900, ge=1, le=3_600)  # how long a result keeps one address
    # The key that signs addresses of pictures: its secret, its name there, its id in CloudFront. No id: S3 signs.
    picture_secret_arn: str = ""
    picture_key: str = ""
    picture_key_id: str = ""
    stream_life_ms: int = Field(default=60_000, ge=0, le=600_000)  # no function sees that its viewer left
    events_per_user: int = Field(default=5, ge=1, le=100)  # each open stream holds a function
    events_per_tenant: int = Field(default=20, ge=1, le=1_000)
    events_at_once: int = Field(default=50, ge=1, le=10_000)  # less than the function's concurrency
    chat_life_ms: int = Field(default=280_000, ge=1_000, le=840_000)  # a chat request waits so long for its text
    chats_per_tenant: int = Field(default=20, ge=1, le=1_000)  # open chat requests
    chats_at_once: int = Field(default=50, ge=1, le=10_000)  # less than the function's concurrency
    webhook_timeout_s: float = Field(default=8, gt=0, le=15)  # the function ends after 20
    webhook_limit: int = Field(default=20, ge=1, le=1_000)  # that a tenant can register
    webhook_implied_limit: int = Field(default=100, ge=1, le=10_000)  # of a tenant, named by its tasks
    webhook_pending_limit: int = Field(default=10_000, ge=1, le=100_000)  # deliveries of a tenant
    webhook_tenant_sends: int = Field(
        default=200, ge=1, le=1_000
    )  # at the same time; all consumers together make 1,000
    webhook_tenant_due: int = Field(default=500, ge=1, le=10_000)  # published in one pass of the watchdog
    webhook_lookup_s: float = Field(default=2, gt=0, le=10)  # registering waits no longer for a name server
    # The operator's `host:port,…`: private places that jobs and webhooks may call. None unless listed.
    allowed_targets: str = Field(default="", max_length=4_000)
    outbound_ports: str = Field(default="80,443,8000-8999", max_length=1_000)  # of all other targets

    jobs_key_id: str = Field(default="", max_length=2_048)  # the KMS key of the secrets of jobs, or its ARN

    # The parameter with the dead-letter queues: name -> name of the queue, and the destinations that it serves.
    dead_letters_parameter: str = Field(default="", max_length=2_048)
    dead_letter_lock_s: float = Field(default=60, ge=1, le=600)
    watchdog_interval_s: int = Field(default=20, ge=0, le=25)  # 30 s are promised, and the schedule may be late
    watchdog_work_s: int = Field(default=55, ge=0, le=600)
    health_url: str = Field(default="", max_length=500)  # the health route at the public address
    watchdog_batch: int = Field(default=500, ge=1, le=10_000)
    unclaimed_s: int = Field(default=40, ge=1, le=3_600)
    abandoned_s: int = Field(default=600, ge=10, le=86_400)
    execution_unheard_s: int = Field(default=300, ge=10, le=86_400)
    running_limit_s: int = Field(default=7_200, ge=60, le=86_400)
    requeued_tools: frozenset[str] = frozenset()  # tools whose nodes run again after that, the others fail

    cache_entries: int = Field(default=1_000, ge=1, le=100_000)
    cache_first_level_s: float = Field(default=60, ge=0, le=60)
    cache_sync_s: float = Field(default=1, ge=0, le=60)  # how late another process may see an invalidation
    cache_load_s: float = Field(default=3, gt=0, le=60)
    cache_wait_s: float = Field(default=8, gt=0, le=60)
    cache_warm_up_s: float = Field(default=1, ge=0, le=5)  # of the first request of a process
    retention_batches: int = Field(default=30, ge=1, le=1_000)  # a minute: no fewer keys than the API accepts
    retention_work_s: float = Field(default=45, ge=1, le=240)
    invariant_work_s: float = Field(default=200, ge=1, le=240)
    archive_work_s: float = Field(default=200, ge=1, le=240)

    geo_source_timeout_s: float = Field(default=3, gt=0, le=10)
    geo_limit_s: float = Field(default=4, gt=0, le=20)

    access_token_s: int = Field(default=900, ge=60, le=3_600)
    refresh_idle_s: int = Field(default=7 * 86_400, ge=3_600, le=90 * 86_400)
    refresh_absolute_s: int = Field(default=30 * 86_400, ge=3_600, le=365 * 86_400)
    refresh_grace_s: int = Field(default=10, ge=0, le=60)
    refresh_secret_arn: str = ""
    login_location_wait_s: float = Field(default=1, ge=0, le=5)
    wechat_login_url: str = "https://api.weixin.qq.com"
    wechat_login_secret_arn: str = ""

    text_providers_secret_arn: str = ""  # the operator's providers and routes of texts; empty: there are none
    text_limit_s: float = Field(default=240, ge=1, le=840)  # of one call of a provider; less than the function may run

    # SHA-256 of the values of x-origin-verify that are accepted, or "off". Without it every request is refused.
    origin_hashes: str = Field(default="", pattern=r"^(off|[0-9a-f]{64}(,[0-9a-f]{64})?)?$")
    # The address at which WeChat calls us; without it the host that the client called. Links in mails begin with it.
    public_url: str = ""
    mail_from: str = Field(default="", max_length=320)  # an address of a verified identity; empty: no mail is sent
    wechat_pay_secret_arn: str = ""
    alarm_topic_arn: str = ""
    packages: str = ""  # JSON as in artiway/payments/packages.json, in its place
    order_life_s: int = Field(default=1_800, ge=60, le=7_200)
    order_grace_s: int = Field(default=60, ge=0, le=3_600)
    order_query_after_s: int = Field(default=300, ge=1, le=3_600)
    order_poll_spacing_s: int = Field(default=5, ge=0, le=300)
    order_lock_ttl_s: float = Field(default=10, ge=0.05, le=60)
    order_lock_wait_s: float = Field(default=3, ge=0, le=4)  # WeChat waits five seconds for the answer
    sweep_batch: int = Field(default=50, ge=1, le=1_000)
    sweep_concurrency: int = Field(default=8, ge=1, le=64)
    sweep_work_s: int = Field(default=200, ge=1, le=800)
    sweep_lease_s: int = Field(default=120, ge=10, le=3_600)
    bill_alarm_hour: int = Field(default=12, ge=0, le=23)  # in Shanghai
    bill_back_fill_days: int = Field(default=90, ge=0, le=90)  # WeChat keeps three months
    points_lots: int = Field(default=1_000, ge=1, le=10_000)  # different dates of expiry of one user's points
    lapse_batch: int = Field(default=500, ge=1, le=10_000)
