"""A minute of what `make chaos` does for twenty."""

from __future__ import annotations

import io
import secrets
from pathlib import Path

import pytest
from rich.console import Console
from tests.chaos import lifeline
from tests.chaos.__main__ import show
from tests.chaos.faults import SHORT
from tests.chaos.scene import play


@pytest.mark.req("Q04", "Q06", "Q11", "Q15", "Q19", "Q20")
@pytest.mark.fault(1, 3, 7, 8, 10)
def test_the_contract_is_kept(tmp_path: Path) -> None:
    report = play(SHORT, secrets.randbelow(10**6), folder=tmp_path, say=print, start=lifeline.fork)
    text = io.StringIO()
    show(report, Console(file=text, width=120))
    assert report.kept, text.getvalue()
