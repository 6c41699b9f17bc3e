"""The reference pages say what the code says."""

from __future__ import annotations

import pytest
from tests.docs.reference import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_page_is_current(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == PAGES[name](), "run `python -m tests.docs.reference`"
