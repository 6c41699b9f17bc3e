"""Settings: `rota.toml`, overruled by `ROTA_*` variables, overruled by flags and arguments.

Every key has one name in three spellings: `worker_concurrency` under `[jobs]` in the file,
`ROTA_JOBS_WORKER_CONCURRENCY` in the environment, `jobs_worker_concurrency=` as an argument of `load_settings`.
"""

from rota.config.loading import (
    FILE_NAME,
    FILE_VARIABLE,
    PREFIX,
    SECTIONS,
    SHARED_VARIABLES,
    describe_range,
    load_settings,
    load_with_sources,
)
from rota.config.sections import (
    AlertSettings,
    AppSettings,
    DatabaseSettings,
    JobsSettings,
    LogSettings,
    LogsSettings,
    PostgresSettings,
    RetentionSettings,
    SecretsSettings,
    Section,
)
from rota.config.server_sections import AuthSettings, HousekeepingSettings, HttpSettings, MailSettings, PruneRule, ServerSettings
from rota.config.settings import Settings, included_by

__all__ = [
    "FILE_NAME",
    "FILE_VARIABLE",
    "PREFIX",
    "SECTIONS",
    "SHARED_VARIABLES",
    "AlertSettings",
    "AppSettings",
    "AuthSettings",
    "DatabaseSettings",
    "HousekeepingSettings",
    "HttpSettings",
    "JobsSettings",
    "LogSettings",
    "LogsSettings",
    "MailSettings",
    "PostgresSettings",
    "PruneRule",
    "RetentionSettings",
    "SecretsSettings",
    "Section",
    "ServerSettings",
    "Settings",
    "describe_range",
    "included_by",
    "load_settings",
    "load_with_sources",
]
