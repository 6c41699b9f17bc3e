"""When a cron schedule fires, what it is called in words, and what a preview says of clocks that change."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cron_corpus import EXPRESSIONS

from rota.errors import UsageError
from rota.model.cron import Cron

BERLIN = "Europe/Berlin"


def at(text: str) -> datetime:
    """An instant in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def local_times(cron: Cron, start: str, n: int) -> list[str]:
    """The next times on the zone's clocks, with their offsets."""
    return [upcoming.local.strftime("%m-%d %H:%M %z") for upcoming in cron.upcoming(at(start), n)]


def test_it_works() -> None:
    cron = Cron.parse("0 9 * * 1-5", BERLIN)
    assert cron.next_after(at("2025-01-03 08:00")) == at("2025-01-06 08:00")  # Friday's has just been: Monday
    assert cron.latest_before(at("2025-01-06 07:59:59")) == at("2025-01-03 08:00")
    assert cron.between(at("2025-01-03 08:00"), at("2025-01-07 08:00"), 10) == [at("2025-01-06 08:00"), at("2025-01-07 08:00")]
    assert cron.describe() == "At 09:00, Monday through Friday, Europe/Berlin"


def test_next_is_after_and_latest_may_be_now() -> None:
    cron = Cron("30 * * * *")
    assert cron.next_after(at("2025-01-01 00:30")) == at("2025-01-01 01:30")
    assert cron.next_after(at("2025-01-01 00:29:59.999999")) == at("2025-01-01 00:30")
    assert cron.latest_before(at("2025-01-01 00:30")) == at("2025-01-01 00:30")
    assert cron.latest_before(at("2025-01-01 00:29:59.999999")) == at("2024-12-31 23:30")


def test_between_stops_at_its_limit() -> None:
    cron = Cron("* * * * *")
    assert len(cron.between(at("2025-01-01"), at("2026-01-01"), 7)) == 7
    assert cron.between(at("2025-01-01"), at("2026-01-01"), 0) == []
    assert cron.between(at("2025-01-01"), at("2024-01-01"), 7) == []


def test_results_are_utc_whatever_the_zone_of_the_question() -> None:
    found = Cron("0 9 * * *").next_after(datetime(2025, 1, 1, 12, tzinfo=timezone(timedelta(hours=5))))
    assert found == at("2025-01-01 09:00")
    assert found.tzinfo is UTC


def test_an_instant_without_a_zone_is_refused() -> None:
    with pytest.raises(UsageError, match=r"instant=.* has no time zone: give an aware datetime"):
        Cron("0 9 * * *").next_after(at("2025-01-01").replace(tzinfo=None))


def test_the_calendar_ends() -> None:
    assert Cron("0 0 1 1 *").next_after(at("9998-06-01")) is None
    assert Cron("0 0 1 1 *").latest_before(at("0002-01-01")) == at("0002-01-01")
    assert Cron("0 0 2 1 *").latest_before(at("0002-01-01")) is None
    with pytest.raises(UsageError, match="from year 2 to 9998"):
        Cron("0 0 1 1 *").next_after(datetime.max.replace(tzinfo=UTC))


def test_equal_schedules_are_equal() -> None:
    cron = Cron.parse(" 0\t9  * * mon ", BERLIN)
    assert cron.expression == "0 9 * * mon"
    assert {cron} == {Cron("0 9 * * mon", BERLIN)}
    assert cron != Cron("0 9 * * mon", "UTC")
    assert pickle.loads(pickle.dumps(cron)).next_after(at("2025-01-01")) == cron.next_after(at("2025-01-01"))


@pytest.mark.req("S04")
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 0 29 2 *", ["2028-02-29", "2032-02-29"]),
        ("0 0 29 2 */7", ["2032-02-29", "2060-02-29"]),  # 29 February on a Sunday
        ("0 0 31 * *", ["2025-01-31", "2025-03-31", "2025-05-31"]),
        ("0 0 L * *", ["2025-01-31", "2025-02-28", "2025-03-31"]),
        ("0 0 LW 8,11 *", ["2025-08-29", "2025-11-28"]),
        ("0 0 L 2 *", ["2025-02-28", "2026-02-28", "2027-02-28", "2028-02-29"]),
        ("0 0 * * mon#5", ["2025-03-31", "2025-06-30"]),
        ("0 0 * * 5L", ["2025-01-31", "2025-02-28"]),
        ("0 0 13 * fri", ["2025-01-03", "2025-01-10", "2025-01-13", "2025-01-17"]),  # either
        ("0 0 */2 * fri", ["2025-01-03", "2025-01-17", "2025-01-31"]),  # both
        ("@yearly", ["2026-01-01", "2027-01-01"]),
        ("@WEEKLY", ["2025-01-05", "2025-01-12"]),
    ],
)
def test_leap_days_month_ends_and_weekdays(expression: str, expected: list[str]) -> None:
    found = [f"{upcoming.at_utc:%Y-%m-%d}" for upcoming in Cron(expression).upcoming(at("2025-01-01 12:00"), len(expected))]
    assert found == expected


@pytest.mark.req("S04")
@given(st.sampled_from(EXPRESSIONS), st.integers(946_684_800, 4_102_444_800))
def test_in_utc_it_says_what_cronsim_says(expression: str, seconds: int) -> None:
    instant = datetime.fromtimestamp(seconds, UTC)
    cron = Cron(expression)
    plain = {"@hourly": "0 * * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *"}.get(expression, expression)
    plain = {"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *"}.get(plain, plain)
    assert cron.next_after(instant) == next(CronSim(plain, instant))
    assert cron.latest_before(instant) == next(CronSim(plain, instant + timedelta(seconds=1), reverse=True))


@pytest.mark.req("S04")
@pytest.mark.fault(14)
def test_a_fixed_time_in_a_gap_runs_right_after_it() -> None:
    assert local_times(Cron("30 2 * * *", BERLIN), "2025-03-29 00:00", 3) == [
        "03-29 02:30 +0100",
        "03-30 03:00 +0200",
        "03-31 02:30 +0200",
    ]
    assert local_times(Cron("0,30 2,3 * * *", BERLIN), "2025-03-29 12:00", 2) == ["03-30 03:00 +0200", "03-30 03:30 +0200"]
    assert local_times(Cron("15 2 * * *", "Australia/Lord_Howe"), "2025-10-04 00:00", 1) == ["10-05 02:30 +1100"]
    assert local_times(Cron("30 0 * * *", "Africa/Cairo"), "2025-04-24 12:00", 1) == ["04-25 01:00 +0300"]
    assert local_times(Cron("0 9 30 12 *", "Pacific/Apia"), "2011-12-01 00:00", 1) == ["12-31 00:00 +1400"]  # a day left out


@pytest.mark.req("S04")
@pytest.mark.fault(14)
def test_a_fixed_time_that_comes_twice_runs_once() -> None:
    cron = Cron("30 2 * * *", BERLIN)
    assert local_times(cron, "2025-10-25 12:00", 2) == ["10-26 02:30 +0200", "10-27 02:30 +0100"]
    in_the_second_pass = at("2025-10-26 01:10")
    assert cron.next_after(in_the_second_pass) == at("2025-10-27 01:30")
    assert cron.latest_before(in_the_second_pass) == at("2025-10-26 00:30")


@pytest.mark.req("S04")
@pytest.mark.fault(14)
def test_a_wildcard_goes_by_real_time() -> None:
    half_hourly = Cron("*/30 * * * *", BERLIN)
    steps = [half_hourly.between(at(day), at(day) + timedelta(hours=12), 100) for day in ("2025-03-30", "2025-10-26")]
    assert [len(times) for times in steps] == [24, 24]
    assert {later - earlier for times in steps for earlier, later in pairwise(times)} == {timedelta(minutes=30)}
    at_night = Cron("*/30 2 * * *", BERLIN)
    assert local_times(at_night, "2025-03-29 12:00", 1) == ["03-31 02:00 +0200"]  # there was no hour of two on the 30th
    assert local_times(at_night, "2025-10-25 12:00", 4) == [
        f"10-26 02:{time}" for time in ("00 +0200", "30 +0200", "00 +0100", "30 +0100")
    ]


@pytest.mark.req("S04")
@pytest.mark.parametrize(
    ("expression", "start", "notes"),
    [
        ("30 2 * * *", "2025-03-29 12:00", ["clocks go forward: 02:30 does not exist, runs at 03:00", ""]),
        ("30 2 * * *", "2025-10-25 12:00", ["clocks go back: 02:30 comes twice, runs the first time only", ""]),
        ("45 * * * *", "2025-03-30 00:00", ["", "clocks went forward: 02:45 on 2025-03-30 did not exist and was left out", ""]),
        (
            "45 * * * *",
            "2025-10-26 00:00",
            [
                "clocks go back: 02:45 comes twice, runs both times, this is the first",
                "clocks go back: 02:45 comes twice, runs both times, this is the second",
                "",
            ],
        ),
        ("*/30 2 * * *", "2025-03-29 12:00", ["clocks went forward: 02:00 on 2025-03-30 did not exist and was left out", ""]),
        ("0 9 * * *", "2025-03-29 12:00", ["", ""]),
    ],
)
def test_a_preview_marks_the_change_of_clocks(expression: str, start: str, notes: list[str]) -> None:
    assert [upcoming.note for upcoming in Cron(expression, BERLIN).upcoming(at(start), len(notes))] == notes


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("* * * * *", "Every minute"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("*/7 * * * *", "At every 7th minute past every hour"),
        ("@hourly", "Every hour on the hour"),
        ("15 * * * *", "At minute 15 past every hour"),
        ("0,30 * * * *", "At minutes 0 and 30 past every hour"),
        ("0 */2 * * *", "Every 2 hours on the hour"),
        ("15 */2 * * *", "At minute 15 past every 2nd hour"),
        ("0 9-17 * * *", "Every hour from 09:00 through 17:00"),
        ("*/15 9-17 * * mon-fri", "Every 15 minutes from 09:00 through 17:59, Monday through Friday"),
        ("*/30 1,3 * * *", "Every 30 minutes of hours 1 and 3"),
        ("0-10 0 * * *", "Every minute from 00:00 through 00:10"),
        ("1-20/3 2,5-8 * * *", "At every 3rd minute from 1 through 20 past hours 2 and 5 through 8"),
        ("@daily", "At 00:00 every day"),
        ("30 18,6 * * *", "At 06:30 and 18:30 every day"),
        ("0 0 * 6-8 *", "At 00:00 every day, in June through August"),
        ("0 9 * * sat,sun", "At 09:00, on Saturday and Sunday"),
        ("0 9 * * 1#2", "At 09:00, on the second Monday of the month"),
        ("0 9 * 3 5L", "At 09:00, on the last Friday of the month, in March"),
        ("0 0 1,15 * *", "At 00:00, on days 1 and 15 of the month"),
        ("0 0 */2 * *", "At 00:00, on every 2nd day of the month"),
        ("0 0 L * *", "At 00:00, on the last day of the month"),
        ("0 0 1,LW 3,6 *", "At 00:00, on day 1 and the last weekday of March and June"),
        ("0 0 29 2 *", "At 00:00, on 29 February"),
        ("0 0 13 * 5", "At 00:00, on day 13 of the month or on Friday"),
        ("0 0 */2 * 1", "At 00:00, on every 2nd day of the month if it is Monday"),
        ("0 0 1-31 * 1", "At 00:00 every day"),  # either, and every day is one of 1-31
        ("0 0 * * 1-7", "At 00:00 every day"),
    ],
)
def test_words(expression: str, words: str) -> None:
    assert Cron(expression).describe() == f"{words}, UTC"


def test_everything_has_words() -> None:
    assert all(Cron(expression).describe() for expression in EXPRESSIONS)
