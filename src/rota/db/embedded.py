"""A PostgreSQL server of our own, which lives and ends with the process that started it."""

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, Self
from urllib.parse import quote, urlencode

from rota.db import embedded_watch
from rota.db.binaries import Binaries, find_binaries, reachable
from rota.db.home import SUPERUSER, Home
from rota.errors import Conflict, DatabaseError

StopMode = Literal["fast", "immediate"]

# Below the range from which systems take the ports of outgoing connections, so that ours is still free after a restart.
PORTS = range(20_000, 32_000)
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
PORT_TRIES = 20  # at a quarter of a second: a port that must be this one may be held for a moment by a passing client
LOG_MAX_BYTES = 16 * 2**20  # of former runs; looked at when the server starts
PORT_TAKEN = "could not create any TCP/IP sockets"
STILL_ENDING = "pre-existing shared memory block"


class EmbeddedPostgres:
    """A server over a folder: made on first use, kept over restarts, stopped with us even if we are killed."""

    def __init__(
        self,
        data_dir: Path | str,
        *,
        binaries: Binaries | None = None,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = Path(data_dir)
        self._binaries = binaries
        self._port = port
        self._settings = dict(settings or {})
        self._home: Home | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._pid = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def port(self) -> int:
        """The port on 127.0.0.1; once chosen it stays the same."""
        if self._port is None:
            raise DatabaseError(f"the PostgreSQL in {self._folder} has no port before its first start")
        return self._port

    @property
    def pid(self) -> int:
        """The process id of the server."""
        if not self.running:
            raise DatabaseError(f"the PostgreSQL in {self._folder} is not running")
        return self._pid

    @property
    def running(self) -> bool:
        """Whether the server that we started is still there."""
        return self._watcher is not None and self._watcher.poll() is None

    def dsn(self, dbname: str = "postgres", *, tcp: bool = False) -> str:
        """Name a database of this server for any driver: by its socket, or by TCP with the password."""
        home = self._held()
        if tcp:
            return f"postgresql://{SUPERUSER}:{quote(home.password)}@127.0.0.1:{self.port}/{quote(dbname, safe='')}"
        where = urlencode({"host": home.run, "port": self.port})
        return f"postgresql://{SUPERUSER}@/{quote(dbname, safe='')}?{where}"

    def start(self) -> None:
        """Start the server and return when it takes connections."""
        if self.running:
            return
        self._end("fast")  # a server that was killed leaves its watcher to be taken leave of
        if self._home is None:
            self._home = Home(self._folder)
        try:
            self._prepare(self._home)
            self._launch(self._home)
        except BaseException:
            self.stop("immediate")
            raise

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server, if it runs, and leave the folder to others; `immediate` is a crash on purpose."""
        self._end(mode)
        if self._home is not None:
            self._home.release()
            self._home = None

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop and start the server on the same port, without letting go of the folder."""
        self._end(mode)
        self.start()

    def remove(self) -> None:
        """Stop the server and delete its data."""
        self._end("immediate")
        if self._home is None:
            self._home = Home(self._folder)
        self._home.remove()
        self.stop()

    def _held(self) -> Home:
        if self._home is None:
            raise DatabaseError(f"the PostgreSQL in {self._folder} is not started: call start(), or use it in a `with`")
        return self._home

    def _prepare(self, home: Home) -> None:
        major = home.major
        binaries = self._binaries or find_binaries(major=major)
        if major is not None and binaries.major != major:
            raise Conflict(
                f"the data in {home.folder} is of PostgreSQL {major}, the programs in {binaries.bin} are "
                f"{binaries.version}: name a bin directory of PostgreSQL {major}, or another folder"
            )
        self._binaries = reachable(binaries, home.uid)
        if major is None:
            home.fill(self._binaries, sync=self._settings.get("fsync") != "off")

    def _launch(self, home: Home) -> None:
        _await_end_of_orphan(home)
        deadline = time.monotonic() + START_TIMEOUT_S
        ports = _free_ports() if self._port is None else iter([self._port] * PORT_TRIES)
        for port in ports:
            said_before = home.log.stat().st_size if home.log.exists() else 0
            if said_before > LOG_MAX_BYTES:
                os.truncate(home.log, said_before := 0)
            self._spawn(home, port)
            if self._await_ready(home, deadline):
                self._port = port
                return
            with home.log.open("rb") as log:
                log.seek(said_before)
                said = log.read().decode(errors="replace").strip()
            if PORT_TAKEN not in said and STILL_ENDING not in said:
                raise DatabaseError(f"PostgreSQL did not start in {home.folder}:\n{said}\n(all of it: {home.log})")
            if self._port is not None or STILL_ENDING in said:
                time.sleep(0.25)
        raise Conflict(f"port {port} of 127.0.0.1 is taken by another program: name another port\n{said}")

    def _spawn(self, home: Home, port: int) -> None:
        assert self._binaries is not None
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(port),
            "unix_socket_directories": str(home.run),
            **self._settings,
        }
        command = [self._binaries.program("postgres"), "-D", str(home.data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        surroundings = home.surroundings(self._binaries)
        surroundings["env"] |= _stale_pid_variable(home)
        with open(home.log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as log:
            self._watcher = subprocess.Popen(
                # -I -S: whatever lies in the current directory or in site-packages, the watcher starts the same way.
                [sys.executable, "-I", "-S", embedded_watch.__file__, str(os.getpid()), str(home.uid or -1), *command],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                **surroundings,
                start_new_session=True,  # Ctrl-C in our terminal is for us: the server stays until we have finished
            )
        assert self._watcher.stdout is not None
        self._pid = int(self._watcher.stdout.readline() or 0)

    def _await_ready(self, home: Home, deadline: float) -> bool:
        while time.monotonic() < deadline:
            pid, status = _postmaster_file(home.data)
            if pid == self._pid and status == "ready":
                return True
            if not self.running:
                self._end("fast")
                return False
            time.sleep(0.01)
        raise DatabaseError(f"PostgreSQL in {home.folder} was not ready after {START_TIMEOUT_S:.0f} s: see {home.log}")

    def _end(self, mode: StopMode) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is None:
            return
        assert watcher.stdin is not None
        assert watcher.stdout is not None
        with watcher.stdin as orders, watcher.stdout:
            for order in (mode, "immediate"):
                try:
                    orders.write(f"{order}\n".encode())
                    watcher.wait(STOP_TIMEOUT_S)
                except BrokenPipeError:
                    watcher.wait(STOP_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    continue
                return
        raise DatabaseError(f"PostgreSQL in {self._folder} (process {self._pid}) does not stop")


def _free_ports() -> Iterator[int]:
    """Yield ports that were free a moment ago: whoever takes one must be ready to lose the race and ask again."""
    for port in random.SystemRandom().sample(PORTS, 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port


def _postmaster_file(data: Path) -> tuple[int, str]:
    """Read the process id and the state that the server notes in its data directory."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return 0, ""
    return int(lines[0]) if lines else 0, lines[7].strip() if len(lines) > 7 else ""


def _await_end_of_orphan(home: Home) -> None:
    """Wait for the server of an owner that was killed a moment ago, which its watcher is just stopping."""
    deadline = time.monotonic() + embedded_watch.PATIENCE_S + 5.0
    while _is_server(pid := _postmaster_file(home.data)[0], home.data):
        if time.monotonic() > deadline:
            raise Conflict(
                f"a PostgreSQL that Rota did not start is running in {home.folder} as process {pid}: "
                f"stop it (kill -INT {pid}), or name another folder"
            )
        time.sleep(0.02)


def _is_server(pid: int, data: Path) -> bool:
    """Say whether this process is the server of this data directory, and not a stranger that got its number."""
    if pid <= 0:
        return False
    if Path("/proc/self/cwd").exists():
        try:
            return Path(f"/proc/{pid}/cwd").readlink() == data.resolve()
        except OSError:  # it is gone, or it is someone else's
            return False
    answer = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True)
    return str(data) in answer.stdout


def _stale_pid_variable(home: Home) -> dict[str, str]:
    """Tell the server that a process number in an old lock file is no server.

    It refuses to start while that process lives, whatever it is, and numbers come round quickly in containers. This is
    the variable by which pg_ctl names a process that is not to be minded; the lock file itself, and the check for
    shared memory that goes with it, stay.
    """
    pid, _ = _postmaster_file(home.data)
    return {"PG_GRANDPARENT_PID": str(pid)} if pid else {}
