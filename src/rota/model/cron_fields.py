"""The text of a cron expression: its grammar, and errors that name the field they are in."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn

from rota.errors import InvalidSchedule

LONGEST = 500
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
LAST = -1
LAST_WEEKDAY = -2

_LONGER_STEP = '; for steps that its range does not hold use an interval, such as every("90m")'
_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_TERM = re.compile(r"(?:(?P<star>\*)|(?P<start>[A-Z0-9]+)(?:-(?P<stop>[A-Z0-9]+))?)(?:/(?P<step>[0-9]+))?")
_NTH = re.compile(r"(?P<day>[A-Z]{3}|[0-9]+)(?:#(?P<nth>[0-9]+)|L)")


@dataclass(frozen=True, slots=True)
class Field:
    """One of the five fields: what it is called and what may stand in it."""

    name: str
    low: int
    high: int
    names: dict[str, int] = field(default_factory=dict)

    @property
    def allowed(self) -> str:
        """The values that it takes, in words."""
        names = list(self.names)
        return f"{self.low}-{self.high}" + (f" or {names[0]}-{names[-1]}" if names else "")


FIELDS = (
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day of month", 1, 31),
    Field("month", 1, 12, dict(zip(_MONTHS, range(1, 13), strict=True))),
    Field("day of week", 0, 7, dict(zip(_WEEKDAYS, range(7), strict=True))),
)
MINUTE, HOUR, DAY, MONTH, WEEKDAY = FIELDS
_SPECIAL = {DAY.name: ", L for the last day, LW for the last weekday", WEEKDAY.name: ", 5#2 for the second Friday, 5L for the last"}


@dataclass(frozen=True, slots=True)
class Term:
    """One item of a field's list: the values `start` to `stop` by `step`, the `nth` (or LAST) of a weekday, or a LAST day."""

    start: int
    stop: int
    step: int = 1
    nth: int = 0

    @property
    def single(self) -> bool:
        """Whether it names one value."""
        return self.start == self.stop


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was understood: its text, its five fields as text without macros, and the terms of each."""

    text: str
    fields: tuple[str, ...]
    terms: tuple[tuple[Term, ...], ...]


def check_text(value: object, name: str) -> str:
    """Refuses what cannot be an expression before anything is made of it; `name` is the argument that an error speaks of."""
    if not isinstance(value, str):
        raise InvalidSchedule(f'{name}={value!r} is not a cron expression: write text such as "0 9 * * 1-5"')
    if len(value) > LONGEST:
        raise InvalidSchedule(f"{name}={value[:40]!r}… has {len(value)} characters: at most {LONGEST} are allowed")
    return value


def read_expression(value: str, name: str) -> Expression:
    """What a cron expression says."""
    for position, character in enumerate(value, 1):
        if not (character == "\t" or " " <= character <= "~"):
            raise InvalidSchedule(
                f"{name}={value!r} has {character!r} at character {position}:"
                " only ASCII letters, digits, spaces and the signs * , - / # @ are used"
            )
    text = " ".join(value.split())
    if text.startswith("@"):
        text = text.lower()
        fields = tuple(_expand_macro(text, name).split())
    else:
        fields = tuple(text.upper().split())
    _check_count(text, fields, name)
    return Expression(text, fields, tuple(_FieldReader(text, position, name).read(part) for position, part in enumerate(fields)))


def _expand_macro(text: str, name: str) -> str:
    if text in MACROS:
        return MACROS[text]
    if text == "@reboot":
        raise InvalidSchedule(
            f"{name}='@reboot' has no time: for a task that runs once, when it is first deployed, use schedule=init"
        )
    if text.startswith("@every"):
        raise InvalidSchedule(f'{name}={text!r} is not a cron expression: use an interval, such as every("5m")')
    raise InvalidSchedule(f"{name}={text!r} is not a macro: there are {', '.join(MACROS)}")


def _check_count(text: str, fields: tuple[str, ...], name: str) -> None:
    if len(fields) == len(FIELDS):
        return
    order = ", ".join(field.name for field in FIELDS)
    if len(fields) == len(FIELDS) + 1:
        why = 'seconds and years are not supported; for steps of less than a minute use an interval, such as every("30s")'
    else:
        why = 'for example "0 9 * * 1-5"'
    count = f"{len(fields)} field{'' if len(fields) == 1 else 's'}"
    raise InvalidSchedule(f"{name}={text!r} has {count}, not {len(FIELDS)} ({order}): {why}")


class _FieldReader:
    """Reads one field, and knows where it is for the sake of errors."""

    def __init__(self, text: str, position: int, name: str) -> None:
        self._field = FIELDS[position]
        self._where = f"{name}={text!r} is not a schedule: {self._field.name} (field {position + 1} of {len(FIELDS)}): "

    def read(self, part: str) -> tuple[Term, ...]:
        """The terms of the field."""
        return tuple(self._read_term(term) for term in part.split(","))

    def _read_term(self, term: str) -> Term:
        field = self._field
        if field is DAY and term in ("L", "LW"):
            day = LAST if term == "L" else LAST_WEEKDAY
            return Term(day, day)
        if field is WEEKDAY and (match := _NTH.fullmatch(term)):
            return self._read_nth(term, match)
        match = _TERM.fullmatch(term)
        if match is None:
            self._refuse_form(term)
        step = self._number(match["step"], 1, field.high, "step ", _LONGER_STEP) if match["step"] else 1
        if match["star"]:
            return Term(field.low, field.high, step)
        start = self._value(match["start"])
        if match["stop"] is None:
            return Term(start, field.high if match["step"] else start, step)
        stop = self._value(match["stop"])
        if start > stop:
            forwards = f"{start}-7" if field is WEEKDAY and stop == 0 else f"{start}-{field.high},{field.low}-{stop}"
            self._refuse(f"{term} runs backwards: write {forwards}")
        if start == stop and match["step"]:
            self._refuse(f"{term} is one value with a step: write {start}, or {start}-{field.high}/{step}")
        return Term(start, stop, step)

    def _read_nth(self, term: str, match: re.Match[str]) -> Term:
        if match["nth"] is None and not match["day"].isdigit():
            day = self._value(match["day"])
            self._refuse(f"{term} is not understood: L takes a number, write {day}L for the last {match['day']} of the month")
        day = self._value(match["day"])
        return Term(day, day, nth=self._number(match["nth"], 1, 5, "week ") if match["nth"] else LAST)

    def _value(self, text: str) -> int:
        if text in self._field.names:
            return self._field.names[text]
        if not text.isdigit():
            self._refuse_form(text)
        return self._number(text, self._field.low, self._field.high)

    def _number(self, text: str, low: int, high: int, what: str = "", hint: str = "") -> int:
        number = int(text)
        if not low <= number <= high:
            self._refuse(f"{what}{_shorten(text)} is out of range {low}-{high}{hint}")
        return number

    def _refuse_form(self, term: str) -> NoReturn:
        if not term:
            self._refuse("an item of the list is empty: remove the extra comma")
        if "?" in term:
            self._refuse("? is not used: write *")
        forms = f"{self._field.allowed}, *, a range a-b, a step */n or a-b/n{_SPECIAL.get(self._field.name, '')}"
        self._refuse(f"{_shorten(term)!r} is not understood: write {forms}, or a list of these")

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidSchedule(self._where + why)


def _shorten(text: str) -> str:
    return text if len(text) <= 20 else f"{text[:20]}…"
