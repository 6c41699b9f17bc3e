"""The dashboard in the package: built by the hook, small, and with the types of this API."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.dashboard import schema
from tests.dashboard.lock import LOCK

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "src" / "rota" / "server" / "dashboard"
MOST_INITIAL = 170_000  # bytes of script, compressed

pytestmark = pytest.mark.req("D04")

needs_build = pytest.mark.skipif(not (BUILT / "index.html").is_file(), reason="the dashboard is not built: run `make dashboard`")


def initial(folder: Path) -> list[Path]:
    """The scripts that the page loads before anything is shown."""
    index = (folder / "index.html").read_text("utf-8")
    found = [folder / name for name in re.findall(r'(?:src|href)="\./(assets/[^"]+\.js)"', index)]
    seen: list[Path] = []
    while found:
        script = found.pop()
        if script not in seen:
            seen.append(script)
            text = script.read_text("utf-8")
            found += [script.parent / name for name in re.findall(r'(?:from|import)\s*"\./([\w.-]+\.js)"', text)]
    return seen


@needs_build
class TestFiles:
    """What the build has made."""

    def test_the_first_scripts_are_small(self) -> None:
        scripts = initial(BUILT)
        assert scripts
        sizes = {script.name: len(gzip.compress(script.read_bytes(), 9)) for script in scripts}
        assert sum(sizes.values()) <= MOST_INITIAL, sizes

    def test_nothing_is_inline_and_nothing_is_from_elsewhere(self) -> None:
        index = (BUILT / "index.html").read_text("utf-8")
        assert "<style" not in index
        assert re.findall(r"<script[^>]*>(.*?)</script>", index, re.S) == [""]
        assert " style=" not in index
        assert set(re.findall(r'(?:src|href)="([^"]*)"', index)) == {
            address for address in re.findall(r'(?:src|href)="([^"]*)"', index) if address.startswith("./")
        }
        for style in BUILT.glob("assets/*.css"):
            assert "url(http" not in style.read_text("utf-8")

    def test_every_page_is_a_part_of_its_own(self) -> None:
        pages = {path.parent.name for path in (ROOT / "dashboard" / "src" / "pages").glob("*/index.tsx")}
        names = {script.name.rsplit("-", 1)[0] for script in BUILT.glob("assets/*.js")}
        loaded = {script.name for script in initial(BUILT)}
        assert not [page for page in pages if any(name.startswith(f"{page}-") for name in loaded)]
        assert names


class TestSources:
    """What it is built from."""

    def test_the_lock_names_no_hosts(self) -> None:
        text = LOCK.read_text("utf-8")
        assert "://" not in text
        assert '"resolved"' not in text
        packages = json.loads(text)["packages"]
        assert all("integrity" in package for name, package in packages.items() if name)

    def test_the_types_are_current(self) -> None:
        if not (schema.DASHBOARD / "node_modules").is_dir():
            pytest.skip("the dashboard's packages are not there: run `make dashboard`")
        assert schema.SCHEMA.read_text("utf-8") == schema.make(), "run `make schema`"

    def test_files_are_of_a_size_to_read(self) -> None:
        long = {
            str(path.relative_to(ROOT)): lines
            for path in (ROOT / "dashboard" / "src").rglob("*.ts*")
            if path != schema.SCHEMA and (lines := path.read_text("utf-8").count("\n")) > (600 if ".test." in path.name else 300)
        }
        assert not long

    def test_text_never_becomes_markup(self) -> None:
        for path in (ROOT / "dashboard" / "src").rglob("*.ts*"):
            text = path.read_text("utf-8")
            for name in ("dangerouslySetInnerHTML", "innerHTML", "insertAdjacentHTML", "eval(", "new Function"):
                assert name not in text or ".test." in path.name, f"{path} has {name}"


class TestHook:
    """What the hook says when something is missing."""

    def test_a_source_without_both_is_incomplete(self, tmp_path: Path) -> None:
        (tmp_path / "src" / "rota" / "server").mkdir(parents=True)
        with pytest.raises(SystemExit, match="incomplete"):
            _hook().build(tmp_path)

    def test_what_is_current_is_left_alone(self, tmp_path: Path) -> None:
        hook = _hook()
        built = tmp_path / "src" / "rota" / "server" / "dashboard"
        built.mkdir(parents=True)
        (tmp_path / "dashboard" / "src").mkdir(parents=True)
        (tmp_path / "dashboard" / "src" / "main.tsx").write_text("1")
        (built / "index.html").write_text("built")
        (tmp_path / "dashboard" / ".built").write_text(hook.digest(tmp_path / "dashboard"))
        assert hook.build(tmp_path) is False
        (tmp_path / "dashboard" / "src" / "main.test.tsx").write_text("a test changes nothing")
        assert hook.build(tmp_path) is False
        before = hook.digest(tmp_path / "dashboard")
        (tmp_path / "dashboard" / "src" / "main.tsx").write_text("2")
        assert hook.digest(tmp_path / "dashboard") != before


def _hook() -> Any:
    import importlib.util

    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
