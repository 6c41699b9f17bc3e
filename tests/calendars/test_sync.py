"""Two calendars kept alike: created, edited and deleted on either side, and what happens when both sides have a say."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from tests.calendars.conftest import Office, dav_end, folder_end, ics_end
from tests.calendars.events import BERLIN, DAILY, Files, calendar, event, vevent
from tests.calendars.servers import Dav
from tests.support.outside import Outside

from rota.apps.calendars.model import Window

pytestmark = pytest.mark.req("Y03")

MakeFiles = Callable[[str], Files]
Sides = tuple[Files | Dav, Files | Dav]


@pytest.fixture(params=["folder-folder", "caldav-folder", "caldav-caldav"])
async def sides(request: pytest.FixtureRequest, office: Office, files: MakeFiles, make_dav: Callable[[], Dav]) -> Sides:
    """Two calendars of all kinds that can be written, as a pair."""
    kinds = request.param.split("-")
    made = tuple(make_dav() if kind == "caldav" else files(str(n)) for n, kind in enumerate(kinds))
    ends = [dav_end(each) if isinstance(each, Dav) else folder_end(each) for each in made]
    await office.pair(*ends)
    return made  # type: ignore[return-value]


async def in_order(office: Office) -> None:
    """Another synchronisation finds nothing to do."""
    summary = await office.sync()
    assert (summary["outcome"], summary["processed"], summary["failed"]) == ("completed", 0, 0), summary


class TestBothWays:
    async def test_it_works(self, office: Office, sides: Sides) -> None:
        first, second = sides
        first.put(event("a", "From the first"))
        second.put(event("b", "From the second"))
        summary = await office.sync()
        assert (summary["outcome"], summary["processed"], summary["failed"], summary["error"]) == ("completed", 2, 0, None)
        assert summary["details"]["created"] == {"first": 1, "second": 1}
        assert first.titles() == second.titles() == {"a": "From the first", "b": "From the second"}
        await in_order(office)

    async def test_edits_follow(self, office: Office, sides: Sides) -> None:
        first, second = sides
        first.put(event("a"))
        first.put(event("b"))
        await office.sync()
        first.put(event("a", "Moved", start=":20300116T100000Z", end=":20300116T110000Z"))
        second.put(event("b", "Renamed"))
        summary = await office.sync()
        assert summary["details"]["updated"] == {"first": 1, "second": 1}
        assert first.titles() == second.titles() == {"a": "Moved", "b": "Renamed"}
        assert "20300116T100000Z" in second.texts()["a"]
        await in_order(office)

    async def test_deletions_follow(self, office: Office, sides: Sides) -> None:
        first, second = sides
        for uid in "abc":
            first.put(event(uid))
        await office.sync()
        first.remove("a")
        second.remove("b")
        summary = await office.sync()
        assert summary["details"]["deleted"] == {"first": 1, "second": 1}
        assert list(first.titles()) == list(second.titles()) == ["c"]
        await in_order(office)

    async def test_what_both_have_already_is_not_doubled(self, office: Office, sides: Sides) -> None:
        first, second = sides
        first.put(event("same"), "here.ics")
        second.put(event("same"), "there.ics")
        summary = await office.sync()
        assert (summary["processed"], summary["details"]["matched"]) == (1, 1)
        first.put(event("same", "Edited"))
        await office.sync()
        assert second.titles() == {"same": "Edited"}

    async def test_a_deleted_event_can_come_back(self, office: Office, sides: Sides) -> None:
        first, second = sides
        first.put(event("a"))
        await office.sync()
        first.remove("a")
        await office.sync()
        assert second.titles() == {}
        second.put(event("a", "Again"))
        await office.sync()
        assert first.titles() == {"a": "Again"}

    async def test_recurrence_exceptions_and_zones_arrive_as_they_left(self, office: Office, sides: Sides) -> None:
        first, second = sides
        first.put(DAILY)
        await office.sync()
        text = second.texts()["daily@example.org"].replace("\r\n ", "")
        for line in (
            "RRULE:FREQ=DAILY;UNTIL=20300404T220000Z",
            "EXDATE;TZID=Europe/Berlin:20300328T093000",
            "RECURRENCE-ID;TZID=Europe/Berlin:20300331T093000",
            "SUMMARY:Stand-up\\, late",
            "X-APPLE-TRAVEL-ADVISORY-BEHAVIOR:AUTOMATIC",
            "TRIGGER:-PT15M",
            "TZID:Europe/Berlin",
            "TZOFFSETTO:+0200",
        ):
            assert line in text
        assert text.count("BEGIN:VEVENT") == 2
        await in_order(office)

    async def test_an_exception_more_is_an_edit(self, office: Office, sides: Sides) -> None:
        first, second = sides
        first.put(DAILY)
        await office.sync()
        zone = "EXDATE;TZID=Europe/Berlin:"
        first.put(DAILY.replace(f"{zone}20300328T093000", f"{zone}20300328T093000,20300329T093000"))
        assert (await office.sync())["details"]["updated"] == {"first": 0, "second": 1}
        assert "20300329T093000" in second.texts()["daily@example.org"]

    async def test_days_stay_days(self, office: Office, sides: Sides) -> None:
        first, second = sides
        first.put(event("day", "Holiday", start=";VALUE=DATE:20300501", end=";VALUE=DATE:20300502"))
        await office.sync()
        assert "DTSTART;VALUE=DATE:20300501" in second.texts()["day"]

    @pytest.mark.parametrize(
        "uid", ["a/b?c#d e", "../../etc/passwd", "ü" * 200, "%2e%2e", "{brace}\\;x", "." * 5, "con:1", "a" * 900]
    )
    async def test_whatever_a_uid_looks_like(self, office: Office, files: MakeFiles, make_dav: Callable[[], Dav], uid: str) -> None:
        first, second = files("first"), make_dav()
        await office.pair(folder_end(first), dav_end(second))
        (first.path / "x.ics").write_text(event(uid, "Strange"))
        assert (await office.sync())["outcome"] == "completed"
        assert second.titles() == {uid: "Strange"}
        await in_order(office)


class TestConflicts:
    async def test_the_newest_edit_wins_and_the_other_is_kept(self, office: Office, sides: Sides) -> None:
        first, second = sides
        for uid in "ab":
            first.put(event(uid))
        await office.sync()
        first.put(event("a", "Older", changed="20290601T000000Z"))
        second.put(event("a", "Newer", changed="20290602T000000Z"))
        first.put(event("b", "Newer", changed="20290602T000000Z"))
        second.put(event("b", "Older", changed="20290601T000000Z", sequence=9))
        summary = await office.sync()
        assert summary["details"]["conflicts"] == 2
        assert first.titles() == second.titles() == {"a": "Newer", "b": "Newer"}
        kept = {each["uid"]: each for each in office.conflicts()}
        assert {uid: (each["kind"], each["winner"]) for uid, each in kept.items()} == {
            "a": ("both_edited", "second"),
            "b": ("both_edited", "first"),
        }
        assert all("SUMMARY:Older" in each["text"] for each in kept.values())
        await in_order(office)

    async def test_then_the_higher_sequence_and_then_the_first_calendar(self, office: Office, sides: Sides) -> None:
        first, second = sides
        for uid in "ab":
            first.put(event(uid))
        await office.sync()
        first.put(event("a", "First"))
        second.put(event("a", "Second", sequence=3))
        first.put(event("b", "First"))
        second.put(event("b", "Second"))
        await office.sync()
        assert first.titles() == second.titles() == {"a": "Second", "b": "First"}

    async def test_an_edit_wins_over_a_deletion(self, office: Office, sides: Sides) -> None:
        first, second = sides
        for uid in "ab":
            first.put(event(uid))
        await office.sync()
        first.remove("a")
        second.put(event("a", "Edited"))
        second.remove("b")
        first.put(event("b", "Edited"))
        await office.sync()
        assert first.titles() == second.titles() == {"a": "Edited", "b": "Edited"}
        assert [each["kind"] for each in office.conflicts()] == ["edit_over_deletion"] * 2

    async def test_the_same_edit_on_both_sides_is_none(self, office: Office, sides: Sides) -> None:
        sides[0].put(event("a"))
        await office.sync()
        for side in sides:
            side.put(event("a", "Same"))
        summary = await office.sync()
        assert (summary["details"]["conflicts"], summary["details"]["matched"]) == (0, 1)

    async def test_different_events_of_one_uid_at_first(self, office: Office, sides: Sides) -> None:
        first, second = sides
        first.put(event("a", "Mine"))
        second.put(event("a", "Theirs", changed="20290501T000000Z"))
        await office.sync()
        assert first.titles() == second.titles() == {"a": "Theirs"}
        assert "SUMMARY:Mine" in office.conflicts()[0]["text"]


class TestOneWay:
    async def test_the_source_is_always_right(self, office: Office, files: MakeFiles) -> None:
        first, second = files("first"), files("second")
        await office.pair(folder_end(first), folder_end(second), direction="to_second")
        second.put(event("own", "The target's own"))
        for uid in "abc":
            first.put(event(uid))
        await office.sync()
        second.put(event("a", "Edited", changed="20300101T000000Z"))
        second.remove("b")
        first.remove("c")
        await office.sync()
        assert first.titles() == {"a": "Talk", "b": "Talk"}
        assert second.titles() == {"a": "Talk", "b": "Talk", "own": "The target's own"}
        [kept] = office.conflicts()
        assert (kept["kind"], "SUMMARY:Edited" in kept["text"]) == ("overruled", True)

    async def test_over_http_with_conditional_requests(self, office: Office, files: MakeFiles, web_server: Outside) -> None:
        second = files("second")
        await office.pair(ics_end(web_server.url), folder_end(second))
        web_server.answers(200, calendar(BERLIN, vevent("a"), vevent("b")), "text/calendar", ETag='"1"')
        summary = await office.sync()
        assert (summary["processed"], second.titles()) == (2, {"a": "Talk", "b": "Talk"})
        web_server.answers(304, "", "text/calendar")
        summary = await office.sync()
        assert (summary["outcome"], summary["processed"], len(second.titles())) == ("completed", 0, 2)
        assert web_server.got[-1].headers["if-none-match"] == '"1"'
        web_server.answers(200, calendar(vevent("b", "Edited")), "text/calendar", ETag='"2"')
        await office.sync()
        assert second.titles() == {"b": "Edited"}


class TestWindow:
    async def test_new_events_only_where_they_touch_it(self, office: Office, files: MakeFiles) -> None:
        first, second = files("first"), files("second")
        await office.pair(folder_end(first), folder_end(second))
        first.put(event("in"))
        first.put(event("before", start=":20200101T100000Z", end=":20200101T110000Z"))
        first.put(event("after", start=":20400101T100000Z", end=":20400101T110000Z"))
        first.put(event("endless", start=":20200101T100000Z", end=":20200101T110000Z", more="RRULE:FREQ=WEEKLY\n"))
        first.put(event("ended", start=":20200101T100000Z", end=":20200101T110000Z", more="RRULE:FREQ=DAILY;COUNT=10\n"))
        await office.sync()
        assert sorted(second.titles()) == ["endless", "in"]
        later = Window(datetime(2039, 1, 1, tzinfo=UTC), datetime(2041, 1, 1, tzinfo=UTC))
        await office.sync(window=later)
        assert sorted(second.titles()) == ["after", "endless", "in"]

    async def test_what_has_come_in_is_followed_wherever_it_goes(self, office: Office, files: MakeFiles) -> None:
        first, second = files("first"), files("second")
        await office.pair(folder_end(first), folder_end(second))
        first.put(event("a"))
        await office.sync()
        first.put(event("a", "Next decade", start=":20400101T100000Z", end=":20400101T110000Z"))
        await office.sync()
        assert second.titles() == {"a": "Next decade"}
        first.remove("a")
        await office.sync()
        assert second.titles() == {}


class TestIncremental:
    async def test_only_what_has_changed_is_read(
        self, office: Office, make_dav: Callable[[], Dav], files: MakeFiles, proxy
    ) -> None:  # type: ignore[no-untyped-def]
        first, second = make_dav(), files("second")
        await office.pair(dav_end(first, proxy.url(first)), folder_end(second))
        for n in range(30):
            second.put(event(f"e{n}"))
        assert (await office.sync())["details"]["created"] == {"first": 30, "second": 0}
        proxy.asked.clear()
        await office.sync()
        assert [method for method, _ in proxy.asked] == ["PROPFIND", "REPORT"], "what was written by ourselves is not read"
        proxy.asked.clear()
        await office.sync()
        assert [method for method, _ in proxy.asked] == ["PROPFIND"], "its token is the one that we have"
        first.put(event("e7", "Edited"))
        proxy.asked.clear()
        summary = await office.sync()
        assert [method for method, _ in proxy.asked] == ["PROPFIND", "REPORT", "REPORT"]
        assert (summary["details"]["full"], second.titles()["e7"]) == (["second"], "Edited")
