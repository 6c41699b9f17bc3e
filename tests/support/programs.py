"""Programs that tests use and pip does not install: found, installed where that is possible, or else named in one line.

`python -m tests.support.programs chromium` installs one; `--or-skip` makes a missing one an error in CI only, where nothing is
skipped. A fixture that needs a program calls `needed`, which skips its tests without it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

INSTALL_S = 600.0


class Missing(Exception):
    """A program is neither here nor to be had; the text is one line that says how to get it."""


class Skipped(pytest.skip.Exception):
    """A test that a missing program does not let run."""


class Unusable(Exception):
    """The program that the environment names cannot be run."""


@dataclass(frozen=True)
class Program:
    """A program with the places it comes from."""

    name: str
    target: str  # of make, which installs it
    purpose: str
    variable: str  # of the environment: the program to use, whatever else is here
    commands: tuple[str, ...]
    packages: tuple[str, ...] = ()  # of Debian
    downloaded: Callable[[], str | None] = lambda: None  # where a download of an earlier run is
    download: tuple[str, ...] = ()  # a command that downloads it for this user
    probe: tuple[str, ...] = ("--version",)

    def how(self) -> str:
        """Say in one line how to get it."""
        return (
            f"{self.purpose} need {self.name}, and none was found: run `make {self.target}` as root or with Internet access, "
            f"install {' or '.join(self.commands[:2])}, or name a program in {self.variable}"
        )


def playwright_shell() -> str | None:
    """Return the newest headless Chromium that Playwright has downloaded."""
    home = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    found = [each for each in home.glob("chromium*/*/*") if each.name in {"chrome-headless-shell", "headless_shell", "chrome"}]
    return str(max(found, key=lambda each: each.stat().st_mtime)) if found else None


CHROMIUM = Program(
    name="chromium",
    target="browser",
    purpose="tests of the dashboard",
    variable="ROTA_CHROMIUM",
    # The one without windows first, because it asks less of the machine.
    commands=("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    packages=("chromium-headless-shell", "fonts-liberation"),
    downloaded=playwright_shell,
    download=(sys.executable, "-m", "playwright", "install", "--only-shell", "chromium"),
)
PROGRAMS = {each.name: each for each in (CHROMIUM,)}


@cache
def find(name: str) -> str:
    """Return the path of a program that runs; raise Missing if there is none."""
    program = PROGRAMS[name]
    if chosen := os.environ.get(program.variable):
        if not _runs(program, chosen):
            raise Unusable(f"{program.variable}={chosen} cannot be run: name another program, or unset {program.variable}")
        return chosen
    places = [*map(shutil.which, program.commands), program.downloaded()]
    path = next((each for each in places if each is not None and _runs(program, each)), None)
    if path is None:
        raise Missing(program.how())
    return path


def get(name: str) -> str:
    """Return the path of a program, and install it if there is none: from Debian as root, else by its own download."""
    try:
        return find(name)
    except Missing:
        if not any(map(_succeeds, _installations(PROGRAMS[name]))):
            raise
    return find(name)


def needed(name: str) -> str:
    """Return the path of a program; without it skip the test that asks, or fail it in CI."""
    try:
        return find(name)
    except Missing as error:
        how = str(error)
    if is_ci():
        pytest.fail(how, pytrace=False)
    raise Skipped(how)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report all tests that miss a program from one place, so that the summary has one line for them."""
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, Skipped):
        report.longrepr = (__file__, needed.__code__.co_firstlineno, f"Skipped: {call.excinfo.value.msg}")
    return report


def is_ci() -> bool:
    """Whether nothing may be skipped."""
    return os.environ.get("CI", "").lower() not in {"", "0", "false", "no"}


def _installations(program: Program) -> list[list[list[str]]]:
    ways = []
    if program.packages and os.geteuid() == 0 and shutil.which("apt-get"):
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *program.packages]
        ways.append([["apt-get", "update", "-qq"], install])
    if program.download:
        ways.append([[*program.download]])
    return ways


def _succeeds(commands: list[list[str]]) -> bool:
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, timeout=INSTALL_S, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired):
            return False
        if done.returncode:
            return False
    return True


def _runs(program: Program, path: str) -> bool:
    """Tell whether it starts: distributions have stand-ins that only say what to install."""
    return _succeeds([[path, *program.probe]])


def main() -> int:
    """Install programs; print what is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.programs", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="+", choices=sorted(PROGRAMS), metavar="NAME")
    parser.add_argument("--or-skip", action="store_true", help="fail in CI only; tests say what they miss")
    arguments = parser.parse_args()
    missing = 0
    for name in arguments.names:
        try:
            get(name)
        except (Missing, Unusable) as error:
            if isinstance(error, Missing) and arguments.or_skip and not is_ci():
                continue
            print(error, file=sys.stderr)
            missing = 1
    return missing


if __name__ == "__main__":
    sys.exit(main())
