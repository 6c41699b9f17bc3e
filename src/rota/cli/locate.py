"""Finds the application that a command works on."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.database import is_remote
from rota.config import load_settings
from rota.errors import ConfigError, UsageError
from rota.modules import import_module

if TYPE_CHECKING:
    from rota.app import Rota

AppOption = Annotated[
    str | None,
    typer.Option("--app", "-a", metavar="MODULE:ATTR", help="The application; else [app] of rota.toml, else app.py or main.py."),
]
USUAL_MODULES = ("app", "main")


def need_app(location: str | None = None) -> Rota:
    """The application named by `-a`, by the settings, or by itself in a file with a usual name."""
    app = find_app(location)
    if app is None:
        raise ConfigError(
            f"no application found: there is no app.py or main.py with a Rota() in {Path.cwd()}; "
            "name it with -a module:attribute, or as location under [app] in rota.toml"
        )
    return app


def find_app(location: str | None = None) -> Rota | None:
    """Like `need_app`, but None when nobody named one and none is found. The modules of its tasks are imported."""
    app = _locate(location)
    if app is not None:
        app.import_modules()
    return app


def _locate(location: str | None) -> Rota | None:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    location = location or load_settings().app.location
    if location is not None:
        return _app_at(location)
    for name in USUAL_MODULES:
        if Path(f"{name}.py").is_file() and (apps := _apps_of(import_module(name))):
            return _only(name, apps)
    return None


def find_code(location: str | None) -> Rota | None:
    """The application whose code checks tasks and payloads, if there is one; over the API that is the server's business."""
    if not is_remote():
        return find_app(location)
    if location is not None:
        raise UsageError(f"-a {location} means nothing over the API: the server's own code decides; leave out -a, or --url")
    return None


def _app_at(location: str) -> Rota:
    from rota.app import Rota

    name, _, attribute = location.partition(":")
    module = import_module(name)
    apps = _apps_of(module)
    if not attribute:
        if not apps:
            raise ConfigError(f"module {name} has no Rota() in it: make one, or name another module with -a")
        return _only(name, apps)
    app = getattr(module, attribute, None)
    if not isinstance(app, Rota):
        what = f"is a {type(app).__name__}" if hasattr(module, attribute) else "does not exist"
        known = ", ".join(f"{name}:{each}" for each in apps) or "none in this module"
        raise ConfigError(f"{location} {what}, not a Rota application; there is: {known}")
    return app


def _apps_of(module: ModuleType) -> dict[str, Rota]:
    from rota.app import Rota

    return {name: value for name, value in vars(module).items() if isinstance(value, Rota)}


def _only(module: str, apps: dict[str, Rota]) -> Rota:
    different = {id(app): app for app in apps.values()}
    if len(different) > 1:
        names = " or ".join(f"-a {module}:{name}" for name in apps)
        raise ConfigError(f"module {module} has {len(different)} applications: say which with {names}")
    return next(iter(different.values()))
