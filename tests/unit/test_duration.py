"""Durations as people write them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import UsageError
from rota.model.duration import parse_duration


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (30, timedelta(seconds=30)),
        (0.5, timedelta(milliseconds=500)),
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("1h30m", timedelta(minutes=90)),
        (" 2D ", timedelta(days=2)),
        ("1w", timedelta(weeks=1)),
        ("250ms", timedelta(milliseconds=250)),
        ("1.5h", timedelta(minutes=90)),
        (timedelta(minutes=1), timedelta(minutes=1)),
        (0, timedelta(0)),
    ],
)
def test_it_works(value, expected):
    assert parse_duration(value) == expected


@pytest.mark.parametrize(
    "value", ["", "5", "m", "5 m x", "5y", "-5m", "1h,30m", "five minutes", [], None, True, float("nan"), float("inf")]
)
def test_what_is_not_a_duration_is_refused(value):
    with pytest.raises(UsageError, match=r"delay=.* is not a duration"):
        parse_duration(value, name="delay")


@pytest.mark.parametrize(
    "value", [-1, timedelta(seconds=-1), 1e12, 10**30, 10**400, "100000d", "9" * 30 + "w", "9" * 400 + "d", timedelta.max]
)
def test_out_of_range(value):
    with pytest.raises(UsageError, match=r"delay=.* is out of range: .*3660 days"):
        parse_duration(value, name="delay")


@pytest.mark.parametrize("value", [0, 6.2e-111, 4e-7, "0s", timedelta(0)])
def test_zero_where_it_makes_no_sense(value):
    """What is less than a microsecond is nothing to PostgreSQL."""
    with pytest.raises(UsageError, match=r"timeout=.* is out of range: from a microsecond to 3660 days"):
        parse_duration(value, name="timeout", positive=True)


@given(st.integers(0, 10_000), st.sampled_from(["ms", "s", "m", "h", "d", "w"]))
def test_a_number_and_a_unit(number, unit):
    seconds = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[unit] * number
    if seconds <= 3660 * 86400:
        assert parse_duration(f"{number}{unit}") == timedelta(seconds=seconds)
