"""Wrong arguments to `enqueue` are errors in pyright and in mypy, before anything runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[1] / "support" / "typing_samples" / "calls.py"
EXPECTED = [number for number, line in enumerate(SAMPLE.read_text().splitlines(), 1) if line.endswith("# E")]


def mypy(cache: Path) -> set[int]:
    command = [sys.executable, "-m", "mypy", "--strict", "--output=json", f"--cache-dir={cache}", str(SAMPLE)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stdout + result.stderr
    reports = [json.loads(line) for line in result.stdout.splitlines()]
    return {report["line"] for report in reports if report["severity"] == "error" and Path(report["file"]).name == SAMPLE.name}


def pyright(cache: Path) -> set[int]:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(SAMPLE)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cache)
    assert result.returncode == 1, result.stdout + result.stderr
    reports = json.loads(result.stdout)["generalDiagnostics"]
    return {report["range"]["start"]["line"] + 1 for report in reports if report["severity"] == "error"}


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_it_refuses_exactly_the_wrong_calls(checker, tmp_path):
    assert len(EXPECTED) > 25
    assert sorted(checker(tmp_path)) == EXPECTED
