"""What the pages say of settings and options is tried: defaults hold, ranges end where they say, choices are all there are."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import pytest
from tests.docs.test_pages import PAGES, text_of

from rota import Rota
from rota.config import SECTIONS, load_settings
from rota.errors import ConfigError
from rota.model.retry import Retry
from rota.model.task_meta import TASK_OPTIONS, TaskMeta

pytestmark = pytest.mark.req("X01")


class Row(NamedTuple):
    """A row of the configuration page."""

    section: str
    key: str
    variable: str
    default: str
    allowed: str

    @property
    def value(self) -> Any:
        """The value with these settings."""
        return getattr(getattr(load_settings(), self.section), self.key)


def rows() -> list[Row]:
    """Every setting that the page names, in its order."""
    found = []
    for part in re.split(r"^## \[", text_of("configuration.md"), flags=re.M)[1:]:
        name, _, table = part.partition("]")
        lines = re.findall(r"^\| `(\w+)` \| `(ROTA_\w+)` \| (?:`(.*?)`)? ?\| (.*?) \| .+ \|$", table, re.M)
        found += [Row(name, *line) for line in lines]
    return found


ROWS = rows()
NUMBERS = [row for row in ROWS if " from " in row.allowed]
CHOICES = [row for row in ROWS if row.allowed == "true or false" or row.allowed.startswith("one of ")]


@pytest.fixture(autouse=True)
def set_variable(monkeypatch: pytest.MonkeyPatch) -> Callable[[Row, str], None]:
    """Set a setting as the page says, in an environment that has no others."""
    for row in ROWS:
        monkeypatch.delenv(row.variable, raising=False)

    def set_variable(row: Row, text: str) -> None:
        if row.key == "pool_min":  # not more than pool_max
            monkeypatch.setenv("ROTA_DATABASE_POOL_MAX", "1000")
        monkeypatch.setenv(row.variable, text)

    return set_variable


def test_the_page_has_every_setting_with_a_variable() -> None:
    settings = {(section, key) for section, fields in SECTIONS.items() for key in fields}
    assert settings == {(row.section, row.key) for row in ROWS} | {("housekeeping", "rules")}  # tables have no variable
    assert len(NUMBERS) > 40
    assert len(CHOICES) > 15


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.variable)
def test_the_default_is_what_the_page_says(row: Row) -> None:
    if row.default == "":
        assert row.value in (None, "", (), {})
    else:
        given = row.default.strip('"')
        assert str(row.value).lower() == given or float(row.value) == float(given)


@pytest.mark.parametrize("row", NUMBERS, ids=lambda row: row.variable)
def test_a_number_may_be_what_the_page_says_and_nothing_beyond(row: Row, set_variable: Callable[[Row, str], None]) -> None:
    least, most = map(float, re.findall(r"from (\S+) to (\S+)", row.allowed)[0])
    for number in (least, most):
        set_variable(row, f"{number:.0f}")
        assert row.value == number
    step = 1 if "whole" in row.allowed else 0.001
    for text in (f"{least - step:.3f}", f"{most + step:.3f}", "many", *(["1.5"] if step == 1 else [])):
        set_variable(row, text.removesuffix(".000"))
        with pytest.raises(ConfigError, match=row.variable):
            load_settings()


@pytest.mark.parametrize("row", CHOICES, ids=lambda row: row.variable)
def test_each_choice_of_the_page_can_be_made_and_no_other(row: Row, set_variable: Callable[[Row, str], None]) -> None:
    choices = re.split(", | or ", row.allowed.removeprefix("one of "))
    for choice in choices:
        set_variable(row, choice)
        assert str(row.value).lower() == choice
    field = SECTIONS[row.section][row.key]
    known = {each for each in get_args(field.annotation) if isinstance(each, str)}
    assert known in (set(), set(choices))
    set_variable(row, "neither")
    with pytest.raises(ConfigError, match=row.variable):
        load_settings()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_default_in_brackets_is_the_default(page: Any) -> None:
    for section, key, number in re.findall(r"`([a-z]+)\.(\w+)` \(([\d,.]+)\)", page.read_text("utf-8")):
        if section in SECTIONS:
            value = getattr(getattr(load_settings(), section), key)
            assert float(number.replace(",", "")) == value, f"{section}.{key}"


def test_options_of_tasks_are_those_of_the_page() -> None:
    _, _, table = text_of("tasks.md").partition("| option | default | |\n|---|---|---|\n")
    lines = re.findall(r"^\| (.+?) \| (.*?) ?\| (.+) \|$", table.partition("\n\n")[0], re.M)
    named = {option: default for options, default, _ in lines for option in re.findall(r"`(\w+)`", options)}
    parameters = inspect.signature(Rota.task).parameters
    assert named.keys() == {*TASK_OPTIONS, *TaskMeta.__annotations__} - {"system"}
    in_words = {"none": (None, ()), "no": (False,), "0": (0,), "`default`": ("default",)}
    for name, default in named.items():
        if name in parameters and default in in_words:
            assert parameters[name].default in in_words[default], name
    assert (Retry().base.total_seconds(), Retry().cap.total_seconds(), Retry().jitter.total_seconds()) == (5, 300, 1)  # type: ignore[union-attr]
    assert named["retry"] == "5 s doubling up to 5 min, up to 1 s jitter"
