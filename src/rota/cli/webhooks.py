"""`rota webhooks`: list, add, remove, test, enable, disable, deliveries."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.database import run
from rota.cli.output import JsonOption, YesOption, confirm, print_json, print_table, say

app = typer.Typer(
    help="List, add, remove and test webhooks for alerts.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)

IdArgument = Annotated[int, typer.Argument(metavar="ID", help="The webhook's number.", show_default=False)]


@app.command(name="list")
def list_(as_json: JsonOption = False) -> None:
    """List the webhooks; of their URLs the server only."""
    found = run(lambda control: control.list_webhooks())
    if as_json:
        print_json(found)
        return
    print_table(
        ["id", "url", "kinds", "enabled", "last message", "status", "tried"],
        [
            [each.id, each.url, each.kinds or "all", each.enabled, each.last_state, each.last_status, each.last_tried_at]
            for each in found
        ],
        empty="there are no webhooks: `rota webhooks add URL` makes one",
    )


@app.command()
def add(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where messages are posted to.", show_default=False)],
    kind: Annotated[list[str] | None, typer.Option(help="Only alerts of this kind; again for another.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Add a webhook, and print the secret its messages are signed with; it is not shown again."""
    added = run(lambda control: control.add_webhook(url, kinds=kind or ()))
    if as_json:
        print_json({"id": added.id, "secret": added.secret})
        return
    say(f"webhook {added.id} is added; try it with `rota webhooks test {added.id}`. Its secret, which is not shown again:")
    print(added.secret)


@app.command()
def enable(id: IdArgument, as_json: JsonOption = False) -> None:
    """Send messages to a webhook again."""
    webhook = run(lambda control: control.set_webhook_enabled(id, True))
    if as_json:
        print_json(webhook)
        return
    say(f"webhook {id} is enabled")


@app.command()
def disable(id: IdArgument, as_json: JsonOption = False) -> None:
    """Send no more messages to a webhook."""
    webhook = run(lambda control: control.set_webhook_enabled(id, False))
    if as_json:
        print_json(webhook)
        return
    say(f"webhook {id} is disabled; `rota webhooks enable {id}` takes that back")


@app.command()
def remove(id: IdArgument, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Remove a webhook, and the record of what was sent to it."""
    confirm(f"Remove webhook {id} and the record of its messages?", yes=yes)
    run(lambda control: control.remove_webhook(id))
    if as_json:
        print_json({"id": id})
        return
    say(f"webhook {id} is removed")


@app.command(name="test")
def try_(id: IdArgument, as_json: JsonOption = False) -> None:
    """Enqueue a message that says nothing; a worker brings it, and `deliveries` tells what became of it."""
    delivery = run(lambda control: control.test_webhook(id))
    if as_json:
        print_json({"id": id, "delivery_id": delivery})
        return
    say(f"a worker will bring the message; `rota webhooks deliveries --webhook {id}` tells what became of it")
    print(delivery)


@app.command()
def deliveries(
    webhook: Annotated[int | None, typer.Option(help="Only those to this webhook.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """List the newest messages and what became of them."""
    found = run(lambda control: control.list_deliveries(webhook=webhook, limit=limit))
    if as_json:
        print_json(found)
        return
    print_table(
        ["id", "webhook", "alert", "state", "attempts", "status", "took", "tried", "error"],
        [
            [
                each.id,
                each.webhook_id,
                each.alert_id,
                each.state,
                each.attempt,
                each.status,
                each.took,
                each.tried_at or each.created_at,
                each.error,
            ]
            for each in found
        ],
        empty="nothing has been sent",
    )
