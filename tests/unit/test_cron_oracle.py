"""Cron against an independent oracle: every change of clocks in every zone, and whatever else can be thought of."""

from __future__ import annotations

import random
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cron_corpus import EXPRESSIONS
from tests.support.cron_oracle import Change, Oracle, changes, walk
from tests.support.thorough import WHOLE

from rota.errors import InvalidSchedule
from rota.model.cron import Cron
from rota.model.zone import zone_names

FIRST_YEAR, LAST_YEAR = 2024, 2030
AROUND = timedelta(hours=25)
DENSE = 30  # firings in a window, from which on only the hours next to the change are compared
NEAR = timedelta(hours=2.5)
TURNS = 1 if WHOLE else 20  # the expressions take turns, unless all of them are asked for
LOOKS = [timedelta(minutes=m) for m in (-121, -61, -59.5, -30, -1, -1 / 60, 0, 1 / 60, 29.5, 30, 45, 59, 60, 61, 119, 121)]


@cache
def all_changes() -> dict[Change, str]:
    """Every different change of clocks in those years, with one of the zones that make it."""
    found: dict[Change, str] = {}
    for name in sorted(zone_names() & available_timezones()):
        for change in changes(ZoneInfo(name), FIRST_YEAR, LAST_YEAR):
            found.setdefault(change, name)
    return found


@cache
def oracle(expression: str) -> Oracle:
    return Oracle(expression)


def test_the_corpus_is_large() -> None:
    assert len(EXPRESSIONS) == len(set(EXPRESSIONS)) >= 200
    assert len(all_changes()) > 300


@pytest.mark.req("S04")
@pytest.mark.fault(14)
@pytest.mark.parametrize("year", range(FIRST_YEAR, LAST_YEAR + 1))
def test_every_change_of_clocks_in_every_zone(year: int) -> None:
    """Every change, at each of which a tenth of the expressions have their turn: other ones in the next run.

    All of them, in a minute and a half: `ROTA_TEST_WHOLE=1 pytest tests/unit/test_cron_oracle.py`.
    """
    turn = random.randrange(TURNS)  # by the seed of the run, which is printed
    for number, (change, name) in enumerate(all_changes().items()):
        if change.at.year != year:
            continue
        start, end = change.at - AROUND, change.at + AROUND
        runs = walk(ZoneInfo(name), start, end)
        for index in range((number + turn) % TURNS, len(EXPRESSIONS), TURNS):
            expression = EXPRESSIONS[index]
            fires = oracle(expression).fires(runs)
            if len(fires) > DENSE:
                low, high = change.at - NEAR, change.at + NEAR
                compare(Cron(expression, name), [at for at in fires if low < at <= high], low, high, change, number + index)
            else:
                compare(Cron(expression, name), [at for at in fires if start < at], start, end, change, number + index)


def compare(cron: Cron, expected: list[datetime], start: datetime, end: datetime, change: Change, turn: int) -> None:
    """Forwards through the whole window; from a few of the places next to the change, which take turns; backwards in turn, too."""
    story = (cron, change)
    assert (story, cron.between(start, end, 10_000)) == (story, expected)
    for look in LOOKS[turn % len(LOOKS) :: 8]:
        instant = change.at + look
        index = bisect_right(expected, instant)
        if index < len(expected):
            assert (story, look, cron.next_after(instant)) == (story, look, expected[index])
        if index > 0:
            assert (story, look, cron.latest_before(instant)) == (story, look, expected[index - 1])
    if turn % 8 == 4:
        assert (story, cron.count(start, end)) == (story, len(expected))
    if turn % 8 == 0:
        assert (story, backwards(cron, start, end)) == (story, expected)


def backwards(cron: Cron, start: datetime, end: datetime) -> list[datetime]:
    """The instants in (start, end], found from the end."""
    found: list[datetime] = []
    at = cron.latest_before(end)
    while at is not None and at > start:
        found.append(at)
        at = cron.latest_before(at - timedelta(microseconds=1))
    return found[::-1]


def fields(low: int, high: int, *others: str) -> st.SearchStrategy[str]:
    """A field of an expression: a list of stars, values, ranges and steps, and `others`."""
    values = st.integers(low, high).map(str)
    bounds = st.lists(st.integers(low, high), min_size=2, max_size=2, unique=True).map(sorted)
    spans = bounds.map(lambda pair: f"{pair[0]}-{pair[1]}")
    steps = st.tuples(st.just("*") | spans | values, st.integers(1, high)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    terms = st.just("*") | values | spans | steps
    return st.lists(terms | st.sampled_from(others) if others else terms, min_size=1, max_size=3).map(",".join)


EXPRESSION_TEXTS = st.tuples(
    fields(0, 59),
    fields(0, 23),
    st.just("*") | fields(1, 31, "L", "LW"),
    st.just("*") | fields(1, 12, "JAN", "mar", "Oct-NOV"),
    st.just("*") | fields(0, 7, "SUN", "mon-Fri", "0#1", "SUN#2", "fri#5", "0L", "7L"),
).map(" ".join)
INSTANTS = st.integers(631_152_000, 3_786_912_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))  # 1990 to 2089
ZONES = st.sampled_from(sorted(zone_names() & available_timezones()))


@pytest.mark.req("S04")
@settings(max_examples=150, deadline=None)
@given(EXPRESSION_TEXTS, ZONES, INSTANTS)
def test_any_expression_in_any_zone_at_any_time(expression: str, name: str, instant: datetime) -> None:
    agree(expression, name, instant)


@pytest.mark.req("S04")
@pytest.mark.fault(14)
@settings(max_examples=150, deadline=None)
@given(EXPRESSION_TEXTS, st.integers(0, 10_000), st.integers(-200, 200), st.integers(0, 59))
def test_any_expression_next_to_a_change_of_clocks(expression: str, pick: int, minutes: int, seconds: int) -> None:
    change, name = list(all_changes().items())[pick % len(all_changes())]
    agree(expression, name, change.at + timedelta(minutes=minutes, seconds=seconds))


def agree(expression: str, name: str, instant: datetime) -> None:
    """The oracle looks at the days around the instant; what fires beyond them must not be said to fire within."""
    try:
        cron = Cron(expression, name)
    except InvalidSchedule as error:
        assert "never comes" in str(error)  # noqa: PT017
        return
    start = instant.replace(second=0) - timedelta(hours=30)
    end = start + timedelta(hours=57)
    known = start + timedelta(hours=3)  # what the oracle says of a repeated time that it has seen the end of only, is not true
    fires = [at for at in oracle(expression).fires(walk(ZoneInfo(name), start, end)) if at > known]
    index = bisect_right(fires, instant)
    later, earlier = cron.next_after(instant), cron.latest_before(instant)
    assert later == fires[index] if index < len(fires) else later is None or later > end
    assert earlier == fires[index - 1] if index else earlier is None or earlier <= known
