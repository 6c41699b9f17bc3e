"""`/api/admin/upcoming`, `/calendar` and `/firings` over HTTP: what will run, hour by hour, and what became of what was to run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from tests.support import jobs as given
from tests.support.counts import exactly
from tests.support.shop import Shop

from rota.contrib.testing.clock import Clock
from rota.control import calendar as control
from rota.errors import UsageError

pytestmark = pytest.mark.req("D02")

Conn = psycopg.Connection[Any]
AConn = psycopg.AsyncConnection[Any]

BEFORE_DST = datetime(2030, 3, 30, 12, 0, tzinfo=UTC)  # in Berlin clocks go forward in the night to come


@pytest.fixture
def clock(conn: Conn) -> None:
    """Let time stand still on the day before clocks go forward."""
    Clock(conn).freeze(BEFORE_DST)


async def make(shop: Shop, name: str, **timing: Any) -> UUID:
    """Make a schedule."""
    body = {"name": name, "task": "send", "payload": {"user_id": 1}, **timing}
    return UUID((await shop.post("/schedules", body, status=201))["id"])


def recur(conn: Conn, task: str, n: int, *, due: timedelta) -> None:
    """Make recurring rows that are due in so long."""
    conn.execute(
        """INSERT INTO rota.schedule (task, key, strategy, every, next_run_at)
           SELECT %s, %s || k::text, 'recurring', '1 hour', rota.now() + %s FROM generate_series(1, %s) k""",
        [task, str(due), due, n],
    )


def cells(calendar: Any, what: str = "schedules") -> dict[tuple[str, int], int]:
    """The hours in which something runs."""
    return {(day["date"], hour["hour"]): hour[what] for day in calendar["days"] for hour in day["hours"] if hour[what]}


@pytest.mark.usefixtures("clock")
class TestCalendar:
    async def test_hours_are_those_of_the_clocks(self, shop: Shop, conn: Conn) -> None:
        conn.execute("DELETE FROM rota.schedule")
        await make(shop, "nightly", cron="30 2 * * *", tz="Europe/Berlin")
        await make(shop, "often", cron="*/20 * * * *", tz="Europe/Berlin")
        found = await shop.get("/calendar", days=2, tz="Europe/Berlin")
        assert (found["tz"], found["complete"], found["caps"]) == ("Europe/Berlin", True, [])
        assert found["schedules"] == exactly(2)
        assert [day["date"] for day in found["days"]] == ["2030-03-30", "2030-03-31"]
        assert [hour["hour"] for hour in found["days"][1]["hours"]] == [0, 1, *range(3, 24)]
        counts = cells(found)
        # It is 13:00 in Berlin: what is past is not counted, nor is now. 02:30 does not exist, and runs at 03:00.
        assert {hour: n for (day, hour), n in counts.items() if day == "2030-03-30"} == {13: 2, **dict.fromkeys(range(14, 24), 3)}
        assert counts["2030-03-31", 3] == 4
        assert ("2030-03-31", 2) not in counts
        assert sum(counts.values()) == 11 * 3 - 1 + 23 * 3 + 1
        # The same in New York is as much, at other hours.
        other = await shop.get("/calendar", days=3, tz="America/New_York")
        assert cells(other)["2030-03-30", 21] == 4

    async def test_intervals_recurring_rows_and_jobs(self, shop: Shop, conn: Conn) -> None:
        conn.execute("DELETE FROM rota.schedule")
        await make(shop, "secondly", every="1s")
        recur(conn, "poll", 3, due=timedelta(hours=2, minutes=10))
        recur(conn, "poll", 2, due=-timedelta(days=5))  # late: they run now
        recur(conn, "poll", 1, due=timedelta(days=9))
        for _ in range(2):
            given.enqueue(conn, "count", payload={"n": 1}, delay=timedelta(hours=1, minutes=5))
        found = await shop.get("/calendar")
        assert len(found["days"]) == 7
        assert set(cells(found).values()) == {3600, 3599}  # the first of them in a second
        assert cells(found, "recurring") == {("2030-03-30", 12): 2, ("2030-03-30", 14): 3}
        assert cells(found, "jobs") == {("2030-03-30", 13): 2}
        other = await shop.get("/calendar", task="p*ll", **{"from": "2030-04-08"}, days=1)
        assert (cells(other), cells(other, "recurring")) == ({}, {("2030-04-08", 12): 1})

    async def test_what_does_not_run_is_not_counted(self, shop: Shop, conn: Conn) -> None:
        conn.execute("DELETE FROM rota.schedule")
        await make(shop, "off", cron="0 * * * *", enabled=False)
        await make(shop, "over", cron="0 * * * *", ends_at="2030-03-30T15:30:00Z")
        await make(shop, "resting", task="count", payload={"n": 1}, cron="0 * * * *")
        recur(conn, "count", 5, due=timedelta(hours=1))
        conn.execute("INSERT INTO rota.schedule (name, task, strategy, cron) VALUES ('wrong', 'send', 'cron', '99 99 * * *')")
        conn.execute("INSERT INTO rota.schedule (name, task, strategy) VALUES ('once', 'send', 'init')")
        await shop.post("/tasks/count/disable")
        found = await shop.get("/calendar", days=1)
        assert cells(found) == {("2030-03-30", hour): 1 for hour in (13, 14, 15)}
        assert cells(found, "recurring") == {}
        assert cells(await shop.get("/calendar", **{"from": "2030-03-28"}, days=2)) == {}  # all of it is past

    async def test_what_is_behind_an_hour(self, shop: Shop, conn: Conn) -> None:
        conn.execute("DELETE FROM rota.schedule")
        await make(shop, "nightly", cron="30 2 * * *", tz="Europe/Berlin")
        id = await make(shop, "often", cron="*/20 * * * *")
        recur(conn, "poll", 3, due=timedelta(hours=13, minutes=20))
        given.enqueue(conn, "count", payload={"n": 1}, delay=timedelta(hours=13, minutes=50))
        night = await shop.get("/calendar", days=2, tz="Europe/Berlin")
        [hour] = [hour for hour in night["days"][1]["hours"] if hour["hour"] == 3]
        found = await shop.get("/calendar/hour", begin=hour["begin"], end=hour["end"])
        assert sum(each["runs"] for each in found["schedules"]) == hour["schedules"]
        assert [(each["name"], each["runs"], each["words"]) for each in found["schedules"]] == [
            ("nightly", 1, "At 02:30 every day, Europe/Berlin"),
            ("often", 3, "Every 20 minutes, UTC"),
        ]
        assert found["schedules"][1] == {
            "id": str(id), "name": "often", "task": "send", "kind": "cron", "words": "Every 20 minutes, UTC", "runs": 3,
            "first": "2030-03-31T01:00:00Z", "last": "2030-03-31T01:40:00Z",
        }  # fmt: skip
        assert found["recurring"] == [{"task": "poll", "count": exactly(3), "first": "2030-03-31T01:15:00Z"}]
        assert found["jobs"] == [{"task": "count", "count": exactly(1), "first": "2030-03-31T01:45:00Z"}]
        assert found["more"] is False

    async def test_it_says_where_it_was_capped(self, shop: Shop, conn: Conn, monkeypatch: pytest.MonkeyPatch) -> None:
        conn.execute("DELETE FROM rota.schedule")
        monkeypatch.setattr(control, "WALK", 10)
        monkeypatch.setattr(control, "SCHEDULES_LOOKED_AT", 2)
        for n in range(3):
            await make(shop, f"s{n}", cron="0 * * * *")
        recur(conn, "poll", 6, due=timedelta(hours=1))
        recur(conn, "poll", 6, due=timedelta(hours=3))
        found = await shop.get("/calendar")
        assert found["complete"] is False
        assert found["caps"] == [
            "only the first 2 schedules by name are counted: there are too many different ones",
            "recurring rows are counted up to 2030-03-30 15:00:00 UTC: there are more than 10",
        ]
        assert found["schedules"] == {"count": 2, "capped": True, "estimated": False}
        hour = await shop.get("/calendar/hour", begin="2030-03-30T13:00:00Z", end="2030-03-31T13:00:00Z")
        assert hour["more"] is True
        assert hour["recurring"][0]["count"] == {"count": 10, "capped": True, "estimated": False}
        monkeypatch.setattr(control, "PATIENCE_S", -1.0)
        assert (await shop.get("/calendar"))["caps"][0].startswith("only the first 0 schedules")

    async def test_what_cannot_be_is_refused_with_the_field(self, shop: Shop, aconn: AConn) -> None:
        for query, field in (
            ({"tz": "Europe/Berlim"}, "tz"), ({"from": "1999-12-31"}, "from"), ({"from": "tomorrow"}, "query.from"),
            ({"days": "0"}, "query.days"), ({"days": "32"}, "query.days"), ({"color": "red"}, "query.color"),
            ({"from": "2011-12-30", "tz": "Pacific/Apia", "days": "1"}, "from"),
        ):  # fmt: skip
            answer = await shop.ask("GET", "/calendar", params=query)
            assert (answer.status, answer.body["errors"][0]["field"]) == (422, field), (query, answer.body)
        for begin, end in (("2030-01-01T00:00:00Z", "2030-01-01T00:00:00Z"), ("2030-01-01T00:00:00Z", "2030-01-03T00:00:01Z")):
            assert await shop.refused("GET", "/calendar/hour", params={"begin": begin, "end": end}) == (422, "usage")
        assert await shop.refused("GET", "/calendar/hour", params={"begin": "2030-01-01", "end": "x"}) == (422, "validation")
        with pytest.raises(UsageError):
            await control.calendar_hour(aconn, datetime(2230, 1, 1, tzinfo=UTC), datetime(2230, 1, 1, 1, tzinfo=UTC))


@pytest.mark.usefixtures("clock")
class TestUpcoming:
    async def test_each_once_by_its_next_time(self, shop: Shop, conn: Conn) -> None:
        conn.execute("DELETE FROM rota.schedule")
        await make(shop, "nightly", cron="30 2 * * *", tz="Europe/Berlin")
        await make(shop, "minutely", cron="* * * * *")
        await make(shop, "off", cron="* * * * *", enabled=False)
        recur(conn, "poll", 2, due=timedelta(seconds=30))
        recur(conn, "count", 1, due=-timedelta(minutes=3))
        await shop.post("/tasks/count/disable")
        found = (await shop.get("/upcoming"))["items"]
        assert [(each["name"].partition("/")[0], each["kind"], each["late"], each["resting"]) for each in found] == [
            ("count", "recurring", True, True), ("poll", "recurring", False, False), ("poll", "recurring", False, False),
            ("minutely", "cron", False, False), ("nightly", "cron", False, False),
        ]  # fmt: skip
        assert (found[-1]["at"], found[-1]["words"]) == ("2030-03-31T01:00:00Z", "At 02:30 every day, Europe/Berlin")
        assert found[1]["words"] == "by its handler, last 1h"
        lines = (await shop.get("/schedules", task="*"))["items"]
        words = {line["record"]["id"]: line["words"] for line in lines}
        assert words.items() >= {each["id"]: each["words"] for each in found}.items()
        assert (await shop.get("/schedules/nightly"))["words"] == found[-1]["words"]
        for each in found:
            assert (await shop.get(f"/schedules/{each['id']}"))["record"]["id"] == each["id"]
        assert len((await shop.get("/upcoming", limit=2))["items"]) == 2
        assert await shop.refused("GET", "/upcoming", params={"limit": "101"}) == (422, "validation")

    async def test_own_ones_only_if_asked_for(self, shop: Shop, conn: Conn) -> None:
        assert [each["name"] for each in (await shop.get("/upcoming"))["items"]] == ["sweep"]
        assert {"rota.tick", "rota.prune", "sweep"} <= {
            each["name"] for each in (await shop.get("/upcoming", system="true"))["items"]
        }
        assert "rota.prune" not in str(await shop.get("/calendar/hour", begin="2030-03-30T12:00:00Z", end="2030-03-30T14:00:00Z"))


class TestFirings:
    async def test_what_became_of_each(self, shop: Shop, conn: Conn) -> None:
        first, second = await make(shop, "first", cron="0 * * * *"), await make(shop, "second", cron="0 * * * *")
        worker = given.start_worker(conn)
        done, failed, runs, waits = (given.enqueue(conn, "count", payload={"n": 1}) for _ in range(4))
        for outcome in ("completed", "failed"):
            [(id, token)] = given.claim(conn, worker)
            given.finish(conn, id, token, worker, outcome, error=None if outcome == "completed" else "boom", can_retry=False)
        given.claim(conn, worker)
        gone = uuid4()
        for n, (job, reason, missed) in enumerate(
            [(done, None, []), (failed, None, ["finish"]), (runs, None, []), (waits, None, ["start"]), (gone, None, []),
             (None, "overlap", []), (None, "disabled", []), (None, "misfire", []), (None, "outage", [])]
        ):  # fmt: skip
            conn.execute(
                """INSERT INTO rota.occurrence (schedule_id, instant, until, instants, outcome, reason, job_id, missed)
                   VALUES (%s, '2030-01-01'::timestamptz + make_interval(hours => %s),
                           CASE WHEN %s THEN '2030-01-01'::timestamptz + interval '100 hours' END, CASE WHEN %s THEN 93 END,
                           %s, %s, %s, %s)""",
                [first, n, reason == "outage", reason == "outage", "skipped" if reason else "fired", reason, job, missed],
            )
        answer = await shop.ask("GET", "/firings", params=[("id", str(each)) for each in (second, uuid4(), first, second)])
        assert [each["id"] for each in answer.body["items"]] == [str(second), str(first)]
        assert answer.body["items"][0]["firings"] == []
        strip = answer.body["items"][1]["firings"]
        assert [each["outcome"] for each in strip] == [
            "completed", "failed", "running", "queued", "unknown", "skipped", "skipped", "missed", "missed",
        ]  # fmt: skip
        assert [each["late"] for each in strip[:4]] == [[], ["finish"], [], ["start"]]
        assert [each["instants"] for each in strip] == [1] * 8 + [93]
        assert strip[0]["job_id"] == str(done)
        assert strip[0]["finished_at"] is not None
        [short] = (await shop.ask("GET", "/firings", params={"id": str(first), "limit": "2"})).body["items"]
        assert [each["at"] for each in short["firings"]] == [each["at"] for each in strip[-2:]]

    async def test_bounds(self, shop: Shop) -> None:
        assert await shop.refused("GET", "/firings") == (422, "validation")
        many = [("id", str(uuid4())) for _ in range(101)]
        assert await shop.refused("GET", "/firings", params=many) == (422, "validation")
        assert (await shop.ask("GET", "/firings", params=many[:100])).body["items"] == []
        assert await shop.refused("GET", "/firings", params=[("id", "x")]) == (422, "validation")
