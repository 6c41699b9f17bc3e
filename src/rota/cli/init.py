"""`rota init`: the files that a project begins with."""

from __future__ import annotations

import secrets
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from rota.cli.locate import USUAL_MODULES
from rota.cli.output import say
from rota.config.editing import file_to_edit, write_file
from rota.config.template import render_template
from rota.errors import ConfigError, Conflict

app = typer.Typer(add_completion=False, rich_markup_mode=None)

GENERATED = (("auth", "secret"), ("secrets", "key"))
FIRST_APP = """\
from rota import Rota

app = Rota()


@app.task
def hello(name: str = "world") -> str:
    return f"Hello, {name}!"
"""


@app.command()
def init(
    force: Annotated[bool, typer.Option("--force", help="Write rota.toml anew if it is there; its secrets stay.")] = False,
) -> None:
    """Write a rota.toml that explains every setting, with secrets of its own, and an app.py if there is no application yet."""
    file = file_to_edit()
    kept = _secrets_of(file) if force else {}
    values = {name: kept.get(name) or secrets.token_urlsafe(48) for name in GENERATED}
    if not write_file(file, render_template(values), anew=force):
        raise Conflict(f"{file} is there already: change it with `rota config set`, or write it anew with `rota init --force`")
    say(f"{file} is written; it has secrets in it: keep it out of version control")
    if not any(Path(f"{name}.py").exists() for name in USUAL_MODULES):
        write_file(Path("app.py"), FIRST_APP, anew=False, mode=0o644)
        say("app.py is written, with a first task; next: `rota dev`, and in another terminal `rota jobs enqueue hello`")
    else:
        say("next: `rota dev` runs the application with a PostgreSQL of its own")


def _secrets_of(file: Path) -> dict[tuple[str, str], Any]:
    """The secrets of a file that is there: what they have signed and encrypted must stay readable."""
    try:
        content = tomllib.loads(file.read_text("utf-8"))
        return {(section, key): content[section][key] for section, key in GENERATED if key in dict(content.get(section, {}))}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{file} cannot be read ({error}), so its secrets cannot be kept, and what they have encrypted would be lost: "
            "correct the file, or move it away first"
        ) from None
