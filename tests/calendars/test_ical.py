"""What is read of iCalendar text, held against another reader (icalendar), and what is broken."""

from __future__ import annotations

from datetime import UTC, datetime

import icalendar
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.calendars.events import BERLIN, DAILY, calendar, event, vevent

from rota.apps.calendars.content import decode, parse
from rota.apps.calendars.errors import Broken
from rota.apps.calendars.ical import Facts, read_facts, single, split
from rota.apps.calendars.span import NEVER

pytestmark = pytest.mark.req("Y03")

ZONE = ";TZID=Europe/Berlin"


def facts(text: str) -> Facts:
    """What a text of one event says."""
    found = single(text)
    assert found is not None
    return read_facts(found)


class TestSplit:
    def test_each_event_takes_its_recurrences_and_zones_along(self) -> None:
        text = calendar(
            BERLIN, *(part for part in (vevent("a"), vevent("b"), vevent("a", more="RECURRENCE-ID:20300116T100000Z\n")))
        )
        found, problems = split(text.replace("DTSTART:20300115T100000Z", "DTSTART;TZID=Europe/Berlin:20300115T100000", 1))
        assert ([each.uid for each in found], problems) == (["a", "b"], [])
        assert [each.text.count("BEGIN:VEVENT") for each in found] == [2, 1]
        assert ["BEGIN:VTIMEZONE" in each.text for each in found] == [True, False], "only where it is spoken of"

    def test_lines_stay_as_they_are_written(self) -> None:
        found = single(DAILY)
        assert found is not None
        assert sorted(found.text.splitlines()) == sorted(DAILY.splitlines())

    @pytest.mark.parametrize("folded", ["SUMMARY:Lo\r\n ng", "SUMMARY:Lo\n\tng"])
    def test_folded_lines_are_read_as_one_and_kept_as_two(self, folded: str) -> None:
        text = event("a").replace("SUMMARY:Talk", folded)
        assert facts(text).digest == facts(event("a", "Long")).digest

    def test_another_reader_finds_the_same(self) -> None:
        found = single(DAILY)
        assert found is not None
        theirs = [list(icalendar.Calendar.from_ical(text).walk("VEVENT")) for text in (DAILY, found.text)]
        before, after = ([each.to_ical() for each in events] for events in theirs)
        assert before == after

    def test_tasks_are_passed_over(self) -> None:
        assert single(calendar("BEGIN:VTODO\nUID:t\nSUMMARY:Buy\nEND:VTODO\n")) is None


class TestDigest:
    @pytest.mark.parametrize(
        ("was", "now"),
        [
            ("DTSTAMP:20290101T000000Z", "DTSTAMP:20310101T000000Z"),
            ("LAST-MODIFIED:20290101T000000Z", "LAST-MODIFIED:20310101T000000Z"),
            ("PRODID:-//Tests//EN", "PRODID:-//Another//EN"),
            ("SEQUENCE:0\r\n", ""),
            ("SUMMARY:Talk", "summary;LANGUAGE=en:Talk"),
            ("DTSTART:2030", "DTSTART;VALUE=DATE-TIME:2030"),
            ("END:VEVENT", "TRANSP:OPAQUE\r\nEND:VEVENT"),
            ("SUMMARY:Talk\r\nDTSTART:20300115T100000Z", "DTSTART:20300115T100000Z\r\nSUMMARY:Talk"),
        ],
    )
    def test_how_it_is_written_says_nothing(self, was: str, now: str) -> None:
        text = event("a")
        assert was in text
        if "LANGUAGE" in now:
            text = text.replace("SUMMARY:Talk", "SUMMARY;LANGUAGE=en:Talk")
        assert facts(text).digest == facts(text.replace(was, now)).digest

    @pytest.mark.parametrize(
        ("was", "now"),
        [
            ("SUMMARY:Talk", "SUMMARY:Talks"),
            ("DTEND:20300115T110000Z", "DTEND:20300115T110001Z"),
            ("END:VEVENT", "X-OWN:1\r\nEND:VEVENT"),
            ("END:VEVENT", "BEGIN:VALARM\r\nACTION:AUDIO\r\nTRIGGER:-PT5M\r\nEND:VALARM\r\nEND:VEVENT"),
            ("END:VEVENT", "RRULE:FREQ=DAILY\r\nEND:VEVENT"),
        ],
    )
    def test_what_it_says_does(self, was: str, now: str) -> None:
        assert facts(event("a")).digest != facts(event("a").replace(was, now)).digest

    def test_lists_and_rules_have_one_form(self) -> None:
        one = event("a", more="RRULE:FREQ=WEEKLY;BYDAY=MO;INTERVAL=1\nEXDATE:20300122T100000Z,20300129T100000Z\n")
        two = event("a", more="RRULE:BYDAY=MO;FREQ=WEEKLY\nEXDATE:20300129T100000Z\nEXDATE:20300122T100000Z\n")
        assert facts(one).digest == facts(two).digest

    def test_a_zone_of_ones_own_is_part_of_it(self) -> None:
        own = BERLIN.replace("TZID:Europe/Berlin", "TZID:Office")
        there = calendar(own, vevent("a", start=";TZID=Office:20300115T100000"))
        assert facts(there).digest != facts(there.replace("TZOFFSETTO:+0200", "TZOFFSETTO:+0300")).digest

    def test_core_is_what_no_server_changes(self) -> None:
        assert facts(event("a")).core == facts(event("a", more="X-SERVER:added\n", sequence=3)).core
        assert facts(event("a")).core != facts(event("a", "Other")).core


class TestSpan:
    @pytest.mark.parametrize(
        ("options", "start", "end"),
        [
            ({}, "2030-01-15T10", "2030-01-15T11"),
            ({"start": f"{ZONE}:20300331T013000", "end": f"{ZONE}:20300331T033000"}, "2030-03-31T00", "2030-03-31T01"),
            ({"more": "RRULE:FREQ=DAILY;UNTIL=20300120T100000Z\n"}, "2030-01-15T10", "2030-01-21T01"),
            ({"more": "RDATE:20280101T000000Z\n"}, "2028-01-01T00", "2030-01-15T11"),
        ],
    )  # fmt: skip
    def test_when_it_takes_place(self, options: dict[str, str], start: str, end: str) -> None:
        found = facts(event("a", **options))
        assert (found.starts_at.isoformat()[:13], found.ends_at.isoformat()[:13]) == (start, end)

    def test_a_day_is_a_day_somewhere(self) -> None:
        found = facts(event("a", start=";VALUE=DATE:20300501", end=";VALUE=DATE:20300502"))
        assert found.starts_at <= datetime(2030, 4, 30, 12, tzinfo=UTC)
        assert found.ends_at >= datetime(2030, 5, 2, 12, tzinfo=UTC)

    @pytest.mark.parametrize(
        "rule", ["FREQ=WEEKLY", "FREQ=SECONDLY;COUNT=5;BYMONTH=2;BYMONTHDAY=30", "FREQ=YEARLY;COUNT=999999999"]
    )
    def test_without_an_end_or_with_one_that_would_take_for_ever_to_find(self, rule: str) -> None:
        assert facts(event("a", more=f"RRULE:{rule}\n")).ends_at == NEVER


BROKEN = {
    "nothing": "",
    "no calendar": "BEGIN:VEVENT\nEND:VEVENT\n",
    "breaks off": event("a")[:-20],
    "ends what did not begin": calendar("END:VEVENT\n"),
    "not a property": calendar("BEGIN:VEVENT\nhello world\nEND:VEVENT\n"),
    "no UID": calendar(vevent("a").replace("UID:a\n", "")),
    "a UID too long": event("a" * 1001),
    "two UIDs": calendar(vevent("a"), vevent("b")),
    "no start": event("a").replace("DTSTART:20300115T100000Z\r\n", ""),
    "a start that is none": event("a", start=":tomorrow"),
    "the 30th of February": event("a", start=":20300230T100000Z"),
    "an end that is none": event("a", end=":later"),
    "a rule without a frequency": event("a", more="RRULE:COUNT=3\n"),
    "the same recurrence twice": calendar(vevent("a"), vevent("a")),
    "too deep": "BEGIN:VCALENDAR\n" + "BEGIN:X\n" * 20 + "END:X\n" * 20 + "END:VCALENDAR\n",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_broken_texts_are_told_as_such(text: str) -> None:
    with pytest.raises(Broken):
        facts(text)


@pytest.mark.parametrize("data", [b"\xff\xfe", b"BEGIN:VCALENDAR\x00", b"\x1b[2J"])
def test_bytes_that_are_no_text(data: bytes) -> None:
    with pytest.raises(Broken):
        decode(data)


@given(st.text(max_size=300))
def test_whatever_comes_is_read_or_told_as_broken(text: str) -> None:
    for each in (text, event("a").replace("Talk", text), event("a", start=text), event("a", more=text)):
        try:
            facts(each)
        except Broken:
            continue
        except AssertionError:
            assert not list(parse(each)[0].components) or "VEVENT" not in {part.name for part in parse(each)[0].components}
