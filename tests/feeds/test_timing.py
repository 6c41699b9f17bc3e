"""When a feed is fetched next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.apps.feeds.timing import BACKOFF, DEFAULT, backoff, fresh_for, next_interval, observed, spread

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
SPANS = st.timedeltas(timedelta(0), timedelta(days=4000))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"cache-control": "max-age=60"}, timedelta(seconds=60)),
        ({"cache-control": 'public , MAX-AGE = "60"'}, timedelta(seconds=60)),
        ({"cache-control": "s-maxage=10, max-age=60"}, timedelta(seconds=60)),
        ({"cache-control": "s-maxage=10"}, timedelta(seconds=10)),
        ({"cache-control": "max-age=60", "age": "100"}, timedelta(0)),
        ({"cache-control": "max-age=60", "age": "-1"}, timedelta(seconds=60)),
        ({"cache-control": "max-age=999999999999"}, timedelta(days=366)),
        ({"cache-control": "max-age=-60"}, None),
        ({"cache-control": "no-store"}, None),
        ({"cache-control": "private"}, None),
        ({"expires": "Mon, 16 Nov 2026 13:00:00 GMT"}, HOUR),
        ({"expires": "Mon, 16 Nov 2026 11:00:00 GMT"}, None),
        ({"expires": "0"}, None),
        ({"cache-control": "max-age=60", "expires": "Mon, 16 Nov 2026 13:00:00 GMT"}, timedelta(seconds=60)),
    ],
)
def test_what_a_server_says(headers: dict[str, str], expected: timedelta | None) -> None:
    assert fresh_for(headers, NOW) == expected


@given(st.dictionaries(st.sampled_from(["cache-control", "age", "expires"]), st.text(max_size=60)))
def test_whatever_a_server_says_it_is_a_time_or_nothing(headers: dict[str, str]) -> None:
    found = fresh_for(headers, NOW)
    assert found is None or timedelta(0) <= found <= timedelta(days=366)


@given(
    st.none() | SPANS,
    st.lists(st.none() | SPANS, max_size=4),
    st.timedeltas(timedelta(seconds=1), DAY),
    st.timedeltas(DAY, 400 * DAY),
)
def test_the_next_time_is_within_bounds_and_never_before_anybody_asked_for(
    seen: timedelta | None, asked: list[timedelta | None], least: timedelta, most: timedelta
) -> None:
    interval = next_interval(seen=seen, asked=asked, least=least, most=most)
    assert least <= interval <= most
    for each in asked:
        assert each is None or interval >= min(each, most)
    assert interval <= spread(interval, most) <= min(interval * 1.06, most)
    if seen is None and not any(asked):
        assert interval == min(max(DEFAULT, least), most)


@given(st.lists(st.datetimes(datetime(1990, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)), max_size=25))  # noqa: DTZ001
def test_whatever_the_dates_are_what_is_observed_is_a_time_or_nothing(times: list[datetime]) -> None:
    found = observed(times, NOW)
    assert found is None or found > timedelta(0)


def test_what_is_observed() -> None:
    assert observed([], NOW) is None
    assert observed([NOW], NOW) is None
    assert observed([NOW, NOW, NOW], NOW) is None  # all at once: that is no rate
    assert observed([NOW - n * HOUR for n in range(10)], NOW) == HOUR / 2
    assert observed([NOW - 10 * DAY - n * HOUR for n in range(10)], NOW) == DAY  # quiet since
    assert observed([NOW + n * HOUR for n in range(1, 10)], NOW) is None  # of the future nothing is known


@given(st.integers(0, 10_000), st.none() | SPANS, st.timedeltas(timedelta(minutes=1), 400 * DAY))
def test_failures_back_off_up_to_the_bound(failures: int, asked: timedelta | None, most: timedelta) -> None:
    delay = backoff(failures, asked=asked, most=most)
    assert timedelta(0) < delay <= most
    assert delay >= min(asked or BACKOFF, most)
    assert delay <= backoff(failures + 1, asked=asked, most=most)
