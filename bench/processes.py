"""Processes of measured systems: started, listened to, weighed and ended."""

import json
import os
import subprocess
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
READY_SECONDS = 30.0
TALK_SECONDS = 600.0


class SystemFailed(Exception):
    """A measured system ended, stalled or answered nothing; the message has the end of what it wrote."""


def call(command: list[str], env: dict[str, str], cwd: Path) -> dict[str, Any]:
    """Run a verb to its end and return the JSON it printed, if any."""
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=TALK_SECONDS)
    if done.returncode:
        raise SystemFailed(f"{' '.join(command[:4])} … ended with {done.returncode}:\n{done.stderr[-3000:]}")
    lines = done.stdout.strip().splitlines()
    answer: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return answer


class Talker:
    """A process that says "ready" and then pairs of numbers, line by line."""

    def __init__(self, command: list[str], env: dict[str, str], cwd: Path, log: Path) -> None:
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        self.pid = self._process.pid
        self.pairs: list[tuple[int, int]] = []
        self._ready = threading.Event()
        self._told = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def await_ready(self) -> None:
        """Wait until it has imported and connected what it can."""
        if not self._ready.wait(READY_SECONDS):
            raise self.failure("was not ready in time")

    def send_line(self) -> None:
        """Tell it to go on."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def await_pair(self, number: int, timeout: float) -> tuple[int, int]:
        """Wait for its `number`-th pair (from 0) and return it."""
        with self._told:
            if not self._told.wait_for(lambda: len(self.pairs) > number or self.ended, timeout):
                raise self.failure(f"said nothing for {timeout:.0f} s")
            if len(self.pairs) <= number:
                raise self.failure("ended")
            return self.pairs[number]

    @property
    def ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def failure(self, what: str) -> SystemFailed:
        """Make an error with the end of what the process wrote."""
        said = self._log.read_text(errors="replace")[-2000:]
        return SystemFailed(f"process {self.pid} {what} ({self._log}):\n{said}")

    def stop(self) -> None:
        """End it and its children, politely first."""
        family = tree(self.pid)
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pid in family:
            if pid != self.pid and Path(f"/proc/{pid}").exists():
                os.kill(pid, 9)
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            words = line.split()
            if line == b"ready\n":
                self._ready.set()
            elif len(words) == 2 and all(map(bytes.isdigit, words)):  # anything else is a log line
                with self._told:
                    self.pairs.append((int(words[0]), int(words[1])))
                    self._told.notify_all()
        with self._told:
            self._told.notify_all()


def tree(root: int) -> list[int]:
    """List a process and its living descendants."""
    children = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (fields := _stat(int(entry.name))):
            children[int(fields[1])].append(int(entry.name))
    found = [root]
    for pid in found:
        found += children[pid]
    return found


def tree_cpu_seconds(root: int) -> float:
    """CPU of a process, its living descendants, and those it has waited for."""
    ticks = 0
    for pid in tree(root):
        if fields := _stat(pid):
            # utime, stime, and of children that ended: cutime, cstime
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / TICKS_PER_SECOND


def tree_peak_megabytes(root: int) -> float:
    """The highest resident memory of a process and its living descendants."""
    return sum(_peak_kilobytes(pid) for pid in tree(root)) / 1024


def _peak_kilobytes(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


def _stat(pid: int) -> list[str] | None:
    """Read the fields of /proc/<pid>/stat after the name, which may hold blanks and brackets."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def await_true(condition: Any, timeout: float, pause: float = 0.005) -> bool:
    """Poll until the condition holds or time is up."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True
