"""Where no Chromium can be had, its tests are skipped with one line, and CI fails; root installs Debian's."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import programs

ROOT = Path(__file__).parents[2]
HOW = "tests of the dashboard need chromium, and none was found: run `make browser`"
TESTS = """
import pytest
from tests.support import programs

@pytest.fixture(scope="session")
def chromium():
    return programs.needed("chromium")

@pytest.mark.parametrize("n", range(3))
def test_a_page(chromium, n): ...

def test_another_page(chromium): ...

def test_without(): ...
"""


def run(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python where there is neither a browser nor a way to install one."""
    env = {
        "PATH": str(folder),
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PLAYWRIGHT_DOWNLOAD_HOST": "http://127.0.0.1:1",
        **env,
    }
    return subprocess.run([sys.executable, *words], env=env, cwd=folder, capture_output=True, text=True)


def stand_in(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize("ci", ["", "true"])
def test_without_a_browser_tests_are_skipped_with_one_line_and_fail_in_ci(tmp_path: Path, ci: str) -> None:
    (tmp_path / "test_pages.py").write_text(TESTS)
    done = run(
        tmp_path,
        "-m",
        "pytest",
        "-rs",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "-p",
        "no:schemathesis",
        "-p",
        "tests.support.programs",
        CI=ci,
    )
    assert done.stdout.count(HOW) == (4 if ci else 1), done.stdout
    assert ("1 passed, 4 errors" if ci else "1 passed, 4 skipped") in done.stdout
    assert done.returncode == bool(ci)


def test_the_command_says_how_to_get_it_and_does_not_hold_up_a_test_run(tmp_path: Path) -> None:
    for words, ci, code in (("chromium", "", 1), ("--or-skip chromium", "", 0), ("--or-skip chromium", "true", 1)):
        done = run(tmp_path, "-m", "tests.support.programs", *words.split(), CI=ci)
        assert (done.returncode, done.stderr.count("\n"), done.stderr.startswith(HOW)) == (code, code, bool(code)), done.stderr


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A PATH with nothing on it, and no download of Playwright's."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "downloads"))
    monkeypatch.delenv("ROTA_CHROMIUM", raising=False)
    programs.find.cache_clear()
    yield tmp_path
    programs.find.cache_clear()


@pytest.mark.parametrize("root", [True, False])
def test_root_installs_the_package_and_others_download(bare: Path, monkeypatch: pytest.MonkeyPatch, root: bool) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    packaged, downloaded = bare / "chromium-headless-shell", bare / "downloads" / "chromium-1" / "linux" / "headless_shell"
    make = '/bin/mkdir -p "$(/usr/bin/dirname {0})"; printf "#!/bin/sh\\n" > {0}; /bin/chmod +x {0}'
    stand_in(bare / "apt-get", make.format(packaged))
    ways = programs._installations(programs.CHROMIUM)
    assert [way[0][0] == "apt-get" for way in ways] == ([True, False] if root else [False])
    monkeypatch.setattr(programs, "_installations", lambda _: [[["/bin/sh", "-c", make.format(downloaded)]]] if not root else ways)
    assert programs.get("chromium") == str(packaged if root else downloaded)


def test_what_cannot_run_is_passed_over_unless_it_is_named(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(bare / "chromium-browser", "echo 'install the snap first'; exit 1")
    with pytest.raises(programs.Missing):
        programs.find("chromium")
    found = stand_in(bare / "google-chrome", "echo 1.0")
    assert programs.find("chromium") == found
    programs.find.cache_clear()
    monkeypatch.setenv("ROTA_CHROMIUM", str(bare / "chromium-browser"))
    with pytest.raises(programs.Unusable, match="cannot be run: name another program, or unset ROTA_CHROMIUM"):
        programs.needed("chromium")
