"""The worker processes: started, killed, paused and replaced, as an init system would on one host."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Self

import orjson
from tests.chaos.history import VARIABLE, Recorder
from tests.chaos.lifeline import Process, Start

OPTIONS = "CHAOS_OPTIONS"  # the variable with a worker's options
POISONED = (77, -signal.SIGSEGV)  # how a worker ends that a poison job has killed

DEFAULT: dict[str, Any] = {"concurrency": 8, "shutdown_timeout_s": 5.0}
# For these a pause of some seconds is longer than the lease.
PAUSABLE: dict[str, Any] = {**DEFAULT, "queues": {"default": 1, "pausable": 2}, "lease_s": 4.0, "heartbeat_s": 1.0}


class Member:
    """One place in the crew, in which one process follows another."""

    def __init__(self, name: str, options: dict[str, Any], pausable: bool) -> None:
        self.name = name
        self.options = options
        self.pausable = pausable
        self.process: Process | None = None
        self.expected_end = False
        self.paused_until = 0.0

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None and not self.expected_end


class Crew:
    """Two workers with default settings and two with short leases, each replaced as soon as it is gone."""

    def __init__(self, folder: Path, environment: dict[str, str], recorder: Recorder, rng: random.Random, start: Start) -> None:
        self.poisoned = 0
        self.problems: list[str] = []
        self._folder = folder
        self._environment = environment
        self._recorder = recorder
        self._random = rng
        self._start_process = start
        self.members = [Member(f"default-{n}", DEFAULT, False) for n in range(2)]
        self.members += [Member(f"pausable-{n}", PAUSABLE, True) for n in range(2)]

    def __enter__(self) -> Self:
        for member in self.members:
            self._start(member)
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            if member.process is not None and member.process.poll() is None:
                member.process.kill()
                member.process.wait()

    def look_after(self) -> None:
        """Wake who has been paused long enough and replace who is gone."""
        for member in self.members:
            if member.paused_until and time.monotonic() >= member.paused_until:
                self._resume(member)
            if member.process is not None and member.process.poll() is not None:
                self._take_leave(member)
                self._start(member)

    def kill(self) -> bool:
        """SIGKILL one."""
        member = self._pick(self.members)
        if member is None:
            return False
        assert member.process is not None
        member.expected_end = True
        self._recorder.write("killed", worker_pid=member.process.pid, default=not member.pausable)
        member.process.kill()
        return True

    def pause(self) -> bool:
        """SIGSTOP one that has a short lease, for longer than that lease."""
        member = self._pick([member for member in self.members if member.pausable])
        others = [each for each in self.members if each.pausable and each is not member and each.paused_until]
        if member is None or others:
            return False
        assert member.process is not None
        member.paused_until = time.monotonic() + self._random.uniform(1.6, 2.4) * member.options["lease_s"]
        self._recorder.write("paused", worker_pid=member.process.pid)
        member.process.send_signal(signal.SIGSTOP)
        return True

    def replace(self) -> bool:
        """SIGTERM one, as a deploy does."""
        member = self._pick(self.members)
        if member is None:
            return False
        assert member.process is not None
        member.expected_end = True
        member.process.terminate()
        return True

    def stop(self, patience_s: float) -> None:
        """Let all end well, and say who did not."""
        for member in self.members:
            if member.paused_until:
                self._resume(member)
            if member.runs:
                assert member.process is not None
                member.process.terminate()
        deadline = time.monotonic() + patience_s
        for member in self.members:
            assert member.process is not None
            try:
                code = member.process.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                self.problems.append(f"{member.name} did not stop within {patience_s:g} s of SIGTERM")
                member.process.kill()
                member.process.wait()
            else:
                # A process that has only just been started does not know yet what to do about SIGTERM.
                if code not in (0, -signal.SIGTERM) and not member.expected_end:
                    self.problems.append(f"{member.name} ended with {code} after SIGTERM")

    def _pick(self, among: list[Member]) -> Member | None:
        ready = [member for member in among if member.runs and not member.paused_until]
        return self._random.choice(ready) if ready else None

    def _start(self, member: Member) -> None:
        member.expected_end = False
        environment = {**self._environment, OPTIONS: orjson.dumps(member.options).decode()}
        log = self._folder / f"{member.name}.log"
        member.process = self._start_process("tests.chaos.worker", environment=environment, log=log)
        self._recorder.write("started", worker_pid=member.process.pid, name=member.name)

    def _take_leave(self, member: Member) -> None:
        assert member.process is not None
        code = member.process.returncode
        member.paused_until = 0.0
        self._recorder.write("ended", worker_pid=member.process.pid, code=code)
        if member.expected_end:
            return
        if code in POISONED:
            self.poisoned += 1
        else:
            self.problems.append(f"{member.name} (process {member.process.pid}) ended by itself with {code}")

    def _resume(self, member: Member) -> None:
        assert member.process is not None
        member.paused_until = 0.0
        self._recorder.write("resumed", worker_pid=member.process.pid)
        member.process.send_signal(signal.SIGCONT)


def strangers(folder: Path) -> list[str]:
    """Describe the processes of this run that are still there; only where there is a /proc."""
    needle = f"{VARIABLE}={folder}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if needle in (process / "environ").read_bytes().split(b"\0"):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append(f"process {process.name} is left behind: {command.strip()[:120]}")
        except OSError:  # it ended while we looked, or it is someone else's
            continue
    return found
