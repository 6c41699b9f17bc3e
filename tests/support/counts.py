"""Counts as the API gives them."""

from __future__ import annotations

from typing import Any


def exactly(count: int) -> dict[str, Any]:
    """Describe a count that is exact."""
    return {"count": count, "capped": False, "estimated": False}
