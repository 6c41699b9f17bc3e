"""No test depends on how fast the machine is: a deadline ends what hangs, and no elapsed time has to be short."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.wait import NEVER_S, PATIENCE_S

TESTS = Path(__file__).parents[1]
WAITS = {
    "communicate",
    "drained",
    "ended",
    "join",
    "settimeout",
    "timeout",
    "until",
    "wait",
    "wait_for",
    "wait_ready",
    "wait_until",
}
OTHERS = {"check_call", "check_output", "create_connection", "run", "urlopen"}  # their other numbers are no times
DEADLINES = {"deadline_s", "timeout", "within"}
CLOCKS = {"monotonic", "perf_counter", "time"}
SHORTEST_S = 1.0  # what is shorter is a pause between two looks
LINES = [
    "await until(lambda: done, 20)",
    "await engine.ended(id, deadline_s=5)",
    "event.wait(timeout=10)",
    "asyncio.timeout(3)",
    "subprocess.run(['rota', 'worker'], timeout=60)",
    "assert time.monotonic() - began < 5",
    "assert 1 <= time.monotonic() - began < 20",
]


def impatient(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Find deadlines that a slow machine may reach, and elapsed times with an upper limit."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node) in WAITS | OTHERS:
            values = [each.value for each in node.keywords if each.arg in DEADLINES]
            values += node.args if _name(node) in WAITS else []
            for seconds in filter(None, map(_number, values)):
                if SHORTEST_S <= seconds < PATIENCE_S:
                    yield node.lineno, f"a deadline of {seconds} s: leave it out, or write PATIENCE_S"
        if isinstance(node, ast.Compare) and isinstance(node.ops[-1], ast.Lt | ast.LtE):
            *_, elapsed, most = node.left, *node.comparators
            is_elapsed = isinstance(elapsed, ast.BinOp) and isinstance(elapsed.op, ast.Sub) and _name(elapsed.left) in CLOCKS
            if is_elapsed and _number(most) is not None:
                yield node.lineno, "an upper limit of elapsed time: bound the work, or wait for a condition"


def _name(call: ast.expr) -> str:
    """Return the last part of the name of what is called."""
    function = call.func if isinstance(call, ast.Call) else call
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""


def _number(value: ast.expr) -> float | None:
    return value.value if isinstance(value, ast.Constant) and type(value.value) in (int, float) else None


@pytest.mark.parametrize("folder", sorted({path.parent.name for path in TESTS.glob("*/*.py")}))
def test_nothing_is_impatient(folder: str) -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}: {why}"
        for path in sorted((TESTS / folder).rglob("*.py"))
        for line, why in impatient(ast.parse(path.read_text("utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize("line", LINES)
def test_impatience_is_found(line: str) -> None:
    assert len(list(impatient(ast.parse(f"async def f():\n    {line}")))) == 1


def test_what_hides_behind_a_poll_is_waited_for_in_vain() -> None:
    assert NEVER_S > 2 * PATIENCE_S
