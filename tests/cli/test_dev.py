"""`rota dev`: everything in one go, started anew on save."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import psycopg
from tests.docs.snippets import read_snippets
from tests.support import command
from tests.support.processes import alive, descendants, running, until
from tests.support.sign_in import press_button, printed_link, who_am_i
from tests.support.wait import PATIENCE_S

from rota.cli.dev import Sources

ROOT = Path(__file__).parents[2]
APP = """
from rota import Rota

app = Rota()

@app.task
async def answer() -> int:
    return {answer}
"""


def write(project: Path, text: str) -> None:
    (project / "app.py").write_text(text)


def write_readme(project: Path) -> None:
    """Do what README says, up to its schedules: its two files, and the command that names the second one."""
    for snippet in read_snippets(ROOT / "README.md"):
        if snippet.file is not None:
            (project / snippet.file).write_text(snippet.body)
        for line in snippet.body.splitlines():
            if line.startswith("$ rota config set app.modules "):
                assert command.run(*line.split()[2:], cwd=project).returncode == 0


def database_url(project: Path) -> str:
    said = until(lambda: re.search(r"ROTA_DATABASE_URL='(\S+)'", (project / "stderr").read_text()))
    return str(said[1])


def ask(conn: psycopg.Connection[Any]) -> Any:
    until(lambda: conn.execute("SELECT FROM rota.task").fetchall())
    (job,) = conn.execute("SELECT rota.enqueue('answer')").fetchone() or ()
    (result,) = until(lambda: conn.execute("SELECT result FROM rota.run WHERE final AND job_id = %s", [job]).fetchone())
    return result


def test_it_works_and_is_started_anew_on_save(folder: Path) -> None:
    write(folder, APP.format(answer=41))
    with running("dev", cwd=folder) as dev:
        url = database_url(folder)
        assert (folder / ".rota" / ".gitignore").read_text() == "*\n"
        link = until(lambda: printed_link((folder / "stderr").read_text()), why="for a link")
        cookie = press_button(link)
        assert cookie is not None
        assert who_am_i(link, cookie)["role"] == "admin"
        assert press_button(link) is None  # it is good once
        with psycopg.connect(url, autocommit=True) as conn:
            assert ask(conn) == 41
            write(folder, APP.format(answer=42))
            until(lambda: "app.py changed: starting anew" in (folder / "stderr").read_text())
            until(lambda: len(conn.execute("SELECT FROM rota.worker WHERE stopped_at IS NULL").fetchall()) == 1)
            assert until(lambda: ask(conn) == 42)
            assert who_am_i(link, cookie)["role"] == "admin"  # also with the server that was started anew

            write(folder, "app = = 1")
            until(lambda: "SyntaxError" in (folder / "stderr").read_text())
            until(lambda: "it is started again when a file changes" in (folder / "stderr").read_text())
            write(folder, APP.format(answer=43) + "app.include('rota.apps.feeds')\n")
            assert ask(conn) == 43
            assert conn.execute("SELECT count(*) FROM feeds.feed").fetchone() == (0,)  # what it includes has its tables
        family = descendants(dev.pid)
        dev.send_signal(signal.SIGINT)
        assert dev.wait(PATIENCE_S) == 0
        until(lambda: not any(alive(pid) for pid in family))

    with running("dev", "-a", "app:app", cwd=folder):
        until(lambda: (folder / "stderr").read_text().count("In another terminal") == 2)
        again = until(lambda: printed_link((folder / "stderr").read_text().rpartition("In another terminal")[2]))
        assert who_am_i(again, cookie)["role"] == "admin"  # its secret is kept
        assert press_button(again) is not None
        assert (folder / ".rota/postgres/auth_secret").stat().st_mode & 0o077 == 0
        with psycopg.connect(url, autocommit=True) as conn:  # the same as before
            assert conn.execute("SELECT count(*) > 2 FROM rota.run").fetchone() == (True,)


def test_readme_as_a_newcomer_follows_it(folder: Path) -> None:
    write_readme(folder)
    with running("dev", cwd=folder), psycopg.connect(database_url(folder), autocommit=True) as conn:
        known = "SELECT name FROM rota.schedule WHERE name IN ('digest', 'count_stock') AND next_run_at > rota.now()"
        until(lambda: len(conn.execute(known).fetchall()) == 2)
        # A further module is watched like the others, and one that is wrong is reported where its author looks.
        with open(folder / "timetable.py", "a") as timetable:
            timetable.write("\n\n@app.task(schedule=cron('61 * * * *'))\ndef tidy() -> None: ...\n")
        until(lambda: "timetable.py changed: starting anew" in (folder / "stderr").read_text())
        line = (folder / "timetable.py").read_text().count("\n") - 1
        until(lambda: f"timetable.py:{line}, task tidy)" in (folder / "stderr").read_text())


def test_it_is_all_gone_when_it_is_killed(folder: Path) -> None:
    write(folder, APP.format(answer=41))
    with running("dev", cwd=folder) as dev:
        with psycopg.connect(database_url(folder), autocommit=True) as conn:
            ask(conn)
        family = descendants(dev.pid)
        assert len(family) > 2
        dev.kill()
        until(lambda: not any(alive(pid) for pid in family))


def test_two_in_one_folder(folder: Path) -> None:
    write(folder, APP.format(answer=41))
    with running("dev", cwd=folder):
        database_url(folder)
        second = command.run("dev", cwd=folder)
        assert second.returncode == 4
        assert "is already running" in second.stderr


def test_sources_are_watched_but_not_what_lies_beside_them(tmp_path: Path) -> None:
    for folder in ("shop", ".hidden", "venv", "shop/__pycache__"):
        (tmp_path / folder).mkdir()
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    sources = Sources(tmp_path)
    assert sources.changed() == []
    for name in ("shop/a.py", "rota.toml", ".hidden/b.py", "venv/c.py", "shop/__pycache__/d.py", "notes.txt"):
        (tmp_path / name).touch()
    assert sources.changed() == ["rota.toml", "shop/a.py"]
    assert sources.changed() == []
    (tmp_path / "shop" / "a.py").write_text("x = 1")
    assert sources.changed() == ["shop/a.py"]
    (tmp_path / "rota.toml").unlink()
    assert sources.changed() == ["rota.toml"]
