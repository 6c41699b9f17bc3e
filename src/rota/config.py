"""Settings: `rota.toml`, overruled by `ROTA_*` variables, overruled by flags and arguments.

Every key has one name in three spellings: `worker_concurrency` under `[jobs]` in the file,
`ROTA_JOBS_WORKER_CONCURRENCY` in the environment, `jobs_worker_concurrency=` as an argument of `load_settings`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from annotated_types import Ge, Le
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from rota.errors import ConfigError, did_you_mean

FILE_NAME = "rota.toml"
FILE_VARIABLE = "ROTA_CONFIG"
PREFIX = "ROTA_"


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


def _read_off(value: Any) -> Any:
    """`off` is the empty value, for which an environment variable has no spelling."""
    return "" if value == "off" else value


Whole = Annotated[int, BeforeValidator(_refuse_bool)]
Seconds = Annotated[float, BeforeValidator(_refuse_bool)]
Weight = Annotated[Whole, Field(ge=1, le=1000)]
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
        description="The application as `module:attribute`; without it `app.py` and `main.py` are looked at.",
    )
    name: str = Field(
        default="default",
        pattern=r"^[a-z0-9_][a-z0-9_.-]{0,62}\Z",
        description="What the application is called; those that share a database need names of their own.",
    )


class DatabaseSettings(Section):
    """`[database]`: how PostgreSQL is reached."""

    url: str | None = Field(
        default=None,
        pattern=r"^(postgres(ql)?://|\s*\w+\s*=)",
        repr=False,  # it may hold a password
        description="The database, as `postgresql://user:password@host:port/name` or in libpq's `key=value` form.",
    )
    pooled: bool = Field(
        default=False,
        description="Whether a pooler in transaction mode stands before PostgreSQL: no LISTEN, no prepared statements.",
    )
    pool_min: Whole = Field(default=1, ge=0, le=1000, description="Connections that an application's pool keeps open.")
    pool_max: Whole = Field(default=10, ge=1, le=1000, description="Connections that an application's pool opens at most.")
    connect_timeout_s: Seconds = Field(default=10, ge=1, le=300, description="How long an attempt to connect may take.")
    max_lifetime_s: Seconds = Field(default=1800, ge=30, le=86400, description="Age at which a pooled connection is replaced.")
    max_idle_s: Seconds = Field(default=300, ge=1, le=86400, description="Idle time after which a pooled connection is closed.")

    @property
    def dsn(self) -> str:
        """The url; without one, an error that says where to set it."""
        if self.url is None:
            raise ConfigError(
                "no database is configured: set url under [database] in rota.toml, or ROTA_DATABASE_URL; "
                "`rota dev` brings a PostgreSQL of its own"
            )
        return self.url


class JobsSettings(Section):
    """`[jobs]`: how work is done."""

    enabled: bool = Field(default=False, description="Whether a server runs a worker inside itself; reserved.")
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

    bin: Path | None = Field(default=None, description="Directory of PostgreSQL's programs; else the system's or the wheel's.")
    data_dir: Path = Field(default=Path(".rota/postgres"), description="Folder in which the embedded server keeps its data.")


class LogSettings(Section):
    """`[log]`: what is written to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="The least level that is written.")
    format: Literal["auto", "text", "json"] = Field(default="auto", description="`auto` is text on a terminal, JSON elsewhere.")


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
    deliveries_days: Whole = Field(default=30, ge=1, le=36500, description="Days that messages to webhooks are kept.")


class AlertSettings(Section):
    """`[alerts]`: from when on something is worth an alert."""

    queue_age_s: Seconds = Field(
        default=300, ge=1, le=604800, description="Age of a queue's oldest due job at which the queue counts as stuck."
    )
    snapshot_age_s: Seconds = Field(
        default=900, ge=60, le=604800, description="Age of a transaction at which it counts as in the way of vacuum."
    )


class Settings(Section):
    """Every setting of Rota."""

    app: AppSettings = AppSettings()
    database: DatabaseSettings = DatabaseSettings()
    jobs: JobsSettings = JobsSettings()
    postgres: PostgresSettings = PostgresSettings()
    retention: RetentionSettings = RetentionSettings()
    alerts: AlertSettings = AlertSettings()
    log: LogSettings = LogSettings()
    logs: LogsSettings = LogsSettings()
    secrets: SecretsSettings = SecretsSettings()


def load_settings(path: Path | None = None, **overrides: Any) -> Settings:
    """The settings in force; `overrides` such as `jobs_worker_concurrency=8` win, and None is no override."""
    values: dict[str, dict[str, Any]] = {}
    sources: dict[tuple[str, ...], str] = {}
    problems: list[str] = []
    for section, key, value, source in _layers(path, overrides):
        if key not in SECTIONS.get(section, {}):
            problems.append(_unknown(section, key, source))
            continue
        values.setdefault(section, {})[key] = value
        sources[section, key] = source
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            section, key = (str(part) for part in detail["loc"][:2])
            problems.append(_invalid(section, key, values[section][key], sources[section, key]))
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(problems)))
    _check_together(settings)
    return settings


def describe_range(field: FieldInfo) -> str:
    """What a setting may be, in words."""
    least = next((limit.ge for limit in field.metadata if isinstance(limit, Ge)), None)
    most = next((limit.le for limit in field.metadata if isinstance(limit, Le)), None)
    if least is not None or most is not None:
        kind = "a whole number" if field.annotation is int else "a number"
        return f"{kind} from {least} to {most}"
    if field.annotation is bool:
        return "true or false"
    if choices := [str(choice) for choice in get_args(field.annotation) if isinstance(choice, str)]:
        return "one of " + ", ".join(choices)
    words = (field.description or "").rstrip(".").replace("`", "")
    return words[:1].lower() + words[1:]


SECTIONS: dict[str, dict[str, FieldInfo]] = {
    name: dict(section.annotation.model_fields)
    for name, section in Settings.model_fields.items()
    if isinstance(section.annotation, type) and issubclass(section.annotation, Section)
}


def _layers(path: Path | None, overrides: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, str]]:
    """Yields section, key, value and source, the weakest source first."""
    if file := _find_file(path):
        for section, table in _read_file(file).items():
            if not isinstance(table, dict):
                yield "", section, table, str(file)
                continue
            for key, value in table.items():
                yield section, key, value, str(file)
    for variable, text in os.environ.items():
        section, _, key = variable.removeprefix(PREFIX).lower().partition("_")
        # A variable such as ROTA_CACHE belongs to no section: it is for somebody else. An empty one is as good as none.
        if variable.startswith(PREFIX) and section in SECTIONS and key and text:
            yield section, key, text, variable
    for name, value in overrides.items():
        if value is not None:
            section, _, key = name.partition("_")
            yield section, key, value, "an argument or flag"


def _find_file(path: Path | None) -> Path | None:
    if path is not None:
        named, source = path, "the path given"
    elif variable := os.environ.get(FILE_VARIABLE):
        named, source = Path(variable), FILE_VARIABLE
    else:
        return Path(FILE_NAME) if Path(FILE_NAME).is_file() else None
    if not named.is_file():
        raise ConfigError(f"{source} is {named}, which is not a file: name a {FILE_NAME} that exists")
    return named


def _read_file(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error


def _unknown(section: str, key: str, source: str) -> str:
    known = [f"{each}.{name}" for each, names in SECTIONS.items() for name in names]
    name = ".".join(filter(None, (section, key)))
    advice = did_you_mean(name, known, f"the sections are {', '.join(SECTIONS)}")
    return f"{name} is not a setting ({source}); {advice}"


def _invalid(section: str, key: str, value: Any, source: str) -> str:
    field = SECTIONS[section][key]
    shown = repr(value) if field.repr else "***"
    return f"{section}.{key}={shown} is not allowed ({source}); allowed: {describe_range(field)}"


def _check_together(settings: Settings) -> None:
    database, jobs = settings.database, settings.jobs
    if database.pool_min > database.pool_max:
        raise ConfigError(
            f"database.pool_min={database.pool_min} is more than database.pool_max={database.pool_max}: "
            "lower the one or raise the other"
        )
    if jobs.heartbeat_s * 2 > jobs.lease_duration_s:
        raise ConfigError(
            f"jobs.heartbeat_s={jobs.heartbeat_s:g} is more than half of "
            f"jobs.lease_duration_s={jobs.lease_duration_s:g}: one missed heartbeat would lose the lease"
        )
