"""The command `rota`: each noun is a module of this package, imported when it is asked for."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import rota
from rota.cli.other_names import with_own_options
from rota.errors import RotaError

COMMANDS = {
    "dev": "Run an application with its own PostgreSQL; reload on save.",
    "worker": "Run an application's jobs.",
    "server": "Serve the API over HTTP.",
    "scheduler": "Fire schedules, without running any jobs.",
    "migrate": "Bring the database's schema up or down.",
    "overview": "How it goes, at a glance.",
    "jobs": "List, show, enqueue, retry and cancel jobs; why one waits.",
    "tasks": "List, deploy, trigger, switch and set tasks.",
    "schedules": "List, make, change and run schedules; when they fire.",
    "runs": "List and show runs; how tasks fare.",
    "errors": "What goes wrong, in groups; retry a whole one.",
    "alerts": "List, show and acknowledge alerts.",
    "webhooks": "List, add, remove and test webhooks for alerts.",
    "queues": "List, pause and resume queues.",
    "logs": "Show, search and follow what handlers say.",
    "workers": "List the worker processes.",
    "users": "List and make accounts, give them roles, disable them.",
    "tokens": "List, make and revoke tokens of the API.",
    "feeds": "Subscribe to feeds, and read what is in them.",
    "calendars": "Keep pairs of calendars alike.",
    "doctor": "Check database and workers, and name what is wrong.",
    "secrets": "List the keys that stored secrets need; rotate keys.",
    "config": "Show and change settings.",
    "init": "Write a commented rota.toml, and a first application.",
    "seed": "Make a demo user and a mix of HTTP jobs to look at.",
    "demo": "Watch a busy application, on a PostgreSQL of its own.",
}


# They are, start or repair what the API is made of: there is nobody to ask over it.
ON_DATABASE = frozenset(
    {"dev", "worker", "scheduler", "migrate", "doctor", "demo", "server", "seed", "feeds", "calendars", "secrets"}
)


class Nouns(TyperGroup):
    """Knows its commands by name, and imports a command's module when it is run."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, words in COMMANDS.items():
            # Enough for --help and for "did you mean", which so need none of the modules.
            self.add_command(TyperCommand(name, help=words))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, found, rest = super().resolve_command(ctx, args)
        if name is not None and found is not None:
            noun = importlib.import_module(f"rota.cli.{name}")
            found = typer.main.get_command(noun.app)
            found.name = name
            rest = with_own_options(name, found, rest)
        return name, found, rest


app = typer.Typer(
    cls=Nouns,
    help="The job platform for Python on PostgreSQL.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"rota {rota.__version__}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    config: Annotated[Path | None, typer.Option(help="Read this file instead of ./rota.toml.")] = None,
    database_url: Annotated[
        str | None, typer.Option(help="Use this database, whatever rota.toml and ROTA_DATABASE_URL say.")
    ] = None,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Work over the API of this server instead of the database; or ROTA_URL.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="The API token for it; ROTA_TOKEN keeps it out of the list of processes.")
    ] = None,
    version: Annotated[  # noqa: ARG001 (it has ended the process when set)
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    # Through the environment, because the application's own module and our child processes read their settings too.
    if config is not None:
        os.environ["ROTA_CONFIG"] = str(config)
    if database_url is not None:
        os.environ["ROTA_DATABASE_URL"] = database_url
    if url is not None:
        os.environ["ROTA_URL"] = url
    if token is not None:
        os.environ["ROTA_TOKEN"] = token
    if os.environ.get("ROTA_URL") and ctx.invoked_subcommand in ON_DATABASE and not {"-h", "--help"} & {*sys.argv}:
        from rota.cli.database import need_database

        need_database(ctx.invoked_subcommand)


def run() -> None:
    """Runs the command line and ends the process with the exit code that the error's class names."""
    try:
        app(prog_name="rota")
    except RotaError as error:
        _end_with(error)
    except Exception as error:
        from rota.cli.output import explain_driver_error

        explained = explain_driver_error(error)
        if explained is None:
            raise
        _end_with(explained)


def _end_with(error: RotaError) -> None:
    from rota.cli.output import print_error

    print_error(error)
    sys.exit(error.exit_code)
