"""Fixtures for tests of applications that use Rota: a real PostgreSQL, a database for each test, a clock that can be moved.

Loaded in every run of pytest wherever Rota is installed: nothing of Rota is imported, and no server started, before a test
asks for it.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rota.app import Rota
    from rota.contrib.testing.databases import Databases
    from rota.contrib.testing.harness import Harness
    from rota.contrib.testing.sharing import Address, Offer


class Run:
    """What one process of a test run has of the server, which all of them share."""

    def __init__(self, shared_by: Address | None) -> None:
        self.open = ExitStack()
        self._shared_by = shared_by
        self._databases: Databases | None = None
        self._offer: Offer | None = None

    def databases(self) -> Databases:
        """Starts the server, once, unless another process of the run has it."""
        if self._databases is None:
            from rota.contrib.testing.databases import run_databases

            shared = self._share()
            self._databases = shared or self.open.enter_context(run_databases())
        return self._databases

    def offer(self) -> Address:
        """Where the other processes of the run ask for the server."""
        if self._offer is None:
            from rota.contrib.testing.sharing import Offer

            self._offer = Offer(lambda: tuple(self.databases().place))
            self.open.callback(self._offer.close)
        return self._offer.address

    def _share(self) -> Databases | None:
        if self._shared_by is None:
            return None
        from rota.contrib.testing.databases import Databases, Place
        from rota.contrib.testing.sharing import ask
        from rota.errors import DatabaseError

        try:
            place, problem = ask(self._shared_by)
        except OSError:
            return None  # the other process is on another machine
        if problem is not None:
            raise DatabaseError(f"the server of the test run did not start: {problem}")
        databases = Databases(Place(*place))
        self.open.callback(databases.close)
        return databases


RUN = pytest.StashKey[Run]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("rota_app", "the application under test of the fixture `rota`, as module:attribute")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RUN] = Run(getattr(config, "workerinput", {}).get("rota_offer"))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Lets the workers of pytest-xdist share the server of the process that started them."""
    node.workerinput["rota_offer"] = node.config.stash[RUN].offer()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.stash[RUN].open.close()  # after all fixtures, and after the workers of pytest-xdist


def pytest_unconfigure(config: pytest.Config) -> None:
    if RUN in config.stash:
        config.stash[RUN].open.close()  # a run that never came to its end has a server too


@pytest.fixture(scope="session")
def rota_postgres(pytestconfig: pytest.Config) -> Databases:
    """The server of the test run: it makes and drops databases."""
    return pytestconfig.stash[RUN].databases()


@pytest.fixture
def rota_dsn(rota_postgres: Databases) -> Iterator[str]:
    """A fresh database with Rota's schema; define your own to test on another one, which has the schema."""
    with rota_postgres.fresh() as name:
        yield rota_postgres.dsn(name)


@pytest.fixture
def rota_app(pytestconfig: pytest.Config) -> Rota:
    """The application under test; define your own, or name it by `rota_app` in pytest's settings or `[app]` in rota.toml."""
    from rota.app import Rota
    from rota.config import load_settings
    from rota.errors import ConfigError

    location = pytestconfig.getini("rota_app") or load_settings().app.location
    if not location:
        raise ConfigError(
            'no application to test: set rota_app = "module:attribute" in the settings of pytest, '
            "or location under [app] in rota.toml, or define a fixture rota_app"
        )
    app = pkgutil.resolve_name(location)
    if not isinstance(app, Rota):
        raise ConfigError(f"rota_app={location!r} is a {type(app).__name__}, not a Rota: write module:attribute")
    return app


@pytest.fixture
def rota(rota_app: Rota, rota_dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    """The application under test on a database of its own: what was enqueued, a way to run it, and the clock."""
    from rota.contrib.testing.harness import harness

    # For processes that the test or its jobs start.
    monkeypatch.setenv("ROTA_DATABASE_URL", rota_dsn)
    monkeypatch.setenv("ROTA_DATABASE_PASSWORD_FILE", "off")
    monkeypatch.setenv("ROTA_DATABASE_PASSWORD_COMMAND", "off")
    with harness(rota_app, rota_dsn) as rota:
        yield rota
