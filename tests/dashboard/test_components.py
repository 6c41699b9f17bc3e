"""The dashboard's component tests, run once with the Node that builds it; each failure is told by its name."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.dashboard.schema import DASHBOARD, node


@pytest.mark.req("D01", "D02", "D03", "D04")
def test_components(tmp_path: Path) -> None:
    program = DASHBOARD / "node_modules" / "vitest" / "vitest.mjs"
    if not program.is_file():
        pytest.skip("the dashboard's packages are not there: run `make dashboard`")
    report = tmp_path / "report.json"
    command = [node(), str(program), "run", "--reporter=json", f"--outputFile={report}"]
    path = os.pathsep.join([os.path.dirname(node()), os.environ["PATH"]])
    done = subprocess.run(
        command,
        cwd=DASHBOARD,
        env={**os.environ, "PATH": path, "CI": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert report.is_file(), done.stderr[-4000:] or done.stdout[-4000:]
    files = json.loads(report.read_text("utf-8"))["testResults"]
    failed = [
        f"{Path(file['name']).relative_to(DASHBOARD)}: {each['fullName']}\n{''.join(each['failureMessages'])[:1500]}"
        for file in files
        for each in file["assertionResults"]
        if each["status"] == "failed"
    ]
    failed += [
        f"{file['name']}: {file['message'][:2000]}" for file in files if file["status"] == "failed" and not file["assertionResults"]
    ]
    assert not failed, "\n\n".join(failed)
    assert done.returncode == 0, done.stderr[-4000:]
    assert sum(len(file["assertionResults"]) for file in files) > 30
