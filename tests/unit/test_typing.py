"""Wrong arguments to `enqueue` and `ensure` are errors in pyright and in mypy, before anything runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = sorted((Path(__file__).parents[1] / "support" / "typing_samples").glob("*calls.py"))
Lines = set[tuple[str, int]]  # by the name of their file


def mypy(folder: Path) -> Lines:
    command = [sys.executable, "-m", "mypy", "--strict", "--output=json", f"--cache-dir={folder}", *map(str, SAMPLES)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stdout + result.stderr
    reports = [json.loads(line) for line in result.stdout.splitlines()]
    return {(Path(report["file"]).name, report["line"]) for report in reports if report["severity"] == "error"}


def pyright(folder: Path) -> Lines:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, *map(str, SAMPLES)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert result.returncode == 1, result.stdout + result.stderr
    reports = json.loads(result.stdout)["generalDiagnostics"]
    return {
        (Path(report["file"]).name, report["range"]["start"]["line"] + 1) for report in reports if report["severity"] == "error"
    }


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_it_refuses_exactly_the_wrong_calls(checker, pytestconfig, tmp_path):
    """All samples in one go, with what mypy has found out in the last run: starting and reading the rest is what takes time."""
    assert [sample.name for sample in SAMPLES] == ["calls.py", "recurring_calls.py"]
    expected = set()
    for sample in SAMPLES:
        wrong = {(sample.name, number) for number, line in enumerate(sample.read_text().splitlines(), 1) if line.endswith("# E")}
        assert len(wrong) > 15
        expected |= wrong
    cache = getattr(pytestconfig, "cache", None)
    refused = checker(cache.mkdir("mypy") if cache and checker is mypy else tmp_path)
    assert {found for found in refused if found[0] in {sample.name for sample in SAMPLES}} == expected
