"""Settings come from file, environment and flags, in this order, and a wrong one is named."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from rota.config import SECTIONS, SHARED_VARIABLES, Settings, describe_range, load_settings, load_with_sources
from rota.errors import ConfigError

RANGES = {
    "worker_concurrency": (1, 64),
    "poll_interval_ms": (100, 60000),
    "lease_duration_s": (30, 3600),
    "max_retries_default": (0, 100),
    "scheduler_tick_s": (5, 3600),
}


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("ROTA_") or name in SHARED_VARIABLES:
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def write(text: str, name: str = "rota.toml") -> None:
    Path(name).write_text(text)


@pytest.mark.req("F01")
def test_defaults() -> None:
    jobs = load_settings().jobs
    assert (jobs.enabled, jobs.worker_concurrency, jobs.poll_interval_ms) == (False, 4, 1000)
    assert (jobs.lease_duration_s, jobs.max_retries_default) == (300, 3)
    assert (jobs.scheduler_enabled, jobs.scheduler_tick_s) == (True, 15)
    assert jobs.queues == {}


@pytest.mark.req("F01", "Q12")
def test_flags_overrule_the_environment_which_overrules_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    write("[jobs]\nworker_concurrency = 5\nmax_retries_default = 6\nscheduler_tick_s = 7\n")
    monkeypatch.setenv("ROTA_JOBS_WORKER_CONCURRENCY", "8")
    monkeypatch.setenv("ROTA_JOBS_MAX_RETRIES_DEFAULT", "9")
    jobs = load_settings(jobs_worker_concurrency=10, jobs_max_retries_default=None).jobs
    assert (jobs.worker_concurrency, jobs.max_retries_default, jobs.scheduler_tick_s) == (10, 9, 7)


@pytest.mark.req("F01")
@pytest.mark.parametrize("key", RANGES)
def test_the_ends_of_a_range_are_allowed(key: str) -> None:
    for value in RANGES[key]:
        assert getattr(load_settings(**{f"jobs_{key}": value}).jobs, key) == value


@pytest.mark.req("F01")
@pytest.mark.parametrize("key", RANGES)
@pytest.mark.parametrize("side", [0, 1])
def test_out_of_range_names_key_value_range_and_source(key: str, side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    least, most = RANGES[key]
    value = [least - 1, most + 1][side]
    write(f"[jobs]\n{key} = {value}\n")
    with pytest.raises(ConfigError, match=rf"jobs\.{key}={value} .*\(rota.toml\).*number from {least} to {most}$"):
        load_settings()
    write("")
    variable = f"ROTA_JOBS_{key.upper()}"
    monkeypatch.setenv(variable, str(value))
    with pytest.raises(ConfigError, match=rf"jobs\.{key}='{value}' .*\({variable}\).*from {least} to {most}$"):
        load_settings()


@pytest.mark.req("F01")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[jobs]\nenabled = 'maybe'", r"jobs.enabled='maybe' .* true or false"),
        ("[jobs]\nworker_concurrency = true", r"jobs.worker_concurrency=True .* a whole number from 1 to 64"),
        ("[jobs]\nworker_concurrency = 2.5", r"jobs.worker_concurrency=2.5 "),
        ("[jobs]\nscheduler_tick_s = nan", r"jobs.scheduler_tick_s=nan "),
        ("[jobs.queues]\nmail = 0", r"jobs.queues={'mail': 0} .* weight from 1 to 1000"),
        ("[jobs.queues]\n'Mail!' = 1", r"jobs.queues={'Mail!': 1} "),
        ("[log]\nlevel = 'loud'", r"log.level='loud' .* one of debug, info, warning, error"),
        ("[app]\nlocation = 'a b'", r"app.location='a b' .* module:attribute"),
        ("[jobs]\nworker_concurency = 4", r"jobs.worker_concurency is not a setting .* did you mean 'jobs.worker_conc"),
        ("[jbos]\nenabled = true", r"jbos.enabled is not a setting .* did you mean 'jobs.enabled'"),
        ("speed = 11", r"speed is not a setting \(rota.toml\)"),
        ("[jobs\n", r"rota.toml cannot be read: .*line 1"),
        ("[database]\npool_min = 9\npool_max = 3", r"database.pool_min=9 is more than database.pool_max=3"),
        ("[jobs]\nlease_duration_s = 30\nheartbeat_s = 16", r"jobs.heartbeat_s=16 is more than half"),
    ],
)
def test_a_wrong_file_is_refused(text: str, message: str) -> None:
    write(text)
    with pytest.raises(ConfigError, match=message):
        load_settings()


def test_all_problems_are_told_at_once() -> None:
    write("[jobs]\nworker_concurrency = 0\npoll_interval_ms = 0\ntypo = 1")
    with pytest.raises(ConfigError) as caught:
        load_settings()
    assert len(str(caught.value).splitlines()) == 3


@pytest.fixture
def unreported(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable has been reported yet in this process."""
    monkeypatch.setattr("rota.config.variables._reported", set())


@pytest.mark.usefixtures("unreported")
@pytest.mark.parametrize(
    ("variable", "sentence"),
    [
        ("ROTA_JOBS_WORKER_CONCURENCY", "ROTA_JOBS_WORKER_CONCURENCY is ignored.*did you mean ROTA_JOBS_WORKER_CONCURRENCY"),
        ("ROTA_DATBASE_URL", "did you mean ROTA_DATABASE_URL"),
        ("ROTA_JOBS_COLOUR", r"\[jobs\] has no such setting; `rota config show jobs` lists"),
        ("ROTA_TOKN", "did you mean ROTA_TOKEN"),
    ],
)
def test_an_unknown_variable_warns_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, variable: str, sentence: str
) -> None:
    monkeypatch.setenv(variable, "s3cret")
    assert load_settings() == load_settings() == Settings()
    [warning] = caplog.messages
    assert re.search(sentence, warning)
    assert "s3cret" not in warning


@pytest.mark.usefixtures("unreported")
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ROTA_CACHE", "/tmp"),
        ("ROTATION", "daily"),
        ("ROTA_TEST_DATABASE_URL", "postgresql://"),
        ("ROTA_SERVER_SERVICE_HOST", "10.0.0.7"),
        ("ROTA_SERVER_SERVICE_PORT_HTTP", "80"),
        ("ROTA_SERVER_PORT_80_TCP_ADDR", "10.0.0.7"),
        ("ROTA_SERVER_PORT", "tcp://10.0.0.7:80"),
    ],
)
def test_variables_of_other_programs_and_of_kubernetes_are_ignored(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert load_settings() == Settings()
    assert not caplog.messages


def test_an_empty_variable_sets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_DATABASE_URL", "")
    assert load_settings() == Settings()


def test_queues_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_JOBS_QUEUES", "mail:3, default")
    assert load_settings().jobs.queues == {"mail": 3, "default": 1}


def test_the_file_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    write("[jobs]\nworker_concurrency = 5", "other.toml")
    assert load_settings(Path("other.toml")).jobs.worker_concurrency == 5
    monkeypatch.setenv("ROTA_CONFIG", "other.toml")
    assert load_settings().jobs.worker_concurrency == 5
    monkeypatch.setenv("ROTA_CONFIG", "missing.toml")
    with pytest.raises(ConfigError, match=r"ROTA_CONFIG is missing.toml, which is not a file"):
        load_settings()


def test_a_password_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "s3cret" not in repr(load_settings(database_url="postgresql://me:s3cret@db/x"))
    monkeypatch.setenv("ROTA_DATABASE_URL", "mysql://me:s3cret@db/x")
    with pytest.raises(ConfigError, match=r"database\.url=\*\*\* .*postgresql://") as caught:
        load_settings()
    assert "s3cret" not in str(caught.value)


def test_no_database_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"ROTA_DATABASE_URL; `rota dev`"):
        _ = load_settings().database.dsn
    assert load_settings(database_url="host=db user=me").database.dsn == "host=db user=me"


@pytest.mark.parametrize("key", [f"{section}.{key}" for section, keys in SECTIONS.items() for key in keys])
def test_every_key_is_described(key: str) -> None:
    section, _, name = key.partition(".")
    field: Any = SECTIONS[section][name]
    assert field.description
    assert field.description.endswith(".")
    assert describe_range(field)


# As source 003 and source 002 write them, word for word.
LOCAL = {
    "ENV": "local",
    "DATABASE_URL": "postgres://scheduler:scheduler@localhost:5432/scheduler?sslmode=disable",
    "JWT_SECRET": "set-in-envrc-and-at-least-32-chars",
    "MAGIC_LINK_BASE_URL": "http://localhost:8080",
    "RESEND_API_KEY": "re_123",
    "RESEND_FROM": "jobs@example.org",
}


@pytest.mark.req("T12", "H05")
def test_variables_that_programs_share_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    write("[auth]\nsecret = 'the-one-that-rota-init-has-made-for-this-file'\n")
    for name, value in LOCAL.items():
        monkeypatch.setenv(name, value)
    loaded = load_with_sources()
    settings = loaded.checked()
    assert settings.app.env == "local"
    assert settings.database.dsn == LOCAL["DATABASE_URL"]
    assert settings.auth.secret == LOCAL["JWT_SECRET"]
    assert settings.server.url == LOCAL["MAGIC_LINK_BASE_URL"]
    assert (settings.mail.resend_key, settings.mail.sender) == ("re_123", "jobs@example.org")
    assert sorted(loaded.sources.values()) == sorted(LOCAL)


@pytest.mark.req("T12")
@pytest.mark.parametrize("variable", SHARED_VARIABLES)
def test_a_rota_variable_wins_over_a_shared_one(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    section, key = SHARED_VARIABLES[variable]
    own = f"ROTA_{section}_{key}".upper()
    monkeypatch.setenv(own, LOCAL[variable])
    monkeypatch.setenv(variable, {"ENV": "staging", "DATABASE_URL": "postgres://other/db"}.get(variable, "?" * 40))
    loaded = load_with_sources()
    assert getattr(getattr(loaded.checked(), section), key) == LOCAL[variable]
    assert loaded.sources == {(section, key): own}


@pytest.mark.req("T12")
@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("postgresql+asyncpg://sync:sync@db:5432/sync", "postgresql://sync:sync@db:5432/sync"),
        ("postgres+psycopg://db/x", "postgres://db/x"),
        ("postgresql://db/x?application_name=a+b://c", "postgresql://db/x?application_name=a+b://c"),
    ],
)
def test_an_address_may_name_the_driver_of_sqlalchemy(given: str, read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings(database_url=given).database.dsn == read
    monkeypatch.setenv("DATABASE_URL", given)
    assert load_settings().database.dsn == read


@pytest.mark.req("T12")
def test_shared_variables_that_are_meant_for_another_program_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ENV": "test", "DATABASE_URL": "mysql://me@db/x", "JWT_SECRET": ""}.items():
        monkeypatch.setenv(name, value)
    assert load_settings() == Settings()


@pytest.mark.req("T12")
def test_a_wrong_shared_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JWT_SECRET", "too-short")
    monkeypatch.setenv("DATABASE_URL", "postgress://db/x")
    with pytest.raises(ConfigError, match=r"database.url=\*\*\* is not allowed \(DATABASE_URL\)") as caught:
        load_settings()
    assert "auth.secret=*** is not allowed (JWT_SECRET); allowed: at least 32 random characters" in str(caught.value)


@pytest.mark.req("H09")
class TestPasswords:
    @pytest.mark.parametrize(
        "url", ["postgresql://a:b@host/db", "postgres://a:b@host", "host=x password=b", "postgresql://host/db?password=b"]
    )
    def test_there_is_one_of_them(self, url: str) -> None:
        write(f'[database]\nurl = "{url}"\npassword_file = "/run/secrets/password"\n')
        with pytest.raises(ConfigError, match=r"the password in database\.url and database\.password_file exclude each other"):
            load_settings()
        write('[database]\nurl = "postgresql://a@host:5432/db"\npassword_file = "/x"\npassword_command = "x"\n')
        with pytest.raises(ConfigError, match=r"database\.password_file and database\.password_command exclude each other"):
            load_settings()

    def test_off_clears_what_the_file_says(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write('[database]\nurl = "postgresql://a@host/db"\npassword_file = "/x"\n')
        assert load_settings().database.dsn.password_file == Path("/x")
        monkeypatch.setenv("ROTA_DATABASE_PASSWORD_FILE", "off")
        monkeypatch.setenv("ROTA_DATABASE_PASSWORD_COMMAND", "pass show 'my db'")
        dsn = load_settings().database.dsn
        assert (dsn.password_file, dsn.password_command) == (None, "pass show 'my db'")

    @pytest.mark.parametrize("command", ["' '", "pass 'open"])
    def test_a_command_that_is_none(self, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ROTA_DATABASE_PASSWORD_COMMAND", " " if command == "' '" else command)
        with pytest.raises(ConfigError, match=r"database\.password_command=.* is not allowed"):
            load_settings()
