"""Every command for operators gives the same over the API of a server as over the database itself."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import typer
from tests.support import jobs as given
from tests.support.api import over_api, served
from tests.support.invoke import Rota
from tests.support.postgres import Databases
from tests.support.serving import settings_for

import rota
from rota.cli.local import current_user
from rota.contrib.testing.clock import Clock

Conn = psycopg.Connection[Any]

NOON = datetime(2030, 3, 30, 12, 0, tzinfo=UTC)
ADMIN = "ann@example.org"
NOUNS = (
    "overview", "jobs", "tasks", "schedules", "runs", "errors", "logs", "alerts", "webhooks", "queues", "workers", "users",
    "tokens",
)  # fmt: skip
# These work on code and database, or on nothing at all.
NOT_OVER_API = {"tasks sync", "tasks plan", "users link", "schedules explain"}

# In this order, each in both ways. {name} is something of the world that `build` makes.
STEPS = [
    "overview",
    "overview --json",
    "jobs list",
    "jobs list --json",
    "jobs list --state failed --task w* --queue default --since 1h --text boom",
    "jobs list --key invoice-7",
    "jobs list --since 2030-03-30T11:00+00:00 --limit 1",
    "jobs list --before {queued}",
    "jobs list --state nonsense",
    "jobs show {failed}",
    "jobs show {failed} --json",
    "jobs show {nobody}",
    "jobs why {queued}",
    "jobs why {failed} --json",
    'jobs enqueue work {{"n":7}} --delay 5m --key invoice-8 --priority 3 --max-attempts 2 --timeout 30s',
    'jobs enqueue work {{"n":7}} --delay 5m --key invoice-8 --json',
    "jobs enqueue work [1]",
    "jobs enqueue wrok",
    "jobs enqueue work --parent {queued} --on-parent-failure fail",
    "jobs retry {failed}",
    "jobs retry {failed} --json",
    "jobs retry {completed}",
    "jobs retry {nobody}",
    'jobs retry {other} --set n=8 --set lang="de"',
    "jobs show {other}",
    "jobs retry --state failed",
    "jobs retry --state failed --yes",
    "jobs retry --state failed --yes --json",
    "jobs cancel {failed} --reason later",
    "jobs cancel {failed}",
    "jobs cancel --task work --yes",
    "jobs cancel --task nothing --yes",
    "jobs list --state canceled",
    "runs list",
    "runs list --status failed --task work --worker {worker} --json",
    "runs list --job {completed} --limit 1",
    "runs list --schedule nothing",
    "runs list --before {completed}/1",
    "runs show {completed}",
    "runs show {completed}/1 --json",
    "runs show {completed}/9",
    "runs stats",
    "runs stats work --since 1h --json",
    "errors list",
    "errors list --task work --since 1h --limit 1500 --json",
    "errors show {fingerprint}",
    "errors show {fingerprint} --json",
    "errors show ffffffff",
    "errors retry {fingerprint} --yes",
    "errors retry {fingerprint} --yes --json",
    "logs",
    "logs --level error --json",
    "logs --job {completed} --text said --limit 1",
    "logs --since 1m",
    "tasks list",
    "tasks list --all --json",
    "tasks list --limit 1",
    "tasks list --after fetch",
    "tasks show work",
    "tasks show work --json",
    "tasks show wrok",
    "tasks disable work --reason broken",
    "tasks enable work --json",
    "tasks set work max_concurrency=5",
    "tasks set work timeout=1m",
    "tasks set work retry.base=30 --json",
    "tasks set work rate=100/m",
    "tasks set work nonsense=5",
    "tasks unset work rate --json",
    "tasks unset work",
    'tasks trigger work --payload {{"n":1}}',
    "tasks trigger wrok",
    "schedules create nightly work --cron '0 3 * * *' --tz Europe/Berlin --payload {{\"n\":1}} --misfire all --catch-up 5",
    "schedules create often work --every 5m --jitter 10s --overlap skip --starts-at 2030-04-01T00:00+00:00 --json",
    "schedules create nightly work --every 5m",
    "schedules create other wrok --every 5m",
    "schedules create other work --cron 'x x'",
    "schedules create other work --every 5m --payload {{",
    "schedules list",
    "schedules list --json",
    "schedules list --limit 1",
    "schedules list --after nightly",
    "schedules list --recurring",
    "schedules list --failing --task fetch",
    "schedules show nightly",
    "schedules show nightly --json",
    "schedules show fetch/feed:1",
    "schedules show nothing",
    "schedules next nightly -n 3",
    "schedules next nightly -n 200 --json",
    "schedules next fetch/feed:1",
    "schedules update nightly --cron '0 4 * * *' --enabled false --start-within 5m --ends-at 2031-01-01T00:00+00:00",
    "schedules update nightly --enabled yes",
    "schedules update nothing --every 5m",
    "schedules update fetch --every 2h",
    "schedules delete fetch --yes",
    "schedules restore fetch",
    "schedules restore nothing --json",
    "schedules enable nightly",
    "schedules disable nightly --json",
    "schedules disable fetch/feed:1",
    "schedules enable fetch/feed:1",
    "schedules run often",
    "schedules run often --json",
    "schedules run fetch/feed:1",
    "schedules create gone work --every 1h",
    "schedules delete gone --yes --json",
    "schedules delete often",
    "schedules delete often --yes",
    "schedules delete often --yes",
    "schedules delete fetch/feed:1 --yes",
    "queues list",
    "queues list --json",
    "queues pause default --reason broken",
    "queues pause dfault",
    "queues resume default",
    "queues pause default --json",
    "queues resume default --json",
    "queues limit default --max-concurrency 5 --rate 10/s",
    "queues limit default --reset --json",
    "queues limit default --max-concurrency 0",
    "workers list",
    "workers list --json",
    "alerts list",
    "alerts list --all --kind job_failed --json",
    "alerts show {alert}",
    "alerts show 4711",
    "alerts ack {alert} --note known",
    "alerts show {alert} --json",
    "alerts ack {alert} --json",
    "webhooks add https://example.org/hooks/secret --kind job_failed",
    "webhooks add https://ann:secret@example.org/",
    "webhooks add https://example.org/ --json",
    "webhooks list",
    "webhooks disable 1",
    "webhooks enable 1",
    "webhooks disable 2 --json",
    "webhooks enable 2 --json",
    "webhooks test 2 --json",
    "webhooks remove 2 --yes --json",
    "webhooks test 1",
    "webhooks deliveries",
    "webhooks deliveries --webhook 1 --json",
    "webhooks remove 1 --yes",
    "webhooks remove 1 --yes",
    "users create bob@example.org --role operator",
    "users create bob@example.org",
    "users create bob",
    "users list",
    "users list --limit 1",
    "users set-role bob@example.org read_only",
    "users disable bob@example.org",
    "users enable bob@example.org --json",
    "users disable nobody@example.org",
    "tokens create bob@example.org laptop --scope jobs.read --days 30",
    "tokens create nobody@example.org laptop",
    "tokens list --owner bob@example.org",
    "tokens revoke 2 --yes",
    "tokens revoke 4711 --yes",
]


def split(step: str, names: dict[str, Any]) -> list[str]:
    """The words of a step; those in single quotes belong together."""
    return [each[1:-1] if each[0] == "'" else each for each in re.findall(r"'[^']*'|\S+", step.format(**names))]


def build(conn: Conn) -> dict[str, Any]:
    """Make a world with something of everything, at a time that stands still."""
    Clock(conn).freeze(NOON)
    given.declare(conn, "fetch", "work")
    worker = given.start_worker(conn, tasks=("work",))
    completed = given.enqueue(conn)
    [(id, token)] = given.claim(conn, worker)
    given.finish(conn, id, token, worker, "completed")
    failed = given.enqueue(conn, payload={"n": 1, "big": 2**70}, key="invoice-7")
    given.fail(conn, worker, error="boom \x1b[31m\nat all")
    other = given.enqueue(conn, payload={"n": 2})
    given.fail(conn, worker, error="boom")
    third = given.enqueue(conn)
    given.fail(conn, worker, error="bang")
    for number, level in enumerate((20, 40), 1):
        conn.execute(
            "INSERT INTO rota.log VALUES (rota.now() - interval '1 h', 'work', %s, 1, %s, %s, 'it said', '{\"n\": 1}')",
            [completed, number, level],
        )
    conn.execute("SELECT rota.ensure_recurring('fetch', 'feed:1')")
    row = conn.execute("SELECT fingerprint FROM rota.run WHERE job_id = %s", [failed]).fetchone()
    assert row is not None
    return {
        "worker": worker,
        "completed": completed,
        "failed": failed,
        "other": other,
        "third": third,
        "queued": given.enqueue(conn, delay=timedelta(hours=1)),
        "nobody": "01980000-0000-7000-8000-000000000000",
        "fingerprint": row[0],
    }


def masked(text: str, names: dict[str, Any]) -> str:
    """What is printed without what differs from one database to another."""
    for name, value in names.items():
        if len(str(value)) > 8:
            text = text.replace(str(value), f"<{name}>")
    text = text.replace(f'"cli", "user": "{current_user()}"', '"manual", "user": "<who>"').replace(
        f"cli {current_user()}", "manual <who>"
    )
    text = re.sub(rf"\b{re.escape(current_user())}\b|{re.escape(ADMIN)}", "<who>", text)
    text = re.sub(r"(whsec_|rota_)[\w+/=-]{4,}", "<secret>", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>", text)
    text = re.sub(r"(\d)\.0\b", r"\1", text)  # the same number
    return re.sub(r" +", " ", text)  # columns are as wide as what is in them


class Way:
    """The command line in one of the two ways, with a world of its own."""

    def __init__(self, cli: Rota, names: dict[str, Any]) -> None:
        self.cli = cli
        self.names = names

    def take(self, step: str) -> tuple[int, str, str]:
        answer = self.cli(*split(step, self.names))
        return answer.code, masked(answer.out, self.names), masked(answer.err, self.names)


@pytest.fixture
def world(
    postgres: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[[], tuple[Rota, dict[str, Any]]]]:
    """Make worlds that are the same but for their ids."""
    with postgres.fresh() as first, postgres.fresh() as second:
        names = iter((first, second))

        def make() -> tuple[Rota, dict[str, Any]]:
            dsn = postgres.dsn(next(names))
            cli = Rota(dsn, tmp_path, monkeypatch, capsys)
            with psycopg.connect(dsn, autocommit=True) as conn:
                made = build(conn)
            assert cli("scheduler", "tick").code == 0
            made["alert"] = cli("alerts", "list", "--kind", "job_failed", "--json").data[0]["id"]
            assert cli("users", "create", ADMIN, "--admin").code == 0
            made["token"] = cli("tokens", "create", ADMIN, "laptop").out.strip()
            return cli, made

        yield make


@pytest.mark.req("K01", "K02")
def test_every_command_gives_the_same_in_both_ways(world: Callable[[], tuple[Rota, dict[str, Any]]]) -> None:
    (local, names), (cli, other_names) = world(), world()
    with served(rota.Rota(settings=settings_for(cli.dsn))) as url:
        here, there = Way(local, names), Way(over_api(cli, url, other_names["token"]), other_names)
        differences = []
        for step in STEPS:
            by_database, by_api = here.take(step), there.take(step)
            if by_database[0] == 2 and by_api[2]:  # what is wrong with a request may be said in other words
                by_database, by_api = (*by_database[:2], ""), (*by_api[:2], "")
            if by_api != by_database:
                differences.append(f"{step}\n  over the database: {by_database}\n  over the API:      {by_api}")
    assert not differences, "\n".join(differences)


@pytest.mark.req("T08")
def test_an_operator_runs_no_task_over_the_api(world: Callable[[], tuple[Rota, dict[str, Any]]]) -> None:
    cli, names = world()
    assert cli("users", "create", "ole@example.org", "--role", "operator").code == 0
    assert cli("schedules", "create", "nightly", "work", "--cron", "0 3 * * *").code == 0
    token = cli("tokens", "create", "ole@example.org", "laptop").out.strip()
    with served(rota.Rota(settings=settings_for(cli.dsn))) as url:
        operator = Way(over_api(cli, url, token), names)
        for step in (
            "tasks trigger work",
            "jobs enqueue work",
            "jobs enqueue rota.tick",
            "jobs retry {failed} --set n=8",
            "schedules create weekly work --every 1h",
            "schedules update nightly --every 1h",
            "schedules run nightly",
            "schedules run fetch/feed:1",
        ):
            code, out, err = operator.take(step)
            assert (code, out) == (5, ""), (step, err)
            assert "may not do tasks.trigger" in err, step
        for step in ("jobs retry {failed}", "schedules disable nightly", "schedules enable nightly"):
            assert operator.take(step)[0] == 0, step


@pytest.mark.req("K02")
def test_no_command_is_left_out() -> None:
    known = set()
    for noun in NOUNS:
        found = typer.main.get_command(importlib.import_module(f"rota.cli.{noun}").app)
        known |= {f"{noun} {verb}" for verb in found.commands} if hasattr(found, "commands") else {noun}
    taken = {" ".join(step.split()[: 1 if step.startswith(("logs", "overview")) else 2]) for step in STEPS}
    assert known - taken == NOT_OVER_API
