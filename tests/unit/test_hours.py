"""The hours of a calendar: as the clocks show them, and as often as a timing fires in each."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, settings
from hypothesis import given as example
from hypothesis import strategies as st

from rota.model.hours import Hour, count_by_hour, count_runs, first_and_last, hours_of_days
from rota.model.schedule import Timing, cron, every
from rota.model.zone import zone_names

pytestmark = pytest.mark.req("D02")

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = timedelta(hours=1)
CRONS = [
    "* * * * *",
    "0-59/5 0-23 * * *",
    "*/7 * * * *",
    "0 * * * *",
    "30 2 * * *",
    "*/15 2,3 * * *",
    "0 0 * * 0",
    "59 23 28-31 * *",
    "5 1-3 * 3,10 *",
]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Havana", "Pacific/Apia"]

days_of_change = st.sampled_from([date(2026, 3, 27), date(2026, 10, 23), date(2026, 4, 3), date(2026, 10, 2), date(2026, 2, 27)])
instants = st.integers(0, 220 * 86400).map(lambda seconds: datetime(2026, 3, 26, tzinfo=UTC) + timedelta(seconds=seconds))


def brute(timing: Timing, due: datetime, begin: datetime, end: datetime) -> list[datetime]:
    """The times one by one, as the scheduler finds them."""
    times: list[datetime] = []
    at: datetime | None = due
    if timing.strategy == "cron":
        at = timing.parsed.next_after(max(begin, due) - timedelta(microseconds=1))
    while at is not None and at < end and timing.bounded(at) is not None:
        if at >= begin:
            times.append(at)
        at = timing.parsed.next_after(at) if timing.strategy == "cron" else at + (timing.every or timedelta(days=999))
    return times


class TestHours:
    @settings(max_examples=60, deadline=None)
    @example(st.sampled_from(sorted(zone_names())), st.dates(date(2001, 1, 1), date(2035, 1, 1)), st.integers(1, 8))
    def test_every_instant_of_the_days_is_in_the_hour_that_the_clocks_show(self, name: str, first: date, days: int) -> None:
        zone = ZoneInfo(name)
        assume(not (name in ("Pacific/Apia", "Pacific/Fakaofo") and first.year == 2011))  # they have left a day out
        hours = hours_of_days(first, days, zone)
        for before, after in pairwise(hours):
            assert before.end == after.begin
            assert (before.date, before.hour) < (after.date, after.hour)  # none twice
        assert hours[0].begin.astimezone(zone).date() == first
        assert (hours[0].begin - timedelta(seconds=1)).astimezone(zone).date() < first
        assert hours[-1].end.astimezone(zone).date() > first + timedelta(days=days - 1)
        for hour in hours:
            for at in (hour.begin, hour.begin + (hour.end - hour.begin) / 2, hour.end - timedelta(seconds=1)):
                local = at.astimezone(zone)
                assert (local.date(), local.hour) == (hour.date, hour.hour)

    def test_clocks_that_go_forward_leave_an_hour_out(self) -> None:
        hours = hours_of_days(date(2026, 3, 29), 1, BERLIN)
        assert [hour.hour for hour in hours] == [0, 1, *range(3, 24)]
        assert {hour.end - hour.begin for hour in hours} == {HOUR}

    def test_a_day_that_was_left_out_has_no_hours(self) -> None:
        apia = ZoneInfo("Pacific/Apia")
        assert hours_of_days(date(2011, 12, 30), 1, apia) == []
        assert {hour.date.day for hour in hours_of_days(date(2011, 12, 29), 3, apia)} == {29, 31}

    def test_clocks_that_go_back_make_an_hour_longer(self) -> None:
        hours = hours_of_days(date(2026, 10, 25), 1, BERLIN)
        assert [hour.hour for hour in hours] == list(range(24))
        assert [hour.hour for hour in hours if hour.end - hour.begin == 2 * HOUR] == [2]


class TestCounts:
    @settings(max_examples=80, deadline=None)
    @example(st.sampled_from(CRONS), st.sampled_from(ZONES), st.sampled_from(ZONES), days_of_change, st.integers(0, 80), st.data())
    def test_a_cron_is_counted_as_it_fires(
        self, text: str, tz: str, shown: str, first: date, hours_on: int, data: st.DataObject
    ) -> None:
        hours = hours_of_days(first, 4, ZoneInfo(shown))
        now = hours[0].begin + timedelta(hours=hours_on - 4, minutes=data.draw(st.integers(0, 59)))
        ends = data.draw(st.none() | st.integers(0, 5000))
        timing = cron(text, tz=tz, ends_at=None if ends is None else hours[0].begin + timedelta(minutes=ends))
        due = timing.first(now)
        if due is None:
            return
        counts = count_by_hour(timing, due, hours, now)
        assert counts == [len(brute(timing, due, max(hour.begin, now), hour.end)) for hour in hours]

    @settings(max_examples=80, deadline=None)
    @example(st.integers(1, 100_000), instants, instants, st.integers(0, 200_000))
    def test_an_interval_is_counted_without_going_through_it(self, step: int, due: datetime, begin: datetime, length: int) -> None:
        timing = every(timedelta(seconds=step))
        end = begin + timedelta(seconds=length)
        due = max(due, begin - timedelta(seconds=2000 * step))
        times = brute(timing, due, begin, end)
        assert count_runs(timing, due, begin, end) == len(times)
        if times:
            assert first_and_last(timing, due, begin, end) == (times[0], times[-1])

    @pytest.mark.parametrize("first", [date(2026, 3, 27), date(2026, 10, 23)])
    @pytest.mark.parametrize("text", ["0-59/5 0-23 * * *", "*/5 * * * *", "0-59/5 1-4 * * *"])
    def test_where_clocks_change_a_dense_one_is_counted_as_it_fires(self, text: str, first: date) -> None:
        hours = hours_of_days(first, 5, ZoneInfo("UTC"))  # on other clocks than its own
        timing = cron(text, tz="Europe/Berlin")
        begin = hours[0].begin
        assert count_by_hour(timing, begin, hours, begin) == [len(brute(timing, begin, hour.begin, hour.end)) for hour in hours]

    def test_every_second_for_a_month_takes_no_time(self) -> None:
        hours = hours_of_days(date(2026, 3, 1), 31, BERLIN)
        counts = count_by_hour(every("1s"), hours[0].begin, hours, hours[0].begin)
        assert set(counts) == {3600}
        assert sum(counts) == (hours[-1].end - hours[0].begin).total_seconds()

    def test_the_first_and_last_of_a_cron(self) -> None:
        timing = cron("*/20 * * * *")
        at = datetime(2026, 1, 1, tzinfo=UTC)
        assert first_and_last(timing, at, at, at + HOUR) == (at, at + timedelta(minutes=40))

    def test_what_runs_once_is_counted_once(self) -> None:
        at = datetime(2026, 1, 1, tzinfo=UTC)
        assert [count_runs(Timing("init"), at, begin, begin + HOUR) for begin in (at - HOUR, at, at + HOUR)] == [0, 1, 0]

    def test_nothing_is_counted_before_it_is_due(self) -> None:
        begin = datetime(2026, 1, 1, tzinfo=UTC)
        hours = [Hour(date(2026, 1, 1), n, begin + n * HOUR, begin + (n + 1) * HOUR) for n in range(4)]
        assert count_by_hour(cron("*/30 * * * *"), begin + 2 * HOUR, hours, begin) == [0, 0, 2, 2]
