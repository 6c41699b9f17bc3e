"""What is read of iCalendar text, and what is not: an event goes from one calendar to another in the very lines in which it came.

Only whole components are moved, as their own lines: recurrence rules, exceptions, time zones and whatever a client has put beside
them arrive as they left. What is read is what a decision needs: whose text it is (UID), whether two texts say the same (digest),
which one is newer, and what span of time an event covers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from rota.apps.calendars.content import Component, Line, parse
from rota.apps.calendars.errors import Broken
from rota.apps.calendars.span import find_zone, read_moment, span_of

PRODID = "-//Rota//Calendars//EN"
MAX_UID = 1000


_ESCAPED = re.compile(r"\\([\\;,nN])")

# When a text was written says nothing about what it says.
_WRITTEN = frozenset(["DTSTAMP", "LAST-MODIFIED", "CREATED"])
# What every server keeps: what it rewrites beside these is no edit.
_CORE = frozenset(
    [
        "UID",
        "SUMMARY",
        "DESCRIPTION",
        "LOCATION",
        "STATUS",
        "DTSTART",
        "DTEND",
        "DURATION",
        "RRULE",
        "RDATE",
        "EXDATE",
        "RECURRENCE-ID",
    ]
)
_DEFAULTS = frozenset([("SEQUENCE", "0"), ("TRANSP", "OPAQUE"), ("CLASS", "PUBLIC"), ("PRIORITY", "0")])
_LISTS = frozenset(["EXDATE", "RDATE", "CATEGORIES"])
_TIMES = frozenset(["DTSTART", "DTEND", "RDATE", "EXDATE", "RECURRENCE-ID"])
_OF_CALENDAR = frozenset(["VERSION", "PRODID", "CALSCALE"])  # what is said of a whole calendar and belongs to each of its events


class Facts(NamedTuple):
    """What is to be known of an event to keep two calendars alike."""

    uid: str
    digest: str  # of what it says, in whatever order and form
    core: str  # of what no server changes by itself
    stamped_at: datetime | None  # when it was last changed, if it says so
    sequence: int
    starts_at: datetime  # of the span in which it may take place
    ends_at: datetime


class Found(NamedTuple):
    """One event among those of a text: with its recurrences, and the time zones that it speaks of."""

    uid: str
    text: str


def split(text: str) -> tuple[list[Found], list[str]]:
    """The events in a text, each as an object of its own, and what is wrong with those that are none."""
    found: dict[str, tuple[Component, list[Component]]] = {}
    problems: list[str] = []
    for calendar in parse(text):
        for component in calendar.components:
            if component.name != "VEVENT":
                continue
            uid = _uid_of(component)
            if uid is None:
                problems.append("an event has no UID, or one that is too long")
            else:
                found.setdefault(uid, (calendar, []))[1].append(component)
    return [Found(uid, _object_text(calendar, components)) for uid, (calendar, components) in found.items()], problems


def single(text: str) -> Found | None:
    """The one event of a text, as it is sent to another calendar; None when there is none, Broken if there are several."""
    found, problems = split(text)
    if problems:
        raise Broken(problems[0])
    if len(found) > 1:
        raise Broken(f"it has {len(found)} events with UIDs of their own: one was expected")
    return found[0] if found else None


def read_facts(found: Found) -> Facts:
    """What is to be known of an event; Broken if its times mean nothing."""
    [calendar] = parse(found.text)
    events = sorted((each for each in calendar.components if each.name == "VEVENT"), key=_recurrence_id)
    if len({_recurrence_id(event) for event in events}) < len(events):
        raise Broken("two of its recurrences have the same RECURRENCE-ID")
    zones = {zone.get("TZID").value: zone for zone in calendar.components if zone.name == "VTIMEZONE" and zone.get("TZID")}  # type: ignore[union-attr]
    own_zones = [zone for name, zone in sorted(zones.items()) if find_zone(name) is None]
    starts, ends = zip(*(span_of(event) for event in events), strict=True)
    stamps = [stamp for event in events if (stamp := _stamp(event)) is not None]
    return Facts(
        found.uid,
        _hash([*(_canonical(event) for event in events), *(_canonical(zone) for zone in own_zones)]),
        _hash([_canonical_core(event) for event in events]),
        max(stamps) if stamps else None,
        max(_sequence(event) for event in events),
        min(starts),
        max(ends),
    )


def _uid_of(component: Component) -> str | None:
    line = component.get("UID")
    uid = line.value.strip() if line else ""
    return uid if 0 < len(uid) <= MAX_UID else None


def _object_text(calendar: Component, components: list[Component]) -> str:
    """A calendar of one event: what belongs to each event of its calendar, its time zones, its components."""
    head = [line.raw for line in calendar.lines if line.name in _OF_CALENDAR]
    said = {line.name for line in calendar.lines}
    head += ["VERSION:2.0\r\n"] if "VERSION" not in said else []
    head += [f"PRODID:{PRODID}\r\n"] if "PRODID" not in said else []
    wanted = {value.strip('"') for component in components for value in _zones_named(component)}
    zones = [
        each.text() for each in calendar.components if each.name == "VTIMEZONE" and (id := each.get("TZID")) and id.value in wanted
    ]
    return "".join(["BEGIN:VCALENDAR\r\n", *head, *zones, *(each.text() for each in components), "END:VCALENDAR\r\n"])


def _zones_named(component: Component) -> Iterator[str]:
    for part in component.parts:
        if isinstance(part, Component):
            yield from _zones_named(part)
        else:
            yield from (value for name, value in part.parameters if name == "TZID")


def _canonical(component: Component) -> list[str]:
    """What a component says, in one order and one form."""
    lines = sorted(each for line in component.lines if line.name not in _WRITTEN for each in _plain(line))
    nested = sorted("\n".join(_canonical(each)) for each in component.components)
    return [component.name, *lines, *nested]


def _canonical_core(component: Component) -> list[str]:
    lines = [line for line in component.lines if line.name in _CORE]
    return sorted(each for line in lines for each in _plain(line, {"TZID", "VALUE"}))


def _plain(line: Line, kept: Iterable[str] | None = None) -> Iterator[str]:
    """A property in one form: parameters sorted, lists in single values, defaults left out."""
    value = line.value
    if (line.name, value.strip().upper()) in _DEFAULTS:
        return
    if line.name == "RRULE":
        parts = sorted(part for part in value.strip().upper().split(";") if part and part != "INTERVAL=1")
        value = ";".join(parts)
    elif line.name in _TIMES:
        value = value.strip().upper()
    else:
        value = _ESCAPED.sub(lambda found: "\n" if found[1] in "nN" else found[1], value) if line.name not in _LISTS else value
    said = [
        f"{name}={text.replace(chr(34), '')}"
        for name, text in line.parameters
        if (kept is None or name in kept) and not (name == "VALUE" and text.upper() in ("DATE-TIME", "TEXT", "DURATION"))
    ]
    head = ";".join([line.name, *sorted(said)])
    for each in value.split(",") if line.name in _LISTS else [value]:
        if each.strip() or line.name not in _LISTS:
            yield f"{head}:{each.strip()}"


def _hash(parts: Iterable[list[str]]) -> str:
    text = "\x1e".join("\x1f".join(part) for part in parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _recurrence_id(event: Component) -> str:
    line = event.get("RECURRENCE-ID")
    return "" if line is None else ";".join(_plain(line, {"TZID", "VALUE"}))


def _stamp(event: Component) -> datetime | None:
    for name in ("LAST-MODIFIED", "DTSTAMP"):
        line = event.get(name)
        if line is not None and (at := read_moment(line.value, None)) is not None:
            return at
    return None


def _sequence(event: Component) -> int:
    line = event.get("SEQUENCE")
    text = line.value.strip() if line else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
