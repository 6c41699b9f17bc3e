"""Counts that stop counting: exact while small; beyond that an estimate, or a lower bound."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

COUNT_CAP = 10_000  # counting further while a caller waits takes too long


@dataclass(frozen=True, slots=True)
class Capped:
    """How many there are: exactly; with `capped` more than that; with `estimated` about that many."""

    count: int
    capped: bool = False
    estimated: bool = False

    @classmethod
    def at(cls, count: int, cap: int = COUNT_CAP) -> Capped:
        """Return a count that went one beyond the cap to see whether it is exceeded."""
        return cls(min(count, cap), count > cap)

    @classmethod
    def sum(cls, parts: Iterable[Capped]) -> Capped:
        """Add up counts; the sum is capped if any part is."""
        parts = list(parts)
        capped = any(part.capped for part in parts)
        return cls(sum(part.count for part in parts), capped, not capped and any(part.estimated for part in parts))

    def or_about(self, estimate: int | None) -> Capped:
        """Return the estimate instead of a lower bound, unless it contradicts the bound."""
        if self.capped and estimate is not None and estimate >= self.count:
            return Capped(estimate, estimated=True)
        return self

    def __str__(self) -> str:
        if self.estimated:
            return f"≈ {_shorten(self.count)}"
        if not self.capped:
            return f"{self.count:,}"
        return f"{self.count // 1000}k+" if self.count >= 1000 and self.count % 1000 == 0 else f"{self.count:,}+"

    def __bool__(self) -> bool:
        return self.count > 0 or self.capped


def _shorten(count: int) -> str:
    if count >= 999_500:
        return f"{count / 1_000_000:.1f}M"
    return f"{count / 1000:.0f}k" if count >= 1000 else str(count)
