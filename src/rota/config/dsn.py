"""Connection strings whose password is kept elsewhere: in a file, or printed by a command, and read for each new connection."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from pathlib import Path
from typing import Any, Self

from rota.errors import ConfigError

COMMAND_WITHIN_S = 30


class Dsn(str):
    """A connection string that knows where its password is. Text, so that whatever takes a connection string takes it."""

    password_file: Path | None
    password_command: str | None

    def __new__(cls, url: str, password_file: Path | str | None = None, password_command: str | None = None) -> Self:
        dsn = super().__new__(cls, url)
        dsn.password_file = None if password_file is None else Path(password_file)
        dsn.password_command = password_command
        return dsn

    def to_json(self) -> list[str | None]:
        """Return what another process makes the same of."""
        return [str(self), None if self.password_file is None else str(self.password_file), self.password_command]


def login(dsn: str) -> dict[str, Any]:
    """Read the password of a connection string, as the arguments of a connect; empty if it is not kept elsewhere."""
    if isinstance(dsn, Dsn) and dsn.password_file is not None:
        return {"password": _read(dsn.password_file)}
    if isinstance(dsn, Dsn) and dsn.password_command is not None:
        return {"password": _run(dsn.password_command)}
    return {}


async def alogin(dsn: str) -> dict[str, Any]:
    """Do the same in an event loop, which goes on while a command runs."""
    if isinstance(dsn, Dsn) and dsn.password_command is not None:
        return await asyncio.to_thread(login, dsn)
    return login(dsn)


def _read(file: Path) -> str:
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        advice = "name a file that holds the password and that this process may read"
        raise ConfigError(f"database.password_file={str(file)!r} cannot be read: {what}; {advice}") from error
    return _checked(text, f"database.password_file={str(file)!r} is empty: write the password into it")


def _run(command: str) -> str:
    """Run a command without a shell. Of what it printed only errors are ever told."""
    program, *arguments = shlex.split(command)
    by_hand = "run the command of database.password_command by hand, as the same user"
    try:
        done = subprocess.run(
            [program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_WITHIN_S, check=False
        )
    except OSError as error:
        raise ConfigError(f"database.password_command: {program} cannot be started: {error.strerror}; {by_hand}") from error
    except subprocess.TimeoutExpired:
        # Not chained: the error holds what the command printed.
        raise ConfigError(f"database.password_command: {program} did not end within {COMMAND_WITHIN_S} s; {by_hand}") from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        said = f": {lines[-1][:200]}" if lines else ""
        raise ConfigError(f"database.password_command: {program} ended with exit code {done.returncode}{said}; {by_hand}")
    printed = done.stdout.decode("utf-8", "replace")
    return _checked(printed, f"database.password_command: {program} printed no password to standard output; {by_hand}")


def _checked(text: str, problem: str) -> str:
    if not (password := text.rstrip("\r\n")):
        raise ConfigError(problem)
    return password
