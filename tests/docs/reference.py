"""The reference pages, made from the code itself: `python -m tests.docs.reference` writes them, a test holds them current."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from rota.cli.main import COMMANDS
from rota.config import SECTIONS, Settings, describe_range

DOCS = Path(__file__).resolve().parents[2] / "docs"


def configuration() -> str:
    """docs/configuration.md."""
    lines = [
        "# Configuration",
        "",
        "Settings come from `rota.toml` in the working directory (or the file that `ROTA_CONFIG` names), overruled by",
        "environment variables, overruled by command line flags. A value out of range, or a key that does not exist, is an",
        "error that names key, value, range and source.",
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
    for section, fields in SECTIONS.items():
        words = (Settings.model_fields[section].annotation.__doc__ or "").split(": ", 1)[-1]
        lines += ["", f"## [{section}]", "", words[0].upper() + words[1:], ""]
        lines += ["| key | variable | default | allowed | |", "|---|---|---|---|---|"]
        for key, field in fields.items():
            default = field.get_default(call_default_factory=True)
            default = str(default).lower() if isinstance(default, bool) else default
            shown = "" if default is None or default == {} else f"`{default}`"
            allowed = describe_range(field)
            described = (field.description or "").strip()
            allowed = "" if allowed.lower() == described.rstrip(".").replace("`", "").lower() else allowed
            lines.append(f"| `{key}` | `ROTA_{section.upper()}_{key.upper()}` | {shown} | {allowed} | {described} |")
    return "\n".join(lines) + "\n"


def command_line() -> str:
    """docs/cli.md."""
    lines = [
        "# Command line",
        "",
        "Data goes to standard output, talk to standard error. `--json` prints one versioned JSON document. Exit status: 0 ok,",
        "1 error, 2 usage or configuration, 3 not found, 4 conflict, 5 not allowed, 6 database. Every error says what, why, and",
        "what to do next.",
        "`-a module:attribute` names the application; without it `[app]` of `rota.toml`, `app.py` and `main.py` are looked at.",
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


PAGES = {"configuration.md": configuration, "cli.md": command_line}

if __name__ == "__main__":
    for name, render in PAGES.items():
        (DOCS / name).write_text(render(), "utf-8")
