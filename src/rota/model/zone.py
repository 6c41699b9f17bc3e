"""Time zones: which names there are, and which instants a wall clock shows a time at."""

from __future__ import annotations

import difflib
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo

from rota.errors import InvalidSchedule

_LONGEST_NAME = 64


@cache
def zone_names() -> frozenset[str]:
    """Every name of the IANA list: the same on each machine, unlike what lies in its /usr/share/zoneinfo."""
    return frozenset((files("tzdata") / "zones").read_text("ascii").split()) - {"Factory"}  # the zone of a machine nobody set up


def load_zone(name: str, *, field: str = "tz") -> ZoneInfo:
    """The zone of that name; `field` is the argument that an error speaks of."""
    if not isinstance(name, str):
        raise InvalidSchedule(f'{field}={name!r} is not a time zone: write an IANA name such as "Europe/Berlin" or "UTC"')
    if name not in zone_names():
        shown = repr(name) if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]!r}… ({len(name)} characters)"
        meant = " or ".join(_close_to(name))
        next_step = f"did you mean {meant}?" if meant else 'write an IANA name such as "Europe/Berlin" or "UTC"'
        raise InvalidSchedule(f"{field}={shown} is not a time zone: {next_step}")
    return ZoneInfo(name)


def _close_to(name: str) -> list[str]:
    if not 2 <= len(name) <= _LONGEST_NAME:
        return []
    asked = name.strip().lower().replace(" ", "_")
    by_lower = {known.lower(): known for known in sorted(zone_names())}
    # Only places are suggested: Etc/GMT+2 is two hours behind UTC, which nobody who writes GMT+2 means.
    places = {lower: known for lower, known in by_lower.items() if "/" in lower and not lower.startswith("etc/")}
    cities = {lower.rpartition("/")[2]: known for lower, known in places.items()}
    if known := by_lower.get(asked) or cities.get(asked):
        return [known]
    return [places[lower] for lower in difflib.get_close_matches(asked, places, n=2, cutoff=0.8)]


def instants_of(wall: datetime, zone: ZoneInfo) -> tuple[datetime, ...]:
    """The instants at which clocks in `zone` show `wall`: one; two where they go back; none where they go forward."""
    before, after = _offsets(wall, zone)
    if before == after:
        return ((wall - before).replace(tzinfo=UTC),)
    if before > after:
        return (wall - before).replace(tzinfo=UTC), (wall - after).replace(tzinfo=UTC)
    return ()


def end_of_gap(wall: datetime, zone: ZoneInfo) -> datetime:
    """The instant at which clocks in `zone` jump over `wall`, a time that they never show."""
    before, after = _offsets(wall, zone)
    early, late = (wall - after).replace(tzinfo=UTC), (wall - before).replace(tzinfo=UTC)  # the jump is in (early, late]
    while (span := (late - early) // timedelta(seconds=1)) > 1:
        middle = early + timedelta(seconds=span // 2)
        if middle.astimezone(zone).utcoffset() == after:
            late = middle
        else:
            early = middle
    return late


def repeated_span(wall: datetime, zone: ZoneInfo) -> timedelta:
    """How far clocks in `zone` go back over `wall`; zero, if they show it once."""
    before, after = _offsets(wall, zone)
    return max(before - after, timedelta(0))


def _offsets(wall: datetime, zone: ZoneInfo) -> tuple[timedelta, timedelta]:
    """The offsets from UTC before and after a change of the clocks at `wall`; equal, if there is none."""
    before, after = zone.utcoffset(wall), zone.utcoffset(wall.replace(fold=1))
    assert before is not None
    assert after is not None
    return before, after
