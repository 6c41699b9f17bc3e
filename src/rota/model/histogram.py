"""Histograms of times with fixed buckets, eight to an octave: a percentile read from one is right to within five per cent.

Fixed, because histograms of many workers and minutes are added up; logarithmic, because a millisecond and an hour are both of
interest.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp2, log2

PER_OCTAVE = 8
SMALLEST_S = 1e-6
ORIGIN = 160  # so that the smallest is in bucket 0
LAST = 512  # about a million years


def bucket(seconds: float) -> int:
    """The bucket of a time; what is less than nothing, by clocks that differ, counts as nothing."""
    return min(int(ORIGIN + PER_OCTAVE * log2(max(seconds, 0.0) + SMALLEST_S)), LAST)


def middle(bucket: int) -> float:
    """The time in the middle of a bucket, in seconds."""
    return max(exp2((bucket + 0.5 - ORIGIN) / PER_OCTAVE) - SMALLEST_S, 0.0)


def percentile(counts: Mapping[int, int], share: float) -> float | None:
    """The time that this share of all stays within; None when there are none."""
    total = sum(counts.values())
    if not total:
        return None
    wanted, filled = share * total, 0
    for number in sorted(counts):
        filled += counts[number]
        if filled >= wanted:
            break
    return middle(number)
