"""What can be set of the server: how it listens, who signs in, how mail is sent, which calls go out, what is cleared away."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from rota.config.sections import Names, QueueName, Seconds, Section, Whole, parse_list


def _check_network(value: Any) -> Any:
    """A network such as 10.0.0.0/8 or an address; anything else is taken for a host name, and says so by having no slash."""
    if isinstance(value, str) and "/" in value:
        ip_network(value)
    return value


Target = Annotated[str, BeforeValidator(_check_network), Field(pattern=r"^[A-Za-z0-9._:/*-]{1,255}\Z")]
Targets = Annotated[tuple[Target, ...], BeforeValidator(parse_list)]


class ServerSettings(Section):
    """`[server]`: the HTTP server, `rota server`."""

    host: str = Field(default="127.0.0.1", description="The address to listen on; `0.0.0.0` is every one.")
    port: Whole = Field(default=8000, ge=0, le=65535, description="The port to listen on; 0 takes a free one.")
    url: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s/?#]+(/[^\s?#]*)?\Z",
        examples=["https://rota.example.com"],
        description="The address at which people reach the server, for links in mails; else host and port.",
    )
    root_path: str = Field(
        default="", pattern=r"^(/[A-Za-z0-9._~-]+)*\Z", description="The path below which a proxy serves it, as `/rota`."
    )
    trusted_proxies: Names = Field(
        default=(), description="Addresses of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed."
    )
    max_body_bytes: Whole = Field(
        default=1_048_576, ge=1024, le=104_857_600, description="Length of a request's body beyond which it is refused."
    )
    requests_per_minute: Whole = Field(
        default=1200, ge=1, le=1_000_000, description="Requests that one user, token or address may make in a minute, per process."
    )
    statement_timeout_ms: Whole = Field(
        default=2000, ge=100, le=60000, description="How long a statement of a request may take in the database."
    )
    metrics_public: bool = Field(
        default=False, description="Whether `/metrics` is for everybody; else for who may do `metrics.read`, as by a token."
    )
    max_connections: Whole = Field(
        default=2000,
        ge=1,
        le=100_000,
        description="Maximum number of open connections per process; fewer if it may open too few files.",
    )
    max_connections_per_peer: Whole = Field(
        default=200,
        ge=1,
        le=100_000,
        description="Maximum number of open connections from one IPv4 address or IPv6 /64 network, per process; "
        "trusted proxies have no limit of their own.",
    )
    header_timeout_s: Seconds = Field(default=20, ge=1, le=300, description="Seconds within which a request's header must arrive.")
    body_timeout_s: Seconds = Field(
        default=60, ge=1, le=3600, description="Seconds within which a request's body must arrive, counted from its header."
    )
    stream_clients: Whole = Field(default=500, ge=1, le=100_000, description="Live streams that one process serves at a time.")
    stream_clients_per_account: Whole = Field(
        default=50,
        ge=1,
        le=100_000,
        description="Maximum number of live streams of one account, all its tokens together, per process.",
    )


class AuthSettings(Section):
    """`[auth]`: how people sign in."""

    secret: str | None = Field(
        default=None,
        min_length=32,
        max_length=4096,
        repr=False,
        description="At least 32 random characters; several, with commas between them: the first signs tokens, all are believed.",
    )
    signup: Literal["auto", "open", "closed"] = Field(
        default="auto",
        description="Whether unknown addresses get an account by signing in; `auto` is open where app.env is `local`.",
    )
    operators_see_runs: bool = Field(
        default=False, description="Whether operators may read runs, errors, statistics and logs; otherwise only admins."
    )
    link_minutes: Whole = Field(default=15, ge=1, le=60, description="Minutes that a sign-in link is good for.")
    jwt_hours: Whole = Field(default=24, ge=1, le=720, description="Hours that a token from `/auth/verify` is good for.")
    session_hours: Whole = Field(default=168, ge=1, le=8760, description="Hours that a browser stays signed in.")
    links_per_hour: Whole = Field(
        default=10,
        ge=1,
        le=1000,
        description="Sign-in links for one address from one network in an hour; three times as many for it from all networks, "
        "ten times as many from one network for all addresses.",
    )


class MailSettings(Section):
    """`[mail]`: how sign-in links are sent."""

    transport: Literal["auto", "log", "smtp", "resend"] = Field(
        default="auto",
        description="`auto` is the log where app.env is `local`, else SMTP or Resend, whichever is set up.",
    )
    sender: str = Field(default="rota@localhost", max_length=320, description="The address that mails come from.")
    smtp_host: str | None = Field(default=None, examples=["smtp.example.com"], description="The mail server.")
    smtp_port: Whole = Field(default=587, ge=1, le=65535, description="Its port.")
    smtp_user: str | None = Field(default=None, examples=["rota"], description="The name to sign in there with.")
    smtp_password: str | None = Field(default=None, repr=False, description="The password to sign in there with.")
    smtp_tls: Literal["starttls", "tls", "none"] = Field(default="starttls", description="How the connection is encrypted.")
    resend_key: str | None = Field(default=None, repr=False, description="The key of an account with Resend.")
    resend_url: str = Field(
        default="https://api.resend.com", pattern=r"^https?://\S+\Z", description="Where Resend's interface is."
    )
    timeout_s: Seconds = Field(default=15, ge=1, le=300, description="How long sending a mail may take.")


class HttpSettings(Section):
    """`[http]`: HTTP jobs, and every other call that goes out."""

    enabled: bool = Field(default=False, description="Whether the server takes HTTP jobs and workers make their calls.")
    queue: QueueName = Field(default="http", description="The queue of HTTP jobs.")
    concurrency: Whole = Field(default=100, ge=1, le=10_000, description="Calls that one worker process has open at a time.")
    per_host: Whole = Field(default=10, ge=1, le=10_000, description="Calls that one worker process has open to one host.")
    breaker_failures: Whole = Field(
        default=10, ge=1, le=100_000, description="Failures of a host in a row after which its jobs wait instead of being tried."
    )
    breaker_s: Seconds = Field(default=30, ge=1, le=3600, description="How long they wait before one of them tries again.")
    response_bytes: Whole = Field(
        default=4096, ge=0, le=16384, description="Length of the head of an answer that is kept with the attempt."
    )
    max_response_bytes: Whole = Field(
        default=10_485_760, ge=1024, le=1_073_741_824, description="Length of an answer at which reading it ends."
    )
    allow: Targets = Field(
        default=(),
        description="Networks and hosts that may be called although they are private: `10.1.0.0/16`, `*.internal`.",
    )
    deny: Targets = Field(default=(), description="Networks and hosts that may not be called although they are public.")


class PruneRule(Section):
    """One of `[[housekeeping.rules]]`: rows of a table that a housekeeping task removes."""

    task: Literal["stale_session_cleanup", "webhook_delivery_prune", "expired_oauth_cleanup", "expired_auth_cleanup"] = Field(
        description="The task that removes them."
    )
    table: str = Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)?\Z", description="Their table, with its schema if need be.")
    where: str = Field(min_length=1, max_length=2000, description="Which of them, as a condition in SQL.")
    batch: Whole = Field(default=1000, ge=1, le=100_000, description="Rows that one statement removes.")


class HousekeepingSettings(Section):
    """`[housekeeping]`: what else is cleared away."""

    enabled: bool = Field(default=True, description="Whether workers have the housekeeping tasks and their schedules.")
    queue: QueueName = Field(default="default", description="The queue of these tasks.")
    deliveries_hours: Whole = Field(
        default=168,
        ge=1,
        le=876_000,
        description="Hours that messages to webhooks are kept, where the task's payload does not say otherwise.",
    )
    rules: tuple[PruneRule, ...] = Field(
        default=(),
        description="Tables of your own for these tasks: a list of `task`, `table`, `where` (a condition in SQL) and `batch`.",
    )
