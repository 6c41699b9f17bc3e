"""`rota config` and `rota init`."""

from __future__ import annotations

import io
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.support import command
from tests.support.invoke import Rota
from tests.support.wait import PATIENCE_S

from rota.config import SECTIONS
from rota.config.loading import load

NOWHERE = "postgresql://app:hunter2@127.0.0.1:1/none"


@pytest.fixture
def rota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rota:
    """Settings need no database: the one that is named is not there."""
    return Rota(NOWHERE, tmp_path, monkeypatch, capsys)


@pytest.mark.req("F02", "K02")
class TestConfig:
    def test_set_get_unset(self, rota: Rota, tmp_path: Path) -> None:
        assert rota("config", "get", "jobs.worker_concurrency").out == "4\n"
        done = rota("config", "set", "jobs.worker_concurrency", "8")
        assert (done.code, done.out, done.err) == (0, "", "jobs.worker_concurrency is set in rota.toml\n")
        assert (tmp_path / "rota.toml").read_text() == "[jobs]\nworker_concurrency = 8\n"
        assert rota("config", "get", "jobs.worker_concurrency").out == "8\n"
        got = rota("config", "get", "jobs.worker_concurrency", "--json")
        assert got.data == {"key": "jobs.worker_concurrency", "value": 8, "source": "rota.toml"}
        assert rota("config", "unset", "jobs.worker_concurrency").code == 0
        assert rota("config", "get", "jobs.worker_concurrency").out == "4\n"

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("jobs.enabled", "true"),
            ("jobs.queues", "mail:3,default:1"),
            ("jobs.lease_duration_s", "60.5"),
            ("http.deny", "198.51.100.0/24,*.example.com"),
            ("mail.smtp_user", "ann @ home"),
            ("housekeeping.rules", '[{"task": "expired_auth_cleanup", "table": "t", "where": "true", "batch": 10}]'),
        ],
    )
    def test_what_get_prints_set_takes(self, rota: Rota, key: str, value: str) -> None:
        assert rota("config", "set", key, value).code == 0
        assert rota("config", "get", key).out == value + "\n"

    def test_what_is_not_set_prints_nothing(self, rota: Rota) -> None:
        answer = rota("config", "get", "server.url")
        assert (answer.code, answer.out, answer.err) == (0, "", "server.url is not set\n")

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (("set", "jobs.worker_concurency", "8"), "did you mean 'jobs.worker_concurrency'?"),
            (("get", "jobs.worker_concurency"), "did you mean 'jobs.worker_concurrency'?"),
            (("unset", "jobs.worker_concurency"), "did you mean 'jobs.worker_concurrency'?"),
            (("set", "jobs.enabled", "yes"), "jobs.enabled='yes' is not allowed (the value given); allowed: true or false"),
            (("set", "jobs.worker_concurrency", "65"), "allowed: a whole number from 1 to 64"),
            (("show", "jbos"), "the sections are"),
        ],
    )
    def test_what_is_wrong_ends_with_2_and_changes_nothing(
        self, rota: Rota, tmp_path: Path, args: tuple[str, ...], message: str
    ) -> None:
        answer = rota("config", *args)
        assert (answer.code, answer.out) == (2, "")
        assert message in answer.err
        assert list(tmp_path.iterdir()) == []

    def test_show_says_where_everything_comes_from(self, rota: Rota, tmp_path: Path) -> None:
        (tmp_path / "rota.toml").write_text("[jobs]\nworker_concurrency = 8\n")
        lines = {line.split()[0]: line.split() for line in rota("config", "show", "--sources").out.splitlines()}
        assert len(lines) == 1 + sum(map(len, SECTIONS.values()))
        assert lines["jobs.worker_concurrency"] == ["jobs.worker_concurrency", "8", "rota.toml"]
        assert lines["jobs.poll_interval_ms"] == ["jobs.poll_interval_ms", "1000", "default"]
        assert lines["database.url"][2] == "ROTA_DATABASE_URL"
        assert rota("config", "show", "log").out.splitlines()[1:] == ["log.level   info", "log.format  auto"]
        assert {"key": "log.level", "value": "info", "source": "default"} in rota("config", "show", "--json").data

    def test_show_lists_variables_that_are_no_settings(self, rota: Rota) -> None:
        rota.variables["ROTA_SECRET_KEY"] = "s3cret"
        answer = rota("config", "show")
        assert (answer.code, answer.err) == (
            0,
            "ROTA_SECRET_KEY is ignored: it is not a setting; did you mean ROTA_SECRETS_KEY?\n",
        )
        [ignored] = [each for each in rota("config", "show", "--json").data if each["key"] is None]
        assert ignored == {"key": None, "value": None, "source": "ROTA_SECRET_KEY", "problem": answer.err.strip()}

    def test_secrets_are_hidden_unless_they_are_asked_for(self, rota: Rota) -> None:
        secret = "s" * 40
        assert rota("config", "set", "auth.secret", secret).code == 0
        for args in (("get", "auth.secret"), ("show",), ("show", "--json"), ("get", "database.url")):
            answer = rota("config", *args)
            assert secret not in answer.out + answer.err
            assert "hunter2" not in answer.out + answer.err
        assert "127.0.0.1:1" in rota("config", "get", "database.url").out
        assert rota("config", "get", "auth.secret", "--reveal").out == secret + "\n"
        assert rota("config", "get", "database.url", "--reveal").out == NOWHERE + "\n"

    def test_a_secret_can_come_from_stdin(self, rota: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("s" * 40 + "\n"))
        assert rota("config", "set", "auth.secret", "-").code == 0
        assert rota("config", "get", "auth.secret", "--reveal").out == "s" * 40 + "\n"

    def test_a_secret_in_a_file_that_others_can_read_is_told_of(self, rota: Rota, tmp_path: Path) -> None:
        (tmp_path / "rota.toml").write_text("")
        (tmp_path / "rota.toml").chmod(0o644)
        assert "chmod 600 rota.toml" in rota("config", "set", "secrets.key", "k" * 40).err

    def test_a_variable_that_overrules_the_file_is_told_of(self, rota: Rota) -> None:
        assert "ROTA_DATABASE_URL overrules the file" in rota("config", "set", "database.url", "postgresql://other/app").err

    def test_processes_at_once_lose_nothing(self, tmp_path: Path) -> None:
        wanted = {"jobs.worker_concurrency": 8, "server.port": 9000, "log.level": "debug", "retention.runs_days": 9}
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "rota", "config", "set", key, str(value)],
                cwd=tmp_path,
                env=command.environment(),
                stderr=subprocess.PIPE,
                text=True,
            )
            for key, value in wanted.items()
        ]
        for process in processes:
            assert process.communicate(timeout=PATIENCE_S)[1].endswith("is set in rota.toml\n")
        content = tomllib.loads((tmp_path / "rota.toml").read_text())
        assert {f"{section}.{key}": value for section, table in content.items() for key, value in table.items()} == wanted
        assert [each.name for each in tmp_path.iterdir()] == ["rota.toml"]


class TestInit:
    def test_it_writes_a_file_that_explains_everything_and_a_first_application(self, rota: Rota, tmp_path: Path) -> None:
        answer = rota("init")
        assert (answer.code, answer.out) == (0, "")
        file = tmp_path / "rota.toml"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        content = tomllib.loads(file.read_text())
        settings = load(file, content, {}).checked()
        assert len({settings.auth.secret, settings.secrets.key}) == 2
        assert all(len(value or "") >= 64 for value in (settings.auth.secret, settings.secrets.key))
        assert {(section, key) for section, table in content.items() for key in table} == {("auth", "secret"), ("secrets", "key")}
        assert settings.secrets.key not in answer.err
        compile((tmp_path / "app.py").read_text(), "app.py", "exec")

    def test_what_is_there_is_not_overwritten(self, rota: Rota, tmp_path: Path) -> None:
        (tmp_path / "rota.toml").write_text("[jobs]\n")
        (tmp_path / "main.py").write_text("")
        answer = rota("init")
        assert answer.code == 4
        assert "rota.toml is there already" in answer.err
        assert (tmp_path / "rota.toml").read_text() == "[jobs]\n"
        assert not (tmp_path / "app.py").exists()

    def test_by_force_it_is_and_secrets_stay(self, rota: Rota, tmp_path: Path) -> None:
        key = "k" * 40
        (tmp_path / "rota.toml").write_text(f"[secrets]\nkey = '{key}'\n[jobs]\nenabled = true\n")
        (tmp_path / "app.py").write_text("# mine\n")
        assert rota("init", "--force").code == 0
        content = tomllib.loads((tmp_path / "rota.toml").read_text())
        assert content["secrets"]["key"] == key
        assert "enabled" not in content["jobs"]
        assert (tmp_path / "app.py").read_text() == "# mine\n"
        assert stat.S_IMODE((tmp_path / "rota.toml").stat().st_mode) == 0o600

    def test_the_file_that_is_named_is_written(self, rota: Rota, tmp_path: Path) -> None:
        assert rota("--config", "conf.toml", "init").code == 0
        assert (tmp_path / "conf.toml").exists()

    @pytest.mark.req("T07")
    @pytest.mark.parametrize("text", [f"secrets.key = '{'k' * 40}'\n[jobs", f"secrets = '{'k' * 40}'\n"])
    def test_a_key_that_cannot_be_read_is_not_overwritten(self, rota: Rota, tmp_path: Path, text: str) -> None:
        (tmp_path / "rota.toml").write_text(text)
        answer = rota("init", "--force")
        assert answer.code == 2
        assert "rota.toml cannot be read" in answer.err
        assert "k" * 40 not in answer.err
        assert (tmp_path / "rota.toml").read_text() == text
