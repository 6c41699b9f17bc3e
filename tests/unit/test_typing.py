"""Wrong arguments to `enqueue` and `ensure` are errors in pyright and in mypy, before anything runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[1] / "support" / "typing_samples"


def mypy(sample: Path, cache: Path) -> set[int]:
    command = [sys.executable, "-m", "mypy", "--strict", "--output=json", f"--cache-dir={cache}", str(sample)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stdout + result.stderr
    reports = [json.loads(line) for line in result.stdout.splitlines()]
    return {report["line"] for report in reports if report["severity"] == "error" and Path(report["file"]).name == sample.name}


def pyright(sample: Path, cache: Path) -> set[int]:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(sample)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cache)
    assert result.returncode == 1, result.stdout + result.stderr
    reports = json.loads(result.stdout)["generalDiagnostics"]
    return {report["range"]["start"]["line"] + 1 for report in reports if report["severity"] == "error"}


@pytest.mark.parametrize("checker", [mypy, pyright])
@pytest.mark.parametrize("name", ["calls.py", "recurring_calls.py"])
def test_it_refuses_exactly_the_wrong_calls(checker, name, tmp_path):
    sample = SAMPLES / name
    expected = [number for number, line in enumerate(sample.read_text().splitlines(), 1) if line.endswith("# E")]
    assert len(expected) > 15
    assert sorted(checker(sample, tmp_path)) == expected
