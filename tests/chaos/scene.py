"""One run: server, proxy, workers, clients and faults together, until everything is drained; then the verdict."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from tests.chaos import checker, figures, lifeline, load, sabotage
from tests.chaos.crew import Crew, strangers
from tests.chaos.evidence import Evidence
from tests.chaos.faults import Dose, Faults, wait_for
from tests.chaos.history import VARIABLE, Recorder
from tests.chaos.lifeline import Process, Start
from tests.chaos.proxy import Proxy
from tests.support.postgres import server

from rota.db import migrations
from rota.db.embedded import EmbeddedPostgres

CLIENTS = 2
PATIENCE_S = 120  # with clients and faults that have not got through when their time is over
# Faults that never hit anything prove nothing.
MUST_HAPPEN = (
    "  of which had been stored", "attempts lost", "attempts that overlapped the next", "late endings refused", "payments",
    "answers to commits lost", "notifications lost", "connections cut",
)  # fmt: skip
SCHEMA = """
CREATE SCHEMA chaos;
CREATE TABLE chaos.payment (job_id uuid NOT NULL, attempt integer NOT NULL);  -- no key: a second one must be seen
CREATE TABLE chaos.shipment (n integer PRIMARY KEY, job_id uuid NOT NULL);
"""


@dataclass(slots=True)
class Report:
    """What was done, what was measured, and what is wrong."""

    seed: int
    took_s: float
    faults: Counter[str] = field(default_factory=Counter)
    counts: dict[str, int] = field(default_factory=dict)
    measured: dict[str, figures.Latencies] = field(default_factory=dict)
    findings: dict[str, list[str]] = field(default_factory=dict)

    @property
    def kept(self) -> bool:
        """Whether there is no finding at all."""
        return not any(self.findings.values())


def play(
    dose: Dose,
    seed: int,
    *,
    without: str | None = None,
    folder: Path,
    say: Callable[[str], None],
    start: Start = lifeline.start,
) -> Report:
    """Run it all once; `without` names a guarantee to take out."""
    began = time.monotonic()
    rng = random.Random(f"faults {seed}")
    recorder = Recorder(folder)
    with ExitStack() as stack:
        postgres = stack.enter_context(server(max_connections="200", shared_buffers="128MB"))
        with psycopg.connect(postgres.dsn(), autocommit=True) as conn:
            migrations.up(conn)
            conn.execute(SCHEMA)
            sabotage.in_database(conn, without)
        proxy = stack.enter_context(Proxy(postgres.port, seed))
        proxy.loses_notifications = 0.3
        environment = {
            "CHAOS_DSN": _through(proxy, postgres),
            VARIABLE: str(folder),
            **sabotage.variables(without),
        }
        crew = stack.enter_context(Crew(folder, environment, recorder, rng, start))
        _await_tasks(postgres)
        clients = [
            start(
                "tests.chaos.enqueuer", seed, dose.jobs, dose.poison, dose.seconds, number, CLIENTS,
                environment=environment, log=folder / f"client-{number}.log",
            )
            for number in range(CLIENTS)
        ]  # fmt: skip
        stack.callback(_end, clients)
        faults = stack.enter_context(Faults(dose, rng, crew, proxy, postgres, recorder))
        _suffer(faults, crew, clients, dose.seconds + PATIENCE_S, say)
        _drain(postgres, crew, dose.drain_s)
        crew.stop(patience_s=15)
        with psycopg.connect(postgres.dsn(), autocommit=True) as conn:
            evidence = Evidence.collect(folder, conn, load.plan(seed, jobs=dose.jobs, poison=dose.poison, seconds=dose.seconds))
    crew.problems += [
        f"client {number} ended with {client.returncode}" for number, client in enumerate(clients) if client.returncode
    ]
    report = Report(seed, time.monotonic() - began, faults.done + proxy.done)
    report.faults["workers killed by poison"] = crew.poisoned
    _judge(report, evidence, crew, dose, folder)
    return report


def _through(proxy: Proxy, postgres: EmbeddedPostgres) -> str:
    url = urlsplit(postgres.dsn(tcp=True))
    where = f"{url.netloc.rpartition('@')[0]}@127.0.0.1:{proxy.port}"
    return url._replace(netloc=where, query="sslmode=disable&gssencmode=disable").geturl()


def _await_tasks(postgres: EmbeddedPostgres) -> None:
    """Wait until a worker has made its tasks known: before that, SQL cannot enqueue any."""
    with psycopg.connect(postgres.dsn(), autocommit=True) as conn:
        known = wait_for(lambda: conn.execute("SELECT 1 FROM rota.task").fetchone() is not None, time.monotonic() + 60)
    assert known, "no worker has made its tasks known within 60 s"


def _suffer(faults: Faults, crew: Crew, clients: list[Process], patience_s: float, say: Callable[[str], None]) -> None:
    began = said = time.monotonic()
    while time.monotonic() - began < patience_s and (faults.pending or any(client.poll() is None for client in clients)):
        faults.inject(time.monotonic() - began)
        crew.look_after()
        time.sleep(0.02)
        if time.monotonic() - said > 30:
            said = time.monotonic()
            say(f"{said - began:5.0f} s: {', '.join(f'{count} {name}' for name, count in sorted(faults.done.items()))}")


def _drain(postgres: EmbeddedPostgres, crew: Crew, patience_s: float) -> None:
    """Wait until nothing is left to do; what is left after that is stuck."""
    with psycopg.connect(postgres.dsn(), autocommit=True) as conn:

        def empty() -> bool:
            crew.look_after()
            row = conn.execute("SELECT count(*) FROM rota.job").fetchone()
            return row is not None and row[0] == 0

        wait_for(empty, time.monotonic() + patience_s)


def _judge(report: Report, evidence: Evidence, crew: Crew, dose: Dose, folder: Path) -> None:
    report.findings = checker.check(evidence)
    report.findings["processes"] = [*crew.problems, *strangers(folder), *logged(folder)]
    rerun, progress = figures.kill_to_rerun(evidence, undisturbed=True), figures.restart_to_progress(evidence)
    report.measured = {
        "SIGKILL to rescue": figures.kill_to_rescue(evidence),
        "SIGKILL to re-run": rerun,
        "the same, short leases and restarts included": figures.kill_to_rerun(evidence, undisturbed=False),
        "restart to progress": progress,
    }
    report.counts = {
        "jobs acknowledged": len(evidence.of("acknowledged")),
        "jobs ended": sum(1 for rows in evidence.rows.values() if rows[-1].final),
        "enqueues asked for again": sum(line["tries"] > 1 for line in evidence.of("acknowledged")),
        "  of which had been stored": sum(not line["created"] for line in evidence.of("acknowledged")),
        "attempts begun": sum(map(len, evidence.starts.values())),
        **{f"attempts {outcome}": count for outcome, count in sorted(figures.endings(evidence).items())},
        "attempts that overlapped the next": checker.overlapping(evidence),
        "late endings refused": len(evidence.of("fenced")),
        "jobs whose workers died too often to be charged nothing": sum(map(checker.blamed, evidence.rows.values())),
        "payments": sum(map(len, evidence.payments.values())),
    }
    if dose.limits:
        report.findings["too slow"] = figures.slow(rerun, progress)
        happened = {**report.counts, **report.faults}
        report.findings["without effect"] = [f"{name.strip()}: none" for name in MUST_HAPPEN if not happened.get(name)]


def logged(folder: Path) -> list[str]:
    """Find what no log may contain, whatever happens to the database."""
    found = []
    for path in sorted(folder.glob("*.log")):
        text = path.read_text(errors="replace")
        for sign in ("Traceback", "never retrieved", "never awaited", "subscriber of"):
            if (at := text.find(sign)) >= 0:
                found.append(f"{path.name}: {text[max(at - 200, 0) : at + 1200]}")
                break
    return found


def _end(clients: list[Process]) -> None:
    for client in clients:
        if client.poll() is None:
            client.kill()
        client.wait()
