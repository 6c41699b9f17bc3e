"""`rota seed`: a demo user, and HTTP jobs that succeed, fail and time out, to have something to look at."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from rota.cli.database import connect
from rota.cli.local import current_user
from rota.cli.locate import AppOption, find_app
from rota.cli.output import JsonOption, YesOption, confirm, print_json, print_table, say
from rota.control.access import Actor
from rota.control.accounts import create_account, get_account
from rota.control.servers import note_ports, server_env, server_url
from rota.errors import ConfigError, NotFound
from rota.model.http_call import read_url
from rota.model.retry import Retry
from rota.outbound.address import Rules

if TYPE_CHECKING:
    from rota.app import Rota
    from rota.config import Settings
    from rota.db.connection import AsyncConn
    from rota.store.accounts import Account

EMAIL = "seed@test.local"
DELAY = "1m"
AT_ONCE = 0.00001  # seconds: nobody answers that fast, over a connection that is open already either
COUNTS = {"succeeds": 10, "fails": 6, "times out": 4}

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@dataclass(frozen=True)
class Seeded:
    """A job that is there now, and what will become of it."""

    id: UUID
    kind: str
    url: str
    created: bool


@app.command()
def seed(
    location: AppOption = None,
    target: Annotated[
        str | None, typer.Option(metavar="URL", help="Server to call. Default: Rota's own, which http.allow must name.")
    ] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make a demo user and 20 HTTP jobs for one minute from now: some succeed, some fail with retries, some time out.

    Once: a second time it finds them again.
    """
    application = find_app(location) or _plain_app()
    settings = application.settings
    server, env = connect(lambda conn: _running(conn, settings))
    if env != "local":
        confirm(f"This will make a demo user and jobs where app.env is {env}. Go on?", yes=yes)
    target = (target or server).rstrip("/")
    if missing := _missing_settings(settings, target):
        raise ConfigError(missing)
    account, jobs = connect(lambda conn: _seed(conn, application, target))
    lines = _curl_lines(server, jobs[0].id)
    if as_json:
        print_json({"user": account.email, "jobs": jobs, "commands": lines})
        return
    print_table(["id", "will", "url"], [[job.id, job.kind, job.url] for job in jobs])
    new = sum(job.created for job in jobs)
    say(f"{account.email} has {len(jobs)} jobs, {new} of them new; they run in a minute, where a worker runs with http.enabled:")
    for line in lines:
        print(line)


async def _running(conn: AsyncConn, settings: Settings) -> tuple[str, str]:
    await note_ports(conn)
    return await server_url(conn, settings), await server_env(conn, settings)


def _missing_settings(settings: Settings, target: str) -> str | None:
    """Say which commands let HTTP jobs call the target; None if they may, or if no setting would help."""
    host, port = read_url(target).host, read_url(target).port
    http = settings.http
    commands = [] if http.enabled else ["rota config set http.enabled true"]
    why = Rules.of(settings).refuse_host(host, port)
    allow = [*http.allow, host]
    if why is not None and Rules(allow, http.deny, port=settings.server.port).refuse_host(host, port) is None:
        commands.append(f"rota config set http.allow {shlex.quote(','.join(allow))}")
    if not commands:
        return None
    reasons = [] if http.enabled else ["HTTP jobs are off"]
    reasons += [] if why is None else [why.partition(":")[0]]
    lines = "".join(f"\n  {command}" for command in commands)
    return (
        f"jobs may not call {target} yet: {'; '.join(reasons)}. Run{lines}\nthen `rota seed` again. "
        "`rota dev` takes up new settings by itself; start other workers and servers again."
    )


async def _seed(conn: AsyncConn, application: Rota, target: str) -> tuple[Account, list[Seeded]]:
    """All of it or nothing."""
    try:
        async with conn.transaction():
            account = await _demo_user(conn)
            kinds = [kind for kind, count in COUNTS.items() for _ in range(count)]
            return account, [await _make(conn, application, account, target, kind, n) for n, kind in enumerate(kinds, 1)]
    finally:
        await application.aclose()


async def _demo_user(conn: AsyncConn) -> Account:
    try:
        return await get_account(conn, EMAIL)
    except NotFound:
        return await create_account(conn, Actor(current_user(), "admin", via="cli"), EMAIL, role="user")


async def _make(conn: AsyncConn, application: Rota, account: Account, target: str, kind: str, number: int) -> Seeded:
    url = f"{target}/{'no-such-page' if kind == 'fails' else 'healthz'}"
    # Of the target too: the same key for another call would be refused.
    key = f"seed-{hashlib.sha256(target.encode()).hexdigest()[:8]}-{number:02}"
    made = await application.ahttp_job(
        url,
        conn=conn,
        method="GET",
        timeout=AT_ONCE if kind == "times out" else "10s",
        retry=Retry(base="5s", cap="20s", jitter=0),
        max_attempts=2 if kind == "times out" else 3,
        delay=DELAY,
        key=key,
        owner=str(account.id),
    )
    return Seeded(made.id, kind, url, made.created)


def _curl_lines(server: str, id: UUID) -> list[str]:
    auth = '-H "Authorization: Bearer $TOKEN"'
    return [
        f"TOKEN=$(rota tokens create {EMAIL} curl)",
        f"curl -s {server}/jobs {auth}",
        f"curl -s {server}/jobs/{id} {auth}",
        f"curl -s {server}/jobs/{id}/attempts {auth}",
    ]


def _plain_app() -> Rota:
    """An application without tasks of its own: HTTP jobs need none."""
    from rota.app import Rota

    return Rota()
