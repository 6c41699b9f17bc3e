"""`cron()`, `every()` and changes to them: what is wrong is refused at once, with the field, the value and what is allowed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.errors import UsageError
from rota.model.schedule import MOST_CATCH_UP, Timing, changed, cron, every, init

NOW = datetime(2026, 3, 27, 10, 15, 30, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.req("S01", "S04")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"misfire": "later"}, ["misfire='later'", "latest, skip, all"]),
        ({"misfire": None}, ["misfire=None", "latest, skip, all"]),
        ({"overlap": "queue"}, ["overlap='queue'", "allow, skip, queue_one"]),
        ({"overlap": ["skip"]}, ["overlap=['skip']", "allow, skip, queue_one"]),
        ({"catch_up": 0}, ["catch_up=0", f"1 to {MOST_CATCH_UP}"]),
        ({"catch_up": MOST_CATCH_UP + 1}, [f"catch_up={MOST_CATCH_UP + 1}", f"1 to {MOST_CATCH_UP}"]),
        ({"catch_up": True}, ["catch_up=True", f"1 to {MOST_CATCH_UP}"]),
        ({"catch_up": "5"}, ["catch_up='5'", f"1 to {MOST_CATCH_UP}"]),
        ({"jitter": "soon"}, ["jitter='soon'", "5m"]),
        ({"jitter": -1}, ["jitter=-1", "from 0"]),
        ({"jitter": None}, ["jitter=None", "5m"]),
        ({"jitter": "25h"}, ["jitter=", "0 to 1 day"]),
        ({"start_within": 0}, ["start_within=0", "from a microsecond"]),
        ({"finish_within": "-5m"}, ["finish_within='-5m'", "5m"]),
        ({"finish_within": float("nan")}, ["finish_within=nan"]),
        ({"starts_at": NOW.replace(tzinfo=None)}, ["starts_at=", "zone", "tzinfo=UTC"]),
        ({"starts_at": "2026-01-01"}, ["starts_at='2026-01-01'", "tzinfo=UTC"]),
        ({"ends_at": 5}, ["ends_at=5"]),
        ({"starts_at": NOW, "ends_at": NOW}, ["ends_at=", "not after starts_at="]),
        ({"starts_at": NOW, "ends_at": NOW - DAY}, ["ends_at=", "not after starts_at="]),
    ],
)
def test_bad_settings_are_refused(arguments: dict[str, Any], words: list[str]) -> None:
    for attempt in (
        lambda: cron("* * * * *", **arguments),
        lambda: every("1h", **arguments),
        lambda: changed(every("1h"), **arguments),
    ):
        with pytest.raises(UsageError) as refused:
            attempt()
        assert [word for word in words if word not in str(refused.value)] == [], str(refused.value)


@pytest.mark.req("S01")
@pytest.mark.parametrize(
    ("interval", "words"),
    [
        (0, ["every=0", "from a microsecond"]),
        (-3, ["every=-3", "from a microsecond"]),
        (0.5, ["every=0:00:00.5", "at least a second"]),
        ("999ms", ["every=0:00:00.999", "at least a second"]),
        ("4000d", ["every='4000d'", "3660 days"]),
        ("hourly", ["every='hourly'", "5m"]),
        (None, ["every=None", "5m"]),
        (True, ["every=True"]),
    ],
)
def test_a_bad_interval_is_refused(interval: Any, words: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        every(interval)
    assert [word for word in words if word not in str(refused.value)] == [], str(refused.value)


@pytest.mark.req("S04")
@pytest.mark.parametrize(
    ("expression", "tz", "words"),
    [
        ("61 * * * *", "UTC", ["61", "minute", "59"]),
        ("* * * *", "UTC", ["5"]),
        ("0 0 30 2 *", "UTC", ["never"]),
        ("* * * * *", "Mars/Phobos", ["tz='Mars/Phobos'", "Europe/Berlin"]),
        ("* * * * *", "europe/berlin", ["Europe/Berlin"]),
    ],
)
def test_a_bad_expression_or_zone_is_refused(expression: Any, tz: str, words: list[str]) -> None:
    for attempt in (lambda: cron(expression, tz=tz), lambda: changed(cron("0 0 * * *"), cron=expression, tz=tz)):
        with pytest.raises(UsageError) as refused:
            attempt()
        assert [word for word in words if word not in str(refused.value)] == [], str(refused.value)


@pytest.mark.req("S01")
def test_what_is_written_down_is_what_is_kept() -> None:
    berlin = datetime.fromisoformat("2026-01-01T01:00:00+01:00")
    timing = cron(
        "0 9 * * mon-fri", tz="Europe/Berlin", misfire="all", catch_up=7, overlap="queue_one", jitter="30s", starts_at=berlin,
        ends_at=NOW + DAY, start_within="5m", finish_within=3600,
    )  # fmt: skip
    assert timing == Timing(
        "cron", cron="0 9 * * mon-fri", every=None, tz="Europe/Berlin", misfire="all", catch_up=7, overlap="queue_one",
        jitter=timedelta(seconds=30), starts_at=datetime(2026, 1, 1, tzinfo=UTC), ends_at=NOW + DAY,
        start_within=timedelta(minutes=5), finish_within=timedelta(hours=1),
    )  # fmt: skip
    assert timing.starts_at is not None
    assert timing.starts_at.tzinfo is UTC
    assert every("90s") == Timing("interval", every=timedelta(seconds=90))
    assert every("1h").tz == "UTC"


@pytest.mark.req("S05")
def test_a_change_keeps_the_rest() -> None:
    timing = cron("0 9 * * *", tz="Europe/Berlin", misfire="all", jitter="30s", ends_at=NOW + DAY)
    assert changed(timing, cron="@daily") == cron("@daily", tz="Europe/Berlin", misfire="all", jitter="30s", ends_at=NOW + DAY)
    assert changed(timing, tz="UTC").tz == "UTC"
    hourly = changed(timing, every="1h")
    assert (hourly.strategy, hourly.cron, hourly.every, hourly.misfire) == ("interval", None, timedelta(hours=1), "all")
    again = changed(hourly, cron="5 * * * *")
    assert (again.strategy, again.cron, again.every) == ("cron", "5 * * * *", None)
    assert changed(every("1h"), overlap="skip") == every("1h", overlap="skip")


@pytest.mark.req("S05")
def test_a_change_that_means_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="cron or every, not both"):
        changed(every("1h"), cron="* * * * *", every="2h")
    with pytest.raises(UsageError, match="tz='Europe/Berlin' has no meaning without a cron expression"):
        changed(every("1h"), tz="Europe/Berlin")


@pytest.mark.req("S01", "S06")
def test_the_first_instant() -> None:
    assert cron("* * * * *").first(NOW) == NOW.replace(minute=16, second=0)
    assert every("1h").first(NOW) == NOW + timedelta(hours=1)
    assert init.first(NOW) == NOW


@pytest.mark.req("S01")
def test_the_first_instant_within_bounds() -> None:
    begin = NOW.replace(hour=12, minute=0, second=0)
    assert cron("0 * * * *", starts_at=begin).first(NOW) == begin, "the beginning is within"
    assert cron("0 * * * *", starts_at=begin + timedelta(microseconds=1)).first(NOW) == begin + timedelta(hours=1)
    assert cron("0 * * * *", starts_at=NOW - DAY).first(NOW) == NOW.replace(hour=11, minute=0, second=0)
    assert every("10m", starts_at=begin).first(NOW) == begin
    assert every("10m", starts_at=NOW - DAY).first(NOW) == NOW + timedelta(minutes=10)
    assert cron("0 * * * *", ends_at=begin).first(begin - timedelta(hours=1)) == begin, "the end is within"
    assert cron("0 * * * *", ends_at=begin).first(begin) is None
    assert every("10m", ends_at=begin).first(begin - timedelta(minutes=9)) is None


@pytest.mark.req("S05")
def test_after_a_change_of_its_times_a_schedule_goes_on_from_now() -> None:
    before, later = cron("0 9 * * *"), NOW + DAY
    assert cron("* * * * *").replanned(before, later, NOW) == NOW.replace(minute=16, second=0)
    assert cron("0 9 * * *", tz="Asia/Tokyo").replanned(before, later, NOW) == cron("0 9 * * *", tz="Asia/Tokyo").first(NOW)
    assert every("1h").replanned(before, None, NOW) == NOW + timedelta(hours=1)
    assert every("1h", ends_at=NOW).replanned(every("1h"), later, NOW) is None


@pytest.mark.req("S05")
def test_a_change_of_anything_else_keeps_the_beat() -> None:
    soon = NOW + timedelta(minutes=1)
    assert every("1h", overlap="skip", misfire="all").replanned(every("1h"), soon, NOW) == soon


@pytest.mark.req("S05", "S10")
def test_what_is_due_stays_due_when_its_times_change() -> None:
    due = NOW - timedelta(minutes=1)
    assert cron("0 9 * * *").replanned(cron("* * * * *"), due, NOW) == due
