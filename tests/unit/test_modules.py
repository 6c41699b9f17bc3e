"""Tasks that are spread over modules: which modules are imported, when, and what is said of one that cannot be."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import command
from tests.support.wait import PATIENCE_S

from rota import Rota
from rota.cli.locate import need_app
from rota.config import load_settings
from rota.contrib.testing.harness import harness
from rota.errors import ConfigError, UnknownTask
from rota.modules import check_names, import_modules

APP = "from rota import Rota\napp = Rota('postgresql://nowhere', modules={modules!r})\n"
TASK = "from app import app\n\n@app.task\ndef {name}() -> None: ...\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to import modules from; they are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if not name.startswith("rota"):
            del sys.modules[name]


def write(project: Path, **modules: str) -> None:
    """Write modules; `shop__mail` is shop/mail.py, and folders become packages."""
    for name, text in modules.items():
        file = project.joinpath(*name.split("__")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        for folder in file.parents[: len(file.relative_to(project).parts) - 1]:
            (folder / "__init__.py").touch()
        file.write_text(text)


def own_tasks(app: Rota) -> set[str]:
    return {name for name, spec in app.tasks.items() if not spec.system}


def test_modules_are_imported_when_all_tasks_are_needed_and_not_before(project: Path) -> None:
    write(project, app=APP.format(modules=["timetable"]), timetable=TASK.format(name="digest"))
    from app import app  # type: ignore[import-not-found]

    assert own_tasks(app) == set()
    assert "timetable" not in sys.modules
    assert "digest" in {spec.name for spec in app.definitions()}
    assert own_tasks(app) == {"digest"}


@pytest.mark.parametrize("need", ["worker", "control", "schedules", "job"])
def test_everything_that_needs_all_tasks_imports_them(need: str, project: Path) -> None:
    write(project, app=APP.format(modules="timetable"), timetable=TASK.format(name="digest"))
    from app import app

    match need:
        case "worker":
            app.worker()
        case "job":
            app.job("digest")
        case _:
            getattr(app, need)
    assert own_tasks(app) == {"digest"}


def test_a_server_imports_them(project: Path) -> None:
    from rota.server.asgi import make_asgi

    write(project, app=APP.format(modules="timetable"), timetable=TASK.format(name="digest"))
    from app import app

    make_asgi(app, settings=load_settings(database_url="postgresql://nowhere", app_env="local"))
    assert own_tasks(app) == {"digest"}


def test_the_pytest_plugin_imports_them(project: Path, dsn: str) -> None:
    write(project, app=APP.format(modules="timetable"), timetable=TASK.format(name="digest"))
    from app import app

    with harness(app, dsn) as rota:
        rota.assert_not_enqueued("digest")  # refuses a task that the application does not have
        app.enqueue("digest")
        rota.assert_enqueued("digest")
        assert rota.drain_sync() == {"completed": 1}


def test_commands_import_them_also_where_the_settings_name_them(project: Path) -> None:
    write(project, app="from rota import Rota\napp = Rota()\n", timetable=TASK.format(name="digest"))
    (project / "rota.toml").write_text("[app]\nmodules = ['timetable']\n")
    assert own_tasks(need_app()) == {"digest"}


def test_a_star_is_every_module_of_a_package(project: Path) -> None:
    write(
        project,
        app=APP.format(modules=["shop.tasks.*"]),
        shop__other=TASK.format(name="not_this"),
        shop__tasks__mail=TASK.format(name="mail"),
        shop__tasks__stock__count=TASK.format(name="count"),
    )
    (project / "shop/tasks/__main__.py").write_text("raise SystemExit('run by an import')")
    assert own_tasks(need_app("app")) == {"mail", "count"}


def test_a_package_alone_is_its_own_module(project: Path) -> None:
    write(project, app=APP.format(modules=["shop"]), shop__mail=TASK.format(name="mail"))
    assert own_tasks(need_app("app")) == set()


def test_an_unknown_task_stays_unknown(project: Path) -> None:
    write(project, app=APP.format(modules="timetable"), timetable=TASK.format(name="digest"))
    with pytest.raises(UnknownTask, match="did you mean 'digest'"):
        need_app("app").job("digset")


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("1 / 0\n", r"module 'timetable' cannot be imported: ZeroDivisionError: division by zero \(\S+timetable.py:1\)"),
        ("import jsonn\n", r"ModuleNotFoundError: No module named 'jsonn' \(\S+timetable.py:1\)"),
        ("x = = 1", r"SyntaxError: .*timetable.py:1\)"),
        ("import json\n\njson.loads('{')", r"JSONDecodeError: .* \(\S+timetable.py:3\)"),  # the user's line, not json's
    ],
)
def test_a_module_that_fails_is_named_with_the_users_own_line(module: str, message: str, project: Path) -> None:
    write(project, app=APP.format(modules="timetable"), timetable=module)
    for _ in range(2):  # a failure is no success the second time
        with pytest.raises(ConfigError, match=message):
            need_app("app")


def test_a_module_that_is_missing_is_named_with_the_one_that_was_probably_meant(project: Path) -> None:
    write(project, app=APP.format(modules="timetabel"), timetable=TASK.format(name="digest"))
    with pytest.raises(ConfigError, match=r"there is no module 'timetabel' in .*; did you mean 'timetable'"):
        need_app("app")


@pytest.mark.parametrize("name", ["", "shop/tasks", "shop.tasks.py:app", ".tasks", "shop.", "*", 5])
def test_what_is_no_name_of_a_module_is_refused(name: object) -> None:
    with pytest.raises(ConfigError, match="is not the name of a module; write it as in an import statement"):
        check_names([name])  # type: ignore[list-item]


def test_a_star_needs_a_package(project: Path) -> None:
    write(project, single="")
    with pytest.raises(ConfigError, match=r"'single.\*' needs a package, and single is a single module"):
        import_modules(["single.*"])


SCRIPT = """\
from rota import Rota

print("run as", __name__)
app = Rota("postgresql://nowhere", modules=["timetable"])

if __name__ == "__main__":
    app.worker()
    print("tasks", [name for name, spec in app.tasks.items() if not spec.system])
"""


@pytest.mark.parametrize("arguments", [["app.py"], ["-m", "app"]])
def test_a_script_is_not_run_a_second_time_by_a_module_that_imports_it(arguments: list[str], project: Path) -> None:
    write(project, app=SCRIPT, timetable=TASK.format(name="digest"))
    done = subprocess.run(
        [sys.executable, *arguments], cwd=project, env=command.environment(), capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (done.stdout, done.returncode) == ("run as __main__\ntasks ['digest']\n", 0), done.stderr
