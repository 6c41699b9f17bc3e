"""A cron expression in English."""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.cron_fields import DAY, HOUR, LAST, LAST_WEEKDAY, MINUTE, MONTH, WEEKDAY, Expression, Field, Term

_MONTHS = ["January", "February", "March", "April", "May", "June", "July"]
_MONTHS += ["August", "September", "October", "November", "December"]
_WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_NOUNS = {DAY.name: "day", WEEKDAY.name: "day of the week"}
_NTH = {LAST: "last", 1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth"}
_MOST_TIMES = 6  # of the day that are named one by one


def describe_expression(expression: Expression) -> str:
    """The expression as a sentence: `At 09:00, Monday through Friday`."""
    minutes, hours, days, months, weekdays = expression.terms
    named = _named_times(minutes, hours)
    date = _describe_days(days, months, weekdays, either=not any(expression.fields[n].startswith("*") for n in (2, 4)))
    times = (f"at {_join(named)}" + ("" if date else " every day")) if named else _describe_times(minutes, hours)
    if not _is_all(months, MONTH) and (not date or not _is_all(weekdays, WEEKDAY)):
        date = f"{date}, in {_describe(months, MONTH)}" if date else f"in {_describe(months, MONTH)}"
    sentence = f"{times}, {date}" if date else times
    return sentence[0].upper() + sentence[1:]


def _named_times(minutes: Sequence[Term], hours: Sequence[Term]) -> list[str]:
    """The times of the day, if they are few."""
    if not all(term.single for term in (*minutes, *hours)) or len(minutes) * len(hours) > _MOST_TIMES:
        return []
    return sorted({f"{hour.start:02}:{minute.start:02}" for hour in hours for minute in minutes})


def _describe_times(minutes: Sequence[Term], hours: Sequence[Term]) -> str:
    minute, hour = minutes[0], hours[0]
    one_span = len(hours) == 1 and hour.step == 1
    if period := _describe_period(minutes):
        if _is_all(hours, HOUR):
            return period
        return (
            f"{period} from {hour.start:02}:00 through {hour.stop:02}:59" if one_span else f"{period} of {_describe(hours, HOUR)}"
        )
    if len(hours) == 1 and hour.single and len(minutes) == 1 and minute.step == 1:
        return f"every minute from {hour.start:02}:{minute.start:02} through {hour.start:02}:{minute.stop:02}"
    if len(minutes) == 1 and minute.single and minute.start == 0:
        if _is_all(hours, HOUR):
            return "every hour on the hour"
        if one_span:
            return f"every hour from {hour.start:02}:00 through {hour.stop:02}:00"
        if (hour.start, hour.stop) == (HOUR.low, HOUR.high) and len(hours) == 1 and 24 % hour.step == 0:
            return f"every {hour.step} hours on the hour"
    past = "every hour" if _is_all(hours, HOUR) else _describe(hours, HOUR)
    return f"at {_describe(minutes, MINUTE)} past {past}"


def _describe_period(minutes: Sequence[Term]) -> str:
    """Every minute or every so many, where that is true around the clock."""
    if len(minutes) > 1 or (minutes[0].start, minutes[0].stop) != (MINUTE.low, MINUTE.high) or 60 % minutes[0].step:
        return ""
    return "every minute" if minutes[0].step == 1 else f"every {minutes[0].step} minutes"


def _describe_days(days: Sequence[Term], months: Sequence[Term], weekdays: Sequence[Term], *, either: bool) -> str:
    """The days, with their months if no weekday stands between the two."""
    on_weekdays = _describe(weekdays, WEEKDAY)
    if either and (_is_all(days, DAY) or _is_all(weekdays, WEEKDAY)):
        return ""
    if _is_all(days, DAY):
        lone_span = len(weekdays) == 1 and not weekdays[0].single and weekdays[0].step == 1
        return "" if _is_all(weekdays, WEEKDAY) else on_weekdays if lone_span else f"on {on_weekdays}"
    on_days = f"on {_describe(days, DAY)} of"
    if not _is_all(weekdays, WEEKDAY):
        return f"{on_days} the month {'or on' if either else 'if it is'} {on_weekdays}"
    if len(days) == len(months) == 1 and days[0].single and months[0].single and days[0].start > 0:
        return f"on {days[0].start} {_MONTHS[months[0].start - 1]}"
    return f"{on_days} {'the month' if _is_all(months, MONTH) else _describe(months, MONTH)}"


def _describe(terms: Sequence[Term], field: Field) -> str:
    """The values of a field: `Monday and Wednesday`, `hours 1, 3 and 5 through 8`, `every 2nd month`."""
    plain = field not in (MONTH, WEEKDAY) and all(term.step == 1 and term.start >= 0 for term in terms)
    listed = _join([_describe_term(term, field, bare=plain) for term in terms])
    if not plain:
        return listed
    return f"{_noun(field)}{'' if len(terms) == 1 and terms[0].single else 's'} {listed}"


def _describe_term(term: Term, field: Field, *, bare: bool) -> str:
    if term.nth:
        return f"the {_NTH[term.nth]} {_WEEKDAYS[term.start]} of the month"
    if term.start < 0:
        return "the last weekday" if term.start == LAST_WEEKDAY else "the last day"
    start, stop = _name(term.start, field), _name(term.stop, field)
    noun = "" if bare or field in (MONTH, WEEKDAY) else f"{_noun(field)} "
    if term.step > 1:
        span = "" if (term.start, term.stop) == (field.low, field.high) else f" from {start} through {stop}"
        return f"every {_ordinal(term.step)} {_noun(field)}{span}"
    return f"{noun}{start}" if term.single else f"{noun}{start} through {stop}"


def _name(value: int, field: Field) -> str:
    if field is MONTH:
        return _MONTHS[value - 1]
    return _WEEKDAYS[value] if field is WEEKDAY else str(value)


def _noun(field: Field) -> str:
    return _NOUNS.get(field.name, field.name)


def _ordinal(number: int) -> str:
    ending = "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _is_all(terms: Sequence[Term], field: Field) -> bool:
    """Whether every value is named; of weekdays, Sunday has two."""
    lowest, highest = (1, 6) if field is WEEKDAY else (field.low, field.high)
    return any(
        term.step == 1
        and not term.nth
        and term.start <= lowest
        and term.stop >= highest
        and term.stop - term.start >= highest - field.low
        for term in terms
    )


def _join(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
