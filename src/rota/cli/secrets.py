"""`rota secrets`: which keys are needed, and change them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import typer

from rota.cli.database import connect
from rota.cli.local import current_user
from rota.cli.locate import AppOption, find_app
from rota.cli.output import JsonOption, print_json, print_table, say
from rota.control import audit
from rota.control.access import Actor
from rota.control.rotation import HISTORY, LIVE, Rotation, key_uses
from rota.control.rotation import rotate as rotate_keys

if TYPE_CHECKING:
    from rota.db.connection import AsyncConn

T = TypeVar("T")

app = typer.Typer(
    help="List the keys that stored secrets need; rotate keys.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.command(name="list")
def list_(application: AppOption = None, as_json: JsonOption = False) -> None:
    """List the keys of secrets.key and others that stored secrets need, and how many secrets each encrypts.

    A key that encrypts nothing can be removed from secrets.key.
    """
    uses = _connected(application, key_uses)
    if as_json:
        print_json(uses)
        return
    print_table(
        ["key", "in secrets.key", "secrets", "requests"],
        [[use.id, "newest" if use.newest else "yes" if use.known else "no", use.secrets, use.requests] for use in uses],
        empty="there are no keys and no encrypted secrets: `rota init` makes a key, or run `openssl rand -hex 32`",
    )


@app.command()
def rotate(application: AppOption = None, as_json: JsonOption = False) -> None:
    """Encrypt all stored secrets with the first key of secrets.key. Servers and workers keep running.

    Before, give every server, worker and command both keys, the new one first. The exit code is 1 while secrets are left that need
    another key.
    """

    async def rotated(conn: AsyncConn, columns: list[str]) -> Rotation:
        done = await rotate_keys(conn, columns)
        actor = Actor(current_user(), "admin", via="cli")
        await audit.record(conn, actor, "secrets.rotate", done.key, {"changed": done.changed, "left": done.left})
        return done

    done = _connected(application, rotated)
    if as_json:
        print_json(done)
    else:
        say(f"{done.changed} secrets are now encrypted with key {done.key}")
        if done.left:
            say(f"{done.left} secrets need a key that is missing here, or were written meanwhile: `rota secrets list` shows them")
    if done.left:
        raise typer.Exit(1)


def _connected(location: str | None, operation: Callable[[AsyncConn, list[str]], Awaitable[T]]) -> T:
    from rota.app import Rota

    application = find_app(location) or Rota()
    columns = [*LIVE, *HISTORY, *application.sealed_columns]
    return connect(lambda conn: operation(conn, columns))
