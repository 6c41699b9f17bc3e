"""The frame of the command line: help, versions, exit codes, and how the application is found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.support import command

from rota.cli.locate import find_app, need_app
from rota.cli.main import COMMANDS
from rota.errors import ConfigError

APP = "from rota import Rota\napp = Rota()\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to import applications from, whose modules are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if not name.startswith("rota"):
            del sys.modules[name]


def test_help_names_every_command_and_needs_none_of_them(tmp_path: Path) -> None:
    result = command.run("--help", cwd=tmp_path, forked=False, env=command.environment(PYTHONPROFILEIMPORTTIME="1"))
    assert result.returncode == 0
    for name, words in COMMANDS.items():
        assert f"{name} " in result.stdout
        assert words in result.stdout
    for heavy in ("psycopg", "pydantic", "rich.console", "asyncio", "structlog"):
        assert f"| {heavy}\n" not in result.stderr.replace("  ", "")


OF_K02 = {"tasks", "runs", "logs", "queues", "workers", "migrate", "config", "seed", "doctor", "dev", "server", "worker"}


@pytest.mark.req("K02")
def test_the_commands_that_there_must_be() -> None:
    assert COMMANDS.keys() >= OF_K02


@pytest.mark.req("K02")
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, tmp_path: Path) -> None:
    result = command.run(name, "--help", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert f"Usage: rota {name}" in result.stdout


def test_a_typing_error_is_understood(tmp_path: Path) -> None:
    result = command.run("migrte", cwd=tmp_path)
    assert result.returncode == 2
    assert "Did you mean 'migrate'?" in result.stderr


def test_version(tmp_path: Path) -> None:
    assert command.run("--version", cwd=tmp_path, forked=False).stdout.startswith("rota 0.")


def test_a_wrong_setting_ends_with_2_and_says_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "rota.toml").write_text("[jobs]\nworker_concurrency = 65\n")
    result = command.run("migrate", "status", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith("error: jobs.worker_concurrency=65 is not allowed (rota.toml)")


def test_the_database_can_be_named_on_the_command_line(tmp_path: Path, dsn: str) -> None:
    assert command.run("--database-url", dsn, "migrate", "status", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("name", ["app.py", "main.py"])
def test_an_application_in_a_usual_place_is_found(name: str, project: Path) -> None:
    (project / name).write_text(APP)
    assert need_app() is sys.modules[name[:-3]].app


def test_an_application_named_in_the_settings_is_found(project: Path) -> None:
    (project / "shop.py").write_text(APP)
    (project / "rota.toml").write_text("[app]\nlocation = 'shop:app'\n")
    assert need_app() is sys.modules["shop"].app


def test_one_named_twice_is_one(project: Path) -> None:
    (project / "app.py").write_text(APP + "again = app\n")
    assert need_app() is sys.modules["app"].again


@pytest.mark.parametrize(
    ("location", "text", "message"),
    [
        (None, "", "no application found: .* -a module:attribute"),
        (None, APP + "other = Rota()\n", "module app has 2 applications: say which with -a app:app or -a app:other"),
        ("app", "", "module app has no Rota"),
        ("app:nothing", APP, "app:nothing does not exist, .* there is: app:app"),
        ("app:Rota", APP, "app:Rota is a type, not a Rota application"),
        ("nowhere:app", "", "there is no module 'nowhere'"),
        ("app:app", "1 / 0\n", r"module 'app' cannot be imported: ZeroDivisionError: division by zero \(.*app.py:1\)"),
        ("app:app", "\n\nx =\n", r"cannot be imported: SyntaxError: .*app.py:3\)"),
        ("app:app", "import shoop\n", r"cannot be imported: ModuleNotFoundError: No module named 'shoop' \(.*app.py:1\)"),
    ],
)
def test_what_is_wrong_with_an_application(location: str | None, text: str, message: str, project: Path) -> None:
    (project / "app.py").write_text(text)
    with pytest.raises(ConfigError, match=message):
        need_app(location)


def test_no_application_is_none_for_those_who_can_do_without(project: Path) -> None:
    assert find_app() is None
