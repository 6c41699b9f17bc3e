"""The screen of `rota demo` in terminals of different sizes."""

from __future__ import annotations

import io
import re
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from rota.cli.demo_view import FATES, Figures, render_view

pytestmark = pytest.mark.req("K01")

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LINK = "http://127.0.0.1:40000/auth/sign-in?token=" + "x" * 43


def screen(width: int, height: int) -> list[str]:
    """Render a demo in which everything has happened; the lines."""
    figures = Figures(NOW - timedelta(minutes=1), NOW)
    figures.ended = Counter({(f"task_{n}", fate): 1000 for n in range(10) for fate in FATES})
    figures.workers = [(number, 16, NOW, NOW, 3) for number in (101, 102)]
    figures.failures = [(NOW, "charge_card", 1, False, "TimeoutError", "no answer " * 20)] * 4
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    with console.capture() as shown:
        console.print(render_view(figures, ["Server: http://127.0.0.1:40000", "Log: x"], LINK))
    return shown.get().splitlines()


@pytest.mark.parametrize(("width", "height"), [(100, 24), (100, 20), (100, 8), (200, 24)])
def test_sections_that_do_not_fit_are_named(width: int, height: int) -> None:
    lines = screen(width, height)
    assert len(lines) <= height
    assert lines[-1].startswith("Not shown: ")
    missing = re.findall(r"\w+", lines[-1].partition(".")[0])[2:]
    assert missing
    signs = {"tasks": "task_9", "workers": "101", "failures": "charge_card", "hints": "Log: x"}
    assert {name for name, sign in signs.items() if sign not in "".join(lines)} == set(missing) & signs.keys()
    assert LINK in "".join(lines)


def test_cut_columns_are_announced() -> None:
    lines = screen(70, 100)
    assert lines[-1].startswith("Columns are cut. Enlarge the terminal to ")
    assert LINK in "".join(lines)


def test_the_size_that_it_asks_for_is_enough() -> None:
    needed = re.search(r"Enlarge the terminal to (\d+)x(\d+)\.$", screen(80, 24)[-1])
    assert needed is not None
    width, height = map(int, needed.groups())
    assert "Enlarge" not in "".join(screen(width, height))
    assert screen(width, height - 1)[-1].startswith("Not shown: ")
