"""What commands print."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import psycopg
import pytest

from rota.cli.output import confirm, explain_driver_error, format_cell, print_json, print_table
from rota.errors import DatabaseError, Forbidden, UsageError
from rota.model.duration import show_duration

AT = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=timezone(timedelta(hours=2)))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_table_without_a_terminal_is_plain_and_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["id", "error"], [[1, "two\nlines"], [1000, None]])
    assert capsys.readouterr().out == "ID    ERROR\n1     two lines\n1000  -\n"


def test_a_table_on_a_terminal_shows_stored_text_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    print_table(["error"], [["[red]no markup[/red]"], ["\x1b[2Jno escape"]])
    assert "[red]no markup[/red]" in screen.getvalue()
    assert "\x1b[2J" not in screen.getvalue()


def test_an_empty_table_is_talk(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["id"], [], empty="no jobs")
    assert capsys.readouterr() == ("", "no jobs\n")


def test_json_is_versioned_and_in_utc(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([{"at": AT, "took": timedelta(seconds=1.5), "id": UUID(int=7), "n": None}])
    assert json.loads(capsys.readouterr().out) == {
        "version": 1,
        "data": [{"at": "2026-03-01T10:00:00.250000Z", "took": 1.5, "id": str(UUID(int=7)), "n": None}],
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (True, "yes"),
        ([], "-"),
        (["a", 1], "a, 1"),
        (timedelta(seconds=90), "1m 30s"),
        ("a\x00b", "a\N{REPLACEMENT CHARACTER}b"),
    ],
)
def test_cells(value: Any, text: str) -> None:
    assert format_cell(value) == text


def test_times_are_local_with_their_zone() -> None:
    assert format_cell(AT) == AT.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    assert format_cell(AT) == format_cell(AT.astimezone(UTC))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.25, "0.25s"),
        (9.99, "9.99s"),
        (59.6, "1m"),
        (3600, "1h"),
        (3661, "1h 1m"),
        (90061, "1d 1h"),
        (-90, "-1m 30s"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert show_duration(timedelta(seconds=seconds)) == text


def test_nothing_is_destroyed_where_nobody_can_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(UsageError, match="Delete it? Nobody is here to ask: add --yes".replace("?", r"\?")):
        confirm("Delete it?", yes=False)
    confirm("Delete it?", yes=True)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (psycopg.errors.UndefinedTable('relation "rota.job" does not exist'), "run `rota migrate up`"),
        (psycopg.errors.LockNotAvailable("canceling statement"), "nothing was changed: try again"),
        (psycopg.OperationalError("connection refused\nmore"), "connection refused; check database.url"),
        (psycopg.errors.DivisionByZero("division by zero"), "division by zero"),
    ],
)
def test_errors_of_the_driver_are_explained(error: psycopg.Error, message: str) -> None:
    explained = explain_driver_error(error)
    with pytest.raises(DatabaseError, match=message):
        raise explained or AssertionError


@pytest.mark.req("C10")
def test_a_right_that_is_missing_is_forbidden() -> None:
    explained = explain_driver_error(psycopg.errors.InsufficientPrivilege("permission denied for schema rota"))
    with pytest.raises(Forbidden, match=r"permission denied .* grant it"):
        raise explained or AssertionError


def test_other_errors_are_not_ours_to_explain() -> None:
    assert explain_driver_error(KeyError("x")) is None
