"""Children are kept alive, told once, and never outlive their supervisor."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.command import environment
from tests.support.processes import alive
from tests.support.wait import PATIENCE_S

from rota.engine.supervisor import Supervisor, describe_exit

# A child notes its start and every SIGTERM in a file of its own, and ends at the first one unless told to be stubborn.
CHILD = """
import os, pathlib, signal, sys, time
from rota.engine.supervisor import end_with_parent
notes = pathlib.Path(sys.argv[1], f"{sys.argv[2]}-{os.getpid()}")
patience = int(sys.argv[3])
def note(*_):
    global patience
    patience -= 1
    notes.open("a").write("T")
    if patience == 0:
        sys.exit(int(sys.argv[4]))
signal.signal(signal.SIGTERM, note)
end_with_parent()
notes.write_text("S")
while True:
    time.sleep(60)
"""

PARENT = """
import asyncio, sys
from rota.engine.supervisor import Supervisor
folder, child = sys.argv[1:]
command = [sys.executable, "-c", child, folder]
asyncio.run(Supervisor(lambda number: [*command, str(number), "1", "0"], 2, kill_after_s=5).run())
"""


def child(folder: Path, *, patience: int = 1, code: int = 0) -> Callable[[int], list[str]]:
    return lambda number: [sys.executable, "-c", CHILD, str(folder), str(number), str(patience), str(code)]


def notes(folder: Path) -> dict[int, str]:
    # A file is there before its first letter is.
    return {int(path.name.partition("-")[2]): text for path in folder.iterdir() if (text := path.read_text())}


async def until(condition: Callable[[], bool], within: float = 20) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.02)


@asynccontextmanager
async def running(supervisor: Supervisor, folder: Path, processes: int) -> AsyncIterator[asyncio.Task[int]]:
    task = asyncio.create_task(supervisor.run())
    try:
        await until(lambda: len(notes(folder)) == processes)
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.req("Q13")
async def test_stop_tells_each_child_once(tmp_path: Path) -> None:
    supervisor = Supervisor(child(tmp_path), 3, kill_after_s=30)
    async with running(supervisor, tmp_path, 3) as task:
        supervisor.stop()
        assert await task == 0
    assert list(notes(tmp_path).values()) == ["ST"] * 3


@pytest.mark.fault(1)
async def test_a_killed_child_is_replaced(tmp_path: Path) -> None:
    supervisor = Supervisor(child(tmp_path), 2, kill_after_s=30)
    async with running(supervisor, tmp_path, 2) as task:
        killed, kept = supervisor.pids
        os.kill(killed, signal.SIGKILL)
        await until(lambda: len(notes(tmp_path)) == 3)
        assert killed not in supervisor.pids
        assert kept in supervisor.pids
        assert len(supervisor.pids) == 2
        supervisor.stop()
        assert await task == 0


async def test_a_child_that_ends_by_itself_is_replaced_later_and_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.engine.supervisor.RESTART_FIRST_S", 0.01)
    starts = tmp_path / "starts"
    code = f"import sys, time; open({str(starts)!r}, 'a').write(f'{{time.monotonic()}}\\n'); sys.exit(1)"
    supervisor = Supervisor(lambda _: [sys.executable, "-S", "-c", code], 1, kill_after_s=30)
    task = asyncio.create_task(supervisor.run())
    await until(lambda: starts.exists() and len(starts.read_text().split()) >= 6)
    supervisor.stop()
    await task
    times = [float(line) for line in starts.read_text().split()]
    assert times[5] - times[4] > 0.16  # half of 0.01 · 2⁵


async def test_a_wrong_setting_ends_everything(tmp_path: Path) -> None:
    def command(number: int) -> list[str]:
        return [sys.executable, "-S", "-c", "raise SystemExit(2)"] if number else child(tmp_path)(0)

    assert await asyncio.wait_for(Supervisor(command, 2, kill_after_s=30).run(), PATIENCE_S) == 2


async def test_a_failure_while_stopping_is_the_exit_code(tmp_path: Path) -> None:
    supervisor = Supervisor(child(tmp_path, code=3), 1, kill_after_s=30)
    async with running(supervisor, tmp_path, 1) as task:
        supervisor.stop()
        assert await task == 1


async def test_a_stubborn_child_is_told_twice_then_killed(tmp_path: Path) -> None:
    supervisor = Supervisor(child(tmp_path, patience=9), 1, kill_after_s=60)
    async with running(supervisor, tmp_path, 1) as task:
        for told in ("ST", "STT"):
            supervisor.stop()
            await until(lambda told=told: [*notes(tmp_path).values()] == [told])
        supervisor.stop()
        assert await task == 1
    assert [*notes(tmp_path).values()] == ["STT"]


async def test_a_child_that_does_not_stop_in_time_is_killed(tmp_path: Path) -> None:
    supervisor = Supervisor(child(tmp_path, patience=9), 1, kill_after_s=0.2)
    async with running(supervisor, tmp_path, 1) as task:
        supervisor.stop()
        assert await asyncio.wait_for(task, PATIENCE_S) == 1


@pytest.mark.fault(1)
async def test_children_end_with_a_killed_supervisor(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path), CHILD]
    parent = await asyncio.create_subprocess_exec(*command, env=environment())
    await until(lambda: [*notes(tmp_path).values()] == ["S", "S"])
    parent.kill()
    await parent.wait()
    await until(lambda: [*notes(tmp_path).values()] == ["ST", "ST"])
    await until(lambda: not any(alive(pid) for pid in notes(tmp_path)))


def test_exits_are_described() -> None:
    assert describe_exit(3) == "ended with exit code 3"
    assert describe_exit(-signal.SIGSEGV) == "was ended by SIGSEGV"
