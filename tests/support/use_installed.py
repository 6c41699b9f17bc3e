"""Use an installed Rota: `python use_installed.py base server embedded`; run by tests/packages.py with the environment's Python.

It imports nothing of the checkout, and of Rota only what the parts that are named on its command line bring.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psycopg

import rota
from rota.errors import DISTRIBUTION

ROTA = str(Path(sys.executable).with_name("rota"))
APP = """
from rota import Rota

app = Rota()

@app.task
async def add(a: int, b: int) -> int:
    return a + b
"""
OTHER = "rota"  # the distribution of another project
WITHIN_S = 120.0  # only a hang reaches it


def base() -> None:
    """Run the command in both spellings, and import what users import."""
    for command in ([ROTA], [sys.executable, "-m", "rota"]):
        assert ask(*command, "--version") == f"rota {rota.__version__}\n"
    assert "worker" in ask(ROTA, "--help")
    assert Path(rota.__file__).is_relative_to(sys.prefix), rota.__file__
    assert version(DISTRIBUTION) == rota.__version__
    try:
        raise AssertionError(f"a stranger's package is installed: {OTHER} {version(OTHER)}")
    except PackageNotFoundError:
        pass
    for name in rota.__all__:
        getattr(rota, name)
    if importlib.util.find_spec("fastapi") is None:
        refused = subprocess.run([ROTA, "server"], capture_output=True, text=True, check=False)
        assert f"pip install '{DISTRIBUTION}[server]'" in refused.stderr, refused.stderr


def server() -> None:
    """Import the server; the dashboard's files are there."""
    from rota.server import asgi

    assert asgi.make_asgi
    pages = Path(rota.__file__).parent / "server" / "dashboard"
    assert (pages / "index.html").is_file()
    assert list(pages.glob("assets/*.js"))


def embedded() -> None:
    """Start a PostgreSQL, migrate it, run a job that the command line has enqueued, and get the dashboard from a server."""
    from rota.db.embedded import EmbeddedPostgres

    with tempfile.TemporaryDirectory() as name, EmbeddedPostgres(Path(name) / "postgres") as postgres:
        Path(name, "app.py").write_text(APP)
        dsn = postgres.dsn(tcp=True)
        os.environ |= {"ROTA_DATABASE_URL": dsn, "ENV": "local"}
        ask(ROTA, "migrate", "up", cwd=name)
        ask(ROTA, "tasks", "sync", cwd=name)
        ask(ROTA, "jobs", "enqueue", "add", '{"a": 20, "b": 22}', cwd=name)
        log = Path(name, "log")
        with log.open("w") as output:
            started = [
                subprocess.Popen([ROTA, *words], cwd=name, stdout=output, stderr=output)
                for words in (["worker"], ["server", "--port", "0"])
            ]
        try:
            with psycopg.connect(dsn, autocommit=True) as conn:
                wait(lambda: conn.execute("SELECT FROM rota.run WHERE final AND result::text = '42'").fetchall(), log)
            found = wait(lambda: re.search(r"listening on (http://\S+)", log.read_text()), log)
            assert b"<script" in wait(lambda: get(f"{found[1]}/dashboard/"), log)  # type: ignore[index]
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait(WITHIN_S)


def get(url: str) -> bytes | None:
    """Fetch a page; None while nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=WITHIN_S) as answer:
            page: bytes = answer.read()
            return page
    except OSError:
        return None


def wait(look: object, log: Path) -> object:
    """Return the first answer that is not empty."""
    deadline = time.monotonic() + WITHIN_S
    while not (answer := look()):  # type: ignore[operator]
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return answer


def ask(*command: str, cwd: str | None = None) -> str:
    """Run a command; return what it has printed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


if __name__ == "__main__":
    for part in sys.argv[1:]:
        {"base": base, "server": server, "embedded": embedded}[part]()
