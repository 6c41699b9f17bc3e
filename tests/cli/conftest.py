"""A folder for commands that start a PostgreSQL."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the server's user can enter, unlike pytest's own when we are root, and that is gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="rota-cli-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)
