"""Passwords that are kept in a file or printed by a command: every new connection has that of now."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.invoke import Rota as Command
from tests.support.isolated import app as isolated
from tests.support.postgres import migrate
from tests.support.serving import serving, settings_for
from tests.support.wait import until

import rota
from rota import Rota
from rota.config.dsn import Dsn, alogin, login
from rota.db.embedded import EmbeddedPostgres
from rota.engine.options import WorkerOptions
from rota.engine.worker import Worker
from rota.errors import ConfigError, DatabaseError

pytestmark = pytest.mark.req("H09")


class Guarded:
    """A database with a role whose password changes, and the file that it is in."""

    def __init__(self, postgres: EmbeddedPostgres, file: Path) -> None:
        self.admin = psycopg.connect(postgres.dsn(), autocommit=True)
        self.url = f"postgresql://app@127.0.0.1:{postgres.port}/postgres"
        self.file = file
        self.admin.execute("CREATE ROLE app LOGIN SUPERUSER")
        self.change("first")

    def change(self, password: str, *, write: bool = True) -> None:
        """Change the password, and end all sessions."""
        self.admin.execute(f"ALTER ROLE app PASSWORD '{password}'".encode())
        if write:
            self.file.write_text(f"{password}\n")
        self.admin.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = 'app'")

    def run(self, task: str) -> Callable[[], Any]:
        """Enqueue a job; gives what tells its outcome."""
        (job,) = self.admin.execute("SELECT rota.enqueue(%s, '{}'::jsonb)", [task]).fetchone() or (None,)
        query = "SELECT outcome FROM rota.run WHERE final AND job_id = %s"
        return lambda: self.admin.execute(query, [job]).fetchone()


@pytest.fixture
def guarded(own_postgres: EmbeddedPostgres, tmp_path: Path) -> Iterator[Guarded]:
    migrate(own_postgres.dsn())
    guarded = Guarded(own_postgres, tmp_path / "password")
    with guarded.admin:
        yield guarded


@pytest.fixture(params=["file", "command"])
def where(request: pytest.FixtureRequest, guarded: Guarded) -> dict[str, str]:
    """Settings that say where the password is."""
    if request.param == "file":
        return {"password_file": str(guarded.file)}
    return {"password_command": f"cat {guarded.file}"}


async def test_servers_workers_and_enqueues_follow(guarded: Guarded, where: dict[str, str]) -> None:
    settings = settings_for(guarded.url, **{f"database_{name}": value for name, value in where.items()})
    app = Rota(settings=settings)

    @app.task
    async def work() -> None: ...

    worker = Worker(settings.database.dsn, {**app.tasks, **isolated.tasks}, WorkerOptions(concurrency=2))
    working = asyncio.create_task(worker.run())
    async with serving(app) as server:
        for password in ("first", "second", "third"):
            guarded.change(password)
            async with server.client.get("/auth/me", headers={"Authorization": "Bearer rota_x"}) as answer:
                assert answer.status == 401  # by what the database knows
            await work.aenqueue()
            await asyncio.to_thread(work.enqueue)
            await until(lambda: guarded.admin.execute("SELECT FROM rota.task WHERE name = 'tell_pid'").fetchall())
            outcome = guarded.run("tell_pid")  # in a process of its own
            assert await until(outcome) == ("completed",)
    worker.stop()
    await working


def test_commands_follow(
    guarded: Guarded, where: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = {f"ROTA_DATABASE_{name.upper()}": value for name, value in where.items()}
    command = Command(guarded.url, tmp_path, monkeypatch, capsys, **variables)
    for password in ("first", "second"):
        guarded.change(password)
        for words in (["queues", "list"], ["migrate", "status"], ["scheduler", "tick"], ["tasks", "list"], ["doctor"]):
            assert command(*words).code == 0
    guarded.change("another", write=False)
    assert "password authentication failed" in command("queues", "list").err


def test_a_stale_password_is_named_and_forgotten_as_soon_as_it_changes(guarded: Guarded) -> None:
    app = Rota(settings=settings_for(guarded.url, database_password_file=str(guarded.file), database_connect_timeout_s=1))

    @app.task
    def work() -> None: ...

    with app:
        work.enqueue()
        guarded.change("secret-2", write=False)
        with pytest.raises(DatabaseError, match="password authentication failed") as raised:
            work.enqueue()
        assert "secret" not in str(raised.value)
        guarded.file.write_text("secret-2")
        work.enqueue()
        guarded.change("third")
        guarded.file.unlink()
        with pytest.raises(DatabaseError, match=r"database\.password_file='.*password' cannot be read: No such file"):
            work.enqueue()


PYTHON = f"{sys.executable} -c"


class TestReading:
    def test_only_the_end_of_the_line_is_taken_off(self, tmp_path: Path) -> None:
        (tmp_path / "password").write_text(" a b\r\n")
        assert login(Dsn("host=x", tmp_path / "password")) == {"password": " a b"}
        assert login(Dsn("host=x", None, f"""{PYTHON} 'print(" a b")'""")) == {"password": " a b"}
        assert login("postgresql://u:p@x/y") == login(Dsn("host=x")) == {}

    @pytest.mark.parametrize(
        ("command", "said"),
        [
            ("no-such-program --password hidden", "no-such-program cannot be started: No such file or directory"),
            (f"""{PYTHON} 'import sys; print("hidden"); sys.exit("token expired")'""", "ended with exit code 1: token expired"),
            (f"{PYTHON} pass", "printed no password to standard output"),
        ],
    )
    async def test_commands_that_fail(self, command: str, said: str) -> None:
        with pytest.raises(ConfigError, match=rf"database\.password_command: .*{said}") as raised:
            await alogin(Dsn("host=x", None, command))
        assert "hidden" not in str(raised.value)
        assert "by hand" in str(raised.value)

    def test_an_empty_file(self, tmp_path: Path) -> None:
        (tmp_path / "password").write_text("\n")
        with pytest.raises(ConfigError, match="is empty: write the password into it"):
            login(Dsn("host=x", tmp_path / "password"))


def test_whatever_connects_reads_the_password() -> None:
    """Those that are left out connect to a server of their own, or to that of a test."""
    source = Path(rota.__file__).parent
    texts = {str(path.relative_to(source)): path.read_text() for path in source.rglob("*.py")}
    own = ("contrib/", "cli/demo.py", "cli/dev.py", "db/single.py", "apps/feeds/__init__.py")
    connecting = {
        name for name, text in texts.items() if re.search(r"(psycopg|Connection)\.connect\(", text) and not name.startswith(own)
    }
    assert connecting == {"cli/database.py", "control/doctor/__init__.py", "control/doctor/server.py", "db/connection.py"}
    assert all(re.search(r"\*\*(await a)?login\(", texts[name]) for name in connecting)
