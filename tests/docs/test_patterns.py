"""The patterns of idempotent handlers do what their page promises: who dies anywhere, and runs again, has an effect once."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest
from tests.docs.snippets import read_snippets
from tests.docs.test_pages import section

from rota import Rota
from rota.contrib.testing.harness import harness

pytestmark = pytest.mark.req("Q17", "X03")

MODULES = ("app", "elsewhere", "patterns")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "handlers.md"
Conn = psycopg.Connection[Any]

# For each task of patterns.py its arguments, and how often its effect has happened.
EFFECTS: dict[str, tuple[dict[str, int], Callable[[Conn, ModuleType], float]]] = {
    "mark_paid": ({"invoice": 1}, lambda conn, _: one(conn, "SELECT count(*) FROM invoice WHERE state = 'paid'")),
    "withdraw": (
        {"account": 2, "cents": 100},
        lambda conn, _: one(conn, "SELECT (1000 - cents) / 100.0 FROM account WHERE id = 2"),
    ),
    "book": ({"account": 3, "cents": 100}, lambda conn, _: one(conn, "SELECT (1000 - cents) / 100.0 FROM account WHERE id = 3")),
    "charge": ({"order": 7}, lambda _, elsewhere: len(elsewhere.charges)),
    "send_letter": ({"order": 7}, lambda _, elsewhere: len(elsewhere.letters)),
}
NAIVE = """
@app.task
async def pay_twice(ctx: Context, account: int, cents: int) -> None:
    async with ctx.connection() as conn:
        await conn.execute("UPDATE account SET cents = cents - %s WHERE id = %s", [cents, account])
"""


def one(conn: Conn, query: str) -> float:
    [(value,)] = conn.execute(query.encode()).fetchall()
    return float(value)


class Death:
    """Ends a handler at its n-th step, once."""

    def __init__(self) -> None:
        self.at = 0
        self.steps = 0

    def __call__(self) -> None:
        self.steps += 1
        if self.steps == self.at:
            raise ConnectionError("the worker dies here")


class Steps(ast.NodeTransformer):
    """Puts a step before and after each statement of the handlers, also between the result and the return."""

    STEP = ast.parse("_step()").body

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        for each in ast.walk(node):
            if isinstance(each, (ast.AsyncFunctionDef, ast.AsyncWith, ast.If)):
                each.body = [part for statement in each.body for part in self._stepwise(statement)]
        return node

    def _stepwise(self, statement: ast.stmt) -> list[ast.stmt]:
        if isinstance(statement, ast.Return) and statement.value is not None:
            kept = ast.Assign([ast.Name("_result", ast.Store())], statement.value, lineno=statement.lineno)
            return [*self.STEP, kept, *self.STEP, ast.Return(ast.Name("_result", ast.Load()))]
        return [*self.STEP, statement, *self.STEP]


class Page:
    """The files of the page, in a folder that Python imports from, with its tables."""

    def __init__(self, folder: Path, conn: Conn, more: str = "") -> None:
        self.death = Death()
        self._conn = conn
        snippets = read_snippets(PAGE)
        for snippet in snippets:
            if snippet.language == "sql":
                conn.execute(snippet.body.encode())
            if snippet.file is not None:
                (folder / snippet.file).write_text(snippet.body)
        tree = Steps().visit(ast.parse((folder / "patterns.py").read_text() + more))
        (folder / "patterns.py").write_text(ast.unparse(ast.fix_missing_locations(tree)))
        sys.path.insert(0, str(folder))
        importlib.import_module("builtins")._step = self.death
        self.elsewhere = importlib.import_module("elsewhere")
        self.app: Rota = importlib.import_module("patterns").app

    def forget(self) -> None:
        """Take all effects back."""
        self._conn.execute("TRUNCATE booking, letter; UPDATE account SET cents = 1000; UPDATE invoice SET state = 'open'")
        self.elsewhere.charges.clear()
        self.elsewhere.letters.clear()

    def run(self, task: str, arguments: dict[str, int], *, die_at: int) -> int:
        """Run a job to its end, with one death on the way; how many steps there were."""
        self.forget()
        self.death.at, self.death.steps = die_at, 0
        with harness(self.app, self.app.settings.database.dsn) as rota:
            job = self.app.enqueue(task, arguments, key=f"request {die_at}").id
            assert self.app.enqueue(task, arguments, key=f"request {die_at}").id == job
            rota.drain_sync(travel="1h")
            assert [each.state for each in rota.jobs() if each.id == job] == ["completed"]
        return self.death.steps


@pytest.fixture
def read(tmp_path: Path, dsn: str, conn: Conn, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Page]]:
    """Read the page into an empty folder; its modules are gone afterwards."""
    monkeypatch.setenv("ROTA_DATABASE_URL", dsn)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr("builtins._step", None, raising=False)
    before = {name: sys.modules.pop(name) for name in MODULES if name in sys.modules}
    yield lambda more="": Page(tmp_path, conn, more)
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.modules.update(before)


@pytest.mark.parametrize("task", EFFECTS)
def test_the_effect_is_there_once_wherever_the_handler_died(task: str, read: Callable[..., Page], conn: Conn) -> None:
    page = read()
    arguments, effects = EFFECTS[task]
    steps = page.run(task, arguments, die_at=0)
    assert effects(conn, page.elsewhere) == 1
    for step in range(1, steps + 1):
        page.run(task, arguments, die_at=step)
        assert effects(conn, page.elsewhere) == 1, f"it died at step {step} of {steps}"


def test_a_handler_without_a_pattern_is_found_out(read: Callable[..., Page], conn: Conn) -> None:
    page = read(NAIVE)
    steps = page.run("pay_twice", {"account": 2, "cents": 100}, die_at=0)
    page.run("pay_twice", {"account": 2, "cents": 100}, die_at=steps)
    assert one(conn, "SELECT cents FROM account WHERE id = 2") == 800


def test_the_page_states_at_least_once_and_lists_these_patterns() -> None:
    text = section("handlers.md", "At least once")
    assert "A job runs at least once." in text
    items = re.findall(r"^\d+\. (.+?)(?=^\d+\. |^\n|^```)", text, re.M | re.S)
    assert [re.findall(r"\(`(\w+)`\)", item) for item in items] == [*([name] for name in EFFECTS), []]
    assert "`key`" in items[-1]
    [patterns] = (snippet.body for snippet in read_snippets(PAGE) if snippet.file == "patterns.py")
    assert re.findall(r"^async def (\w+)", patterns, re.M) == list(EFFECTS)
