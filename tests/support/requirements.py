"""Says which requirements no test carries."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

LIST = Path(__file__).parents[2] / "docs" / "requirements.md"


def carried(items: Iterable[pytest.Item]) -> set[str]:
    """Collect the ids that tests name in `@pytest.mark.req(...)`."""
    return {id_ for item in items for mark in item.iter_markers("req") for id_ in mark.args}


def missing(ids: set[str]) -> list[str]:
    """Name the listed ids that are not among these."""
    return [id_ for id_ in re.findall(r"^\| ([A-Z]\d\d) ", LIST.read_text("utf-8"), re.M) if id_ not in ids]


def whole_suite(config: pytest.Config) -> bool:
    """Say whether this run was asked for all tests: only then does a missing id mean anything."""
    option = config.option
    narrowed = option.keyword or option.markexpr or option.deselect or option.ignore or option.ignore_glob
    narrowed = narrowed or getattr(option, "lf", False) or option.collectonly
    return not narrowed and config.args_source is pytest.Config.ArgsSource.TESTPATHS
