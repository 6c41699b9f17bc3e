"""What can be set, section by section: names, defaults, ranges and words, from which the documentation is made too."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from rota.config.dsn import Dsn
from rota.errors import ConfigError


def _refuse_bool(value: Any) -> Any:
    if isinstance(value, bool):  # which Python takes for 0 and 1
        raise ValueError("a number is needed")
    return value


def _parse_weights(value: Any) -> Any:
    """Reads `mail:3,default`, which is how a table is written in an environment variable."""
    if not isinstance(value, str):
        return value
    weights = {}
    for part in filter(None, (part.strip() for part in value.split(","))):
        name, _, weight = part.partition(":")
        weights[name] = weight or "1"
    return weights


def parse_list(value: Any) -> Any:
    """Reads `10.0.0.0/8,example.org`, which is how a list is written in an environment variable."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _read_off(value: Any) -> Any:
    """`off` is the empty value, for which an environment variable has no spelling."""
    return "" if value == "off" else value


def _read_span(value: Any) -> Any:
    """Read `24h`, `30m` or `2d`; a number is seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", value.strip()) if isinstance(value, str) else None
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]] if found else _refuse_bool(value)


def _read_off_as_none(value: Any) -> Any:
    """`off` clears a setting that a weaker source has."""
    return None if value == "off" else value


def _check_command(value: str | None) -> str | None:
    if value is not None and not shlex.split(value):  # which says itself what is wrong with quotes
        raise ValueError("a command is needed")
    return value


def _without_driver(value: Any) -> Any:
    """Turn SQLAlchemy's `postgresql+asyncpg://` into the `postgresql://` that libpq reads."""
    return re.sub(r"^(postgres(?:ql)?)\+\w+://", r"\1://", value) if isinstance(value, str) else value


Whole = Annotated[int, BeforeValidator(_refuse_bool)]
Seconds = Annotated[float, BeforeValidator(_refuse_bool)]
Span = Annotated[float, BeforeValidator(_read_span)]  # in seconds, or as "24h"
Weight = Annotated[Whole, Field(ge=1, le=1000)]
Names = Annotated[tuple[str, ...], BeforeValidator(parse_list)]
QueueName = Annotated[str, Field(pattern=r"^[a-z0-9_][a-z0-9_.-]{0,62}\Z")]


class Section(BaseModel):
    """One table of `rota.toml`."""

    # Python's own regular expressions: those of pydantic take a megabyte more, in every process.
    model_config = ConfigDict(extra="forbid", frozen=True, regex_engine="python-re")


class AppSettings(Section):
    """`[app]`: where the application is, and what it is called."""

    location: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][\w.]*(:[A-Za-z_]\w*)?\Z",
        examples=["app:app"],
        description="The application as `module:attribute`; without it `app.py` and `main.py` are looked at.",
    )
    env: Literal["local", "staging", "production"] = Field(
        default="production",
        description="Where it runs; in `local`, mails are written to the log instead of being sent.",
    )
    name: str = Field(
        default="default",
        pattern=r"^[a-z0-9_][a-z0-9_.-]{0,62}\Z",
        description="What the application is called; those that share a database need names of their own.",
    )
    modules: Names = Field(
        default=(),
        description="Modules that define its tasks, unless `Rota(modules=...)` names them; `shop.tasks.*` is a whole package.",
    )
    apps: Names = Field(
        default=(), description="Modules whose tasks belong to it too, such as `rota.apps.feeds`; each has an `install(app)`."
    )


class DatabaseSettings(Section):
    """`[database]`: how PostgreSQL is reached."""

    url: Annotated[str, BeforeValidator(_without_driver)] | None = Field(
        default=None,
        pattern=r"^(postgres(ql)?://|\s*\w+\s*=)",
        repr=False,  # it may hold a password
        examples=["postgresql://user:password@localhost:5432/app"],
        description="The database, as `postgresql://user:password@host:port/name` or in libpq's `key=value` form.",
    )
    password_file: Annotated[Path | None, BeforeValidator(_read_off_as_none)] = Field(
        default=None,
        examples=["/run/secrets/database_password"],
        description="File that holds the password, read for each new connection; `off` for none.",
    )
    password_command: Annotated[str | None, BeforeValidator(_read_off_as_none), AfterValidator(_check_command)] = Field(
        default=None,
        examples=["aws rds generate-db-auth-token --hostname db.example.org --port 5432 --username app"],
        description="Command that prints the password, run without a shell for each new connection; `off` for none.",
    )
    pooled: bool = Field(
        default=False,
        description="Whether a pooler in transaction mode stands before PostgreSQL: no LISTEN, no prepared statements.",
    )
    # None beforehand: a pool that is asked while its first is still coming would open another one for who asks.
    pool_min: Whole = Field(default=0, ge=0, le=1000, description="Connections that an application's pool opens beforehand.")
    pool_max: Whole = Field(default=10, ge=1, le=1000, description="Connections that an application's pool opens at most.")
    connect_timeout_s: Seconds = Field(default=5, ge=1, le=300, description="How long an attempt to connect may take.")
    max_lifetime_s: Seconds = Field(default=3600, ge=30, le=86400, description="Age at which a pooled connection is replaced.")
    max_idle_s: Seconds = Field(default=1800, ge=1, le=86400, description="Idle time after which a pooled connection is closed.")

    @property
    def dsn(self) -> Dsn:
        """The url, and where its password is; without one, an error that says where to set it."""
        if self.url is None:
            raise ConfigError(
                "no database is configured: set url under [database] in rota.toml, or ROTA_DATABASE_URL; "
                "`rota dev` brings a PostgreSQL of its own"
            )
        return Dsn(self.url, self.password_file, self.password_command)


class JobsSettings(Section):
    """`[jobs]`: how work is done."""

    enabled: bool = Field(default=False, description="Whether `rota server` runs a worker and a scheduler inside itself.")
    worker_concurrency: Whole = Field(default=4, ge=1, le=64, description="Jobs that one worker process runs at a time.")
    poll_interval_ms: Whole = Field(
        default=1000,
        ge=100,
        le=60000,
        description="How often an idle worker looks for work that no notification announced.",
    )
    lease_duration_s: Seconds = Field(
        default=300, ge=30, le=3600, description="How long a worker holds a job without renewing its claim."
    )
    unknown_task_after: Span = Field(
        default=86400,
        ge=0,
        le=31536000,
        examples=["24h"],
        description="How long a job waits for a worker that knows its task before it fails, in seconds or as `24h`; 0: not at all.",
    )
    heartbeat_s: Seconds = Field(default=10, ge=1, le=60, description="How often a worker says that it is alive.")
    shutdown_timeout_s: Seconds = Field(
        default=30,
        ge=0,
        le=3600,
        description="How long running jobs may go on after a stop; then they return to the queue.",
    )
    max_retries_default: Whole = Field(
        default=3, ge=0, le=100, description="Retries after the first attempt, for tasks that do not say how often they are tried."
    )
    queues: Annotated[dict[QueueName, Weight], BeforeValidator(_parse_weights)] = Field(
        default_factory=dict,
        description="The queues a worker serves, each with a weight from 1 to 1000; none means all of the application.",
    )
    scheduler_enabled: bool = Field(default=True, description="Whether workers also look after schedules.")
    scheduler_tick_s: Seconds = Field(
        default=15,
        ge=5,
        le=3600,
        description="How often schedulers look at everything; what is due they find at its time.",
    )
    scheduler_cron: Annotated[str, BeforeValidator(_read_off)] = Field(
        default="* * * * *",
        description="When schedulers also enqueue the task `rota.tick`, which looks at everything; `off` for never.",
    )
    scheduler_lock: bool = Field(
        default=False, description="Whether only one scheduler at a time is at work, by a lock in the database."
    )


class PostgresSettings(Section):
    """`[postgres]`: the embedded server of `rota dev`."""

    bin: Path | None = Field(
        default=None,
        examples=["/usr/lib/postgresql/18/bin"],
        description="Directory of PostgreSQL's programs; else the system's or the wheel's.",
    )
    data_dir: Path = Field(default=Path(".rota/postgres"), description="Folder in which the embedded server keeps its data.")


class LogSettings(Section):
    """`[log]`: what is written to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="The least level that is written.")
    format: Literal["auto", "text", "json"] = Field(
        default="auto", description="`auto` is text on a terminal and where app.env is `local`, else JSON."
    )


class LogsSettings(Section):
    """`[logs]`: what handlers say, as it is kept in the database."""

    enabled: bool = Field(default=True, description="Whether lines are kept in the database at all.")
    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="The least level that is kept.")
    lines_per_run: Whole = Field(
        default=1000, ge=1, le=100_000, description="Lines kept of one run; a last one says how many there were beyond that."
    )
    line_bytes: Whole = Field(
        default=8192, ge=256, le=65536, description="Length of a line's message, and of its fields, beyond which they are cut."
    )
    buffer_lines: Whole = Field(
        default=10_000,
        ge=100,
        le=1_000_000,
        description="Lines that a worker holds while the database is away; further ones are dropped, and counted.",
    )


class SecretsSettings(Section):
    """`[secrets]`: how payload fields of the type `Secret` are encrypted."""

    key: str | None = Field(
        default=None,
        min_length=32,
        max_length=4096,
        repr=False,
        description="At least 32 random characters; several, with commas between them: the first encrypts, all decrypt.",
    )


class RetentionSettings(Section):
    """`[retention]`: how long history is kept. A task may say otherwise of its own runs and logs."""

    enabled: bool = Field(default=True, description="Whether workers remove old history at all.")
    runs_days: Whole = Field(default=30, ge=1, le=36500, description="Days that the runs of finished jobs are kept.")
    runs_count: Whole = Field(
        default=0, ge=0, le=100_000_000, description="Newest jobs of each task whose runs are kept at most; 0 is any number."
    )
    logs_days: Whole = Field(default=7, ge=1, le=36500, description="Days that the lines of logs are kept.")
    occurrences_days: Whole = Field(default=30, ge=1, le=36500, description="Days that the ledgers of schedules are kept.")
    alerts_days: Whole = Field(
        default=90, ge=1, le=36500, description="Days that alerts are kept which were acknowledged or are over."
    )
    audit_days: Whole = Field(default=365, ge=1, le=36500, description="Days that it is kept who has changed what.")


class AlertSettings(Section):
    """`[alerts]`: from when on something is worth an alert."""

    queue_age_s: Seconds = Field(
        default=300, ge=1, le=604800, description="Age of a queue's oldest due job at which the queue counts as stuck."
    )
    snapshot_age_s: Seconds = Field(
        default=900, ge=60, le=604800, description="Age of a transaction at which it counts as in the way of vacuum."
    )
