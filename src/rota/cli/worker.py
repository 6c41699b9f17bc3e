"""`rota worker`: runs an application's jobs, in one process or several."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli import garbage
from rota.cli.database import check_schema
from rota.cli.locate import AppOption, need_app
from rota.cli.signals import on_signals
from rota.config import Settings, load_settings
from rota.engine.supervisor import Supervisor, end_with_parent
from rota.errors import Conflict, UnknownQueue, did_you_mean
from rota.log import configure_logging

if TYPE_CHECKING:
    from rota.app import Rota
    from rota.events import Events

KILL_AFTER_S = 15.0  # beyond the shutdown timeout: a process that is still there hangs

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def worker(
    location: AppOption = None,
    queue: Annotated[
        list[str] | None,
        typer.Option("--queue", "-q", metavar="NAME[:WEIGHT]", help="Serve this queue; may be repeated. Else all."),
    ] = None,
    concurrency: Annotated[int | None, typer.Option("--concurrency", "-c", help="Jobs at a time, per process.")] = None,
    processes: Annotated[int, typer.Option("--processes", "-p", min=1, max=256, help="Processes to run.")] = 1,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Serve /metrics and /healthz here; process n of several on the n-th port on."),
    ] = None,
) -> None:
    """Run an application's jobs until SIGINT or SIGTERM.

    The first signal lets running jobs finish within jobs.shutdown_timeout_s; the second gives them back at once.
    """
    end_with_parent()
    settings = load_settings(jobs_worker_concurrency=concurrency, jobs_queues=",".join(queue) if queue else None)
    configure_logging(settings.log, env=settings.app.env)
    if processes > 1:
        flags = _flags(location, queue, concurrency)
        raise typer.Exit(asyncio.run(_supervise(flags, processes, metrics_port, settings)))
    application = need_app(location)
    chosen: dict[str, Any] = {}
    if settings.jobs.queues:
        _check_queues(application, settings.jobs.queues)
        chosen["queues"] = settings.jobs.queues
    if concurrency:
        chosen["concurrency"] = concurrency
    check_schema(application.settings.database, application.migrations)
    _work(application, chosen, metrics_port)


def _work(application: Rota, chosen: dict[str, Any], metrics_port: int | None) -> None:
    import uvloop

    from rota.engine.journal import Journal

    async def work() -> None:
        events = application.events
        running = application.worker(**chosen)
        Journal(events, running.id)
        on_signals(running.stop)
        with contextlib.nullcontext() if metrics_port is None else _probe(events, metrics_port):
            await running.run()

    garbage.settle()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work())


@contextlib.contextmanager
def _probe(events: Events, port: int) -> Iterator[None]:
    from rota.engine.probe import Probe

    probe = Probe(events)
    try:
        probe.start(port)
    except OSError as error:
        raise Conflict(f"cannot serve metrics on port {port}: {error.strerror}; name another with --metrics-port") from error
    try:
        yield
    finally:
        probe.close()


async def _supervise(flags: list[str], processes: int, metrics_port: int | None, settings: Settings) -> int:
    def command(number: int) -> list[str]:
        port = [] if metrics_port is None else ["--metrics-port", str(metrics_port + number)]
        return [sys.executable, "-m", "rota", "worker", *flags, *port]

    supervisor = Supervisor(command, processes, kill_after_s=settings.jobs.shutdown_timeout_s + KILL_AFTER_S)
    on_signals(supervisor.stop)
    return await supervisor.run()


def _flags(location: str | None, queues: list[str] | None, concurrency: int | None) -> list[str]:
    flags = [part for name in queues or () for part in ("--queue", name)]
    flags += ["-a", location] if location else []
    flags += ["--concurrency", str(concurrency)] if concurrency else []
    return flags


def _check_queues(application: Rota, queues: dict[str, int]) -> None:
    for name in queues:
        if name not in application.queues:
            hint = did_you_mean(name, application.queues, f"it has {', '.join(sorted(application.queues))}")
            raise UnknownQueue(f"the application has no queue {name!r}: {hint}")
