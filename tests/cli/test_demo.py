"""`rota demo`: every kind of outcome on one screen, and nothing left afterwards."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support import command
from tests.support.processes import alive, descendants, ended_after, running, until
from tests.support.sign_in import press_button, printed_link, who_am_i
from tests.support.wait import PATIENCE_S

LINK = re.compile(rb"\x1b\]8;[^;]*;(http[^\x1b]+)\x1b")  # as terminals are told of it, whole although it is shown in two lines


@pytest.mark.req("K01", "S02", "R02")
def test_all_that_can_be_seen_and_done_until_it_is_stopped(folder: Path) -> None:
    """In one demo: each takes seconds to start, and a while until everything has happened."""
    with running("demo", "--rate", "60", cwd=folder) as demo:
        _the_link_signs_in(folder)
        until(lambda: _figures(folder).get("workers") == 2)
        port, password = _credentials(folder)
        with psycopg.connect(f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres", autocommit=True) as conn:
            _a_killed_worker_is_replaced(conn)
            _every_outcome_is_seen(folder)
            _schedules_are_seen_firing(folder, conn)
        family = descendants(demo.pid)
        demo.send_signal(signal.SIGTERM)
        assert demo.wait(PATIENCE_S) == 0
        until(lambda: not any(alive(each) for each in family))
    _it_ends_by_itself(folder)


def _the_link_signs_in(folder: Path) -> None:
    link = until(lambda: printed_link((folder / "stderr").read_text()))
    cookie = press_button(link)
    assert cookie is not None
    assert who_am_i(link, cookie)["role"] == "admin"
    assert press_button(link) is None


def _a_killed_worker_is_replaced(conn: psycopg.Connection[Any]) -> None:
    until(lambda: conn.execute("SELECT FROM rota.run LIMIT 1").fetchall())
    (pid,) = until(
        lambda: conn.execute(
            "SELECT w.pid FROM rota.worker w JOIN rota.job j ON j.worker_id = w.id WHERE w.stopped_at IS NULL"
        ).fetchone()
    )
    os.kill(pid, signal.SIGKILL)
    until(lambda: conn.execute("SELECT FROM rota.worker WHERE pid = %s AND stopped_at IS NOT NULL", [pid]).fetchall())
    until(lambda: len(conn.execute("SELECT FROM rota.worker WHERE stopped_at IS NULL").fetchall()) == 2)


def _every_outcome_is_seen(folder: Path) -> None:
    fates = ("completed", "snoozed", "retried", "timed out", "failed")
    until(lambda: all(_figures(folder).get(fate) for fate in fates), why=f"for {fates}")


def _schedules_are_seen_firing(folder: Path, conn: psycopg.Connection[Any]) -> None:
    until(lambda: _figures(folder).get("fired", 0) > 2 and _figures(folder).get("skipped"), why="for a firing")
    failing = "SELECT FROM rota.schedule WHERE key = 'supplier:Nowhere Ltd' AND failing_since IS NOT NULL"
    until(lambda: conn.execute(failing).fetchall())
    until(lambda: conn.execute("SELECT FROM rota.schedule WHERE key IS NOT NULL AND successes > 0").fetchall())
    assert not conn.execute("SELECT FROM rota.run WHERE task = 'rota.tick' AND outcome = 'completed'").fetchall()


def _it_ends_by_itself(folder: Path) -> None:
    """Now that there is a database already."""
    result = command.run("demo", "--seconds", "1", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "jobs/s" in result.stdout
    assert result.stderr.endswith("nothing is left running\n")


def test_on_a_terminal_of_80x24(folder: Path) -> None:
    """What does not fit is named, the link is replaced once it has been used, and Ctrl-C ends it."""
    terminal, other = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    demo = subprocess.Popen(
        [*command.ROTA, "demo"],
        cwd=folder,
        env=command.environment(TERM="xterm-256color", NO_COLOR=None),
        stdin=other,
        stdout=other,
        stderr=other,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(other)
    with ended_after(demo):
        screen = _read_until(terminal, rb"charge_card[^\0]*Not shown: [a-z, ]+\. Enlarge the terminal to \d+x\d+")
        assert b"jobs/s" in screen
        link = LINK.findall(screen)[-1]
        assert press_button(link.decode()) is not None
        assert b"sign-in" in _read_until(terminal, b"]8;[^;]*;(?!" + re.escape(link) + rb"\x1b)http")
        os.write(terminal, b"\x03")
        assert b"nothing is left running" in _read_until(terminal, b"nothing is left running")
        assert demo.wait(PATIENCE_S) == 0
    os.close(terminal)


def _figures(folder: Path) -> dict[str, int]:
    lines = (folder / "stdout").read_text().splitlines()
    return {name: int(count) for name, count in re.findall(r"([a-z][a-z ]*) (\d+)(?:  |$)", lines[-1])} if lines else {}


def _credentials(folder: Path) -> tuple[str, str]:
    data = folder / ".rota/demo"
    return (data / "port").read_text().strip(), (data / "password").read_text().strip()


def _read_until(terminal: int, wanted: bytes) -> bytes:
    read = b""
    deadline = time.monotonic() + PATIENCE_S
    while not re.search(wanted, read):
        ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
        assert ready, read.decode(errors="replace")[-2000:]
        read += os.read(terminal, 65536)
    return read
