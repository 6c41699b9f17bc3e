"""The plugin in pytest runs of its own, as other projects have it."""

from __future__ import annotations

import json

import psycopg
import pytest
from tests.support.postgres import Databases

pytest_plugins = ["pytester"]

APP = """
from rota import Rota
app = Rota("postgresql://nobody@localhost:1/never")

@app.task
async def greet(name: str) -> str:
    return f"hello {name}"
"""
INI = """
[pytest]
rota_app = app:app
pythonpath = .
filterwarnings = error
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
"""
TEST = """
from app import greet

async def test_greeting(rota):
    await greet.aenqueue("Ann")
    rota.assert_enqueued(greet, name="Ann")
    assert await rota.drain() == {"completed": 1}
"""


@pytest.fixture
def project(pytester: pytest.Pytester, postgres: Databases, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with an application, whose tests have databases on the server of this run."""
    monkeypatch.setenv("ROTA_TEST_DATABASE_URL", postgres.place.url)
    monkeypatch.delenv("ROTA_DATABASE_URL", raising=False)
    pytester.makepyfile(app=APP)
    pytester.makeini(INI)
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    plain = ("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:schemathesis")  # which takes a second to load
    return project.runpytest_subprocess(*plain, *arguments, timeout=120)


def test_it_works(project: pytest.Pytester) -> None:
    project.makepyfile(TEST)
    run(project).assert_outcomes(passed=1)


def test_it_works_with_anyio(project: pytest.Pytester) -> None:
    pytest.importorskip("anyio")
    project.makepyfile("import pytest\npytestmark = pytest.mark.anyio\n" + TEST)
    project.makeconftest("import pytest\n@pytest.fixture\ndef anyio_backend(): return 'asyncio'")
    project.makeini("\n".join(line for line in INI.splitlines() if not line.startswith("asyncio")))
    run(project, "-p", "no:asyncio").assert_outcomes(passed=1)


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_project_that_does_not_use_it_does_not_pay(project: pytest.Pytester, processes: str) -> None:
    project.makepyfile("import sys\ndef test_something():\n    assert not {'psycopg', 'pydantic', 'rota.app'} & set(sys.modules)")
    project.makeconftest(
        """
        import sys

        def pytest_terminal_summary():
            print("imported:", sorted({"psycopg", "pydantic", "rota.app", "rota.contrib.testing.databases"} & set(sys.modules)))
        """
    )
    result = run(project, "-n", processes)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*imported: []*"])


def test_a_server_of_ones_own_is_left_as_it_was(project: pytest.Pytester, postgres: Databases) -> None:
    project.makepyfile(
        """
        import pytest
        from app import greet

        @pytest.mark.parametrize("number", range(6))
        def test_greeting(rota, number):
            greet.enqueue(str(number))
            assert [job.payload for job in rota.jobs()] == [{"name": str(number)}]
        """
    )
    run(project, "-n", "2").assert_outcomes(passed=6)
    with psycopg.connect(postgres.place.url, autocommit=True) as conn:
        names = [name for (name,) in conn.execute("SELECT datname FROM pg_database").fetchall()]
    assert {name for name in names if name.startswith("rota_test_") and not name.startswith(postgres.place.name)} == set()


def test_the_processes_of_a_run_share_one_server(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTA_TEST_DATABASE_URL")
    project.makepyfile(
        """
        import json, os, pathlib
        import psycopg
        import pytest

        @pytest.mark.parametrize("number", range(8))
        def test_something(rota, number):
            with psycopg.connect(rota.dsn) as conn:
                (port,), = conn.execute("SHOW port").fetchall()
            pathlib.Path(f"seen-{number}").write_text(json.dumps([os.getpid(), port, rota.dsn]))
        """
    )
    run(project, "-n", "2", "--dist", "loadgroup").assert_outcomes(passed=8)
    seen = [json.loads(path.read_text()) for path in project.path.glob("seen-*")]
    assert len({process for process, _, _ in seen}) == 2
    assert len({port for _, port, _ in seen}) == 1
    assert len({dsn for _, _, dsn in seen}) == 8
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(seen[0][2])  # the server went with the run


def test_every_process_is_told_what_is_wrong_with_the_server(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    project.makepyfile(TEST)
    monkeypatch.setenv("ROTA_TEST_DATABASE_URL", "host=localhost")
    result = run(project, "-n", "1")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the server of the test run did not start: *ROTA_TEST_DATABASE_URL is not a URL: write *"])


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("", "*no application to test: set rota_app*define a fixture rota_app*"),
        ("app:greet", "*rota_app='app:greet' is a Task, not a Rota*"),
        ("app", "*rota_app='app' is a module, not a Rota: write module:attribute*"),
    ],
)
def test_an_application_that_is_not_there_is_asked_for(project: pytest.Pytester, location: str, message: str) -> None:
    project.makepyfile(TEST)
    result = run(project, "-o", f"rota_app={location}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])


def test_the_application_can_be_named_in_rota_toml(project: pytest.Pytester) -> None:
    project.makepyfile(TEST)
    project.path.joinpath("rota.toml").write_text('[app]\nlocation = "app:app"\n')
    run(project, "-o", "rota_app=").assert_outcomes(passed=1)
