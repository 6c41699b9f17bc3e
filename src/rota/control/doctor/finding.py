"""What a check of the doctor says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: how it is, in a sentence, and what to do about it."""

    check: str
    level: Level
    sentence: str
    next: str | None = None


def ok(check: str, sentence: str) -> list[Finding]:
    """Nothing is wrong."""
    return [Finding(check, "ok", sentence)]


def warn(check: str, sentence: str, next: str) -> Finding:
    """It works, but not as it should."""
    return Finding(check, "warn", sentence, next)


def fail(check: str, sentence: str, next: str) -> Finding:
    """It does not work, or will soon stop working."""
    return Finding(check, "fail", sentence, next)
