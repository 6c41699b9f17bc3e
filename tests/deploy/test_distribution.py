"""Sdist and wheel, and the name under which they are distributed; `make packages` installs them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.packages import check_contents, check_metadata, constraints

from rota.errors import DISTRIBUTION, how_to_install

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "src" / "rota" / "server" / "dashboard"
BOTH = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", ".gitignore")
ALSO_THERE = ("dashboard/src/main.tsx", "docs/README.md", "tests/src/sample.py", "bench/README.md")  # named as what is packaged
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TEXTS = {".py", ".md", ".toml", ".lock", ".yaml", ".service", ".env", ".tsx", ".ts", ""}
OLD_NAME = re.compile(
    r"""(?<![\w./-])rota\[[a-z] | \bpip\s+install\s[^\n`]*(?<![\w./-])rota(?![\w./-]) | ^rota== | version\(.rota.\)""", re.M | re.X
)

pytestmark = pytest.mark.req("T11")


@pytest.mark.skipif(not (BUILT / "index.html").is_file(), reason="the dashboard is not built: run `make dashboard`")
class TestPackages:
    @pytest.fixture(scope="class")
    @staticmethod
    def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
        """The sdist of a checkout, and the wheel of that sdist, built without Node and without the network."""
        folder = tmp_path_factory.mktemp("packages")
        checkout = folder / "checkout"
        shutil.copytree(ROOT / "src", checkout / "src", ignore=shutil.ignore_patterns("__pycache__"))
        for name in BOTH:
            shutil.copy(ROOT / name, checkout / name)
        for name in ALSO_THERE:
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            (checkout / name).write_text("not in the package")
        _build("sdist", checkout, folder, ROTA_BUILD_DASHBOARD="0")
        (sdist,) = folder.glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            archive.extractall(folder / "unpacked", filter="data")
        (unpacked,) = (folder / "unpacked").iterdir()
        _build("wheel", unpacked, folder)
        (wheel,) = folder.glob("*.whl")
        return sdist, wheel

    def test_both_have_the_same_sources_and_nothing_else(self, packages: tuple[Path, Path]) -> None:
        check_contents(*packages)

    def test_the_dashboard_is_in_the_wheel(self, packages: tuple[Path, Path]) -> None:
        with zipfile.ZipFile(packages[1]) as files:
            names = set(files.namelist())
        assert {f"rota/server/dashboard/assets/{path.name}" for path in (BUILT / "assets").iterdir()} <= names

    def test_the_metadata_is_valid(self, packages: tuple[Path, Path]) -> None:
        check_metadata(packages[1])


class TestName:
    def test_extras_refer_to_this_distribution(self) -> None:
        needed = [Requirement(each) for extra in PROJECT["optional-dependencies"].values() for each in extra]
        assert PROJECT["name"] == DISTRIBUTION == "rota-jobs"
        assert [str(each) for each in needed if each.name == "rota"] == []
        own = {extra for each in needed if each.name == DISTRIBUTION for extra in each.extras}
        assert own <= PROJECT["optional-dependencies"].keys()

    def test_nothing_names_the_distribution_of_another_project(self) -> None:
        found = [
            f"{path.relative_to(ROOT)}: {match[0]}"
            for path in _texts()
            for match in OLD_NAME.finditer(path.read_text("utf-8"))
            if path != Path(__file__)
        ]
        assert found == []

    @pytest.mark.parametrize(
        "text", ["pip install 'rota[server]'", "install rota[secrets]", "pip install -q rota", 'version("rota")']
    )
    def test_the_old_name_is_found(self, text: str) -> None:
        assert OLD_NAME.search(text)

    @pytest.mark.parametrize(
        "text", ["pip install 'rota-jobs[server]'", "pip install dist/rota_jobs-0.1.0.whl", "/opt/rota/bin/pip install x"]
    )
    def test_the_new_name_is_not(self, text: str) -> None:
        assert not OLD_NAME.search(text)

    def test_errors_say_what_to_install(self) -> None:
        assert how_to_install("server") == "install it with `pip install 'rota-jobs[server]'`"


def test_constraints_have_versions_and_markers_but_no_hashes() -> None:
    lock = "psycopg[binary]==3.2.1 \\\n    --hash=sha256:00\nuvloop==0.21.0 ; sys_platform != 'win32' \\\n    --hash=sha256:11\n"
    assert constraints(lock) == "psycopg==3.2.1\nuvloop==0.21.0 ; sys_platform != 'win32'\n"


def _texts() -> Iterator[Path]:
    left_out = {"node_modules", "__pycache__", "dist", "out"}
    for root, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in left_out and Path(root, name) != BUILT]
        yield from (Path(root, name) for name in files if Path(name).suffix in TEXTS and not name.startswith("."))


def _build(kind: str, source: Path, target: Path, **variables: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    environment = {**os.environ, "PATH": "/nowhere", **variables}
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
