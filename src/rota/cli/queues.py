"""`rota queues`: list, pause, resume, limit."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rota.cli.database import run
from rota.cli.output import JsonOption, format_cell, print_json, print_table, say
from rota.control.service import Queue
from rota.errors import UsageError
from rota.model.limits import show_limits

app = typer.Typer(help="List, pause, resume and limit queues.", no_args_is_help=True, add_completion=False, rich_markup_mode=None)

NameArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.", show_default=False)]


@app.command(name="list")
def list_(as_json: JsonOption = False) -> None:
    """List the queues with their depth."""
    queues = run(lambda control: control.list_queues())
    if as_json:
        print_json(queues)
        return
    print_table(
        ["queue", "ready", "delayed", "held", "waiting", "running", "oldest", "workers", "limits", "paused"],
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
                _limits(queue),
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
    as_json: JsonOption = False,
) -> None:
    """Let no job of a queue start until it is resumed; running ones go on."""
    queue = run(lambda control: control.pause_queue(name, reason=reason))
    if as_json:
        print_json(queue)
        return
    say(f"queue {name} is paused; `rota queues resume {name}` lets it go on")


@app.command()
def resume(name: NameArgument, as_json: JsonOption = False) -> None:
    """Let the jobs of a paused queue start again."""
    queue = run(lambda control: control.resume_queue(name))
    if as_json:
        print_json(queue)
        return
    say(f"queue {name} is not paused")


@app.command()
def limit(
    name: NameArgument,
    max_concurrency: Annotated[str | None, typer.Option(help="So many of its jobs run at once, over all workers; or none.")] = None,
    rate: Annotated[str | None, typer.Option(help="So many of its jobs start: 50/s, 100/m, 5/10s; or none.")] = None,
    none: Annotated[bool, typer.Option("--none", help="No limit at all, whatever code says.")] = False,
    reset: Annotated[bool, typer.Option("--reset", help="What code says.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Limit how many jobs of a queue run at once or start, over all workers.

    It holds at once, and over restarts and deploys, whatever code says; what is not named stays as it is.
    """
    wanted: dict[str, Any] = {"max_concurrency": None, "rate": None} if none else {}
    if max_concurrency is not None:
        wanted["max_concurrency"] = _whole(max_concurrency)
    if rate is not None:
        wanted["rate"] = None if rate == "none" else rate
    if sum((none, reset, max_concurrency is not None or rate is not None)) != 1:
        raise UsageError("give --max-concurrency or --rate or both, or --none, or --reset")
    held = run(lambda control: control.unlimit_queue(name) if reset else control.limit_queue(name, **wanted))
    if as_json:
        print_json({"name": name, **held})
        return
    words = show_limits(held["max_concurrency"], held["rate"])
    say(f"queue {name}: {words or 'no limits'}" + ("; `--reset` lets code decide again" if not reset else ""))


def _whole(text: str) -> int | None:
    if text == "none":
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--max-concurrency {text!r} is not a number: from 1 to 100000, or none") from None


def _limits(queue: Queue) -> str | None:
    words = show_limits(queue.max_concurrency, queue.rate)
    return (words or "none") + " (operator)" if queue.overridden else words or None


def _pause(queue: Queue) -> str | None:
    if queue.paused_at is None:
        return None
    reason = f" ({queue.pause_reason})" if queue.pause_reason else ""
    return f"since {format_cell(queue.paused_at)}{reason}"
