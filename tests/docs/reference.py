"""The reference pages, made from the code itself: `python -m tests.docs.reference` writes them, a test holds them current."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import typer
from tests.docs.api_reference import api

from rota.cli.main import COMMANDS, app
from rota.config import SECTIONS, Section, Settings, describe_range
from rota.config.editing import format_value, plain_value

DOCS = Path(__file__).resolve().parents[2] / "docs"


def configuration() -> str:
    """docs/configuration.md."""
    lines = [
        "# Configuration",
        "",
        "Settings come from `rota.toml` in the working directory (or the file that `ROTA_CONFIG` names), overruled by",
        "environment variables, overruled by command line flags. A value out of range, or a key in the file that does not",
        "exist, is an error that names key, value, range and source. A `ROTA_*` variable that is not a setting is ignored with a",
        "warning; `rota config show` and `rota doctor` list it with the name that was probably meant.",
        "Some variables that programs share, such as `DATABASE_URL`, [are read too](other-names.md#environment-variables).",
        "",
        "```toml rota.toml",
        "[jobs]",
        "worker_concurrency = 8",
        "queues = { mail = 3, default = 1 }",
        "",
        "[log]",
        'level = "warning"',
        "```",
        "",
        "```python",
        "from rota.config import load_settings",
        "",
        "assert load_settings().jobs.worker_concurrency == 8",
        "assert load_settings(jobs_worker_concurrency=16).jobs.worker_concurrency == 16",
        "```",
    ]
    lines += [
        "",
        "`rota init` writes a `rota.toml` with everything below in it, commented out. `rota config` shows what holds and why, and",
        "changes the file: comments, order and everything else in it stay as they are, and a value that is not allowed is",
        "refused before anything is written. Passwords and keys are shown with `--reveal` only.",
        "",
        "```console",
        "$ rota config set jobs.poll_interval_ms 500",
        "$ rota config get jobs.poll_interval_ms",
        "500",
        "$ ROTA_LOG_FORMAT=json rota config show log --sources",
        "KEY VALUE SOURCE",
        "log.level warning rota.toml",
        "log.format json ROTA_LOG_FORMAT",
        "$ cat rota.toml",
        "[jobs]",
        "worker_concurrency = 8",
        "queues = { mail = 3, default = 1 }",
        "poll_interval_ms = 500",
        "$ rota config unset jobs.poll_interval_ms",
        "```",
    ]
    for section, fields in SECTIONS.items():
        about = (Settings.model_fields[section].annotation.__doc__ or "").split(": ", 1)[-1]
        lines += ["", f"## [{section}]", "", about[0].upper() + about[1:], ""]
        lines += ["| key | variable | default | allowed | |", "|---|---|---|---|---|"]
        lines += [_setting(key, field, f"`ROTA_{section.upper()}_{key.upper()}`") for key, field in fields.items()]
        for key, field in fields.items():
            if (each := _table_of(field)) is not None:
                lines += ["", f"Each of `[[{section}.{key}]]`:", "", "| key | default | allowed | |", "|---|---|---|---|"]
                lines += [_setting(name, of_each) for name, of_each in each.model_fields.items()]
    return "\n".join(lines) + "\n"


def _setting(key: str, field: Any, variable: str | None = None) -> str:
    """A row of a table; tables in lists have no variables, since a variable is one line of text."""
    default = None if field.is_required() else plain_value(field.get_default(call_default_factory=True))
    shown = "" if default in (None, {}, [], "") else f"`{format_value(default)}`"
    described = (field.description or "").strip()
    allowed = describe_range(field)
    allowed = "" if allowed.lower() == described.rstrip(".").replace("`", "").lower() else allowed
    cells = [f"`{key}`", *([] if variable is None else [variable if _table_of(field) is None else ""]), shown, allowed, described]
    return "| " + " | ".join(cells) + " |"


def _table_of(field: Any) -> type[Section] | None:
    kinds = [each for each in get_args(field.annotation) if isinstance(each, type) and issubclass(each, Section)]
    return kinds[0] if kinds else None


def command_line() -> str:
    """docs/cli.md."""
    lines = [
        "# Command line",
        "",
        "Data goes to standard output, talk to standard error. `--json` prints one versioned JSON document. Exit status: 0 ok,",
        "1 error, 2 usage or configuration, 3 not found, 4 conflict, 5 not allowed, 6 database. Every error says what, why, and",
        "what to do next.",
        "`-a module:attribute` names the application; without it `[app]` of `rota.toml`, `app.py` and `main.py` are looked at.",
        "",
        "Commands for operators work on the database that `database.url` names, or over the API of a server: with `--url` or",
        "`ROTA_URL`, and a token in `--token` or `ROTA_TOKEN`. They print the same either way. Those that need the database",
        "itself say so.",
        "",
        "| option before the command | |",
        "|---|---|",
        *(
            f"| `{option.opts[0]}` | {option.help} |"
            for option in typer.main.get_command(app).params
            if getattr(option, "help", "")
        ),
    ]
    for name, words in COMMANDS.items():
        command = typer.main.get_command(importlib.import_module(f"rota.cli.{name}").app)
        lines += ["", f"## rota {name}", "", words]
        for path, each in _commands(f"rota {name}", command):
            lines += ["", f"### `{_usage(path, each)}`", "", _first_paragraph(each.help or "")]
            options = [option for option in each.params if getattr(option, "help", None)]
            if options:
                lines += ["", "| option | |", "|---|---|"]
                lines += [f"| {', '.join(f'`{name}`' for name in option.opts)} | {option.help} |" for option in options]
    return "\n".join(lines) + "\n"


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        if command.invoke_without_command:
            yield path, command
        for name, each in command.commands.items():
            yield from _commands(f"{path} {name}", each)
    else:
        yield path, command


def _usage(path: str, command: Any) -> str:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    words = [(parameter.metavar or parameter.name).upper() for parameter in arguments]
    return " ".join([path, *words])


def _first_paragraph(text: str) -> str:
    return text.strip().split("\n\n")[0].replace("\n", " ")


PAGES = {"configuration.md": configuration, "cli.md": command_line, "api.md": api}

if __name__ == "__main__":
    for name, render in PAGES.items():
        (DOCS / name).write_text(render(), "utf-8")
