"""`rota queues`: list, pause, resume."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.database import run
from rota.cli.output import JsonOption, format_cell, print_json, print_table, say
from rota.control import service

app = typer.Typer(help="List, pause and resume queues.", no_args_is_help=True, add_completion=False, rich_markup_mode=None)

NameArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.", show_default=False)]


@app.command(name="list")
def list_(as_json: JsonOption = False) -> None:
    """List the queues with their depth."""
    queues = run(service.list_queues)
    if as_json:
        print_json(queues)
        return
    print_table(
        ["queue", "ready", "delayed", "held", "waiting", "running", "oldest", "workers", "paused"],
        [
            [
                queue.name,
                queue.ready,
                queue.delayed,
                queue.held,
                queue.waiting,
                queue.running,
                queue.oldest_age,
                queue.workers,
                _pause(queue),
            ]
            for queue in queues
        ],
        empty="there are no queues: they come with the first worker or application that declares them",
    )


@app.command()
def pause(
    name: NameArgument,
    reason: Annotated[str | None, typer.Option(help="Told to whoever asks why nothing runs.")] = None,
) -> None:
    """Let no job of a queue start until it is resumed; running ones go on."""
    run(lambda conn: service.pause_queue(conn, name, reason=reason))
    say(f"queue {name} is paused; `rota queues resume {name}` lets it go on")


@app.command()
def resume(name: NameArgument) -> None:
    """Let the jobs of a paused queue start again."""
    run(lambda conn: service.resume_queue(conn, name))
    say(f"queue {name} is not paused")


def _pause(queue: service.Queue) -> str | None:
    if queue.paused_at is None:
        return None
    reason = f" ({queue.pause_reason})" if queue.pause_reason else ""
    return f"since {format_cell(queue.paused_at)}{reason}"
