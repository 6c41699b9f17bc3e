"""`rota config`: get, set, unset, show."""

from __future__ import annotations

import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from rota.cli.output import JsonOption, print_json, print_table, say
from rota.config import SECTIONS, Settings, load_with_sources
from rota.config.editing import file_to_edit, read_value, set_value, split_name, unset_value
from rota.config.variables import unknown_variables
from rota.model.redact import HIDDEN, redact_text

app = typer.Typer(help="Show and change settings.", no_args_is_help=True, add_completion=False, rich_markup_mode=None)

KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The setting, as in jobs.poll_interval_ms.", show_default=False)]
RevealOption = Annotated[bool, typer.Option("--reveal", help="Print passwords and keys too.")]
DEFAULT = "default"


@app.command()
def get(key: KeyArgument, reveal: RevealOption = False, as_json: JsonOption = False) -> None:
    """Print the value in force of a setting, as `set` takes it; passwords and keys only with --reveal."""
    section, name = split_name(key)
    loaded = load_with_sources()
    settings = loaded.checked()
    value = _shown(settings, section, name, reveal=reveal)
    if as_json:
        print_json({"key": key, "value": value, "source": loaded.sources.get((section, name), DEFAULT)})
    elif value is None:
        say(f"{key} is not set")
    else:
        print(_text(value))


@app.command(name="set")
def set_(
    key: KeyArgument,
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="Its value, lists as a,b or as JSON; - for stdin.", show_default=False)
    ],
    as_json: JsonOption = False,
) -> None:
    """Write a setting to rota.toml, which is made if there is none; comments, order and everything else stay as they are.

    A value that is not allowed is refused before anything is written. From stdin, a secret stays out of the list of processes.
    """
    section, name = split_name(key)
    checked = read_value(section, name, sys.stdin.readline().rstrip("\r\n") if value == "-" else value)
    file = file_to_edit()
    set_value(file, section, name, checked)
    say(f"{key} is set in {file}")
    if as_json:
        print_json({"key": key, "file": str(file)})
    _warn_of_others(file, section, name)


@app.command()
def unset(key: KeyArgument, as_json: JsonOption = False) -> None:
    """Take a setting out of rota.toml: its default holds again."""
    section, name = split_name(key)
    file = file_to_edit()
    removed = unset_value(file, section, name)
    say(f"{key} is no longer set in {file}" if removed else f"{key} is not set in {file}")
    if as_json:
        print_json({"key": key, "file": str(file), "removed": removed})


@app.command()
def show(
    section: Annotated[str | None, typer.Argument(metavar="[SECTION]", help="Only this one.", show_default=False)] = None,
    sources: Annotated[bool, typer.Option("--sources", help="Also where each comes from.")] = False,
    reveal: RevealOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show every setting in force; passwords and keys only with --reveal. Unknown ROTA_ variables are listed after them."""
    if section is not None and section not in SECTIONS:
        split_name(section)  # says what sections there are
    loaded = load_with_sources()
    settings = loaded.checked()
    rows = [
        (f"{each}.{name}", _shown(settings, each, name, reveal=reveal), loaded.sources.get((each, name), DEFAULT))
        for each, names in SECTIONS.items()
        for name in names
        if section in (None, each)
    ]
    ignored = unknown_variables()
    if as_json:
        print_json(
            [{"key": key, "value": value, "source": source} for key, value, source in rows]
            + [{"key": None, "value": None, "source": variable, "problem": sentence} for variable, sentence in ignored.items()]
        )
        return
    columns = ["key", "value", *(["source"] if sources else [])]
    print_table(columns, [[key, None if value is None else _text(value), source][: len(columns)] for key, value, source in rows])
    for sentence in ignored.values():
        say(sentence)


def _shown(settings: Settings, section: str, name: str, *, reveal: bool) -> Any:
    value = _plain(getattr(getattr(settings, section), name))
    if value is None or reveal or SECTIONS[section][name].repr:
        return value
    # Of an address the password is secret; a key is nothing else.
    return redact_text(value) if name == "url" else HIDDEN


def _plain(value: Any) -> Any:
    match value:
        case BaseModel():
            return value.model_dump()
        case tuple():
            return [_plain(each) for each in value]
        case Path():
            return str(value)
    return value


def _text(value: Any) -> str:
    """A value as `set` takes it."""
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}" if value == float(f"{value:g}") else str(value)
        case list() if value and isinstance(value[0], Mapping):
            import json

            return json.dumps(value)
        case list():
            return ",".join(map(str, value))
        case dict():
            return ",".join(f"{name}:{weight}" for name, weight in value.items())
    return str(value)


def _warn_of_others(file: Path, section: str, name: str) -> None:
    source = load_with_sources().sources.get((section, name))
    if source is not None and source != str(file):
        say(f"it does not hold here yet: {source} overrules the file")
    if not SECTIONS[section][name].repr and file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        say(f"others can read {file}, which has a secret in it now: `chmod 600 {file}`")
