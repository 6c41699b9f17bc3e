"""Counts that stop counting: exact while small, a lower bound beyond that."""

from __future__ import annotations

from dataclasses import dataclass

COUNT_CAP = 10_000  # counting on costs more than knowing is worth


@dataclass(frozen=True, slots=True)
class Capped:
    """How many there are; with `capped`, there are more than that."""

    count: int
    capped: bool = False

    @classmethod
    def at(cls, count: int, cap: int = COUNT_CAP) -> Capped:
        """A count that went one beyond the cap to see whether it is exceeded."""
        return cls(min(count, cap), count > cap)

    def __str__(self) -> str:
        if not self.capped:
            return f"{self.count:,}"
        return f"{self.count // 1000}k+" if self.count >= 1000 and self.count % 1000 == 0 else f"{self.count:,}+"

    def __bool__(self) -> bool:
        return self.count > 0 or self.capped
