"""What is done about a due schedule: every instant is fired or passed over, once, by its policy and under its cap."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.support.cron_corpus import EXPRESSIONS
from tests.support.effort import effort_bounded

from rota.model.cron import Cron
from rota.model.firing import GRACE, Firing, plan
from rota.model.schedule import Misfire, Timing, cron, every, init

MINUTE = timedelta(minutes=1)
WEEK = timedelta(days=7)
START = datetime(2026, 3, 25, 12, 0, tzinfo=UTC)  # four days before clocks go forward in Europe
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu")

instants = st.integers(0, 6 * 365 * 86400).map(lambda seconds: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds))
misfires = st.sampled_from(["latest", "skip", "all"])
catch_ups = st.integers(1, 50)


@st.composite
def crons(draw: st.DrawFn) -> tuple[Timing, datetime, datetime]:
    """A cron schedule, one of its instants, and a time up to some days later at which somebody looks at it."""
    settings = {"misfire": draw(misfires), "catch_up": draw(catch_ups)}
    timing = cron(draw(st.sampled_from(EXPRESSIONS)), tz=draw(st.sampled_from(ZONES)), **settings)
    due = timing.parsed.next_after(draw(instants))
    assert due is not None
    return timing, due, due + draw(st.timedeltas(timedelta(0), timedelta(days=4)))


@st.composite
def intervals(draw: st.DrawFn) -> tuple[Timing, datetime, datetime]:
    """The same for an interval."""
    timing = every(draw(st.timedeltas(timedelta(seconds=1), timedelta(days=3))), misfire=draw(misfires), catch_up=draw(catch_ups))
    assert timing.every is not None
    due = draw(instants)
    return timing, due, due + draw(st.timedeltas(timedelta(0), min(500 * timing.every, timedelta(days=400))))


def all_instants(timing: Timing, due: datetime, until: datetime) -> list[datetime]:
    """Every instant from `due` to `until`, one after the other."""
    found, at = [], due
    while at <= until:
        found.append(at)
        if timing.every is not None:
            at += timing.every
        else:
            later = timing.parsed.next_after(at)
            if later is None:
                break
            at = later
    return found


def accounted(firing: Firing, timing: Timing, due: datetime, until: datetime) -> list[datetime]:
    """The instants that a plan fires or passes over; what it says about how many are in a row must be true."""
    found = list(firing.fire)
    for row in firing.skip:
        inside = [at for at in all_instants(timing, due, until) if row.instant <= at <= (row.until or row.instant)]
        assert (len(inside), inside[-1]) == (row.instants or 1, row.until or row.instant)
        assert (row.until is None) == (row.instants is None)
        found += inside
    return found


@pytest.mark.req("S02", "S06", "S10")
@settings(deadline=None, max_examples=150)
@given(crons() | intervals())
def test_each_instant_is_fired_or_passed_over_once_and_in_order(case: tuple[Timing, datetime, datetime]) -> None:
    timing, due, now = case
    firing = plan(timing, due, now)
    missed = all_instants(timing, due, now)
    assert sorted(accounted(firing, timing, due, now)) == missed
    assert firing.fire == sorted(firing.fire)
    assert [row.instant for row in firing.skip] in ([], [due]), "what is passed over is the oldest"
    assert firing.next is not None
    assert firing.next > now
    match timing.misfire:
        case "latest":
            assert firing.fire == missed[-1:]
        case "skip":
            assert firing.fire == [at for at in missed[-1:] if now - at <= GRACE]
        case "all":
            assert firing.fire == missed[-timing.catch_up :]
    assert {row.reason for row in firing.skip} <= {"misfire" if timing.misfire == "skip" else "outage"}


@pytest.mark.req("S02", "S06")
@settings(deadline=None, max_examples=100)
@given(crons() | intervals())
def test_plan_after_plan_leaves_nothing_out(case: tuple[Timing, datetime, datetime]) -> None:
    """However often somebody looks: of a cron the instants of all plans together are those of one long look."""
    timing, due, end = case
    step = max((end - due) / 7, timedelta(seconds=1))
    planned: list[datetime] = []
    next: datetime | None = due
    now = due
    while next is not None and now <= end:
        if next <= now:
            firing = plan(timing, next, now)
            planned += accounted(firing, timing, next, now)
            next = firing.next
        now += step
    assert len(planned) == len(set(planned))
    if timing.strategy == "cron":
        assert sorted(planned) == all_instants(timing, due, now - step)


@pytest.mark.req("S01", "S10")
@settings(deadline=None, max_examples=100)
@given(crons() | intervals(), st.timedeltas(timedelta(0), timedelta(days=5)))
def test_nothing_is_fired_after_the_end(case: tuple[Timing, datetime, datetime], lasts: timedelta) -> None:
    timing, due, now = case
    ends_at = due + lasts
    bounded = Timing(**{**{name: getattr(timing, name) for name in Timing.__slots__}, "ends_at": ends_at})
    firing = plan(bounded, due, now)
    assert sorted(accounted(firing, bounded, due, min(now, ends_at))) == all_instants(timing, due, min(now, ends_at))
    assert firing.next is None or now < firing.next <= ends_at
    assert plan(bounded, ends_at + MINUTE, ends_at + WEEK) == Firing([], [], None), "its end was moved to before its next time"


@pytest.mark.req("S10")
@pytest.mark.fault(13)
@pytest.mark.parametrize(
    ("policy", "fired", "passed", "reason"),
    [
        ({"misfire": "latest"}, 1, 10080, "outage"),
        ({"misfire": "skip"}, 1, 10080, "misfire"),
        ({"misfire": "all"}, 100, 9981, "outage"),
        ({"misfire": "all", "catch_up": 10_000}, 10_000, 81, "outage"),
    ],
)
def test_a_week_of_downtime_every_minute(policy: dict[str, Any], fired: int, passed: int, reason: str) -> None:
    now = START + WEEK + timedelta(seconds=20)
    timing = cron("* * * * *", tz="Europe/Berlin", **policy)
    firing = plan(timing, START, now)
    assert len(firing.fire) == fired
    assert firing.fire[-1] == START + WEEK
    [row] = firing.skip
    assert (row.instant, row.until, row.instants, row.reason) == (START, firing.fire[0] - MINUTE, passed, reason)
    assert firing.next == START + WEEK + MINUTE


@pytest.mark.req("S10")
@pytest.mark.parametrize("misfire", ["latest", "skip", "all"])
def test_two_years_of_downtime_every_minute_are_counted_fast(misfire: Misfire) -> None:
    years = START.replace(year=START.year + 2) - START
    timing = cron("* * * * *", tz="Europe/Berlin", misfire=misfire)
    with effort_bounded():  # counted one by one, they take half a minute
        firing = plan(timing, START, START + years + timedelta(minutes=2, seconds=1))
    [row] = firing.skip
    assert (row.instants or 0) + len(firing.fire) == years // MINUTE + 3


@pytest.mark.req("S10")
def test_skip_fires_what_is_a_little_late_and_nothing_else() -> None:
    timing = cron("0 * * * *", misfire="skip")
    assert plan(timing, START, START + GRACE).fire == [START]
    late = plan(timing, START, START + GRACE + timedelta(seconds=1))
    assert late.fire == []
    assert [(row.instant, row.until, row.instants, row.reason) for row in late.skip] == [(START, None, None, "misfire")]


@pytest.mark.req("S06")
@pytest.mark.parametrize("misfire", ["latest", "skip", "all"])
def test_an_interval_keeps_its_beat_when_on_time(misfire: Misfire) -> None:
    timing = every("10s", misfire=misfire)
    assert plan(timing, START, START + timedelta(milliseconds=300)).next == START + timedelta(seconds=10)
    assert plan(timing, START, START + timedelta(seconds=34)).next == START + timedelta(seconds=40)


@pytest.mark.req("S06", "S10")
def test_an_interval_begins_anew_after_an_outage_unless_all_were_wanted() -> None:
    now = START + timedelta(minutes=95)
    assert plan(every("1h"), START, now) == Firing(
        [START + timedelta(hours=1)], plan(every("1h"), START, now).skip, now + timedelta(hours=1)
    )
    assert plan(every("1h", misfire="skip"), START, now).next == now + timedelta(hours=1)
    assert plan(every("1h", misfire="all"), START, now).next == START + timedelta(hours=2)


@pytest.mark.req("S06")
def test_init_is_fired_once() -> None:
    assert plan(init, START, START + WEEK) == Firing([START], [], None)


@pytest.mark.req("S10")
@given(st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES), st.integers(1, 100_000))
@settings(deadline=None, max_examples=100)
def test_an_instant_that_the_timing_no_longer_names_is_one_all_the_same(expression: str, tz: str, seconds: int) -> None:
    """The expression was changed while it was due."""
    now = START + timedelta(seconds=seconds)
    due = START + timedelta(seconds=seconds // 3, microseconds=7)
    firing = plan(cron(expression, tz=tz, misfire="all", catch_up=10_000), due, now)
    assert (firing.fire[0], firing.skip) == (due, [])
    assert firing.fire[1:] == Cron(expression, tz).between(due, now, 10_000)
    assert plan(cron(expression, tz=tz), due, now).fire == firing.fire[-1:]


@pytest.mark.req("S04", "S10")
@settings(deadline=None, max_examples=150)
@given(st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES), instants, st.timedeltas(timedelta(0), timedelta(days=9)))
@example("30 2 * * *", "Europe/Berlin", datetime(2026, 10, 24, 12, tzinfo=UTC), timedelta(days=3))
@example("*/15 * * * *", "Australia/Lord_Howe", datetime(2026, 4, 3, 12, tzinfo=UTC), timedelta(days=3))
def test_counting_is_the_same_as_going_through_them(expression: str, tz: str, after: datetime, span: timedelta) -> None:
    schedule = Cron(expression, tz)
    times = schedule.between(after, after + span, 100_000)
    assume(len(times) < 100_000)
    assert schedule.count(after, after + span) == len(times)
