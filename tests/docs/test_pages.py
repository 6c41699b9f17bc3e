"""The documentation is complete: every page is in the index, every key and command has its words, every promise its page."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from rota.apps.housekeeping import SCHEDULES
from rota.cli.main import COMMANDS
from rota.config import SECTIONS, describe_range
from rota.control.system import control_tasks
from rota.engine.system import SYSTEM_TASKS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
PROMISES = "What the operating guide promises"
AREAS = ("state machine", "concurrency", "crash recovery", "scheduler", "handlers", "API", "CLI", "page")


def text_of(name: str) -> str:
    """A page of the documentation."""
    return (DOCS / name).read_text("utf-8")


def section(name: str, heading: str) -> str:
    """The part of a page below a heading, up to the next one of its rank."""
    _, found, rest = text_of(name).partition(f"\n## {heading}\n")
    assert found, f"{name} has no section {heading!r}"
    return rest.split("\n## ")[0]


@pytest.mark.req("X01")
class TestGuides:
    @pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
    def test_every_page_is_in_the_index_and_has_a_title(self, page: Path) -> None:
        assert page.read_text("utf-8").startswith("# ")
        if page.name != "README.md":
            assert f"]({page.name})" in text_of("README.md")

    def test_every_key_has_its_words_default_and_range(self) -> None:
        page = text_of("configuration.md")
        for section_name, fields in SECTIONS.items():
            for key, field in fields.items():
                assert field.description, f"{section_name}.{key}"
                assert describe_range(field), f"{section_name}.{key}"
                # A list of tables has no variable: those are one line of text.
                variable = "" if key == "rules" else f"`ROTA_{section_name.upper()}_{key.upper()}`"
                assert f"| `{key}` | {variable} |" in page

    def test_every_command_and_option_has_its_words(self) -> None:
        page = text_of("cli.md")
        for name in COMMANDS:
            command: Any = typer.main.get_command(importlib.import_module(f"rota.cli.{name}").app)
            assert f"## rota {name}\n" in page
            for path, each in _commands(f"rota {name}", command):
                assert (each.help or "").strip(), path
                unsaid = [option.name for option in each.params if option.param_type_name == "option" and not option.help]
                assert unsaid == [], path
                assert f"### `{path}" in page

    def test_the_queue_has_its_guide(self) -> None:
        for heading in ("What it is", "When to use it", "Built-in tasks", "Failed jobs"):
            assert section("job-queue.md", heading).strip()
        assert "jobs.enabled" in section("job-queue.md", "Where it runs")
        assert "rota queues list" in section("job-queue.md", "Depth: is it keeping up?")
        assert "jobs.worker_concurrency" in section("job-queue.md", "Concurrency: how many at once?")

    def test_the_guide_names_every_built_in_task(self) -> None:
        named = set(re.findall(r"^\| `([a-z_.]+)` \|", section("job-queue.md", "Built-in tasks"), re.M))
        assert named == {*SYSTEM_TASKS, *control_tasks(), *SCHEDULES}

    def test_the_dashboard_has_its_guide(self) -> None:
        routes = (ROOT / "dashboard/src/app/routes.tsx").read_text()
        for title in re.findall(r'title: "([^"]+)"', routes):
            assert f"| {title} |" in text_of("dashboard.md"), title
        assert "deploy/grafana/rota.json" in section("operations.md", "The Grafana board")

    def test_the_matrix_names_tests_for_every_area_and_folder(self) -> None:
        table = text_of("test-matrix.md").partition("|---|---|---|\n")[2].partition("\n\n")[0]
        rows = dict(re.findall(r"^\| ([^|]+?) \| [^|]+ \| ([^|]*?) ?\|$", table, re.M))
        assert len(rows) == len(table.splitlines()), "each line is a row, and each area has one"
        assert set(AREAS) <= rows.keys()
        folders = set()
        for area, cell in rows.items():
            patterns = re.findall(r"`(tests/[^`]+)`", cell)
            assert patterns, f"{area}: no test is named"
            for pattern in patterns:
                files = sorted(ROOT.glob(pattern))
                assert files, f"{area}: there is no {pattern}"
                assert [file for file in files if "def test_" not in file.read_text("utf-8")] == [], f"{area}: no test in it"
                folders |= {file.parent for file in files}
        assert {file.parent for file in ROOT.glob("tests/**/test_*.py")} == folders, "each folder of tests is in some row"


@pytest.mark.req("X02")
class TestDecisions:
    def test_every_decision_is_in_the_index(self) -> None:
        index = text_of("decisions/README.md")
        notes = sorted(path for path in (DOCS / "decisions").glob("[0-9]*.md"))
        for note in notes:
            title = note.read_text("utf-8").splitlines()[0]
            assert title.startswith(f"# {note.name[:4]} "), note.name
            assert f"[{note.name[:4]}]({note.name}) | " in index
        assert [note.name[:4] for note in notes] == sorted({note.name[:4] for note in notes}), "two have the same number"


@pytest.mark.req("X03")
class TestBehaviour:
    def test_each_promise_about_deploy_failover_and_restore_has_tests(self) -> None:
        promises = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \| (`tests/[^|]+?) \|$", section("test-matrix.md", PROMISES), re.M)
        promised: dict[str, list[str]] = {"A rolling deploy": [], "A failover": [], "Backup and restore": []}
        for heading, words, shown in promises:
            promised[heading].append(words)
            assert words in " ".join(section("operations.md", heading).split()), (
                f"operations.md does not say this any more: {words}"
            )
            for test in re.findall(r"`([^`]+)`", shown):
                file, _, name = test.partition("::")
                assert f"def {name or 'test_'}" in (ROOT / file).read_text("utf-8"), f"there is no {test}"
        meanwhile = re.findall(r"^\| (a [^|]+?) \|", section("operations.md", "A rolling deploy"), re.M)
        assert [each for each in meanwhile if each not in promised["A rolling deploy"]] == [], "each row needs its tests"
        assert all(promised.values())

    def test_commands_in_text_exist(self) -> None:
        """Those in blocks are run; those within sentences at least have a name."""
        for page in PAGES:
            prose = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
            named = set(re.findall(r"`(?:\$ )?rota ([a-z]+)(?= |`)", prose))
            assert named <= COMMANDS.keys(), page.name


def _commands(path: str, command: Any) -> list[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        return [(path, command)]
    own = [(path, command)] if command.invoke_without_command else []
    return own + [found for name, each in command.commands.items() for found in _commands(f"{path} {name}", each)]
