"""Expressions and zones that mean nothing are refused at once, with what is wrong, where, and what to do."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.effort import effort_bounded

from rota.errors import InvalidSchedule, UsageError
from rota.model.cron import Cron
from rota.model.zone import zone_names

MINUTE = "minute (field 1 of 5): "
HOUR = "hour (field 2 of 5): "
DAY = "day of month (field 3 of 5): "
MONTH = "month (field 4 of 5): "
WEEKDAY = "day of week (field 5 of 5): "


def refusal(expression: object, tz: object = "UTC", field: str = "cron") -> str:
    """Return the error of an expression, which is found without listing all that the expression might mean."""
    with effort_bounded(1.0), pytest.raises(InvalidSchedule) as caught:
        Cron.parse(expression, tz, field=field)  # type: ignore[arg-type]
    message = str(caught.value)
    assert len(message) < 1500
    return message


@pytest.mark.req("S04")
@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("61 * * * *", MINUTE + "61 is out of range 0-59"),
        ("* 24 * * *", HOUR + "24 is out of range 0-23"),
        ("* * 0 * *", DAY + "0 is out of range 1-31"),
        ("* * 1,32 * *", DAY + "32 is out of range 1-31"),
        ("* * * 1-13 *", MONTH + "13 is out of range 1-12"),
        ("* * * * 8", WEEKDAY + "8 is out of range 0-7"),
        ("* * * foo *", MONTH + "'FOO' is not understood: write 1-12 or JAN-DEC"),
        ("* * * mon *", MONTH + "'MON' is not understood"),
        ("* * * * fri-mon", WEEKDAY + "FRI-MON runs backwards: write 5-7,0-1"),
        ("* * * * fri-sun", WEEKDAY + "FRI-SUN runs backwards: write 5-7"),
        ("0 22-6 * * *", HOUR + "22-6 runs backwards: write 22-23,0-6"),
        ("*/90 * * * *", MINUTE + "step 90 is out of range 1-59; for steps that its range does not hold use an interval"),
        ("*/0 * * * *", MINUTE + "step 0 is out of range 1-59"),
        ("0-59/99999999999999999999999 * * * *", MINUTE + "step 99999999999999999999… is out of range"),
        ("0-99999999999999999999999 * * * *", MINUTE + "99999999999999999999… is out of range 0-59"),
        ("5-5/10 * * * *", MINUTE + "5-5/10 is one value with a step: write 5, or 5-59/10"),
        ("1,,2 * * * *", MINUTE + "an item of the list is empty: remove the extra comma"),
        ("1- * * * *", MINUTE + "'1-' is not understood"),
        ("-1 * * * *", MINUTE + "'-1' is not understood"),
        ("1/2/3 * * * *", MINUTE + "'1/2/3' is not understood"),
        ("*5 * * * *", MINUTE + "'*5' is not understood"),
        ("H * * * *", MINUTE + "'H' is not understood: write 0-59"),
        ("0 0 ? * *", DAY + "? is not used: write *"),
        ("0 0 15W * *", DAY + "'15W' is not understood"),
        ("0 0 * * friL", WEEKDAY + "FRIL is not understood: L takes a number, write 5L"),
        ("0 0 * * mon#6", WEEKDAY + "week 6 is out of range 1-5"),
        ("0 0 * * L", WEEKDAY + "'L' is not understood"),
    ],
)
def test_the_field_and_its_position_are_named(expression: str, why: str) -> None:
    assert refusal(expression).startswith(f"cron={expression!r} is not a schedule: {why}")


@pytest.mark.req("S04")
@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("0 0 0 0 0 0", r"has 6 fields, not 5 .*: seconds and years are not supported; .* use an interval"),
        ("* * * *", r"has 4 fields, not 5 \(minute, hour, day of month, month, day of week\)"),
        ("9", "has 1 field, not 5"),
        ("", "has 0 fields, not 5"),
        ("  \t ", "has 0 fields, not 5"),
        ("@reboot", "use schedule=init"),
        ("@every 5m", "use an interval"),
        ("@fortnightly", "is not a macro: there are @hourly, @daily"),
        ("@daily * * * *", "is not a macro"),
        ("0 0 * *\n*", r"has '\\n' at character 8"),
        ("0 0 * * *\0", r"has '\\x00' at character 10"),
        ("٣ * * * *", "at character 1: only ASCII"),
        ("0\u00a00 * * *", "at character 2: only ASCII"),
        ("0 0 * * \udc80", r"has '\\udc80' at character 9"),
        ("1," * 5_000_000, "has 10000000 characters: at most 500 are allowed"),
        ("1" * 490 + " * * * *", "out of range 0-59"),
        (None, 'cron=None is not a cron expression: write text such as "0 9'),
        (5, "cron=5 is not a cron expression"),
        (["*"], "is not a cron expression"),
    ],
)
def test_what_is_no_expression(expression: object, why: str) -> None:
    assert re.search(why, refusal(expression))


@pytest.mark.req("S04")
@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 30,31 feb *", "0 0 31 4,6,9,11 *", "* * */31 * 1#5", "0 0 31 2 */2"])
def test_what_never_comes(expression: str) -> None:
    assert f"cron={expression!r} never comes: no date has day of month" in refusal(expression)


@pytest.mark.req("S04")
@pytest.mark.parametrize(
    "expression", ["0 0 29 2 *", "0 0 29 2 */7", "0 0 * 2 mon#5", "0 0 30 2 mon", "0 0 31 1-2 *", "05 08 * * *"]
)
def test_what_comes_rarely_is_accepted(expression: str) -> None:
    assert Cron.parse(expression).expression == expression


@pytest.mark.req("S04")
@pytest.mark.parametrize(
    ("tz", "hint"),
    [
        ("Europe/Berln", "did you mean Europe/Berlin"),
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("Berlin", "did you mean Europe/Berlin?"),
        ("new york", "did you mean America/New_York?"),
        ("UTC ", "did you mean UTC?"),
        ("../../etc/passwd", "write an IANA name"),
        ("/etc/localtime", "write an IANA name"),
        ("Europe/../Europe/Berlin", "is not a time zone"),
        ("localtime", "write an IANA name"),
        ("posixrules", "write an IANA name"),
        ("right/UTC", "write an IANA name"),
        ("Factory", "write an IANA name"),
        ("GMT+2", "write an IANA name"),
        ("+02:00", "write an IANA name"),
        ("", "write an IANA name"),
        ("\udc80", "write an IANA name"),
        ("Europe/Berlin\0", "is not a time zone"),
        ("x" * 10_000, "(10000 characters) is not a time zone"),
        (None, "tz=None is not a time zone"),
        (["UTC"], "is not a time zone"),
    ],
)
def test_zones_that_do_not_exist(tz: object, hint: str) -> None:
    message = refusal("0 0 * * *", tz)
    assert message.startswith("tz=")
    assert hint in message


def test_every_zone_of_the_list_can_be_loaded() -> None:
    assert len(zone_names()) > 500
    for name in zone_names():
        Cron("0 0 * * *", name)


def test_an_error_names_the_field_that_was_asked_about() -> None:
    assert refusal("x", field="jobs.scheduler_cron").startswith("jobs.scheduler_cron='x' has 1 field")


def test_the_constructor_refuses_too() -> None:
    with pytest.raises(UsageError, match=r"cron='61 \* \* \* \*'"):
        Cron("61 * * * *")


@pytest.mark.req("S04")
@settings(deadline=None)
@given(st.text(max_size=40) | st.text("0123456789*/,-#LW@ monfeb", max_size=40))
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        cron = Cron.parse(text)
    except InvalidSchedule as error:
        str(error).encode()  # can be shown and stored
    else:
        assert Cron.parse(cron.expression) == cron
        assert cron.describe()
