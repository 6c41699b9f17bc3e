"""The shape of the code: which way imports point, how long files are, and the words that name nothing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "rota"
LONGEST = {"src": 400, "bench": 400, "tests": 600}  # lines of a file
WORDLESS = re.compile(r"managers?|helpers?|utils?|executions?|entrypoints?|defer(s|red)?")  # they fit anything, so they say nothing
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def test_imports_point_one_way() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("folder", LONGEST)
def test_files_are_short(folder: str) -> None:
    files = [path for kind in ("*.py", "*.sql") for path in (ROOT / folder).rglob(kind)]
    ours = [path.relative_to(ROOT) for path in files if "/." not in str(path.relative_to(ROOT))]  # not what bench has installed
    lengths = {str(path): (ROOT / path).read_text("utf-8").count("\n") for path in ours}
    assert {path: length for path, length in lengths.items() if length > LONGEST[folder]} == {}


def test_modules_of_tests_have_names_of_their_own() -> None:
    """Folders of tests are no packages: pytest collects only one of two modules with the same name."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_names_say_something() -> None:
    named = [(path, name) for path in SOURCE.rglob("*") for name in _names(path)]
    assert len(named) > 1000
    assert [f"{path.relative_to(ROOT)}: {name}" for path, name in named if _is_wordless(name)] == []


@pytest.mark.parametrize("name", ["JobManager", "utils", "_sql_helpers", "deferred_until", "EXECUTION_S", "run_execution"])
def test_wordless_names_are_found(name: str) -> None:
    assert _is_wordless(name)


@pytest.mark.parametrize("name", ["Executor", "utility", "contextmanager", "deference"])
def test_other_names_are_not(name: str) -> None:
    assert not _is_wordless(name)


def _is_wordless(name: str) -> bool:
    return any(WORDLESS.fullmatch(word.lower()) for word in WORD.findall(name))


def _names(path: Path) -> Iterator[str]:
    """The names that a file gives to things, its own included; those it takes from elsewhere are not ours to choose."""
    if path.suffix == ".sql":
        yield from re.findall(r"[a-z_]+", re.sub(r"--(?! name:).*", "", path.read_text("utf-8")))
    if path.suffix != ".py":
        return
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.alias(asname=str(name)):
                yield name
