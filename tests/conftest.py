"""Databases for tests, from Rota's own plugin for pytest, and what is looked at when all is done."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that `tests.support` is one name, in pytest and outside it

from tests.support import leftovers, programs, requirements
from tests.support.postgres import Databases, Majors, server
from tests.support.zygote import close_zygote

from rota.db.embedded import EmbeddedPostgres
from rota.model import secret

# Tests start hundreds of processes: without bytecode each would compile all of Rota again, which is a third of its start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Thousands of tests and all that they import are no garbage: none is looked for among them, neither now nor later.
gc.disable()

# The time that an example takes, or its making, depends on the machine.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

RUN = pytest.StashKey["Run"]()
# The longest first: what a process has begun no other can take from it, and a long one at the end is waited for by all.
# These for the first process, because several of them need servers of other versions, which each process starts for itself.
LONG = (
    "tests/chaos/test_chaos.py",
    "tests/chaos/test_schedule_chaos.py",
    "tests/engine/test_limit_chaos.py",
    "tests/engine/test_plans_schedules.py",
    "tests/engine/test_plans_limits.py",
    "tests/engine/test_plans_nested.py",
    "tests/engine/test_plans.py",
    "tests/control/test_plans_retention.py",
)
# These in turn for the other processes; files or whole directories.
ALSO_LONG = (
    "tests/docs/test_snippets.py",
    "tests/dashboard/test_components.py",
    "tests/cli/test_demo.py",
    "tests/browser/",
    "tests/engine/test_lease.py",
    "tests/cli/test_dev.py",
    "tests/control/test_retention_machine.py",
    "tests/store/test_state_machine.py",
    "tests/server/test_schemathesis.py",
    "tests/store/test_recurring_machine.py",
    "tests/engine/test_outage.py",
    "tests/engine/test_storm.py",
    "tests/engine/test_isolate_process.py",
    "tests/engine/test_endurance.py",
    "tests/engine/test_dependencies.py",
    "tests/engine/test_rates.py",
    "tests/server/test_server_process.py",
)


class Run:
    """What one process of the test run has seen."""

    def __init__(self) -> None:
        self.requirements: set[str] = set()
        self.leftovers: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RUN] = Run()
    config.pluginmanager.register(programs)
    if not hasattr(config, "workerinput"):
        leftovers.mark()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[RUN].requirements.update(getattr(node, "workeroutput", {}).get("requirements", ()))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Run more processes than there are cores: most tests wait, for processes and for the clock, more than they compute."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + 2


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest first, whatever the order of the others: first in the share that each process has to begin with."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    shares: list[list[pytest.Item]] = [[] for _ in range(processes)]
    others = []
    rank = {path: number for number, path in enumerate(LONG)}
    for item in items:
        path = item.location[0]
        if path in rank:
            shares[0].append(item)
            continue
        turn = next((number for number, begin in enumerate(ALSO_LONG) if path.startswith(begin)), None)
        (others if turn is None else shares[1 + turn % (processes - 1) if processes > 1 else 0]).append(item)
    shares[0].sort(key=lambda item: rank.get(item.location[0], len(LONG)))
    rest = iter(others)
    ordered: list[pytest.Item] = []
    for number, share in enumerate(shares):  # as large as pytest-xdist makes them: see WorkStealingScheduling
        size = (len(items) - len(ordered)) // (processes - number)
        ordered += [*share, *islice(rest, max(0, size - len(share)))]
    items[:] = [*ordered, *rest]


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()
    gc.enable()
    session.config.stash[RUN].requirements.update(requirements.carried(session.items))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """Count the processes that are still there after everyone else's clean-up."""
    close_zygote()
    yield
    run = session.config.stash[RUN]
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["requirements"] = sorted(run.requirements)
        return
    run.leftovers = leftovers.find()
    if run.leftovers and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    run = config.stash[RUN]
    if run.leftovers:
        terminalreporter.section("processes left behind by tests: the run has failed", red=True)
        for line in run.leftovers:
            terminalreporter.line(line)
    if requirements.whole_suite(config) and (missing := requirements.missing(run.requirements)):
        terminalreporter.section("requirements without a test")
        terminalreporter.line(" ".join(missing))


@pytest.fixture(scope="session")
def postgres(rota_postgres: Databases) -> Databases:
    """The run's server: it names, makes and drops databases."""
    return rota_postgres


@pytest.fixture(autouse=True)
def _no_keys_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    # Keys are a process's: without this a test could store secrets only because another has run before it.
    monkeypatch.setattr(secret, "_keys", ())
    monkeypatch.setattr(secret, "_required", None)


@pytest.fixture
def dsn(rota_dsn: str) -> str:
    """A fresh database with Rota's schema."""
    return rota_dsn


@pytest.fixture
def empty_dsn(postgres: Databases) -> Iterator[str]:
    """A fresh database without Rota's schema."""
    with postgres.fresh(template="template0") as name:
        yield postgres.dsn(name)


@pytest.fixture
def conn(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to the test's database; each statement is a transaction of its own."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
async def aconn(dsn: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """The same for async tests."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def own_postgres() -> Iterator[EmbeddedPostgres]:
    """A server that belongs to the test alone, to be restarted and killed."""
    with server() as postgres:
        yield postgres


@pytest.fixture(scope="session")
def majors() -> Iterator[Majors]:
    """Servers of other major versions, for tests of plans."""
    with closing(Majors()) as servers:
        yield servers
