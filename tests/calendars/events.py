"""Events as clients write them, and the calendars of a test as what is in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

BERLIN = """BEGIN:VTIMEZONE
TZID:Europe/Berlin
BEGIN:DAYLIGHT
TZOFFSETFROM:+0100
TZOFFSETTO:+0200
TZNAME:CEST
DTSTART:19700329T020000
RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU
END:DAYLIGHT
BEGIN:STANDARD
TZOFFSETFROM:+0200
TZOFFSETTO:+0100
TZNAME:CET
DTSTART:19701025T030000
RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU
END:STANDARD
END:VTIMEZONE
"""


def vevent(uid: str, summary: str = "Talk", *, start: str = ":20300115T100000Z", end: str = ":20300115T110000Z",
           changed: str = "20290101T000000Z", sequence: int = 0, more: str = "") -> str:  # fmt: skip
    """A component; `start` and `end` begin with their parameters or the colon."""
    return (
        f"BEGIN:VEVENT\nUID:{uid}\nDTSTAMP:20290101T000000Z\nLAST-MODIFIED:{changed}\nSEQUENCE:{sequence}\n"
        f"SUMMARY:{summary}\nDTSTART{start}\nDTEND{end}\n{more}END:VEVENT\n"
    )


def calendar(*components: str) -> str:
    """A calendar of components, in the line endings of the standard."""
    text = "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//Tests//EN\n" + "".join(components) + "END:VCALENDAR\n"
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def event(uid: str, summary: str = "Talk", **options: str | int) -> str:
    """A calendar of one event."""
    return calendar(vevent(uid, summary, **options))  # type: ignore[arg-type]


DAILY = calendar(
    BERLIN,
    vevent(
        "daily@example.org", "Stand-up", start=";TZID=Europe/Berlin:20300325T093000", end=";TZID=Europe/Berlin:20300325T094500",
        more="RRULE:FREQ=DAILY;UNTIL=20300404T220000Z\nEXDATE;TZID=Europe/Berlin:20300328T093000\n"
             "X-APPLE-TRAVEL-ADVISORY-BEHAVIOR:AUTOMATIC\n"
             "BEGIN:VALARM\nACTION:DISPLAY\nDESCRIPTION:Soon\nTRIGGER:-PT15M\nEND:VALARM\n",
    ),
    vevent(
        "daily@example.org", "Stand-up\\, late",
        start=";TZID=Europe/Berlin:20300331T110000", end=";TZID=Europe/Berlin:20300331T111500",
        more="RECURRENCE-ID;TZID=Europe/Berlin:20300331T093000\n",
    ),
)  # fmt: skip


def uid_in(text: str) -> str:
    """The UID of the event in a text."""
    return next(line[4:].strip() for line in unfolded(text) if line.startswith("UID:"))


def summary_in(text: str) -> str:
    """The title of the event in a text."""
    return next(line[8:].strip() for line in unfolded(text) if line.startswith("SUMMARY"))


def unfolded(text: str) -> list[str]:
    """The lines of a text, long ones in one piece."""
    return text.replace("\r\n ", "").replace("\n ", "").splitlines()


class Files:
    """A folder as somebody sees it who edits its files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    def put(self, text: str, name: str | None = None) -> None:
        """Write an event, over the file that has it."""
        uid = uid_in(text)
        file = self.path / (name or self._file_of(uid) or f"{quote(uid, safe='')}.ics")
        file.write_bytes(text.encode())

    def remove(self, uid: str) -> None:
        """Delete an event."""
        name = self._file_of(uid)
        assert name is not None, f"there is no {uid}"
        (self.path / name).unlink()

    def texts(self) -> Mapping[str, str]:
        """The events by UID; the same twice is an error."""
        found: dict[str, str] = {}
        for file in sorted(self.path.glob("*.ics")):
            text = file.read_bytes().decode()
            assert uid_in(text) not in found, f"{uid_in(text)} is there twice"
            found[uid_in(text)] = text
        return found

    def titles(self) -> dict[str, str]:
        """The titles of the events by UID."""
        return {uid: summary_in(text) for uid, text in self.texts().items()}

    def _file_of(self, uid: str) -> str | None:
        for file in self.path.glob("*.ics"):
            if uid_in(file.read_bytes().decode()) == uid:
                return file.name
        return None
