"""Every setting of Rota, in one object."""

from __future__ import annotations

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
from rota.config.server_sections import AuthSettings, HousekeepingSettings, HttpSettings, MailSettings, ServerSettings


class Settings(Section):
    """Every setting of Rota."""

    app: AppSettings = AppSettings()
    database: DatabaseSettings = DatabaseSettings()
    jobs: JobsSettings = JobsSettings()
    server: ServerSettings = ServerSettings()
    auth: AuthSettings = AuthSettings()
    mail: MailSettings = MailSettings()
    http: HttpSettings = HttpSettings()
    housekeeping: HousekeepingSettings = HousekeepingSettings()
    postgres: PostgresSettings = PostgresSettings()
    retention: RetentionSettings = RetentionSettings()
    alerts: AlertSettings = AlertSettings()
    log: LogSettings = LogSettings()
    logs: LogsSettings = LogsSettings()
    secrets: SecretsSettings = SecretsSettings()


def included_by(settings: Settings) -> list[str]:
    """The modules whose tasks belong to every application with these settings."""
    built_in = {"rota.apps.http_call": settings.http.enabled, "rota.apps.housekeeping": settings.housekeeping.enabled}
    return [module for module, wanted in built_in.items() if wanted] + list(settings.app.apps)
