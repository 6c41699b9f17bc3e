"""iCalendar text as components and lines, each kept as it was written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from rota.apps.calendars.errors import Broken

MAX_BYTES = 32 * 1024 * 1024
MAX_DEPTH = 10

_FOLD = re.compile(r"\r?\n[ \t]")
_PARAMETER = re.compile(r';([A-Za-z0-9-]+)=((?:"[^"]*"|[^";:,]*)(?:,(?:"[^"]*"|[^";:,]*))*)')
_NAME = re.compile(r"[A-Za-z0-9-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class Line(NamedTuple):
    """One property: as it is written, folded lines and all, and in its parts."""

    raw: str
    name: str
    parameters: tuple[tuple[str, str], ...]
    value: str


@dataclass(slots=True)
class Component:
    """A component with what is in it, in its order."""

    name: str
    parts: list[Line | Component] = field(default_factory=list)

    @property
    def lines(self) -> Iterator[Line]:
        """Its own properties."""
        return (part for part in self.parts if isinstance(part, Line))

    @property
    def components(self) -> Iterator[Component]:
        """What is nested in it."""
        return (part for part in self.parts if isinstance(part, Component))

    def get(self, name: str) -> Line | None:
        """The first property of that name."""
        return next((line for line in self.lines if line.name == name), None)

    def text(self) -> str:
        """As it was written."""
        inside = "".join(part.raw if isinstance(part, Line) else part.text() for part in self.parts)
        return f"BEGIN:{self.name}\r\n{inside}END:{self.name}\r\n"


def decode(data: bytes) -> str:
    """Text of bytes; Broken if they are none that can be kept."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Broken(f"it is not UTF-8 (at byte {error.start})") from None
    if found := _CONTROL.search(text):
        raise Broken(f"it has the control character {found[0]!r}")
    return text


def parse(text: str) -> list[Component]:
    """The calendars in a text; Broken with the line in which it stops making sense."""
    calendars: list[Component] = []
    open_: list[Component] = []
    for number, line in enumerate(_logical_lines(text), 1):
        if line.name == "BEGIN":
            opened = Component(line.value.strip().upper())
            if len(open_) >= MAX_DEPTH:
                raise Broken(f"line {number}: components are nested more than {MAX_DEPTH} deep")
            if open_:
                open_[-1].parts.append(opened)
            elif opened.name == "VCALENDAR":
                calendars.append(opened)
            else:
                raise Broken(f"line {number}: {opened.name[:40]!r} stands outside of a VCALENDAR")
            open_.append(opened)
        elif line.name == "END":
            name = line.value.strip().upper()
            if not open_ or open_[-1].name != name:
                raise Broken(f"line {number}: END:{name[:40]} ends nothing")
            open_.pop()
        elif open_:
            open_[-1].parts.append(line)
        else:
            raise Broken(f"line {number}: {line.name[:40]!r} stands outside of a VCALENDAR")
    if open_:
        raise Broken(f"it breaks off within {open_[-1].name[:40]}")
    if not calendars:
        raise Broken("there is no VCALENDAR in it")
    return calendars


def _logical_lines(text: str) -> Iterator[Line]:
    if len(text) > MAX_BYTES:
        raise Broken(f"it has {len(text)} characters: at most {MAX_BYTES}")
    physical = re.split(r"\r?\n", text)
    at = 0
    while at < len(physical):
        upto = at + 1
        while upto < len(physical) and physical[upto][:1] in (" ", "\t"):
            upto += 1
        if physical[at].strip():
            yield _read_line("\r\n".join(physical[at:upto]) + "\r\n")
        at = upto


def _read_line(raw: str) -> Line:
    text = _FOLD.sub("", raw).rstrip("\r\n")
    named = _NAME.match(text)
    if named is None:
        raise Broken(f"{text[:40]!r} is not a property")
    at = named.end()
    parameters = []
    while found := _PARAMETER.match(text, at):
        parameters.append((found[1].upper(), found[2]))
        at = found.end()
    if text[at : at + 1] != ":":
        raise Broken(f"{text[:40]!r} is not a property")
    return Line(raw, named[0].upper(), tuple(parameters), text[at + 1 :])
