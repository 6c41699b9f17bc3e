"""Two days and a half of what `make chaos` does for a month, and whether its judge would see what is wrong."""

from __future__ import annotations

import io
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from rich.console import Console
from tests.chaos import lifeline, schedule_judge, schedule_sabotage
from tests.chaos.__main__ import show
from tests.chaos.schedule_judge import Fired, Line, Story
from tests.chaos.schedule_load import expected_instants, make_timings
from tests.chaos.schedules import SHORT, play

from rota.model.schedule import Timing, cron, every
from rota.store import schedules

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.mark.req("S02", "S08", "S10", "S11")
@pytest.mark.fault(13)
def test_every_instant_is_fired_once_or_the_ledger_says_why_not(tmp_path: Path) -> None:
    report = play(SHORT, secrets.randbelow(10**6), folder=tmp_path, say=print, start=lifeline.fork)
    text = io.StringIO()
    show(report, Console(file=text, width=120))
    assert report.kept, text.getvalue()
    assert report.faults["schedulers killed"] > 0
    assert report.faults["clock set back by 2 h"] > 0


@pytest.mark.parametrize("kind", schedule_sabotage.KINDS)
def test_there_is_something_to_take_out(kind: str, conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "SQL", dict(schedules.SQL))
    schedule_sabotage.in_database(conn, kind)
    schedule_sabotage.in_process(kind)


def test_the_same_seed_makes_the_same_schedules() -> None:
    assert make_timings(7, 50, NOON, 3) == make_timings(7, 50, NOON, 3) != make_timings(8, 50, NOON, 3)


def test_expected_instants_are_within_bounds() -> None:
    timing = cron("0 * * * *", starts_at=NOON + HOUR, ends_at=NOON + 3 * HOUR)
    assert expected_instants(timing, NOON, NOON + 9 * HOUR) == [NOON + n * HOUR for n in (1, 2, 3)]
    assert expected_instants(cron("0 * * * *"), NOON, NOON + 2 * HOUR) == [NOON + HOUR, NOON + 2 * HOUR]


def fired(n: int, *, late: timedelta = timedelta(0), decision: str = "", **jobs: int) -> Fired:
    at = NOON + n * MINUTE
    return Fired(at, at + late, decision or str(at + late), jobs.get("live", 0), jobs.get("waiting", 0))


def line(first: int, last: int | None = None, instants: int | None = None, what: str = "fired", at: int | None = None) -> Line:
    until = first if last is None else last
    return Line(NOON + first * MINUTE, NOON + until * MINUTE, instants, what, NOON + (until if at is None else at) * MINUTE)


MINUTELY = cron("* * * * *")
GOOD = Story("000", MINUTELY, [fired(1), fired(5)], [line(1), line(2, 4, 3, "outage"), line(5)])


@pytest.mark.parametrize(
    ("story", "finding"),
    [
        (GOOD, None),
        (Story("000", MINUTELY, [fired(1), fired(1), fired(5)], GOOD.ledger), "fired twice"),
        (Story("000", MINUTELY, GOOD.fired, [line(1), line(2, 3, 2, "outage"), line(5)]), "never accounted for"),
        (Story("000", MINUTELY, GOOD.fired, GOOD.ledger[:2]), "ledger and jobs disagree"),
        (Story("000", MINUTELY, GOOD.fired[:1], GOOD.ledger), "ledger and jobs disagree"),
        (Story("000", MINUTELY, GOOD.fired, [line(1), line(2, 4, 2, "outage"), line(5)]), "counted wrongly"),
        (Story("000", MINUTELY, GOOD.fired, [line(1), line(2, 5, 4, "outage"), line(5)]), "accounted for twice"),
        (Story("000", MINUTELY, GOOD.fired, [line(1), line(2, 4, 3, "misfire"), line(5)]), "a reason that cannot be"),
        (Story("000", MINUTELY, GOOD.fired, [line(1), line(2, 4, None, "disabled"), line(5)]), "a reason that cannot be"),
        (Story("000", MINUTELY, [fired(1, late=-MINUTE), fired(5)], GOOD.ledger), "fired too early"),
        (Story("000", MINUTELY, [fired(1, late=2 * MINUTE), fired(5)], GOOD.ledger), "not one of the newest"),
        (Story("000", MINUTELY, [fired(1, decision="x"), fired(5, decision="x")], GOOD.ledger), "over its cap"),
        (Story("000", cron("1-3 * * * *"), GOOD.fired, GOOD.ledger), "fired without being due"),
        (Story("000", cron("* * * * *", misfire="skip"), [fired(1, late=2 * MINUTE)], [line(1)]), "fired too late"),
        (Story("000", cron("* * * * *", overlap="skip"), [fired(1), fired(5, live=1)], GOOD.ledger), "overlapped"),
        (Story("000", cron("* * * * *", overlap="queue_one"), [fired(1), fired(5, live=2, waiting=1)], GOOD.ledger), "overlapped"),
        (Story("000", cron("* * * * *", overlap="skip"), GOOD.fired, GOOD.ledger, [(0, 0)]), "passed over for no job"),
        (Story("000", cron("* * * * *", overlap="queue_one"), GOOD.fired, GOOD.ledger, [(1, 0)]), "passed over for no job"),
    ],
)  # fmt: skip
def test_the_judge_sees_what_is_wrong_with_a_cron_schedule(story: Story, finding: str | None) -> None:
    expected = expected_instants(story.timing, NOON, NOON + 5 * MINUTE)
    assert (finding is None) == (not findings(story, expected))
    assert finding is None or finding in findings(story, expected)


def beat(*ledger: Line, timing: Timing | None = None) -> Story:
    jobs = [Fired(each.instant, each.at, str(each.at), 0, 0) for each in ledger if each.what == "fired"]
    return Story("000", timing or every("1m"), jobs, list(ledger))


@pytest.mark.parametrize(
    ("story", "finding"),
    [
        (beat(line(1), line(2), line(3, 5, 3, "outage", at=6), line(6), line(7)), None),
        (beat(line(1), line(2), line(3), line(4)), "never accounted for"),
        (beat(line(1), line(2), line(3, 5, 2, "outage", at=6), line(6), line(7)), "counted wrongly"),
        (beat(line(1), line(2), line(4), line(5), line(6), line(7)), "off the beat"),
        (beat(line(1), line(3, at=4), line(6), line(7), timing=every("1m", misfire="all")), "off the beat"),
    ],
)
def test_the_judge_sees_what_is_wrong_with_an_interval(story: Story, finding: str | None) -> None:
    assert (finding is None) == (not findings(story, None))
    assert finding is None or finding in findings(story, None)


def findings(story: Story, expected: list[datetime] | None) -> set[str]:
    until = NOON + (5 if expected is not None else 7) * MINUTE
    return {kind for kind, _ in schedule_judge.judge(story, expected, NOON, until)}
