"""Finds the application that a command works on."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.database import is_remote
from rota.config import load_settings
from rota.errors import ConfigError, UsageError

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
    """Like `need_app`, but None when nobody named one and none is found."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    location = location or load_settings().app.location
    if location is not None:
        return _app_at(location)
    for name in USUAL_MODULES:
        if Path(f"{name}.py").is_file() and (apps := _apps_of(_import(name))):
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
    module = _import(name)
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


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigError(f"there is no module {name!r} in {Path.cwd()} or among the installed packages") from error
        raise ConfigError(_describe_failure(name, error)) from error
    except Exception as error:
        raise ConfigError(_describe_failure(name, error)) from error


def _describe_failure(name: str, error: Exception) -> str:
    # The last frame is where the user's code went wrong; the frames before it are ours and the import system's.
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{error.filename}:{error.lineno}" if isinstance(error, SyntaxError) else f"{frame.filename}:{frame.lineno}"
    return f"module {name!r} cannot be imported: {type(error).__name__}: {error} ({where})"
