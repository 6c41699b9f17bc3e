"""Import the modules that an application's tasks are spread over, and explain what goes wrong in them."""

from __future__ import annotations

import ast
import importlib
import linecache
import os
import pkgutil
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType, ModuleType

from rota.errors import ConfigError, did_you_mean

EVERYTHING = ".*"  # after a package's name: every module in it, at any depth

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(\.\*)?")
_OURS = str(Path(__file__).parent) + os.sep
_LIBRARIES = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def check_names(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names of modules, or raise ConfigError for one that cannot be imported under any circumstances."""
    given = (names,) if isinstance(names, str) else tuple(names)
    for name in given:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(
                f"modules: {name!r} is not the name of a module; write it as in an import statement (shop.tasks), "
                "or with .* after a package for every module in it (shop.tasks.*)"
            )
    return given


def import_modules(names: Iterable[str]) -> None:
    """Import each module; `shop.tasks.*` is the package shop.tasks and every module in it."""
    for name in names:
        base = name.removesuffix(EVERYTHING)
        module = import_module(base)
        if base == name:
            continue
        if not hasattr(module, "__path__"):
            raise ConfigError(f"modules: {name!r} needs a package, and {base} is a single module: name it without .*")
        for each in _below(module):
            import_module(each)


def import_module(name: str) -> ModuleType:
    """Import a module; ConfigError says where the user's code failed, and in which task's definition."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            near = did_you_mean(name, (each.name for each in pkgutil.iter_modules([os.getcwd()])), "")
            raise ConfigError(
                f"there is no module {name!r} in {Path.cwd()} or among the installed packages{near and f'; {near}'}"
            ) from error
        raise ConfigError(describe_failure(name, error)) from error
    except Exception as error:
        raise ConfigError(describe_failure(name, error)) from error


def describe_failure(name: str, error: Exception) -> str:
    """Return what stopped the import of a module: the error, the user's own line, and the task it defines."""
    if isinstance(error, SyntaxError):
        where = f"{error.filename}:{error.lineno}"
    else:
        file, line = _own_line(error)
        task = _task_at(file, line)
        where = f"{file}:{line}" + (f", task {task}" if task else "")
    return f"module {name!r} cannot be imported: {type(error).__name__}: {error} ({where})"


def alias_main(frame: FrameType | None) -> None:
    """Make `from app import app` find the running script, where `python app.py` has created the application in this frame.

    Without the alias a module that imports the application would run app.py a second time under its own name: a second
    application, which has that module's tasks, while the first one runs the worker. To live without it, create the application
    in a module that is imported only, and start it from another one.
    """
    while frame is not None and frame.f_code.co_name == "__init__":  # of a subclass
        frame = frame.f_back
    main = sys.modules.get("__main__")
    if frame is None or main is None or frame.f_globals is not vars(main):
        return
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    name = spec.name if spec is not None else None if file is None else Path(file).stem  # python -m shop.app, python app.py
    if name is not None and name not in sys.modules and _NAME.fullmatch(name):
        sys.modules[name] = main


def _below(package: ModuleType) -> Iterator[str]:
    """Yield the names of the modules in a package, sorted, each package before its modules."""
    for each in sorted(pkgutil.iter_modules(package.__path__, f"{package.__name__}."), key=lambda found: found.name):
        if each.name.endswith(".__main__"):
            continue  # it is there to be run
        yield each.name
        if each.ispkg:
            yield from _below(import_module(each.name))


def _own_line(error: Exception) -> tuple[str, int | None]:
    """Return the last line of the user's own code on the way to an error, which Rota or a library may have raised."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(("<", _OURS))]
    own = [each for each in frames if not each.filename.startswith(_LIBRARIES)]
    last = (own or frames or traceback.extract_tb(error.__traceback__))[-1]
    return last.filename, last.lineno


def _task_at(file: str, line: int | None) -> str | None:
    """Return the name of the task whose decorators span this line: they raise what is wrong with its signature too."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                if line is not None and decorator.lineno <= line <= (decorator.end_lineno or decorator.lineno):
                    return _given_name(decorator) or node.name
    return None


def _given_name(decorator: ast.expr) -> str | None:
    """Return the name in `@app.task(name="...")`."""
    for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
        if keyword.arg == "name" and isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str):
            return keyword.value.value
    return None
