"""`rota users`: list, create, set-role, disable, enable, link."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.database import connect, need_database, run
from rota.cli.output import JsonOption, print_json, print_table, say
from rota.config import load_settings
from rota.control import accounts
from rota.db.connection import AsyncConn

app = typer.Typer(
    help="List and make accounts, give them roles, disable them.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)

EmailArgument = Annotated[str, typer.Argument(metavar="EMAIL", help="The account's address.", show_default=False)]
RoleHelp = "admin, operator, read_only or user."


@app.command(name="list")
def list_(
    after: Annotated[str, typer.Option(help="Only addresses after this one, by the alphabet.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List the accounts."""
    page = run(lambda control: control.list_users(after=after, limit=limit))
    if as_json:
        print_json(page)
        return
    print_table(
        ["email", "role", "made", "last sign-in", "disabled"],
        [[each.email, each.role, each.created_at, each.signed_in_at, each.disabled_at] for each in page.items],
        empty="there are no accounts: `rota users create EMAIL --admin` makes the first",
    )
    if page.next is not None:
        say(f"there are more: `rota users list --after {page.next}`")


@app.command()
def create(
    email: EmailArgument,
    role: Annotated[str, typer.Option(help=RoleHelp)] = "user",
    admin: Annotated[bool, typer.Option("--admin", help="The same as --role admin.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make an account; its owner signs in by mail, or by the link that `rota users link` prints."""
    made = run(lambda control: control.create_user(email, role="admin" if admin else role))
    if as_json:
        print_json(made)
        return
    say(f"{made.email} is made, as {made.role}; `rota users link {made.email}` prints a link to sign in with")


@app.command()
def set_role(
    email: EmailArgument,
    role: Annotated[str, typer.Argument(metavar="ROLE", help=RoleHelp, show_default=False)],
) -> None:
    """Give an account another role, which holds at once."""
    changed = run(lambda control: control.set_role(email, role))
    say(f"{changed.email} is {changed.role} now")


@app.command()
def disable(email: EmailArgument) -> None:
    """End everything that an account has open, and let it do nothing more."""
    changed = run(lambda control: control.disable_user(email))
    say(f"{changed.email} is disabled; `rota users enable {changed.email}` takes that back")


@app.command()
def enable(email: EmailArgument) -> None:
    """Let an account sign in again; its tokens are good again too."""
    changed = run(lambda control: control.enable_user(email))
    say(f"{changed.email} is enabled")


@app.command()
def link(email: EmailArgument) -> None:
    """Print a link that signs an account in, once, as a mail would bring it; for whoever has the database."""
    from rota.cli.local import control_on  # here, since a command over the API needs none of it

    need_database("users link")
    settings = load_settings()

    async def made(conn: AsyncConn) -> str:
        async with conn.transaction():
            url = await accounts.sign_in_link(conn, settings, email)
            await control_on(conn).record(conn, "users.link", email)
            return url

    url = connect(made)
    say(f"good for {settings.auth.link_minutes} minutes, and for one sign-in:")
    print(url)
