"""Runs `rota` in this process: the same code as the command, without the half second that starting Python takes."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.support import command

from rota.cli import main

# Typer makes its commands out of signatures each time: once in a process of `rota`, a thousand times in one of the tests.
typer.main.get_command = cache(typer.main.get_command)


@dataclass(frozen=True)
class Answer:
    """What a command has said, and with which code it ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What `--json` printed."""
        answer = json.loads(self.out)
        assert answer["version"] == 1
        return answer["data"]


class Rota:
    """The command line against one database, in an empty folder."""

    def __init__(
        self, dsn: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **variables: str
    ) -> None:
        self.dsn = dsn
        self.variables = variables
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.capsys = capsys

    def __call__(self, *args: object) -> Answer:
        """Run `rota` with these arguments."""
        code = 0
        with self.monkeypatch.context() as patch:
            patch.setattr("os.environ", command.environment(ROTA_DATABASE_URL=self.dsn, **self.variables))
            patch.setattr(sys, "argv", ["rota", *map(str, args)])
            patch.chdir(self.folder)
            try:
                main.run()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
        captured = self.capsys.readouterr()
        return Answer(code, captured.out, captured.err)
