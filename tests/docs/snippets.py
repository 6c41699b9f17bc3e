"""Runs the snippets of a document, in order, as a reader would: in one folder, with one database.

    ```python app.py     a file to save
    ```python            a script to run; `await` works at the top
    ```console           `$ command` lines to run, each followed by what it prints (… stands for anything)
    ```sql               statements for psql
    ```toml rota.toml    a file to save
    ```text, ```mermaid  not run

A port that a command listens on (`--port 8467`, `ROTA_SERVER_PORT=8467`) is another one here, which is free, wherever the document
names it.

A comment before a block says what a reader would do by hand: `<!-- in the background -->` leaves a command running until the end
of the document, `<!-- not run: reason -->` leaves it out.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from tests.support.wait import PATIENCE_S, wait_until
from tests.support.zygote import Fork, zygote

BLOCK = re.compile(
    r"(?:<!-- (?P<note>[^>]+?) -->\n)?^```(?P<language>\w+)(?: (?P<file>[\w./-]+))?\n(?P<body>.*?)^```$", re.M | re.S
)
PORT = re.compile(r"(?:--port |ROTA_SERVER_PORT=)(\d{4,5})")
SHELL = re.compile(r"[|><&;$`*?~#(){}\[\]\\]")
RUNNER = """
import ast, asyncio, inspect, sys
code = compile(sys.stdin.read(), "snippet", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
async def main():
    made = eval(code, {"__name__": "__main__"})
    if inspect.isawaitable(made):
        await made
asyncio.run(main()) if code.co_flags & inspect.CO_COROUTINE else exec(code, {"__name__": "__main__"})
"""


@dataclass(frozen=True)
class Snippet:
    """One fenced block of a document."""

    line: int
    language: str
    file: str | None
    note: str
    body: str


def read_snippets(document: Path) -> list[Snippet]:
    """The blocks of a document that mean something to us."""
    text = document.read_text("utf-8")
    for port in set(PORT.findall(text)):
        text = re.sub(rf"(?<=[:= ]){port}\b", str(_free_port()), text)
    return [
        Snippet(text.count("\n", 0, match.start("body")), match["language"], match["file"], match["note"] or "", match["body"])
        for match in BLOCK.finditer(text)
        if match["language"] not in ("text", "mermaid") and not (match["note"] or "").startswith("not run: ")
    ]


class Reader:
    """Somebody who follows a document in an empty folder."""

    def __init__(self, folder: Path, dsn: str, *, forked: bool = False) -> None:
        self._folder = folder
        self._dsn = dsn
        self._forked = forked  # else everything is started as a reader would
        self._background: list[subprocess.Popen[bytes] | Fork] = []
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ROTA_")},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "ROTA_DATABASE_URL": dsn,
            "COLUMNS": "200",
            "NO_COLOR": "1",
        }

    def follow(self, snippet: Snippet) -> None:
        """Does what a block says, and fails if it does not come out as shown."""
        if snippet.file is not None:
            file = self._folder / snippet.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(snippet.body)
        elif snippet.language == "python":
            self._run([sys.executable, "-c", RUNNER], text=snippet.body)
        elif snippet.language == "console":
            for command, expected in _commands(snippet.body):
                if snippet.note == "in the background":
                    self._start(command)
                else:
                    words = _plain_command(command) if self._forked else None
                    _compare(command, self._run(words or ["bash", "-c", command]), expected)
        elif snippet.language == "sql":
            with psycopg.connect(self._dsn, autocommit=True) as conn:
                conn.execute(snippet.body.encode(), prepare=False)
        else:
            raise AssertionError(f"no idea how to follow a {snippet.language} block")

    def _run(self, command: list[str], text: str = "") -> str:
        if self._forked and command[0] != "bash":
            done = zygote().run(command, cwd=self._folder, env=self._environment, text=text)
        else:
            done = subprocess.run(
                command, cwd=self._folder, env=self._environment, input=text, capture_output=True, text=True, timeout=PATIENCE_S
            )
        if done.returncode:
            raise AssertionError(f"{text or shlex.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def _start(self, command: str) -> None:
        """Leave a command running; a worker is waited for, as somebody would who looks at the screen."""
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            before = _workers(conn)
            self._background.append(self._begin(command))
            if command.startswith("rota worker"):
                wait_until(lambda: _workers(conn) > before, PATIENCE_S, f"for `{command}`")

    def _begin(self, command: str) -> subprocess.Popen[bytes] | Fork:
        words = _plain_command(command) if self._forked else None
        if words is not None:
            return zygote().start(words, cwd=self._folder, env=self._environment, files=[None, os.devnull, os.devnull])
        return subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def close(self) -> None:
        """Stops what was left running."""
        for process in self._background:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._background:
            process.wait(PATIENCE_S)


def _workers(conn: psycopg.Connection[Any]) -> int:
    """How many there are."""
    with suppress(psycopg.errors.UndefinedTable):
        return len(conn.execute("SELECT FROM rota.worker WHERE backend_pid IS NOT NULL").fetchall())
    return 0


def _plain_command(command: str) -> list[str] | None:
    """The words of a command that needs no shell."""
    return shlex.split(command) if command.startswith("rota ") and not SHELL.search(command) else None


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def _commands(body: str) -> list[tuple[str, str]]:
    parts = re.split(r"^\$ ", body, flags=re.M)[1:]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


def _compare(command: str, printed: str, expected: str) -> None:
    """Every expected line must come, in order; spaces count once, and … stands for anything."""
    wanted = [line for line in expected.splitlines() if line.strip()]
    lines = iter(printed.splitlines())
    for line in wanted:
        pattern = re.compile(r"\s+".join(re.escape(word).replace("…", ".*") for word in line.split()))
        shown = f"$ {command}\nprinted:\n{printed}\nbut should print:\n{expected}"
        assert any(pattern.fullmatch(found.strip()) for found in lines), shown
