"""`rota tokens`: list, create, revoke."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.database import run
from rota.cli.output import JsonOption, YesOption, confirm, print_json, print_table, say

app = typer.Typer(
    help="List, make and revoke tokens of the API.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


@app.command(name="list")
def list_(
    owner: Annotated[str | None, typer.Option(metavar="EMAIL", help="Only those of this account.")] = None,
    before: Annotated[int | None, typer.Option(metavar="ID", help="Only those made before this one.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List the newest tokens, also those that are over."""
    page = run(lambda control: control.list_tokens(owner=owner, before=before, limit=limit))
    if as_json:
        print_json(page)
        return
    print_table(
        ["id", "name", "begins", "owner", "parent", "scopes", "made", "expires", "revoked", "last used"],
        [
            [
                each.id,
                each.name,
                each.hint,
                each.email,
                each.parent_id,
                "all" if each.scopes is None else each.scopes,
                each.created_at,
                each.expires_at,
                each.revoked_at,
                each.last_used_at,
            ]
            for each in page.items
        ],
        empty="there are no tokens: `rota tokens create EMAIL NAME` makes one",
    )
    if page.next is not None:
        say(f"there are more: `rota tokens list --before {page.next}`")


@app.command()
def create(
    owner: Annotated[str, typer.Argument(metavar="EMAIL", help="The account that it stands for.", show_default=False)],
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for.", show_default=False)],
    scope: Annotated[
        list[str] | None,
        typer.Option(help="Only this operation, as jobs.read; again for another. Without it, all of the account's."),
    ] = None,
    days: Annotated[int | None, typer.Option(help="Good for so many days; without it, until it is revoked.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a token, and print it; it is not shown again."""
    made = run(lambda control: control.create_token(owner, name, scopes=scope or None, days=days))
    if as_json:
        print_json(made)
        return
    say(f"token {made.record.id} of {made.record.email} is made. It is not shown again:")
    print(made.token)


@app.command()
def revoke(
    id: Annotated[int, typer.Argument(metavar="ID", help="The token's number.", show_default=False)], yes: YesOption = False
) -> None:
    """Revoke a token, and all tokens that were created with it."""
    confirm(f"Revoke token {id}, and all tokens created with it?", yes=yes)
    ended = run(lambda control: control.revoke_token(id))
    say(f"token {ended.id} ({ended.name}) of {ended.email} is revoked")
